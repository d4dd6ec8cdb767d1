//! The log's adapter on a real Kafka: the suite of the port, and what only Kafka can do.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::sync::atomic::{AtomicU32, Ordering};

use keylane_producer::{
    Log, Offset, Partition, QueueIdentity, QueueSpec, Record, StoredRecord,
    job::Timestamp,
    kafka::KafkaSettings,
    log::{ReadLimit, conformance::Broker, kafka::KafkaLog},
};
use keylane_testing::kafka::shared;

#[path = "kafka/java.rs"]
mod java;
#[path = "kafka/making.rs"]
mod making;
#[path = "kafka/sending.rs"]
mod sending;

/// Three brokers, for all tests of this file.
struct Kafka;

impl Broker for Kafka {
    fn open(&self) -> Box<dyn Log> {
        Box::new(log())
    }
}

mod suite {
    keylane_producer::log_conformance!(super::Kafka);
}

fn settings() -> KafkaSettings {
    KafkaSettings::new(shared(3).bootstrap().parse().unwrap())
}

fn log() -> KafkaLog {
    KafkaLog::open(settings()).unwrap()
}

/// A name that no other test of this cluster has.
fn fresh_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("own-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn spec(partitions: u32) -> QueueSpec {
    QueueSpec::new(fresh_name().parse().unwrap(), partitions.to_string().parse().unwrap())
}

/// A queue of its own.
fn queue(log: &mut KafkaLog, partitions: u32) -> QueueIdentity {
    log.create(&spec(partitions)).unwrap()
}

fn record(key: &'static str, value: &'static str) -> Record {
    Record { key: Some(key.into()), value: Some(value.into()), headers: Vec::new(), timestamp: Timestamp::now() }
}

/// All that can be read in a partition.
fn read_all(log: &mut KafkaLog, queue: &QueueIdentity, partition: Partition) -> Vec<StoredRecord> {
    let end = log.bounds(queue, partition).unwrap().end;
    let (mut from, mut found) = (Offset(0), Vec::new());
    while from < end {
        let page = log.read(queue, partition, from, ReadLimit { records: 1_000, bytes: 8 << 20 }).unwrap();
        from = page.next;
        found.extend(page.records);
    }
    found
}
