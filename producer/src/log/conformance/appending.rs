//! Claims about appending.

use bytes::Bytes;

use super::{Bench, Broker, count, eventually, record, same, value_of};
use crate::{
    enqueue::Receipt,
    job::{Headers, Job, JobKey, MAX_HEADER_BYTES, MAX_KEY_BYTES, MAX_PAYLOAD_BYTES, Timestamp},
    log::Checkpoint,
    partition::{Partition, partition_of},
    record::Record,
};

/// Within a batch and across batches, with other partitions in between.
pub fn records_of_a_partition_keep_their_order(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 3);
    for batch in 0..5 {
        let records = (0..30).map(|at| (Partition(at % 3), record("k", &format!("{batch}/{at}")))).collect();
        bench.append(records);
    }
    for partition in bench.queue.partitions.all() {
        let found: Vec<String> = bench.read_all(partition, 50).iter().map(value_of).collect();
        let in_order = |batch| (0..30).filter(|at| at % 3 == partition.0).map(move |at| format!("{batch}/{at}"));
        let expected: Vec<String> = (0..5).flat_map(in_order).collect();
        same("order of a partition", &found, &expected);
    }
}

/// One receipt a record, in the order given; the record is where its receipt says.
pub fn receipts_name_where_the_records_are(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 4);
    let records: Vec<(Partition, Record)> =
        [3, 0, 3, 1, 0, 2, 3].iter().zip(0..).map(|(&p, at)| (Partition(p), record("k", &format!("{at}")))).collect();
    for _ in 0..2 {
        let receipts = bench.append(records.clone());
        assert_eq!(receipts.len(), records.len());
        for (Receipt { partition, offset }, (asked, record)) in receipts.iter().zip(&records) {
            assert_eq!(partition, asked);
            let found = eventually("the record of a receipt", || {
                bench.log.read_at(&bench.queue, *partition, &[*offset]).expect("a read succeeds").pop()
            });
            assert_eq!(found.offset, *offset);
            same("the record and its receipt's", &found.record, record);
        }
    }
}

/// Null and empty, repeated names, names that are not UTF-8, bytes that end strings elsewhere, odd timestamps.
pub fn records_survive_byte_for_byte(broker: &dyn Broker) {
    let bytes = |b: &'static [u8]| Bytes::from_static(b);
    let all: Vec<u8> = (0..=255).collect();
    let plain = record("k", "v");
    let records = vec![
        plain.clone(),
        Record { value: None, ..plain.clone() },
        Record { value: Some(Bytes::new()), ..plain.clone() },
        Record { key: None, ..plain.clone() },
        Record { key: Some(bytes(b"\0")), value: Some(bytes(b"\0\0")), ..plain.clone() },
        Record { key: Some(bytes(b"a\0b")), ..plain.clone() },
        Record { key: Some(all.clone().into()), value: Some(all.into()), ..plain.clone() },
        Record {
            headers: vec![
                (bytes(b"null"), None),
                (bytes(b"empty"), Some(Bytes::new())),
                (bytes(b"twice"), Some(bytes(b"1"))),
                (bytes(b"between"), Some(bytes(b"\xff\0\xfe"))),
                (bytes(b"twice"), Some(bytes(b"2"))),
                (bytes(b"twice"), Some(bytes(b"1"))),
                (bytes(b"not-utf8-\xff\xc0"), Some(bytes(b"v"))),
                (bytes("ümlaut".as_bytes()), None),
            ],
            ..plain.clone()
        },
        // Not 0: to librdkafka that means now.
        Record { timestamp: Timestamp(1), ..plain.clone() },
        Record { timestamp: Timestamp(253_402_300_799_999), ..plain },
    ];
    let mut bench = Bench::new(broker, 1);
    bench.append(records.iter().map(|r| (Partition(0), r.clone())).collect());
    let found = bench.read_all(Partition(0), records.len());
    for (found, sent) in found.iter().zip(&records) {
        same("a record sent and read", &found.record, sent);
    }
}

/// Key, payload and headers at their limits, in one job.
pub fn the_largest_job_survives(broker: &dyn Broker) {
    let key = JobKey::try_from(Bytes::from(vec![0xfe; MAX_KEY_BYTES])).expect("the longest key fits");
    let mut job = Job::new(key, Some(Bytes::from(vec![0; MAX_PAYLOAD_BYTES]))).expect("the longest payload fits");
    let mut headers = Headers::default();
    headers.push("n", Some(Bytes::from(vec![b'h'; MAX_HEADER_BYTES - 1]))).expect("the longest header fits");
    job.headers = headers;
    let mut bench = Bench::new(broker, 1);
    bench.append(vec![(Partition(0), Record::from(job.clone()))]);
    let found = bench.read_all(Partition(0), 1).remove(0);
    let back = found.record.into_job(Partition(0), found.offset).expect("it is a job");
    assert!(back == job, "the largest job comes back as it was");
}

/// No record, no receipt, no error.
pub fn an_empty_batch_appends_nothing(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 1);
    assert_eq!(bench.append(Vec::new()), []);
    bench.append(vec![(Partition(0), record("k", "only"))]);
    assert_eq!(value_of(&bench.read_all(Partition(0), 1)[0]), "only");
}

/// At once, on connections of their own.
pub fn two_writers_lose_nothing_and_keep_each_one_s_order(broker: &dyn Broker) {
    const BATCHES: usize = 40;
    let mut bench = Bench::new(broker, 2);
    let queue = &bench.queue;
    std::thread::scope(|scope| {
        for writer in ["a", "b"] {
            scope.spawn(move || {
                let mut log = broker.open();
                for batch in 0..BATCHES {
                    let value = format!("{writer}{batch:03}");
                    let records = [0, 1].map(|p| (Partition(p), record(writer, &value))).to_vec();
                    log.append(queue, records, None).expect("an append beside another writer succeeds");
                }
            });
        }
    });
    for partition in [Partition(0), Partition(1)] {
        let found: Vec<String> = bench.read_all(partition, 2 * BATCHES).iter().map(value_of).collect();
        for writer in ["a", "b"] {
            let of_writer: Vec<&String> = found.iter().filter(|v| v.starts_with(writer)).collect();
            assert_eq!(of_writer.len(), BATCHES, "records of writer {writer} in partition {partition}");
            assert!(of_writer.is_sorted(), "order of writer {writer} in partition {partition}: {of_writer:?}");
        }
    }
}

/// With every connection closed in between.
pub fn acknowledged_records_survive_a_reopen(broker: &dyn Broker) {
    let bench = Bench::new(broker, 1);
    let Bench { mut log, queue } = bench;
    let receipts = log
        .append(&queue, vec![(Partition(0), record("k", "first"))], None)
        .expect("an append without a fault succeeds");
    drop(log);
    let mut bench = Bench { log: broker.open(), queue };
    assert_eq!(bench.log.describe(&bench.queue.name).expect("the queue is there").identity, bench.queue);
    let found = bench.read_all(Partition(0), 1);
    assert_eq!((value_of(&found[0]).as_str(), found[0].offset), ("first", receipts[0].offset));
    let later = bench.append(vec![(Partition(0), record("k", "second"))]);
    assert!(later[0].offset > receipts[0].offset, "offsets go on after a reopen");
}

/// Replaced by the next one, and seen by other connections.
pub fn a_checkpoint_commits_with_its_records(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 1);
    let source = "/data/häfen \u{1f6a2}.ndjson";
    assert_eq!(bench.log.checkpoint(&bench.queue, source).expect("asking succeeds"), None);
    for (position, complete) in [(1, false), (2, false), (3, true)] {
        let digest = format!("digest-{position}").into();
        let checkpoint = Checkpoint { source: source.into(), position, digest, complete };
        let records = vec![(Partition(0), record("k", &position.to_string()))];
        bench.log.append(&bench.queue, records, Some(&checkpoint)).expect("an append with a checkpoint succeeds");
        let mut other = broker.open();
        let found = other.checkpoint(&bench.queue, source).expect("asking succeeds");
        assert_eq!(found, Some(checkpoint), "at once: who asks too early would send it all again");
        bench.read_all(Partition(0), usize::try_from(position).expect("it is small"));
    }
    let last = Checkpoint { source: source.into(), position: 4, digest: "digest-4".into(), complete: true };
    let receipts = bench.log.append(&bench.queue, Vec::new(), Some(&last)).expect("a checkpoint alone succeeds");
    assert_eq!(receipts, []);
    assert_eq!(bench.log.checkpoint(&bench.queue, source).expect("asking succeeds"), Some(last));
}

/// Another source, and the same source for another queue, have their own.
pub fn a_checkpoint_belongs_to_its_source(broker: &dyn Broker) {
    let mut one = Bench::new(broker, 1);
    let mut two = Bench::new(broker, 1);
    let checkpoint =
        Checkpoint { source: "a".into(), position: u64::from(u32::MAX), digest: "".into(), complete: false };
    one.log.append(&one.queue, Vec::new(), Some(&checkpoint)).expect("a checkpoint alone succeeds");
    assert_eq!(one.log.checkpoint(&one.queue, "a").expect("asking succeeds"), Some(checkpoint));
    assert_eq!(one.log.checkpoint(&one.queue, "b").expect("asking succeeds"), None);
    assert_eq!(two.log.checkpoint(&two.queue, "a").expect("asking succeeds"), None);
}

/// The key's type refuses it, so no job has one; the shortest key goes through.
pub fn an_empty_key_never_gets_to_the_log(broker: &dyn Broker) {
    JobKey::try_from("").expect_err("an empty key is refused before there is a job");
    let job = Job::new(JobKey::try_from("0").expect("one byte is a key"), None).expect("no payload fits");
    let mut bench = Bench::new(broker, 1);
    let partition = partition_of(job.key.as_bytes(), count(1));
    bench.append(vec![(partition, Record::from(job.clone()))]);
    let found = bench.read_all(partition, 1).remove(0);
    let back = found.record.into_job(partition, found.offset).expect("it is a job");
    same("the job sent and read", &back, &job);
}
