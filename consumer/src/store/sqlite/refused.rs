//! Writes of stale workers that the row refused, counted for people: one row for each worker and partition.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use keylane_producer::{Partition, Timestamp};
use rusqlite::{Connection, params};

use super::{guard::Ours, scope::Scope};

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

impl Refusal {
    pub(super) fn count(&self, tx: &Connection, ours: &Ours, scope: &Scope) -> rusqlite::Result<()> {
        let sql = "INSERT INTO keylane_refused (scope, part, worker, writes, jobs, last) VALUES (?1, ?2, ?3, 1, ?4, ?5)
                   ON CONFLICT DO UPDATE SET writes = writes + 1, jobs = jobs + excluded.jobs, last = excluded.last";
        let jobs = i64::try_from(self.jobs).unwrap_or(i64::MAX);
        ours.prepare(tx, sql)?
            .execute(params![scope.id, self.partition.0, self.worker, jobs, Timestamp::now().0])
            .map(drop)
    }
}
