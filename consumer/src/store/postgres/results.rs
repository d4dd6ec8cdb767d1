//! Results: written together in one statement, read back one by one.

use std::ops::ControlFlow;

use bytes::Bytes;
use keylane_producer::{Attempt, JobKey, Offset, Partition, Timestamp};
use serde::de::IgnoredAny;
use tokio_postgres::{Row, types::Type};

use super::{
    PostgresStore, count,
    fault::{SqlError, cannot},
    int, schema,
    scope::Scope,
    uint,
    wire::{Param, Transaction},
};
use crate::{
    error::{Detail, Error},
    store::{JobWrite, ResultRow, ResultsOf},
};

/// Results of one transaction, as columns.
#[derive(Default)]
pub(super) struct NewResults {
    jobs: Vec<usize>,
    parts: Vec<i32>,
    offsets: Vec<i64>,
    keys: Vec<Vec<u8>>,
    ids: Vec<String>,
    attempts: Vec<i32>,
    texts: Vec<String>,
}

impl NewResults {
    /// Takes a job's result, if it is JSON text. `job` is its number, by which it is told if there is one already.
    pub(super) fn add(
        &mut self,
        job: usize,
        partition: Partition,
        of: &JobWrite<PostgresStore>,
        json: &[u8],
    ) -> Result<(), &'static str> {
        let text = std::str::from_utf8(json).map_err(|_| "its result is not UTF-8 text")?;
        serde_json::from_str::<IgnoredAny>(text).map_err(|_| "its result is not JSON")?;
        self.jobs.push(job);
        self.parts.push(count(partition.0));
        self.offsets.push(int(of.offset.0));
        self.keys.push(of.job.key.as_bytes().to_vec());
        self.ids.push(of.job.id.as_str().to_owned());
        self.attempts.push(count(of.attempt.0));
        self.texts.push(text.to_owned());
        Ok(())
    }

    /// Writes all of them; the jobs that have a result already are told, and nothing of them is written.
    pub(super) fn insert(&self, tx: &mut Transaction<'_>, scope: &Scope) -> Result<Vec<usize>, SqlError> {
        if self.jobs.is_empty() {
            return Ok(Vec::new());
        }
        let sql = "INSERT INTO keylane.result (queue, group_name, part, \"offset\", key, job_id, attempt, result)
                   SELECT $1, $2, part, at, key, id, attempt, result::json
                   FROM unnest($3::int[], $4::bigint[], $5::bytea[], $6::text[], $7::int[], $8::text[])
                       AS new (part, at, key, id, attempt, result)
                   ON CONFLICT DO NOTHING RETURNING part, \"offset\"";
        let params: [Param<'_>; 8] = [
            (&&*scope.queue, Type::TEXT),
            (&&*scope.group, Type::TEXT),
            (&self.parts, Type::INT4_ARRAY),
            (&self.offsets, Type::INT8_ARRAY),
            (&self.keys, Type::BYTEA_ARRAY),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
        ];
        let rows = tx.query(sql, &params)?;
        if rows.len() == self.jobs.len() {
            return Ok(Vec::new());
        }
        let written: std::collections::HashSet<(i32, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let places = self.parts.iter().copied().zip(self.offsets.iter().copied());
        Ok(self.jobs.iter().zip(places).filter(|(_, place)| !written.contains(place)).map(|(&job, _)| job).collect())
    }
}

/// How many rows are fetched at once.
const PAGE: i64 = 500;

impl PostgresStore {
    /// Reads results one by one, ordered by queue, group, partition and offset, until `each` says stop. Holds no lock
    /// that a writer would wait for. A database without a store has no results.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn results(&self, which: &ResultsOf, each: &mut dyn FnMut(ResultRow) -> ControlFlow<()>) -> Result<(), Error> {
        let doing = "cannot read results from the store";
        let mut wire = self.wire();
        let (key, id) = match which {
            ResultsOf::Everything => (None, None),
            ResultsOf::Key(key) => (Some(key.as_bytes()), None),
            ResultsOf::Job(id) => (None, Some(id.as_str())),
        };
        let sql = "SELECT queue, group_name, part, \"offset\", key, job_id, attempt, result::text,
                       (extract(epoch FROM finished_at) * 1000)::bigint
                   FROM keylane.result
                   WHERE ($1 IS NULL OR key = $1) AND ($2 IS NULL OR job_id = $2)
                     AND (queue, group_name, part, \"offset\") > ($3, $4, $5, $6)
                   ORDER BY queue, group_name, part, \"offset\" LIMIT $7";
        // A page is a transaction of its own, so that a slow reader holds nothing open.
        let mut after = (String::new(), String::new(), -1_i32, -1_i64);
        loop {
            let mut tx = wire.begin_picture(doing)?;
            if !schema::is_there(&mut tx)? {
                return Ok(());
            }
            let params: [Param<'_>; 7] = [
                (&key, Type::BYTEA),
                (&id, Type::TEXT),
                (&after.0, Type::TEXT),
                (&after.1, Type::TEXT),
                (&after.2, Type::INT4),
                (&after.3, Type::INT8),
                (&PAGE, Type::INT8),
            ];
            let rows = tx.query(sql, &params).map_err(cannot(doing))?;
            for row in &rows {
                if each(read(row)?).is_break() {
                    return Ok(());
                }
            }
            let Some(last) = rows.last() else { return Ok(()) };
            after = (last.get(0), last.get(1), last.get(2), last.get(3));
        }
    }
}

fn read(row: &Row) -> Result<ResultRow, Error> {
    let parse = || -> Result<ResultRow, Box<dyn std::error::Error + Send + Sync>> {
        Ok(ResultRow {
            queue: row.get::<_, String>(0).into(),
            group: row.get::<_, String>(1).into(),
            partition: Partition(row.get::<_, i32>(2).unsigned_abs()),
            offset: Offset(uint(row.get(3))),
            key: JobKey::try_from(row.get::<_, &[u8]>(4))?,
            id: row.get::<_, String>(5).parse()?,
            attempt: Attempt(row.get::<_, i32>(6).unsigned_abs()),
            result: Bytes::from(row.get::<_, String>(7)),
            finished_at: Timestamp(row.get(8)),
        })
    };
    parse().map_err(|e| Error::Corrupt(Detail::new("a row of 'keylane.result' cannot be read").because(e)))
}
