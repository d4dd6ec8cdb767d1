//! Topics and records.

use keylane_testing::kafka::{Offsets, Produce, Record, Transaction, shared};
use rdkafka::consumer::Consumer;

use super::client::{LIMIT, brokers_named, client, committed_values};

#[test]
fn one_broker_is_a_cluster_and_so_are_three() {
    for brokers in [1, 3] {
        let cluster = shared(brokers);
        assert_eq!(cluster.brokers(), brokers);
        assert_eq!(cluster.bootstrap().split(',').count(), brokers);
        for address in cluster.bootstrap().split(',') {
            assert_eq!(brokers_named(&client(address), LIMIT).unwrap(), brokers);
        }
        assert!(cluster.log(0).contains("Kafka Server started"));
        assert!(std::ptr::eq(cluster, shared(brokers)));
    }
}

#[test]
fn every_broker_knows_a_change_when_it_returns() {
    let cluster = shared(3);
    let partitions = |topic| -> Vec<usize> {
        let each = cluster.bootstrap().split(',').map(|address| {
            let seen = client(address).fetch_metadata(Some(topic), LIMIT).unwrap();
            let partitions = seen.topics()[0].partitions();
            assert!(partitions.iter().all(|p| p.error().is_none() && p.leader() > 0 && p.replicas().len() == 3));
            partitions.len()
        });
        each.collect()
    };
    cluster.create_topic("changing", 6, &[("cleanup.policy", "compact")]).unwrap();
    assert_eq!(partitions("changing"), [6, 6, 6]);
    assert!(cluster.create_topic("changing", 6, &[]).unwrap_err().to_string().contains("TopicExistsException"));
    cluster.add_partitions("changing", 8).unwrap();
    assert_eq!(partitions("changing"), [8, 8, 8]);
    cluster.alter_topic_config("changing", "max.message.bytes", "1000").unwrap();
    let large = [7; 2000];
    let refusal = cluster.java_produce("changing", &[Record::new("k", &large)], Produce::default()).unwrap_err();
    assert!(refusal.to_string().contains("RecordTooLargeException"), "{refusal}");
    cluster.delete_topic("changing").unwrap();
    assert_eq!(partitions("changing"), [0, 0, 0]);
}

#[test]
fn javas_partitioner_decides_and_every_compression_is_read() {
    let cluster = shared(3);
    cluster.create_topic("packed", 4, &[]).unwrap();
    let mut sent = Vec::new();
    for compression in [None, Some("gzip"), Some("snappy"), Some("lz4"), Some("zstd")] {
        let value = format!("{compression:?}").repeat(100);
        let records: Vec<_> = ["a", "b", "c", "d"].iter().map(|key| Record::new(key, &value)).collect();
        let how = Produce { compression, ..Produce::default() };
        let places = cluster.java_produce("packed", &records, how).unwrap();
        assert_eq!(places.iter().map(|p| p.partition).collect::<Vec<_>>(), JAVAS_PARTITIONS);
        sent.extend(std::iter::repeat_n(value.into_bytes(), 4));
    }
    let mut read = committed_values(cluster.bootstrap(), "packed", 4);
    read.sort();
    sent.sort();
    assert_eq!(read, sent);

    let chosen = Record { partition: Some(2), headers: vec![("h", Some(b"v"))], ..Record::new("a", "v") };
    let places = cluster.java_produce("packed", &[chosen], Produce::default()).unwrap();
    assert_eq!(places[0].partition, 2);
}

/// Of the keys a, b, c, d: murmur2 modulo 4, computed apart from Java.
const JAVAS_PARTITIONS: [i32; 4] = [0, 0, 2, 1];

#[test]
fn an_aborted_record_stays_and_is_not_read() {
    let cluster = shared(3);
    cluster.create_topic("transactions", 1, &[]).unwrap();
    let produce = |value: &str, transaction| {
        let how = Produce { transaction, ..Produce::default() };
        cluster.java_produce("transactions", &[Record::new("k", value)], how).unwrap()[0].offset
    };
    assert_eq!(produce("aborted", Some(Transaction::Abort("one"))), 0);
    assert_eq!(produce("committed", Some(Transaction::Commit("one"))), 2);
    assert_eq!(produce("plain", None), 4);
    let read = committed_values(cluster.bootstrap(), "transactions", 1);
    assert_eq!(read, [b"committed".to_vec(), b"plain".to_vec()]);
}

#[test]
fn records_are_deleted_from_the_start() {
    let cluster = shared(3);
    cluster.create_topic("shortened", 2, &[]).unwrap();
    let records = [0, 0, 0, 1].map(|p| Record { partition: Some(p), ..Record::new("k", "v") });
    let places = cluster.java_produce("shortened", &records, Produce::default()).unwrap();
    assert_eq!(places.iter().map(|p| p.offset).collect::<Vec<_>>(), [0, 1, 2, 0]);
    assert_eq!(cluster.delete_records("shortened", 0, 2).unwrap(), 2);
    let offsets = cluster.list_offsets("shortened").unwrap();
    assert_eq!(offsets, [Offsets { start: 2, end: 3 }, Offsets { start: 0, end: 1 }]);
}
