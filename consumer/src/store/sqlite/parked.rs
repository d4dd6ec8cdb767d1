//! The lines: jobs of keys that stand still. A job comes in with its marker and leaves with its effect, each in one fenced
//! transaction; a person's act is conditional on the row and on the last job that were read.

use keylane_producer::{Attempt, JobKey, Offset, Partition, StoredRecord, Timestamp};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{SqliteSession, SqliteStore, audit, cannot, guard::Ours, int, scope::Scope, stopped, uint};
use crate::{
    error::{Detail, Error},
    store::{
        JobWrite, Line, LineAct, LineOrder, ParkedJob, Write,
        line::{Columns, earlier_places},
    },
};

/// How many jobs the lines of the partition hold.
pub(super) fn held(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM keylane_parked WHERE scope = ?1 AND part = ?2";
    ours.prepare(tx, sql)?.query_row(params![scope.id, partition.0], |row| row.get(0)).map(uint)
}

/// Whether the job is in a line.
pub(super) fn has(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    offset: Offset,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM keylane_parked WHERE scope = ?1 AND part = ?2 AND offset = ?3";
    ours.prepare(tx, sql)?.exists(params![scope.id, partition.0, int(offset.0)])
}

/// Whether the key has a row, so that its line will be seen.
pub(super) fn is_stopped(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    key: &JobKey,
) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM keylane_stopped WHERE scope = ?1 AND part = ?2 AND key = ?3";
    ours.prepare(tx, sql)?.exists(params![scope.id, partition.0, key.as_bytes()])
}

/// Puts a job into the line of its key; again with what is known of it now.
pub(super) fn put(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    job: &JobWrite<SqliteStore>,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO keylane_parked
                   (scope, part, offset, key, job_id, value, headers, timestamp, size, attempts, since)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let columns = Columns::of(&job.job);
    let attempts = if matches!(job.write, Write::Park) { 0 } else { job.attempt.0 };
    let row = params![
        scope.id,
        partition.0,
        int(job.offset.0),
        job.job.key.as_bytes(),
        job.job.id.as_str(),
        columns.value.as_deref(),
        columns.headers,
        columns.timestamp,
        int(columns.size as u64),
        attempts,
        Timestamp::now().0
    ];
    ours.prepare(tx, sql)?.execute(row).map(drop)
}

/// Takes a job that is done out of its line, and the key's row with the last of it.
pub(super) fn take(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    offset: Offset,
    key: &JobKey,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM keylane_parked WHERE scope = ?1 AND part = ?2 AND offset = ?3";
    ours.prepare(tx, sql)?.execute(params![scope.id, partition.0, int(offset.0)])?;
    let sql = "DELETE FROM keylane_stopped WHERE scope = ?1 AND part = ?2 AND key = ?3 AND released = 1
               AND NOT EXISTS (SELECT 1 FROM keylane_parked AS p WHERE p.scope = ?1 AND p.part = ?2 AND p.key = ?3)";
    ours.prepare(tx, sql)?.execute(params![scope.id, partition.0, key.as_bytes()]).map(drop)
}

pub(super) fn line(session: &mut SqliteSession, partition: Partition, key: &JobKey) -> Result<Line, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    let doing = format!("cannot read the line of key '{key}' from the store");
    let sql = cannot(&doing);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(&sql)?;
    let place = params![scope.id, partition.0, key.as_bytes()];
    let read = || -> rusqlite::Result<Line> {
        let row = "SELECT version FROM keylane_stopped WHERE scope = ?1 AND part = ?2 AND key = ?3";
        let version = ours.prepare(&tx, row)?.query_row(place, |row| row.get(0)).optional()?.map_or(0, uint);
        let jobs =
            "SELECT offset, size FROM keylane_parked WHERE scope = ?1 AND part = ?2 AND key = ?3 ORDER BY offset";
        let jobs = ours
            .prepare(&tx, jobs)?
            .query_map(place, |row| Ok((Offset(uint(row.get(0)?)), row.get::<_, u32>(1)? as usize)))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Line { version, jobs })
    };
    read().map_err(&sql)
}

pub(super) fn jobs(
    session: &mut SqliteSession,
    partition: Partition,
    key: &JobKey,
    offsets: &[Offset],
) -> Result<Vec<ParkedJob>, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    let doing = format!("cannot read parked jobs of key '{key}' from the store");
    let sql = "SELECT value, headers, timestamp, job_id, attempts, since FROM keylane_parked
               WHERE scope = ?1 AND part = ?2 AND offset = ?3 AND key = ?4";
    let mut statement = ours.prepare(connection, sql).map_err(cannot(&doing))?;
    let mut found = Vec::new();
    for &offset in offsets {
        let place = params![scope.id, partition.0, int(offset.0), key.as_bytes()];
        let row = statement.query_row(place, |row| {
            let value: Option<Vec<u8>> = row.get(0)?;
            let columns =
                Columns { value: value.map(Into::into), headers: row.get(1)?, timestamp: row.get(2)?, size: 0 };
            Ok((columns, row.get::<_, String>(3)?, Attempt(row.get(4)?), Timestamp(row.get(5)?)))
        });
        let Some((columns, id, attempts, since)) = row.optional().map_err(cannot(&doing))? else { continue };
        let unreadable = || Error::Corrupt(Detail::new(format!("the parked job at offset {offset} cannot be read")));
        let record = columns.into_record(key).ok_or_else(unreadable)?;
        let id = id.parse().map_err(|_| unreadable())?;
        found.push(ParkedJob { stored: StoredRecord { offset, record }, id, attempts, since });
    }
    Ok(found)
}

pub(super) fn act(session: &mut SqliteSession, order: &LineOrder) -> Result<bool, Error> {
    let SqliteSession { connection, scope, ours, rules, .. } = session;
    let doing = format!("cannot change the line of key '{}' in the store", order.key);
    let sql = cannot(&doing);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
    let done = carry_out(&tx, ours, scope, order, rules.acts_on_what_was_read()).map_err(&sql)?;
    tx.commit().map_err(&sql)?;
    Ok(done)
}

fn carry_out(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    order: &LineOrder,
    conditional: bool,
) -> rusqlite::Result<bool> {
    let place = params![scope.id, order.partition.0, order.key.as_bytes()];
    let read = "SELECT version, released,
                    (SELECT count(*) FROM keylane_parked WHERE scope = ?1 AND part = ?2 AND key = ?3),
                    (SELECT max(offset) FROM keylane_parked WHERE scope = ?1 AND part = ?2 AND key = ?3)
                FROM keylane_stopped WHERE scope = ?1 AND part = ?2 AND key = ?3";
    let row = ours.prepare(tx, read)?.query_row(place, |row| {
        Ok((uint(row.get(0)?), row.get::<_, bool>(1)?, uint(row.get(2)?), row.get::<_, Option<i64>>(3)?.map(uint)))
    });
    let Some((version, released, jobs, last)) = row.optional()? else { return Ok(false) };
    let is_as_read = version == order.version && order.last.is_none_or(|read| Some(read.0) == last);
    // What was released is its owner's: that one may be running it.
    if conditional && (!is_as_read || released) {
        return Ok(false);
    }
    // Its older jobs wait where an earlier count put them.
    let older = "SELECT 1 FROM keylane_stopped WHERE scope = ?1 AND part = ?2 AND key = ?3";
    for place in earlier_places(&order.key, &scope.former, order.partition) {
        if conditional && ours.prepare(tx, older)?.exists(params![scope.id, place.0, order.key.as_bytes()])? {
            return Ok(false);
        }
    }
    if order.act == LineAct::Drop {
        let sql = "DELETE FROM keylane_parked WHERE scope = ?1 AND part = ?2 AND key = ?3";
        ours.prepare(tx, sql)?.execute(place)?;
    }
    let next = stopped::next_version(tx, ours, scope)?;
    let sql = "UPDATE keylane_stopped SET released = 1, version = ?4 WHERE scope = ?1 AND part = ?2 AND key = ?3";
    ours.prepare(tx, sql)?.execute(params![scope.id, order.partition.0, order.key.as_bytes(), next])?;
    audit(tx, ours, scope, &order.who, order.act.as_str(), &order.why, &order.detail(jobs, last))?;
    Ok(true)
}
