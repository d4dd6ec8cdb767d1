//! Writes of stale workers that the row refused, as they are told to people: by the worker's name.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use keylane_producer::Partition;

/// How many claims of a partition are remembered: a writer that is more claims behind goes by "unknown".
const REMEMBERED: usize = 8;

type Names = BTreeMap<(i64, Partition), BTreeMap<u64, Box<str>>>;

/// Who made which claim through this store, so that a refused write can be told by its worker's name: the row has the
/// new owner's name by then.
#[derive(Clone, Default)]
pub(super) struct Claimants(Arc<Mutex<Names>>);

impl Claimants {
    pub(super) fn note(&self, scope: i64, partition: Partition, claim: u64, worker: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let claims = names.entry((scope, partition)).or_default();
        claims.insert(claim, worker.into());
        while claims.len() > REMEMBERED {
            claims.pop_first();
        }
    }

    pub(super) fn name(&self, scope: i64, partition: Partition, claim: u64) -> Box<str> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&(scope, partition)).and_then(|claims| claims.get(&claim)).map_or("unknown".into(), Clone::clone)
    }
}

/// One write that was refused.
pub(super) struct Refusal {
    pub(super) partition: Partition,
    pub(super) worker: Box<str>,
    pub(super) jobs: usize,
}
