//! Which offsets are done, as rows of ranges. Read in the transaction of every write, never from a cache: the outcome
//! of an earlier write may be unknown.

use keylane_producer::Partition;
use rusqlite::{Connection, params};

use super::{guard::Ours, int, scope::Scope, uint};
use crate::store::{Progress, ranges::Ranges};

/// Everything that is done in the partition.
pub(super) fn all(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<Ranges> {
    let sql = "SELECT first, last FROM keylane_marker WHERE scope = ?1 AND part = ?2";
    ours.prepare(tx, sql)?
        .query_map(params![scope.id, partition.0], |row| Ok((uint(row.get(0)?), uint(row.get(1)?))))?
        .collect()
}

/// The same, as a new owner goes by it.
pub(super) fn progress(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
) -> rusqlite::Result<Progress> {
    Ok(Progress { anew: scope.anew, ..all(tx, ours, scope, partition)?.into() })
}

/// The ranges that a write can change: those that begin below or at the watermark, which are joined to one, and those
/// that hold or touch an offset from `low` to `high`.
pub(super) fn near(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    watermark: u64,
    span: Option<(u64, u64)>,
) -> rusqlite::Result<Ranges> {
    let sql = "SELECT first, last FROM keylane_marker WHERE scope = ?1 AND part = ?2 AND first <= ?3
               UNION
               SELECT first, last FROM keylane_marker WHERE scope = ?1 AND part = ?2 AND first <= ?5 AND first >=
                   coalesce((SELECT max(first) FROM keylane_marker WHERE scope = ?1 AND part = ?2 AND first < ?4), ?4)";
    let (low, high) = span.unwrap_or((watermark, watermark));
    ours.prepare(tx, sql)?
        .query_map(params![scope.id, partition.0, int(watermark), int(low), int(high.saturating_add(1))], |row| {
            Ok((uint(row.get(0)?), uint(row.get(1)?)))
        })?
        .collect()
}

/// Turns the rows of `before` into those of `after`, and touches no other.
pub(super) fn replace(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    before: &Ranges,
    after: &Ranges,
) -> rusqlite::Result<()> {
    let gone = "DELETE FROM keylane_marker WHERE scope = ?1 AND part = ?2 AND first = ?3";
    let mut gone = ours.prepare(tx, gone)?;
    for (first, last) in before.iter() {
        if !after.has_range(first, last) {
            gone.execute(params![scope.id, partition.0, int(first)])?;
        }
    }
    let new = "INSERT INTO keylane_marker (scope, part, first, last) VALUES (?1, ?2, ?3, ?4)";
    let mut new = ours.prepare(tx, new)?;
    for (first, last) in after.iter() {
        if !before.has_range(first, last) {
            new.execute(params![scope.id, partition.0, int(first), int(last)])?;
        }
    }
    Ok(())
}

/// A job that is done is suspected no more; one in a line may run again.
pub(super) fn clear_suspects(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM keylane_suspect AS s WHERE scope = ?1 AND part = ?2 AND s.offset <=
                   (SELECT last FROM keylane_marker AS m WHERE m.scope = ?1 AND m.part = ?2 AND m.first <= s.offset
                    ORDER BY m.first DESC LIMIT 1)
               AND NOT EXISTS (SELECT 1 FROM keylane_parked AS p
                               WHERE p.scope = ?1 AND p.part = ?2 AND p.offset = s.offset)";
    ours.prepare(tx, sql)?.execute(params![scope.id, partition.0]).map(drop)
}
