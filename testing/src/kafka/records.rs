//! Records from Java's producer.

use anyhow::Result;
use data_encoding::BASE64;
use serde_json::json;

use super::{Cluster, tool};

/// A record to produce.
#[derive(Clone, Debug, Default)]
pub struct Record<'a> {
    /// With one, Java's default partitioner hashes it.
    pub key: Option<&'a [u8]>,
    /// Without one, a tombstone.
    pub value: Option<&'a [u8]>,
    /// Names and values, in order; a value may be null.
    pub headers: Vec<(&'a str, Option<&'a [u8]>)>,
    /// Sent to this partition; else the partitioner decides.
    pub partition: Option<i32>,
}

/// How records are produced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Produce<'a> {
    /// `gzip`, `snappy`, `lz4` or `zstd`; else none.
    pub compression: Option<&'a str>,
    /// In one transaction; else in none.
    pub transaction: Option<Transaction<'a>>,
}

/// A transaction by its transactional id, and how it ends.
#[derive(Clone, Copy, Debug)]
pub enum Transaction<'a> {
    /// Committed when all records are in.
    Commit(&'a str),
    /// Aborted when all records are in: they stay on the log, and `read_committed` readers skip them.
    Abort(&'a str),
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    /// The partition it went to.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
}

impl<'a> Record<'a> {
    /// One with a key and a value.
    pub fn new(key: &'a (impl AsRef<[u8]> + ?Sized), value: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { key: Some(key.as_ref()), value: Some(value.as_ref()), ..Self::default() }
    }
}

impl Cluster {
    /// Produces records with Java's producer and its default settings, and returns where each is, in their order.
    pub fn java_produce(&self, topic: &str, records: &[Record<'_>], how: Produce<'_>) -> Result<Vec<Produced>> {
        let records: Vec<_> = records
            .iter()
            .map(|r| {
                let headers: Vec<_> = r
                    .headers
                    .iter()
                    .map(|(name, value)| json!({ "name": name, "value": value.map(|v| BASE64.encode(v)) }))
                    .collect();
                let (key, value) = (r.key.map(|k| BASE64.encode(k)), r.value.map(|v| BASE64.encode(v)));
                json!({ "key": key, "value": value, "headers": headers, "partition": r.partition })
            })
            .collect();
        let (id, commit) = match how.transaction {
            None => (None, false),
            Some(Transaction::Commit(id)) => (Some(id), true),
            Some(Transaction::Abort(id)) => (Some(id), false),
        };
        let question = json!({
            "topic": topic, "records": records, "compression": how.compression, "transactional_id": id, "commit": commit,
        });
        tool::list(&self.ask("produce", question)?, |place| {
            Ok(Produced { partition: tool::number(&place["partition"])?, offset: tool::number(&place["offset"])? })
        })
    }
}
