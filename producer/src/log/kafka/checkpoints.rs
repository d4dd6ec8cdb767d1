//! How far a source was brought in: one record in a compacted topic, written in the transaction of the jobs.

use serde_json::json;

use super::read::Reader;
use crate::{
    error::{Detail, Error},
    job::Timestamp,
    log::{Checkpoint, ReadLimit},
    partition::{Offset, Partition},
    queue::QueueIdentity,
    record::Record,
};

/// One partition, compacted: the last record of a key stays.
pub(super) const TOPIC: &str = "keylane-checkpoints";

const HERE: Partition = Partition(0);

/// What is read at once.
const CHUNK: ReadLimit = ReadLimit { records: 10_000, bytes: 4 << 20 };

pub(super) fn record(queue: &QueueIdentity, checkpoint: &Checkpoint) -> (&'static str, Record) {
    let value = json!({
        "source": checkpoint.source,
        "position": checkpoint.position,
        "digest": checkpoint.digest,
        "complete": checkpoint.complete,
    });
    let record = Record {
        key: Some(key(queue, &checkpoint.source).into()),
        value: Some(value.to_string().into()),
        headers: Vec::new(),
        timestamp: Timestamp::now(),
    };
    (TOPIC, record)
}

/// The last one of a source.
pub(super) fn last(reader: &mut Reader, queue: &QueueIdentity, source: &str) -> Result<Option<Checkpoint>, Error> {
    let key = key(queue, source);
    reader.await_decided(TOPIC, HERE)?;
    let end = reader.bounds(TOPIC, HERE)?.end;
    let mut found = None;
    let mut from = Offset(0);
    while from < end {
        let page = reader.read(TOPIC, HERE, from, CHUNK)?;
        let ours = page.records.into_iter().rev().find(|stored| stored.record.key.as_deref() == Some(key.as_bytes()));
        found = ours.or(found);
        from = page.next;
    }
    found.map(|stored| parse(&stored.record)).transpose()
}

fn key(queue: &QueueIdentity, source: &str) -> String {
    json!([queue.name.as_str(), queue.incarnation.0, source]).to_string()
}

fn parse(record: &Record) -> Result<Checkpoint, Error> {
    let value: Option<serde_json::Value> = record.value.as_deref().and_then(|json| serde_json::from_slice(json).ok());
    let read = value.and_then(|value| {
        Some(Checkpoint {
            source: value["source"].as_str()?.into(),
            position: value["position"].as_u64()?,
            digest: value["digest"].as_str()?.into(),
            complete: value["complete"].as_bool()?,
        })
    });
    read.ok_or_else(|| {
        Error::Corrupt(
            Detail::new(format!("a checkpoint in the topic '{TOPIC}' cannot be read"))
                .remedy("see who writes there besides Keylane"),
        )
    })
}
