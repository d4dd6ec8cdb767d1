//! Topics of a cluster.

use anyhow::Result;
use serde_json::json;

use super::{Cluster, tool};

/// Where a partition starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// Of the first record that is still there.
    pub start: i64,
    /// One above the last record's.
    pub end: i64,
}

impl Cluster {
    /// Creates a topic, with the cluster's number of replicas.
    pub fn create_topic(&self, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<()> {
        let configs: serde_json::Map<_, _> = configs.iter().map(|&(k, v)| (k.to_owned(), json!(v))).collect();
        self.ask("create_topic", json!({ "topic": topic, "partitions": partitions, "configs": configs })).map(drop)
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, topic: &str) -> Result<()> {
        self.ask("delete_topic", json!({ "topic": topic })).map(drop)
    }

    /// Raises a topic's number of partitions to `partitions`.
    pub fn add_partitions(&self, topic: &str, partitions: i32) -> Result<()> {
        self.ask("add_partitions", json!({ "topic": topic, "partitions": partitions })).map(drop)
    }

    /// Sets one configuration of a topic.
    pub fn alter_topic_config(&self, topic: &str, key: &str, value: &str) -> Result<()> {
        self.ask("alter_topic_config", json!({ "topic": topic, "key": key, "value": value })).map(drop)
    }

    /// Deletes a partition's records below an offset, and returns where it starts now.
    pub fn delete_records(&self, topic: &str, partition: i32, before: i64) -> Result<i64> {
        let question = json!({ "topic": topic, "partition": partition, "before": before });
        tool::number(&self.ask("delete_records", question)?)
    }

    /// The first offset and the end of each partition, in order of the partitions.
    pub fn list_offsets(&self, topic: &str) -> Result<Vec<Offsets>> {
        tool::list(&self.ask("list_offsets", json!({ "topic": topic }))?, |partition| {
            Ok(Offsets { start: tool::number(&partition["start"])?, end: tool::number(&partition["end"])? })
        })
    }
}
