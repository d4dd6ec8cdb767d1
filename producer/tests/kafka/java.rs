//! What Java's producer writes is read, and lies where ours would put it.

use std::collections::BTreeSet;

use bytes::Bytes;
use keylane_producer::{Enqueuer, Job, Log, Partition, QueueIdentity, Record, log::kafka::KafkaLog};
use keylane_testing::kafka::{Produce, Record as Java, Transaction, shared};

use super::{log, queue, read_all};

const P0: Partition = Partition(0);

fn produce(queue: &QueueIdentity, records: &[Java<'_>], how: Produce<'_>) -> Vec<(u32, u64)> {
    let places = shared(3).java_produce(queue.name.as_str(), records, how).unwrap();
    places.iter().map(|place| (place.partition.cast_unsigned(), place.offset.cast_unsigned())).collect()
}

fn values(log: &mut KafkaLog, queue: &QueueIdentity) -> Vec<String> {
    let found = read_all(log, queue, P0);
    found.into_iter().map(|r| String::from_utf8(r.record.value.unwrap().to_vec()).unwrap()).collect()
}

#[test]
fn all_codecs_of_a_partition_are_read_in_order() {
    let mut log = log();
    let queue = queue(&mut log, 1);
    let codecs = [None, Some("gzip"), Some("snappy"), Some("lz4"), Some("zstd")];
    let mut sent = Vec::new();
    for round in 0..2 {
        for compression in codecs {
            let batch: Vec<String> = (0..20)
                .map(|n| {
                    format!("{round} {} {n} {}", compression.unwrap_or("none"), "long enough to compress ".repeat(8))
                })
                .collect();
            let records: Vec<_> = batch.iter().map(|value| Java::new("k", value)).collect();
            produce(&queue, &records, Produce { compression, transaction: None });
            sent.extend(batch);
        }
    }
    assert_eq!(values(&mut log, &queue), sent);
}

#[test]
fn javas_partitioner_and_ours_agree_on_a_thousand_real_keys() {
    let flights = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/flights.ndjson")).unwrap();
    let tail = |line: &str| {
        let flight: serde_json::Value = serde_json::from_str(line).unwrap();
        flight["tailnum"].as_str().map(str::to_owned)
    };
    let keys: Vec<String> = flights.lines().filter_map(tail).collect::<BTreeSet<_>>().into_iter().take(1_000).collect();
    assert_eq!(keys.len(), 1_000);
    let mut log = log();
    let queue = queue(&mut log, 24);
    let records: Vec<_> = keys.iter().map(|key| Java::new(key, "java")).collect();
    let java: Vec<u32> = produce(&queue, &records, Produce::default()).into_iter().map(|(part, _)| part).collect();
    let mut enqueuer = Enqueuer::open(log, &queue.name).unwrap();
    let jobs = keys.iter().map(|key| Job::new(key.parse().unwrap(), Some("ours".into())).unwrap()).collect();
    let ours: Vec<u32> = enqueuer.send(jobs).unwrap().into_iter().map(|(_, receipt)| receipt.partition.0).collect();
    assert_eq!(java, ours);
    assert_eq!(java.iter().collect::<BTreeSet<_>>().len(), 24, "the keys are spread, so that agreeing means something");
}

#[test]
fn null_payloads_and_null_header_values_of_java_are_read_and_written_again() {
    let mut log = log();
    let queue = queue(&mut log, 1);
    let value: &[u8] = b"value";
    let headers = vec![("null", None), ("empty", Some(&b""[..])), ("twice", Some(value)), ("twice", Some(b"\xff\x00"))];
    let tombstone = Java { value: None, headers: headers.clone(), ..Java::new("k", "") };
    produce(&queue, &[tombstone, Java::new("k", "")], Produce::default());
    let found: Vec<Record> = read_all(&mut log, &queue, P0).into_iter().map(|stored| stored.record).collect();
    let expected: Vec<(Bytes, Option<Bytes>)> =
        headers.iter().map(|(name, value)| (name.to_string().into(), value.map(Bytes::copy_from_slice))).collect();
    assert_eq!((&found[0].value, &found[0].headers), (&None, &expected));
    assert_eq!((found[1].value.as_deref(), found[1].headers.len()), (Some(&b""[..]), 0));
    log.append(&queue, found.iter().cloned().map(|record| (P0, record)).collect(), None).unwrap();
    let again: Vec<Record> = read_all(&mut log, &queue, P0).into_iter().skip(2).map(|stored| stored.record).collect();
    assert_eq!(again, found);
}

#[test]
fn a_header_name_that_is_not_utf_8_comes_back_as_it_was() {
    let mut log = log();
    let queue = queue(&mut log, 1);
    let headers = vec![(Bytes::from_static(b"\xff\xfe"), None), (Bytes::from_static(b"\x80x"), Some("v".into()))];
    let sent = Record { headers, value: None, ..super::record("k", "") };
    log.append(&queue, vec![(P0, sent.clone())], None).unwrap();
    assert_eq!(read_all(&mut log, &queue, P0)[0].record, sent);
}

#[test]
fn what_an_aborted_transaction_wrote_is_not_read() {
    let mut log = log();
    let queue = queue(&mut log, 1);
    let id = queue.name.as_str();
    for (value, transaction) in [
        ("before", None),
        ("aborted", Some(Transaction::Abort(id))),
        ("committed", Some(Transaction::Commit(id))),
        ("aborted at the end", Some(Transaction::Abort(id))),
    ] {
        produce(&queue, &[Java::new("k", value)], Produce { transaction, compression: None });
    }
    assert_eq!(values(&mut log, &queue), ["before", "committed"]);
}

/// What a broker takes by default, less the framing of a batch with one record of the key "k": 61 bytes of the batch, 3 for
/// the record's length, 3 fixed, 2 for the key, 3 for the value's length, 1 for no headers.
const LARGEST_VALUE: usize = 1_048_588 - 61 - 3 - 3 - 2 - 3 - 1;

#[test]
fn the_largest_record_that_a_broker_takes_is_read_and_written_again() {
    let mut log = log();
    let queue = queue(&mut log, 1);
    let largest = vec![b'x'; LARGEST_VALUE];
    produce(&queue, &[Java::new("k", &largest)], Produce::default());
    let larger = vec![b'x'; LARGEST_VALUE + 1];
    let refused = shared(3).java_produce(queue.name.as_str(), &[Java::new("k", &larger)], Produce::default());
    assert!(refused.is_err(), "one byte more is too large for the broker, so the one before was the largest");
    let found = read_all(&mut log, &queue, P0).remove(0).record;
    assert_eq!(found.value.as_ref().map(Bytes::len), Some(largest.len()));
    log.append(&queue, vec![(P0, found.clone())], None).unwrap();
    let too_large = Record { value: Some(larger.into()), ..found.clone() };
    let refused = log.append(&queue, vec![(P0, too_large)], None).unwrap_err();
    assert!(refused.rest_is_absent && !refused.cause.is_transient(), "{refused:?}");
    let again: Vec<Record> = read_all(&mut log, &queue, P0).into_iter().map(|stored| stored.record).collect();
    assert!(again.len() == 2 && again[1] == found);
}
