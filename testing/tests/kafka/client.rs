//! A client that is not Java's.

use std::{
    collections::BTreeSet,
    time::{Duration, SystemTime},
};

use rdkafka::{
    ClientConfig, Message, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, KafkaResult},
};

/// Far more than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("log_level", "0");
    config
}

pub(crate) fn client(bootstrap: &str) -> BaseConsumer {
    config(bootstrap).create().unwrap()
}

/// How many brokers this one names.
pub(crate) fn brokers_named(client: &BaseConsumer, limit: Duration) -> KafkaResult<usize> {
    Ok(client.fetch_metadata(None, limit)?.brokers().len())
}

/// The values that a reader of committed records finds in a topic, in order for each partition.
pub(crate) fn committed_values(bootstrap: &str, topic: &str, partitions: i32) -> Vec<Vec<u8>> {
    let mut config = config(bootstrap);
    config.set("group.id", "unused").set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let reader: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, rdkafka::Offset::Beginning).unwrap();
    }
    reader.assign(&list).unwrap();
    let mut values = Vec::new();
    let mut read = BTreeSet::new();
    while read.len() < usize::try_from(partitions).unwrap() {
        match reader.poll(LIMIT).unwrap() {
            Ok(message) => values.push(message.payload().unwrap().to_vec()),
            Err(KafkaError::PartitionEOF(partition)) => drop(read.insert(partition)),
            Err(error) => panic!("{error}"),
        }
    }
    values
}

/// Looks again and again until it is so.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = SystemTime::now();
    while !is_so() {
        assert!(start.elapsed().unwrap() < LIMIT, "waited in vain for: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
