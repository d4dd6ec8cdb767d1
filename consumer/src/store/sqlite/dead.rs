//! Dead letters. A job becomes one with its marker, in one fenced transaction; a person's act takes it away again.

use keylane_producer::{Attempt, JobKey, Offset, Partition, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::{SqliteSession, SqliteStore, audit, cannot, guard::Ours, int, scope::Scope, stopped, uint};
use crate::{
    error::{Detail, Error},
    store::{DeadAct, DeadActed, DeadJob, DeadLetter, DeadOrder, JobWrite, StopReason, StopRule, cut, line::Columns},
};

const COLUMNS: &str = "n, part, offset, key, job_id, attempts, rule, reason, at, size, d.incarnation <> s.incarnation";

/// How many there are of the partition.
pub(super) fn held(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM keylane_dead WHERE scope = ?1 AND part = ?2";
    ours.prepare(tx, sql)?.query_row(params![scope.id, partition.0], |row| row.get(0)).map(uint)
}

/// Puts the job there; the caller marks it.
pub(super) fn bury(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    job: &JobWrite<SqliteStore>,
    reason: &StopReason,
) -> rusqlite::Result<()> {
    let sql =
        "INSERT INTO keylane_dead (scope, part, offset, incarnation, key, job_id, value, headers, timestamp, size,
                                         attempts, rule, reason, at)
               SELECT scope, ?2, ?3, incarnation, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13
               FROM keylane_scope WHERE scope = ?1";
    let columns = Columns::of(&job.job);
    ours.prepare(tx, sql)?.execute(params![
        scope.id,
        partition.0,
        int(job.offset.0),
        job.job.key.as_bytes(),
        job.job.id.as_str(),
        columns.value.as_deref(),
        columns.headers,
        columns.timestamp,
        int(columns.size as u64),
        job.attempt.0,
        reason.rule.as_str(),
        cut(&reason.text),
        Timestamp::now().0
    ])?;
    for table in ["keylane_suspect", "keylane_skip"] {
        let sql = format!("DELETE FROM {table} WHERE scope = ?1 AND part = ?2 AND offset = ?3");
        ours.prepare(tx, &sql)?.execute(params![scope.id, partition.0, int(job.offset.0)])?;
    }
    Ok(())
}

pub(super) fn letters(session: &mut SqliteSession, after: u64, limit: usize) -> Result<Vec<DeadLetter>, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    let sql = format!(
        "SELECT {COLUMNS} FROM keylane_dead AS d JOIN keylane_scope AS s USING (scope)
         WHERE scope = ?1 AND n > ?2 ORDER BY n LIMIT ?3"
    );
    let read = || {
        ours.prepare(connection, &sql)?
            .query_map(params![scope.id, int(after), int(limit as u64)], |row| Ok(letter(row)))?
            .collect::<rusqlite::Result<Vec<_>>>()
    };
    read().map_err(cannot(READING))?.into_iter().map(|row| row.map_err(unreadable)).collect()
}

pub(super) fn job(session: &mut SqliteSession, number: u64) -> Result<Option<DeadJob>, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    find(connection, ours, scope, number)
}

fn find(connection: &Connection, ours: &Ours, scope: &Scope, number: u64) -> Result<Option<DeadJob>, Error> {
    let sql = format!(
        "SELECT {COLUMNS}, value, headers, timestamp FROM keylane_dead AS d JOIN keylane_scope AS s USING (scope)
         WHERE scope = ?1 AND n = ?2"
    );
    let read = || {
        ours.prepare(connection, &sql)?
            .query_row(params![scope.id, int(number)], |row| {
                let value: Option<Vec<u8>> = row.get(11)?;
                let value = value.map(Into::into);
                Ok((letter(row), Columns { value, headers: row.get(12)?, timestamp: row.get(13)?, size: 0 }))
            })
            .optional()
    };
    let Some((letter, columns)) = read().map_err(cannot(READING))? else { return Ok(None) };
    let letter = letter.map_err(unreadable)?;
    let record =
        columns.into_record(&letter.key).ok_or_else(|| unreadable("its headers are not of our form".into()))?;
    Ok(Some(DeadJob { letter, record }))
}

const READING: &str = "cannot read the dead letters from the store";

fn unreadable(why: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::Corrupt(Detail::new("a dead letter in the store cannot be read").because(why))
}

fn letter(row: &Row<'_>) -> Result<DeadLetter, Box<dyn std::error::Error + Send + Sync>> {
    let (key, id, rule, text): (Vec<u8>, String, String, String) = (row.get(3)?, row.get(4)?, row.get(6)?, row.get(7)?);
    let rule = StopRule::parse(&rule).ok_or_else(|| format!("'{rule}' is no rule that makes a job leave"))?;
    Ok(DeadLetter {
        number: uint(row.get(0)?),
        partition: Partition(row.get(1)?),
        offset: Offset(uint(row.get(2)?)),
        key: JobKey::try_from(key.as_slice())?,
        id: id.parse()?,
        attempts: Attempt(row.get(5)?),
        reason: StopReason { rule, text: text.into() },
        at: Timestamp(row.get(8)?),
        size: uint(row.get(9)?),
        outlived: row.get(10)?,
    })
}

pub(super) fn act(session: &mut SqliteSession, order: &DeadOrder) -> Result<DeadActed, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    let doing = format!("cannot act on dead letter {} in the store", order.number);
    let sql = cannot(&doing);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
    let Some(DeadJob { letter, .. }) = find(&tx, ours, scope, order.number)? else { return Ok(DeadActed::Gone) };
    let acted = match order.act {
        DeadAct::Replay if letter.outlived => return Ok(DeadActed::Outlived),
        DeadAct::Replay => replay(&tx, ours, scope, &letter).map_err(&sql)?,
        DeadAct::Drop => DeadActed::Done,
    };
    ours.prepare(&tx, "DELETE FROM keylane_dead WHERE n = ?1")
        .and_then(|mut row| row.execute([int(order.number)]))
        .map_err(&sql)?;
    audit(&tx, ours, scope, &order.who, order.act.as_str(), &order.why, &letter.detail()).map_err(&sql)?;
    tx.commit().map_err(&sql)?;
    Ok(acted)
}

/// Into its key's line, in front of what came after it. Its marker stays: it says that the job is in the line now.
fn replay(tx: &Connection, ours: &Ours, scope: &Scope, letter: &DeadLetter) -> rusqlite::Result<DeadActed> {
    let sql = "INSERT INTO keylane_parked (scope, part, offset, key, job_id, value, headers, timestamp, size, attempts, since)
               SELECT scope, part, offset, key, job_id, value, headers, timestamp, size, attempts, ?2
               FROM keylane_dead WHERE n = ?1";
    ours.prepare(tx, sql)?.execute(params![int(letter.number), Timestamp::now().0])?;
    stopped::let_go(tx, ours, scope, letter)
}
