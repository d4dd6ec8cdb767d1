//! Dead letters. A job becomes one with its marker, in one fenced transaction; a person's act takes it away again.

use keylane_producer::{Attempt, JobKey, Offset, Partition, Timestamp};
use tokio_postgres::{Row, types::Type};

use super::{
    PostgresSession, PostgresStore, audit, count,
    fault::{SqlError, cannot},
    int,
    scope::Scope,
    steer, stopped, text, uint,
    wire::{Param, Transaction},
};
use crate::{
    error::{Detail, Error},
    store::{DeadAct, DeadActed, DeadJob, DeadLetter, DeadOrder, JobWrite, StopReason, StopRule, line::Columns},
};

const COLUMNS: &str =
    "n, part, \"offset\", key, job_id, attempts, rule, reason, (extract(epoch FROM at) * 1000)::bigint,
                       size, d.incarnation <> s.incarnation";

/// How many there are of the partition.
pub(super) fn held(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<u64, SqlError> {
    let sql = "SELECT count(*) FROM keylane.dead WHERE scope = $1 AND part = $2";
    let rows = tx.query(sql, &[(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)])?;
    Ok(uint(rows[0].get(0)))
}

/// Puts the job there; the caller marks it.
pub(super) fn bury(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    partition: Partition,
    job: &JobWrite<PostgresStore>,
    reason: &StopReason,
) -> Result<(), SqlError> {
    let sql = "INSERT INTO keylane.dead (scope, part, \"offset\", incarnation, key, job_id, value, headers, \"timestamp\", size,
                                         attempts, rule, reason)
               SELECT scope, $2, $3, incarnation, $4, $5, $6, $7, $8, $9, $10, $11, $12
               FROM keylane.scope WHERE scope = $1";
    let columns = Columns::of(&job.job);
    let (part, offset) = (count(partition.0), int(job.offset.0));
    let row: [Param<'_>; 12] = [
        (&scope.id, Type::INT8),
        (&part, Type::INT4),
        (&offset, Type::INT8),
        (&job.job.key.as_bytes(), Type::BYTEA),
        (&job.job.id.as_str(), Type::TEXT),
        (&columns.value.as_deref(), Type::BYTEA),
        (&columns.headers, Type::BYTEA),
        (&columns.timestamp, Type::INT8),
        (&i32::try_from(columns.size).unwrap_or(i32::MAX), Type::INT4),
        (&count(job.attempt.0), Type::INT4),
        (&reason.rule.as_str(), Type::TEXT),
        (&text(&reason.text), Type::TEXT),
    ];
    tx.execute(sql, &row)?;
    for table in ["suspect", "skip"] {
        let sql = format!("DELETE FROM keylane.{table} WHERE scope = $1 AND part = $2 AND \"offset\" = $3");
        tx.execute(&sql, &[(&scope.id, Type::INT8), (&part, Type::INT4), (&offset, Type::INT8)])?;
    }
    Ok(())
}

pub(super) fn letters(session: &mut PostgresSession, after: u64, limit: usize) -> Result<Vec<DeadLetter>, Error> {
    let PostgresSession { wire, scope, .. } = session;
    let sql = format!(
        "SELECT {COLUMNS} FROM keylane.dead AS d JOIN keylane.scope AS s USING (scope)
         WHERE scope = $1 AND n > $2 ORDER BY n LIMIT $3"
    );
    let params: [Param<'_>; 3] = [(&scope.id, Type::INT8), (&int(after), Type::INT8), (&int(limit as u64), Type::INT8)];
    let rows = wire.begin_picture(READING)?.query(&sql, &params).map_err(cannot(READING))?;
    rows.iter().map(|row| letter(row).map_err(unreadable)).collect()
}

pub(super) fn job(session: &mut PostgresSession, number: u64) -> Result<Option<DeadJob>, Error> {
    let PostgresSession { wire, scope, .. } = session;
    find(&mut wire.begin_picture(READING)?, scope, number)
}

fn find(tx: &mut Transaction<'_>, scope: &Scope, number: u64) -> Result<Option<DeadJob>, Error> {
    let sql = format!(
        "SELECT {COLUMNS}, value, headers, \"timestamp\" FROM keylane.dead AS d JOIN keylane.scope AS s USING (scope)
         WHERE scope = $1 AND n = $2"
    );
    let rows = tx.query(&sql, &[(&scope.id, Type::INT8), (&int(number), Type::INT8)]).map_err(cannot(READING))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let letter = letter(row).map_err(unreadable)?;
    let value: Option<Vec<u8>> = row.get(11);
    let columns = Columns { value: value.map(Into::into), headers: row.get(12), timestamp: row.get(13), size: 0 };
    let record =
        columns.into_record(&letter.key).ok_or_else(|| unreadable("its headers are not of our form".into()))?;
    Ok(Some(DeadJob { letter, record }))
}

const READING: &str = "cannot read the dead letters from the store";

fn unreadable(why: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::Corrupt(Detail::new("a dead letter in the store cannot be read").because(why))
}

fn letter(row: &Row) -> Result<DeadLetter, Box<dyn std::error::Error + Send + Sync>> {
    let rule: &str = row.get(6);
    let rule = StopRule::parse(rule).ok_or_else(|| format!("'{rule}' is no rule that makes a job leave"))?;
    Ok(DeadLetter {
        number: uint(row.get(0)),
        partition: Partition(row.get::<_, i32>(1).unsigned_abs()),
        offset: Offset(uint(row.get(2))),
        key: JobKey::try_from(row.get::<_, &[u8]>(3))?,
        id: row.get::<_, &str>(4).parse()?,
        attempts: Attempt(row.get::<_, i32>(5).unsigned_abs()),
        reason: StopReason { rule, text: row.get::<_, &str>(7).into() },
        at: Timestamp(row.get(8)),
        size: u64::from(row.get::<_, i32>(9).unsigned_abs()),
        outlived: row.get(10),
    })
}

pub(super) fn act(session: &mut PostgresSession, order: &DeadOrder) -> Result<DeadActed, Error> {
    let PostgresSession { wire, scope, .. } = session;
    let doing = format!("cannot act on dead letter {} in the store", order.number);
    let sql = cannot(&doing);
    let mut tx = wire.begin(&doing)?;
    let Some(DeadJob { letter, .. }) = find(&mut tx, scope, order.number)? else { return Ok(DeadActed::Gone) };
    if order.act == DeadAct::Replay && letter.outlived {
        return Ok(DeadActed::Outlived);
    }
    // Its owner may be at the end of the key's line, and take the key's row away.
    steer::hold_up_its_owner(&mut tx, scope, letter.partition).map_err(&sql)?;
    let gone = "DELETE FROM keylane.dead WHERE scope = $1 AND n = $2
                RETURNING part, \"offset\", key, job_id, value, headers, \"timestamp\", size, attempts";
    let replayed = format!(
        "WITH d AS ({gone}) INSERT INTO keylane.parked (scope, part, \"offset\", key, job_id, value, headers, \"timestamp\", size, attempts)
         SELECT $1, d.* FROM d"
    );
    let which = if order.act == DeadAct::Replay { replayed.as_str() } else { gone };
    let taken = tx.execute(which, &[(&scope.id, Type::INT8), (&int(order.number), Type::INT8)]).map_err(&sql)?;
    // Somebody else's act was first.
    if taken == 0 {
        return Ok(DeadActed::Gone);
    }
    let acted = match order.act {
        DeadAct::Replay => stopped::let_go(&mut tx, scope, &letter).map_err(&sql)?,
        DeadAct::Drop => DeadActed::Done,
    };
    audit(&mut tx, scope, &order.who, order.act.as_str(), &order.why, &letter.detail()).map_err(&sql)?;
    tx.commit().map_err(&sql)?;
    Ok(acted)
}
