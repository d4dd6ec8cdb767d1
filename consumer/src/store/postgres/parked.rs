//! The lines: jobs of keys that stand still. A job comes in with its marker and leaves with its effect, each in one fenced
//! transaction; a person's act is conditional on the row and on the last job that were read.

use bytes::Bytes;
use keylane_producer::{Attempt, JobKey, Offset, Partition, StoredRecord, Timestamp};
use tokio_postgres::types::Type;

use super::{
    PostgresSession, PostgresStore, audit, count,
    fault::{SqlError, cannot},
    int,
    scope::Scope,
    stopped, uint,
    wire::{Param, Transaction},
};
use crate::{
    error::{Detail, Error},
    store::{
        JobWrite, Line, LineAct, LineOrder, ParkedJob, Write,
        line::{Columns, earlier_places},
    },
};

/// How many jobs the lines of the partition hold.
pub(super) fn held(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<u64, SqlError> {
    let sql = "SELECT count(*) FROM keylane.parked WHERE scope = $1 AND part = $2";
    let rows = tx.query(sql, &[(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)])?;
    Ok(uint(rows[0].get(0)))
}

/// Whether the job is in a line.
pub(super) fn has(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    partition: Partition,
    offset: Offset,
) -> Result<bool, SqlError> {
    let sql = "SELECT 1 FROM keylane.parked WHERE scope = $1 AND part = $2 AND \"offset\" = $3";
    let (part, offset) = (count(partition.0), int(offset.0));
    let place: [Param<'_>; 3] = [(&scope.id, Type::INT8), (&part, Type::INT4), (&offset, Type::INT8)];
    Ok(!tx.query(sql, &place)?.is_empty())
}

/// Whether the key has a row, so that its line will be seen.
pub(super) fn is_stopped(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    partition: Partition,
    key: &JobKey,
) -> Result<bool, SqlError> {
    let sql = "SELECT 1 FROM keylane.stopped WHERE scope = $1 AND part = $2 AND key = $3";
    let (part, key) = (count(partition.0), key.as_bytes());
    let place: [Param<'_>; 3] = [(&scope.id, Type::INT8), (&part, Type::INT4), (&key, Type::BYTEA)];
    Ok(!tx.query(sql, &place)?.is_empty())
}

/// Takes a job that is done out of its line, and the key's row with the last of it.
pub(super) fn take(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    partition: Partition,
    offset: Offset,
    key: &JobKey,
) -> Result<(), SqlError> {
    let (part, offset, key) = (count(partition.0), int(offset.0), key.as_bytes());
    let sql = "DELETE FROM keylane.parked WHERE scope = $1 AND part = $2 AND \"offset\" = $3";
    tx.execute(sql, &[(&scope.id, Type::INT8), (&part, Type::INT4), (&offset, Type::INT8)])?;
    let sql = "DELETE FROM keylane.stopped AS s WHERE scope = $1 AND part = $2 AND key = $3 AND released
               AND NOT EXISTS (SELECT FROM keylane.parked AS p
                               WHERE p.scope = s.scope AND p.part = s.part AND p.key = s.key)";
    tx.execute(sql, &[(&scope.id, Type::INT8), (&part, Type::INT4), (&key, Type::BYTEA)]).map(drop)
}

/// Jobs that one transaction parks, as columns.
#[derive(Default)]
pub(super) struct NewParked {
    parts: Vec<i32>,
    offsets: Vec<i64>,
    keys: Vec<Vec<u8>>,
    ids: Vec<String>,
    values: Vec<Option<Bytes>>,
    headers: Vec<Option<Vec<u8>>>,
    timestamps: Vec<i64>,
    sizes: Vec<i32>,
    attempts: Vec<i32>,
}

impl NewParked {
    pub(super) fn add(&mut self, partition: Partition, job: &JobWrite<PostgresStore>) {
        let columns = Columns::of(&job.job);
        self.parts.push(count(partition.0));
        self.offsets.push(int(job.offset.0));
        self.keys.push(job.job.key.as_bytes().to_vec());
        self.ids.push(job.job.id.as_str().to_owned());
        self.values.push(columns.value);
        self.headers.push(columns.headers);
        self.timestamps.push(columns.timestamp);
        self.sizes.push(i32::try_from(columns.size).unwrap_or(i32::MAX));
        self.attempts.push(if matches!(job.write, Write::Park) { 0 } else { count(job.attempt.0) });
    }

    /// Puts all of them into their lines; one that is there already, with what is known of it now.
    pub(super) fn insert(&self, tx: &mut Transaction<'_>, scope: &Scope) -> Result<(), SqlError> {
        if self.parts.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO keylane.parked
                       (scope, part, \"offset\", key, job_id, value, headers, \"timestamp\", size, attempts)
                   SELECT $1, new.* FROM unnest($2::int[], $3::bigint[], $4::bytea[], $5::text[], $6::bytea[],
                                                $7::bytea[], $8::bigint[], $9::int[], $10::int[]) AS new
                   ON CONFLICT (scope, part, \"offset\") DO UPDATE SET attempts = excluded.attempts, since = now()";
        let values: Vec<Option<&[u8]>> = self.values.iter().map(Option::as_deref).collect();
        let params: [Param<'_>; 10] = [
            (&scope.id, Type::INT8),
            (&self.parts, Type::INT4_ARRAY),
            (&self.offsets, Type::INT8_ARRAY),
            (&self.keys, Type::BYTEA_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&values, Type::BYTEA_ARRAY),
            (&self.headers, Type::BYTEA_ARRAY),
            (&self.timestamps, Type::INT8_ARRAY),
            (&self.sizes, Type::INT4_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
        ];
        tx.execute(sql, &params).map(drop)
    }
}

pub(super) fn line(session: &mut PostgresSession, partition: Partition, key: &JobKey) -> Result<Line, Error> {
    let PostgresSession { wire, scope, .. } = session;
    let doing = format!("cannot read the line of key '{key}' from the store");
    let (part, bytes) = (count(partition.0), key.as_bytes());
    let place: [Param<'_>; 3] = [(&scope.id, Type::INT8), (&part, Type::INT4), (&bytes, Type::BYTEA)];
    let mut tx = wire.begin_picture(&doing)?;
    let row = "SELECT version FROM keylane.stopped WHERE scope = $1 AND part = $2 AND key = $3";
    let row = tx.query(row, &place).map_err(cannot(&doing))?;
    let jobs = "SELECT \"offset\", size FROM keylane.parked WHERE scope = $1 AND part = $2 AND key = $3
                ORDER BY \"offset\"";
    let jobs = tx.query(jobs, &place).map_err(cannot(&doing))?;
    let size = |row: &tokio_postgres::Row| row.get::<_, i32>(1).unsigned_abs() as usize;
    Ok(Line {
        version: row.first().map_or(0, |row| uint(row.get(0))),
        jobs: jobs.iter().map(|row| (Offset(uint(row.get(0))), size(row))).collect(),
    })
}

pub(super) fn jobs(
    session: &mut PostgresSession,
    partition: Partition,
    key: &JobKey,
    offsets: &[Offset],
) -> Result<Vec<ParkedJob>, Error> {
    let PostgresSession { wire, scope, .. } = session;
    let doing = format!("cannot read parked jobs of key '{key}' from the store");
    let sql = "SELECT \"offset\", value, headers, \"timestamp\", job_id, attempts,
                      (extract(epoch FROM since) * 1000)::bigint
               FROM keylane.parked WHERE scope = $1 AND part = $2 AND key = $3 AND \"offset\" = ANY ($4)
               ORDER BY \"offset\"";
    let offsets: Vec<i64> = offsets.iter().map(|offset| int(offset.0)).collect();
    let (part, bytes) = (count(partition.0), key.as_bytes());
    let place: [Param<'_>; 4] =
        [(&scope.id, Type::INT8), (&part, Type::INT4), (&bytes, Type::BYTEA), (&offsets, Type::INT8_ARRAY)];
    let rows = wire.begin_picture(&doing)?.query(sql, &place).map_err(cannot(&doing))?;
    let job = |row: &tokio_postgres::Row| {
        let offset = Offset(uint(row.get(0)));
        let unreadable = || Error::Corrupt(Detail::new(format!("the parked job at offset {offset} cannot be read")));
        let value: Option<Vec<u8>> = row.get(1);
        let columns = Columns { value: value.map(Into::into), headers: row.get(2), timestamp: row.get(3), size: 0 };
        Ok(ParkedJob {
            stored: StoredRecord { offset, record: columns.into_record(key).ok_or_else(unreadable)? },
            id: row.get::<_, &str>(4).parse().map_err(|_| unreadable())?,
            attempts: Attempt(row.get::<_, i32>(5).unsigned_abs()),
            since: Timestamp(row.get(6)),
        })
    };
    rows.iter().map(job).collect()
}

pub(super) fn act(session: &mut PostgresSession, order: &LineOrder) -> Result<bool, Error> {
    let PostgresSession { wire, scope, .. } = session;
    let doing = format!("cannot change the line of key '{}' in the store", order.key);
    let mut tx = wire.begin(&doing)?;
    let done = carry_out(&mut tx, scope, order).map_err(cannot(&doing))?;
    tx.commit().map_err(cannot(&doing))?;
    Ok(done)
}

fn carry_out(tx: &mut Transaction<'_>, scope: &Scope, order: &LineOrder) -> Result<bool, SqlError> {
    let (part, bytes) = (count(order.partition.0), order.key.as_bytes());
    let place: [Param<'_>; 3] = [(&scope.id, Type::INT8), (&part, Type::INT4), (&bytes, Type::BYTEA)];
    let row = "SELECT version, released FROM keylane.stopped WHERE scope = $1 AND part = $2 AND key = $3 FOR UPDATE";
    let row = tx.query(row, &place)?;
    let Some((version, released)) = row.first().map(|row| (uint(row.get(0)), row.get::<_, bool>(1))) else {
        return Ok(false);
    };
    let jobs = "SELECT count(*), max(\"offset\") FROM keylane.parked WHERE scope = $1 AND part = $2 AND key = $3";
    let jobs = tx.query(jobs, &place)?;
    let (jobs, last) = (uint(jobs[0].get(0)), jobs[0].get::<_, Option<i64>>(1).map(uint));
    let is_as_read = version == order.version && order.last.is_none_or(|read| Some(read.0) == last);
    // What was released is its owner's: that one may be running it.
    if !is_as_read || released {
        return Ok(false);
    }
    // Its older jobs wait where an earlier count put them.
    let older = "SELECT 1 FROM keylane.stopped WHERE scope = $1 AND part = $2 AND key = $3";
    for place in earlier_places(&order.key, &scope.former, order.partition) {
        let place: [Param<'_>; 3] = [(&scope.id, Type::INT8), (&count(place.0), Type::INT4), (&bytes, Type::BYTEA)];
        if !tx.query(older, &place)?.is_empty() {
            return Ok(false);
        }
    }
    if order.act == LineAct::Drop {
        // Up to the last that was read: one that its owner puts there meanwhile stays.
        let sql = "DELETE FROM keylane.parked WHERE scope = $1 AND part = $2 AND key = $3 AND \"offset\" <= $4";
        let up_to = last.map_or(-1, int);
        let which: [Param<'_>; 4] =
            [(&scope.id, Type::INT8), (&part, Type::INT4), (&bytes, Type::BYTEA), (&up_to, Type::INT8)];
        tx.execute(sql, &which)?;
    }
    let next = stopped::next_version(tx, scope)?;
    let sql = "UPDATE keylane.stopped SET released = true, version = $4 WHERE scope = $1 AND part = $2 AND key = $3";
    tx.execute(sql, &[(&scope.id, Type::INT8), (&part, Type::INT4), (&bytes, Type::BYTEA), (&next, Type::INT8)])?;
    audit(tx, scope, &order.who, order.act.as_str(), &order.why, &order.detail(jobs, last))?;
    Ok(true)
}
