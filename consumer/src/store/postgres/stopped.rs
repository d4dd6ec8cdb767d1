//! Keys that stand still, and their release. A row's version comes from a counter of the scope, so that a key which
//! stops, goes on and stops again never has a version twice: a release that was decided on an old picture does nothing.

use keylane_producer::{Attempt, JobKey, Offset, Partition, Timestamp};
use tokio_postgres::{Row, types::Type};

use super::{
    PostgresStore, count,
    fault::{SqlError, cannot},
    int,
    scope::Scope,
    text, uint,
    wire::{Param, Transaction},
};
use crate::{
    error::{Detail, Error},
    store::{DeadActed, DeadLetter, JobWrite, StopReason, StopRule, StoppedKey},
};

const COLUMNS: &str = "part, key, \"offset\", job_id, attempts, rule, reason,
                       (extract(epoch FROM since) * 1000)::bigint, version, released,
    (SELECT count(*) FROM keylane.parked AS p WHERE p.scope = s.scope AND p.part = s.part AND p.key = s.key),
    (SELECT max(p.\"offset\") FROM keylane.parked AS p WHERE p.scope = s.scope AND p.part = s.part AND p.key = s.key)";

/// Stops the job's key; the caller puts the job into its line. Said again for the same job (the first answer was lost) it changes nothing.
pub(super) fn stop(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    partition: Partition,
    job: &JobWrite<PostgresStore>,
    reason: &StopReason,
) -> Result<(), SqlError> {
    let (part, key, offset) = (count(partition.0), job.job.key.as_bytes(), int(job.offset.0));
    let same = "SELECT 1 FROM keylane.stopped
                WHERE scope = $1 AND part = $2 AND key = $3 AND \"offset\" = $4 AND NOT released";
    let place: [Param<'_>; 4] =
        [(&scope.id, Type::INT8), (&part, Type::INT4), (&key, Type::BYTEA), (&offset, Type::INT8)];
    if !tx.query(same, &place)?.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO keylane.stopped (scope, part, key, \"offset\", job_id, attempts, rule, reason, version)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
               ON CONFLICT (scope, part, key) DO UPDATE
               SET \"offset\" = excluded.\"offset\", job_id = excluded.job_id, attempts = excluded.attempts,
                   rule = excluded.rule, reason = excluded.reason, since = now(), version = excluded.version, released = false";
    let text = text(&reason.text);
    let version = next_version(tx, scope)?;
    let row: [Param<'_>; 9] = [
        (&scope.id, Type::INT8),
        (&part, Type::INT4),
        (&key, Type::BYTEA),
        (&offset, Type::INT8),
        (&job.job.id.as_str(), Type::TEXT),
        (&count(job.attempt.0), Type::INT4),
        (&reason.rule.as_str(), Type::TEXT),
        (&text, Type::TEXT),
        (&version, Type::INT8),
    ];
    tx.execute(sql, &row)?;
    let sql = "DELETE FROM keylane.suspect WHERE scope = $1 AND part = $2 AND \"offset\" = $3";
    tx.execute(sql, &[(&scope.id, Type::INT8), (&part, Type::INT4), (&offset, Type::INT8)]).map(drop)
}

/// Takes away the rows of keys whose lines are empty, if they are still the rows that were released.
pub(super) fn resume(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    partition: Partition,
    resumed: &[(JobKey, u64)],
) -> Result<(), SqlError> {
    if resumed.is_empty() {
        return Ok(());
    }
    let sql = "DELETE FROM keylane.stopped AS s USING unnest($3::bytea[], $4::bigint[]) AS r (key, version)
               WHERE s.scope = $1 AND s.part = $2 AND s.key = r.key AND s.version = r.version
                 AND NOT EXISTS (SELECT FROM keylane.parked AS p WHERE p.scope = s.scope AND p.part = s.part AND p.key = s.key)";
    let keys: Vec<&[u8]> = resumed.iter().map(|(key, _)| key.as_bytes()).collect();
    let versions: Vec<i64> = resumed.iter().map(|(_, version)| int(*version)).collect();
    let params: [Param<'_>; 4] = [
        (&scope.id, Type::INT8),
        (&count(partition.0), Type::INT4),
        (&keys, Type::BYTEA_ARRAY),
        (&versions, Type::INT8_ARRAY),
    ];
    tx.execute(sql, &params).map(drop)
}

/// Keys of these partitions that were released, or that a person wants to stand still.
pub(super) fn steered(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    parts: &[i32],
) -> Result<Vec<(Partition, StoppedKey)>, Error> {
    let which = "part = ANY ($2) AND (released OR rule = 'paused')";
    select(tx, scope, which, &[(&scope.id, Type::INT8), (&parts, Type::INT4_ARRAY)])
}

/// A dead letter went back into its key's line: if the key does not stand still, the line is to be run.
pub(super) fn let_go(tx: &mut Transaction<'_>, scope: &Scope, letter: &DeadLetter) -> Result<DeadActed, SqlError> {
    let version = next_version(tx, scope)?;
    let sql = "INSERT INTO keylane.stopped AS s (scope, part, key, \"offset\", job_id, attempts, rule, reason, version, released)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, true)
               ON CONFLICT (scope, part, key) DO UPDATE SET version = excluded.version
               RETURNING released";
    let row: [Param<'_>; 9] = [
        (&scope.id, Type::INT8),
        (&count(letter.partition.0), Type::INT4),
        (&letter.key.as_bytes(), Type::BYTEA),
        (&int(letter.offset.0), Type::INT8),
        (&letter.id.as_str(), Type::TEXT),
        (&count(letter.attempts.0), Type::INT4),
        (&letter.reason.rule.as_str(), Type::TEXT),
        (&&*letter.reason.text, Type::TEXT),
        (&version, Type::INT8),
    ];
    let goes = tx.query(sql, &row)?.first().is_some_and(|row| row.get(0));
    Ok(if goes { DeadActed::Done } else { DeadActed::InLine })
}

/// A job was taken out of the line of a key that stands still. If it was the last, and no person wants the key to stand, it goes on.
pub(super) fn left(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    partition: Partition,
    key: &JobKey,
) -> Result<(), SqlError> {
    let version = next_version(tx, scope)?;
    let sql = "UPDATE keylane.stopped SET version = $4, released = rule <> 'paused' AND NOT EXISTS
                   (SELECT FROM keylane.parked AS p WHERE p.scope = $1 AND p.part = $2 AND p.key = $3)
               WHERE scope = $1 AND part = $2 AND key = $3";
    let params: [Param<'_>; 4] = [
        (&scope.id, Type::INT8),
        (&count(partition.0), Type::INT4),
        (&key.as_bytes(), Type::BYTEA),
        (&version, Type::INT8),
    ];
    tx.execute(sql, &params).map(drop)
}

/// Keys of the partition that have a row, released ones too.
pub(super) fn of(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<Vec<StoppedKey>, Error> {
    let place: [Param<'_>; 2] = [(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)];
    let found = select(tx, scope, "part = $2", &place)?;
    Ok(found.into_iter().map(|(_, key)| key).collect())
}

/// All keys that have a row, released ones too.
pub(super) fn all(tx: &mut Transaction<'_>, scope: &Scope) -> Result<Vec<(Partition, StoppedKey)>, Error> {
    select(tx, scope, "true", &[(&scope.id, Type::INT8)])
}

/// A number that rises whenever a key stops or goes on.
pub(super) fn versions(tx: &mut Transaction<'_>, scope: &Scope) -> Result<Option<i64>, SqlError> {
    let rows = tx.query("SELECT versions FROM keylane.scope WHERE scope = $1", &[(&scope.id, Type::INT8)])?;
    Ok(rows.first().map(|row| row.get(0)))
}

fn select(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    which: &str,
    params: &[Param<'_>],
) -> Result<Vec<(Partition, StoppedKey)>, Error> {
    let doing = format!("cannot read the stopped keys of queue '{}' from the store", scope.queue);
    let sql =
        format!("SELECT {COLUMNS} FROM keylane.stopped AS s WHERE scope = $1 AND {which} ORDER BY part, \"offset\"");
    let rows = tx.query(&sql, params).map_err(cannot(&doing))?;
    let read = |row: &Row| {
        let partition = Partition(row.get::<_, i32>(0).unsigned_abs());
        let key = read(row).map_err(|e| {
            Error::Corrupt(Detail::new(format!("a stopped key of partition {partition} cannot be read")).because(e))
        })?;
        Ok((partition, key))
    };
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<StoppedKey, Box<dyn std::error::Error + Send + Sync>> {
    let rule: &str = row.get(5);
    Ok(StoppedKey {
        key: JobKey::try_from(row.get::<_, &[u8]>(1))?,
        offset: Offset(uint(row.get(2))),
        id: Some(row.get::<_, &str>(3)).filter(|id| !id.is_empty()).map(str::parse).transpose()?,
        attempts: Attempt(row.get::<_, i32>(4).unsigned_abs()),
        reason: StopReason {
            rule: StopRule::parse(rule).ok_or_else(|| format!("'{rule}' is no rule that stops a key"))?,
            text: row.get::<_, &str>(6).into(),
        },
        since: Timestamp(row.get(7)),
        version: uint(row.get(8)),
        released: row.get(9),
        jobs: uint(row.get(10)),
        last: Offset(row.get::<_, Option<i64>>(11).map_or(0, uint)),
    })
}

pub(super) fn next_version(tx: &mut Transaction<'_>, scope: &Scope) -> Result<i64, SqlError> {
    let sql = "UPDATE keylane.scope SET versions = versions + 1 WHERE scope = $1 RETURNING versions";
    Ok(tx.query(sql, &[(&scope.id, Type::INT8)])?.first().map_or(0, |row| row.get(0)))
}
