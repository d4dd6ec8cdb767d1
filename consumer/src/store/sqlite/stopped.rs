//! Keys that stand still, and their release. A row's version comes from a counter of the scope, so that a key which
//! stops, goes on and stops again never has a version twice: a release that was decided on an old picture does nothing.

use keylane_producer::{Attempt, JobKey, Offset, Partition, Timestamp};
use rusqlite::{Connection, Row, params};

use super::{SqliteStore, cannot, guard::Ours, int, parked, scope::Scope, uint};
use crate::{
    error::{Detail, Error},
    store::{DeadActed, DeadLetter, JobWrite, StopReason, StopRule, StoppedKey, cut},
};

const COLUMNS: &str = "key, offset, job_id, attempts, rule, reason, since, version, released,
    (SELECT count(*) FROM keylane_parked AS p WHERE p.scope = s.scope AND p.part = s.part AND p.key = s.key),
    (SELECT max(p.offset) FROM keylane_parked AS p WHERE p.scope = s.scope AND p.part = s.part AND p.key = s.key)";

/// Stops the job's key, and puts the job first in its line. Said again for the same job (the first answer was lost) it changes nothing.
pub(super) fn stop(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    job: &JobWrite<SqliteStore>,
    reason: &StopReason,
) -> rusqlite::Result<()> {
    let place = params![scope.id, partition.0, job.job.key.as_bytes(), int(job.offset.0)];
    let same = "SELECT 1 FROM keylane_stopped
                WHERE scope = ?1 AND part = ?2 AND key = ?3 AND offset = ?4 AND released = 0";
    if ours.prepare(tx, same)?.exists(place)? {
        return Ok(());
    }
    let sql = "INSERT OR REPLACE INTO keylane_stopped
                   (scope, part, key, offset, job_id, attempts, rule, reason, since, version, released)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0)";
    ours.prepare(tx, sql)?.execute(params![
        scope.id,
        partition.0,
        job.job.key.as_bytes(),
        int(job.offset.0),
        job.job.id.as_str(),
        job.attempt.0,
        reason.rule.as_str(),
        cut(&reason.text),
        Timestamp::now().0,
        next_version(tx, ours, scope)?
    ])?;
    parked::put(tx, ours, scope, partition, job)?;
    let sql = "DELETE FROM keylane_suspect WHERE scope = ?1 AND part = ?2 AND offset = ?3";
    ours.prepare(tx, sql)?.execute(params![scope.id, partition.0, int(job.offset.0)]).map(drop)
}

/// Takes away the row of a key whose line is empty, if it is still the row that was released.
pub(super) fn resume(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    resumed: &[(JobKey, u64)],
) -> rusqlite::Result<()> {
    if resumed.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM keylane_stopped WHERE scope = ?1 AND part = ?2 AND key = ?3 AND version = ?4
               AND NOT EXISTS (SELECT 1 FROM keylane_parked AS p WHERE p.scope = ?1 AND p.part = ?2 AND p.key = ?3)";
    let mut row = ours.prepare(tx, sql)?;
    resumed.iter().try_for_each(|(key, version)| {
        row.execute(params![scope.id, partition.0, key.as_bytes(), int(*version)]).map(drop)
    })
}

/// Keys of the partition that were released, or that a person wants to stand still.
pub(super) fn steered(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
) -> Result<Vec<StoppedKey>, Error> {
    select(tx, ours, scope, partition, "AND (released = 1 OR rule = 'paused')")
}

/// A dead letter went back into its key's line: if the key does not stand still, the line is to be run.
pub(super) fn let_go(tx: &Connection, ours: &Ours, scope: &Scope, letter: &DeadLetter) -> rusqlite::Result<DeadActed> {
    let version = next_version(tx, ours, scope)?;
    let sql = "INSERT INTO keylane_stopped (scope, part, key, offset, job_id, attempts, rule, reason, since, version, released)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1)
               ON CONFLICT DO UPDATE SET version = excluded.version
               RETURNING released";
    let row = params![
        scope.id,
        letter.partition.0,
        letter.key.as_bytes(),
        int(letter.offset.0),
        letter.id.as_str(),
        letter.attempts.0,
        letter.reason.rule.as_str(),
        letter.reason.text,
        Timestamp::now().0,
        version
    ];
    let goes: bool = ours.prepare(tx, sql)?.query_row(row, |row| row.get(0))?;
    Ok(if goes { DeadActed::Done } else { DeadActed::InLine })
}

/// A job was taken out of the line of a key that stands still. If it was the last, and no person wants the key to stand, it goes on.
pub(super) fn left(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    key: &JobKey,
) -> rusqlite::Result<()> {
    let sql = "UPDATE keylane_stopped SET version = ?4, released = rule <> 'paused' AND NOT EXISTS
                   (SELECT 1 FROM keylane_parked AS p WHERE p.scope = ?1 AND p.part = ?2 AND p.key = ?3)
               WHERE scope = ?1 AND part = ?2 AND key = ?3";
    let version = next_version(tx, ours, scope)?;
    ours.prepare(tx, sql)?.execute(params![scope.id, partition.0, key.as_bytes(), version]).map(drop)
}

/// All keys of the partition that have a row, released ones too.
pub(super) fn all(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> Result<Vec<StoppedKey>, Error> {
    select(tx, ours, scope, partition, "")
}

fn select(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    which: &str,
) -> Result<Vec<StoppedKey>, Error> {
    let doing = format!("cannot read the stopped keys of partition {partition} from the store");
    let sql =
        format!("SELECT {COLUMNS} FROM keylane_stopped AS s WHERE scope = ?1 AND part = ?2 {which} ORDER BY offset");
    let mut statement = ours.prepare(tx, &sql).map_err(cannot(&doing))?;
    let rows = statement
        .query_map(params![scope.id, partition.0], |row| Ok(read(row)))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>)
        .map_err(cannot(&doing))?;
    rows.into_iter()
        .map(|row| {
            row.map_err(|e| {
                Error::Corrupt(Detail::new(format!("a stopped key of partition {partition} cannot be read")).because(e))
            })
        })
        .collect()
}

fn read(row: &Row<'_>) -> Result<StoppedKey, Box<dyn std::error::Error + Send + Sync>> {
    let (key, id, rule): (Vec<u8>, String, String) = (row.get(0)?, row.get(2)?, row.get(4)?);
    let text: String = row.get(5)?;
    Ok(StoppedKey {
        key: JobKey::try_from(key.as_slice())?,
        offset: Offset(uint(row.get(1)?)),
        id: (!id.is_empty()).then(|| id.parse()).transpose()?,
        attempts: Attempt(row.get(3)?),
        reason: StopReason {
            rule: StopRule::parse(&rule).ok_or_else(|| format!("'{rule}' is no rule that stops a key"))?,
            text: text.into(),
        },
        since: Timestamp(row.get(6)?),
        version: uint(row.get(7)?),
        released: row.get(8)?,
        jobs: uint(row.get(9)?),
        last: Offset(row.get::<_, Option<i64>>(10)?.map_or(0, uint)),
    })
}

pub(super) fn next_version(tx: &Connection, ours: &Ours, scope: &Scope) -> rusqlite::Result<i64> {
    let sql = "UPDATE keylane_scope SET versions = versions + 1 WHERE scope = ?1 RETURNING versions";
    ours.prepare(tx, sql)?.query_row([scope.id], |row| row.get(0))
}

/// A number that rises whenever a key stops or a person acts.
pub(super) fn versions(connection: &Connection, ours: &Ours, scope: &Scope) -> rusqlite::Result<i64> {
    let sql = "SELECT versions FROM keylane_scope WHERE scope = ?1";
    ours.prepare(connection, sql)?.query_row([scope.id], |row| row.get(0))
}
