//! What of a snapshot is worth telling again when it changes. Ages, sessions and counts change by themselves.

use crate::snapshot::{Freshness, PartitionState, Snapshot, WorkerState};

/// Two snapshots with the same gist differ in nothing but ages, times and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gist {
    freshness: Freshness,
    worker: Option<WorkerState>,
    partitions: Vec<(u32, PartitionState)>,
    notices: usize,
}

impl Gist {
    /// Of a worker's snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        Self {
            freshness: snapshot.freshness,
            worker: snapshot.workers.first().map(|worker| worker.state),
            partitions: snapshot.partitions.iter().map(|p| (p.partition, p.state)).collect(),
            notices: snapshot.notices.len(),
        }
    }
}
