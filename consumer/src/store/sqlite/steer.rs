//! What persons want of a partition's owner: keys that are to stand still, jobs that are to be left out.

use keylane_producer::{Offset, Partition, Timestamp};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{SqliteSession, audit, cannot, guard::Ours, int, parked, scope::Scope, stopped, uint};
use crate::{
    error::Error,
    store::{Skip, Skipping, SteerOrder, Steering, StopRule, cut},
};

pub(super) fn steering(session: &mut SqliteSession, partitions: &[Partition]) -> Result<Steering, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    let doing = "cannot read from the store what persons want";
    let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(cannot(doing))?;
    let mut steering = Steering::default();
    for &partition in partitions {
        let keys = stopped::steered(&tx, ours, scope, partition)?;
        steering.keys.extend(keys.into_iter().map(|key| (partition, key)));
        let skips = skips(&tx, ours, scope, partition).map_err(cannot(doing))?;
        steering.skips.extend(skips.into_iter().map(|skip| (partition, skip)));
    }
    Ok(steering)
}

/// Jobs of the partition to leave out: not those that are done, unless they wait in a line.
pub(super) fn skips(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<Vec<Skip>> {
    let sql =
        format!("SELECT offset, text FROM keylane_skip AS o WHERE scope = ?1 AND part = ?2 AND NOT ({DEALT_WITH})");
    ours.prepare(tx, &sql)?
        .query_map(params![scope.id, partition.0], |row| {
            Ok(Skip { offset: Offset(uint(row.get(0)?)), text: row.get::<_, String>(1)?.into() })
        })?
        .collect()
}

/// A marker says so, and the job is in no line.
const DEALT_WITH: &str = "
    EXISTS (SELECT 1 FROM keylane_marker AS m
            WHERE m.scope = o.scope AND m.part = o.part AND m.first <= o.offset AND m.last >= o.offset)
    AND NOT EXISTS (SELECT 1 FROM keylane_parked AS p
                    WHERE p.scope = o.scope AND p.part = o.part AND p.offset = o.offset)";

/// Orders for jobs that are done by now.
pub(super) fn forget(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM keylane_skip AS o WHERE scope = ?1 AND part = ?2 AND {DEALT_WITH}");
    ours.prepare(tx, &sql)?.execute(params![scope.id, partition.0]).map(drop)
}

pub(super) fn pause(session: &mut SqliteSession, order: &SteerOrder) -> Result<bool, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    scope.has(order.partition)?;
    let doing = format!("cannot pause key '{}' in the store", order.key);
    let sql = cannot(&doing);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
    if parked::is_stopped(&tx, ours, scope, order.partition, &order.key).map_err(&sql)? {
        return Ok(false);
    }
    let write = || {
        let row = "INSERT INTO keylane_stopped
                       (scope, part, key, offset, job_id, attempts, rule, reason, since, version, released)
                   VALUES (?1, ?2, ?3, 0, '', 0, ?4, ?5, ?6, ?7, 0)";
        let version = stopped::next_version(&tx, ours, scope)?;
        let (rule, now) = (StopRule::Paused.as_str(), Timestamp::now().0);
        ours.prepare(&tx, row)?.execute(params![
            scope.id,
            order.partition.0,
            order.key.as_bytes(),
            rule,
            order.words(),
            now,
            version
        ])?;
        audit(&tx, ours, scope, &order.who, "pause", &order.why, &order.pausing())
    };
    write().map_err(&sql)?;
    tx.commit().map_err(&sql)?;
    Ok(true)
}

pub(super) fn skip(session: &mut SqliteSession, order: &SteerOrder, offset: Offset) -> Result<Skipping, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    scope.has(order.partition)?;
    let doing = format!("cannot have a job of key '{}' left out in the store", order.key);
    let sql = cannot(&doing);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
    let skipping = carry_out(&tx, ours, scope, order, offset).map_err(&sql)?;
    if matches!(skipping, Skipping::Ordered | Skipping::Buried) {
        audit(&tx, ours, scope, &order.who, "skip", &order.why, &order.skipping(offset)).map_err(&sql)?;
    }
    tx.commit().map_err(&sql)?;
    Ok(skipping)
}

fn carry_out(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    order: &SteerOrder,
    offset: Offset,
) -> rusqlite::Result<Skipping> {
    let place = params![scope.id, order.partition.0, int(offset.0)];
    let sql = "SELECT s.released FROM keylane_parked AS p JOIN keylane_stopped AS s USING (scope, part, key)
               WHERE p.scope = ?1 AND p.part = ?2 AND p.offset = ?3 AND p.key = ?4";
    let line = params![scope.id, order.partition.0, int(offset.0), order.key.as_bytes()];
    let released: Option<bool> = ours.prepare(tx, sql)?.query_row(line, |row| row.get(0)).optional()?;
    if released == Some(false) {
        let sql = "INSERT INTO keylane_dead (scope, part, offset, incarnation, key, job_id, value, headers, timestamp, size,
                                             attempts, rule, reason, at)
                   SELECT p.scope, part, offset, incarnation, key, job_id, value, headers, timestamp, size, attempts, ?4, ?5, ?6
                   FROM keylane_parked AS p JOIN keylane_scope USING (scope) WHERE p.scope = ?1 AND part = ?2 AND offset = ?3";
        let (rule, now) = (StopRule::Skipped.as_str(), Timestamp::now().0);
        let row = params![scope.id, order.partition.0, int(offset.0), rule, order.words(), now];
        ours.prepare(tx, sql)?.execute(row)?;
        let sql = "DELETE FROM keylane_parked WHERE scope = ?1 AND part = ?2 AND offset = ?3";
        ours.prepare(tx, sql)?.execute(place)?;
        stopped::left(tx, ours, scope, order.partition, &order.key)?;
        return Ok(Skipping::Buried);
    }
    let sql = format!("SELECT {DEALT_WITH} FROM (SELECT ?1 AS scope, ?2 AS part, ?3 AS offset) AS o");
    if ours.prepare(tx, &sql)?.query_row(place, |row| row.get(0))? {
        return Ok(Skipping::Done);
    }
    let sql = "INSERT INTO keylane_skip (scope, part, offset, key, text, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT DO NOTHING";
    let (text, now) = (cut(&order.words()), Timestamp::now().0);
    let row = params![scope.id, order.partition.0, int(offset.0), order.key.as_bytes(), text, now];
    if ours.prepare(tx, sql)?.execute(row)? == 0 {
        return Ok(Skipping::OrderedBefore);
    }
    stopped::next_version(tx, ours, scope)?;
    Ok(Skipping::Ordered)
}
