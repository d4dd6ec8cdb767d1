//! Results as they are read back.

use bytes::Bytes;
use keylane_producer::{Attempt, JobId, JobKey, Offset, Partition, Timestamp};

/// Which results to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultsOf {
    /// All of them.
    Everything,
    /// Those of one key.
    Key(JobKey),
    /// That of one job; several, if jobs of several groups have it.
    Job(JobId),
}

/// One job's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultRow {
    /// The queue's name.
    pub queue: Box<str>,
    /// The group's name.
    pub group: Box<str>,
    /// The job's partition.
    pub partition: Partition,
    /// Its place there.
    pub offset: Offset,
    /// Its key.
    pub key: JobKey,
    /// Its id.
    pub id: JobId,
    /// Which try finished it.
    pub attempt: Attempt,
    /// JSON text, as the handler gave it.
    pub result: Bytes,
    /// When it was written.
    pub finished_at: Timestamp,
}
