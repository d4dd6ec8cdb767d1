//! Keys that stand still, and their release. A row's version comes from a counter of the scope, so that a key which
//! stops, goes on and stops again never has a version twice: a release that was decided on an old picture does nothing.

use keylane_producer::{Attempt, JobKey, Offset, Partition, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::{SqliteSession, SqliteStore, cannot, guard::Ours, int, scope::Scope, uint};
use crate::{
    error::{Detail, Error},
    store::{JobWrite, MAX_REASON_BYTES, StopReason, StopRule, StoppedKey},
};

const COLUMNS: &str = "key, offset, job_id, attempts, rule, reason, since, version, released";

/// Stops the job's key. Said again for the same job (the first answer was lost) it changes nothing.
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
    let sql = "DELETE FROM keylane_suspect WHERE scope = ?1 AND part = ?2 AND offset = ?3";
    ours.prepare(tx, sql)?.execute(params![scope.id, partition.0, int(job.offset.0)]).map(drop)
}

/// Takes away the row of a key that is running again, if it is still the row that was released.
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
    let sql = "DELETE FROM keylane_stopped WHERE scope = ?1 AND part = ?2 AND key = ?3 AND version = ?4";
    let mut row = ours.prepare(tx, sql)?;
    resumed.iter().try_for_each(|(key, version)| {
        row.execute(params![scope.id, partition.0, key.as_bytes(), int(*version)]).map(drop)
    })
}

/// A person lets the key go on, if its row is the one that the person saw.
pub(super) fn release(
    session: &mut SqliteSession,
    partition: Partition,
    key: &JobKey,
    version: u64,
) -> Result<bool, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    let doing = format!("cannot release key '{key}' in the store");
    let sql = cannot(&doing);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
    let place = params![scope.id, partition.0, key.as_bytes(), int(version)];
    let read = "SELECT released FROM keylane_stopped WHERE scope = ?1 AND part = ?2 AND key = ?3 AND version = ?4";
    let released: Option<bool> =
        ours.prepare(&tx, read).and_then(|mut s| s.query_row(place, |row| row.get(0)).optional()).map_err(&sql)?;
    match released {
        None => Ok(false),
        Some(true) => Ok(true),
        Some(false) => {
            let next = next_version(&tx, ours, scope).map_err(&sql)?;
            let update = "UPDATE keylane_stopped SET released = 1, version = ?4
                          WHERE scope = ?1 AND part = ?2 AND key = ?3";
            ours.prepare(&tx, update)
                .and_then(|mut s| s.execute(params![scope.id, partition.0, key.as_bytes(), next]))
                .map_err(&sql)?;
            tx.commit().map_err(&sql)?;
            Ok(true)
        }
    }
}

/// Keys of these partitions that were released and whose rows are still there.
pub(super) fn released(
    session: &mut SqliteSession,
    partitions: &[Partition],
) -> Result<Vec<(Partition, StoppedKey)>, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    let mut found = Vec::new();
    for &partition in partitions {
        let keys = select(connection, ours, scope, partition, "AND released = 1")?;
        found.extend(keys.into_iter().map(|key| (partition, key)));
    }
    Ok(found)
}

/// Keys of the partition that stand still and were not released.
pub(super) fn standing(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
) -> Result<Vec<StoppedKey>, Error> {
    select(tx, ours, scope, partition, "AND released = 0")
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
    let sql = format!("SELECT {COLUMNS} FROM keylane_stopped WHERE scope = ?1 AND part = ?2 {which} ORDER BY offset");
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
        id: id.parse()?,
        attempts: Attempt(row.get(3)?),
        reason: StopReason {
            rule: StopRule::parse(&rule).ok_or_else(|| format!("'{rule}' is no rule that stops a key"))?,
            text: text.into(),
        },
        since: Timestamp(row.get(6)?),
        version: uint(row.get(7)?),
        released: row.get(8)?,
    })
}

fn next_version(tx: &Connection, ours: &Ours, scope: &Scope) -> rusqlite::Result<i64> {
    let sql = "UPDATE keylane_scope SET versions = versions + 1 WHERE scope = ?1 RETURNING versions";
    ours.prepare(tx, sql)?.query_row([scope.id], |row| row.get(0))
}

/// At most [`MAX_REASON_BYTES`], between two characters, with a mark where something is missing.
fn cut(text: &str) -> String {
    const MARK: &str = "…";
    if text.len() <= MAX_REASON_BYTES {
        return text.to_owned();
    }
    let most = MAX_REASON_BYTES - MARK.len();
    let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}{MARK}", &text[..end])
}
