//! Writes of stale workers that the row refused, counted for people: one row for each worker and partition.

use keylane_producer::Timestamp;
use rusqlite::{Connection, params};

use super::{guard::Ours, scope::Scope};
use crate::store::refused::Refusal;

pub(super) fn count(refusal: &Refusal, tx: &Connection, ours: &Ours, scope: &Scope) -> rusqlite::Result<()> {
    let sql = "INSERT INTO keylane_refused (scope, part, worker, writes, jobs, last) VALUES (?1, ?2, ?3, 1, ?4, ?5)
               ON CONFLICT DO UPDATE SET writes = writes + 1, jobs = jobs + excluded.jobs, last = excluded.last";
    let jobs = i64::try_from(refusal.jobs).unwrap_or(i64::MAX);
    ours.prepare(tx, sql)?
        .execute(params![scope.id, refusal.partition.0, refusal.worker, jobs, Timestamp::now().0])
        .map(drop)
}
