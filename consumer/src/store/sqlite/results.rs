//! Reading results: for `keylane results`, and for a program that wants them typed. Plain SQL does as well.

use std::ops::ControlFlow;

use keylane_producer::{Attempt, JobKey, Offset, Partition, Timestamp};
use rusqlite::{Row, params};

use super::{SqliteStore, cannot, uint};
use crate::{
    error::{Detail, Error},
    store::{ResultRow, ResultsOf},
};

impl SqliteStore {
    /// Reads results one by one, ordered by queue, group, partition and offset, until `each` says stop. Holds no lock
    /// that a writer would wait for. A file without a store has no results.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn results(&self, which: &ResultsOf, each: &mut dyn FnMut(ResultRow) -> ControlFlow<()>) -> Result<(), Error> {
        let Some(connection) = self.connect_to_read()? else { return Ok(()) };
        let sql = cannot("cannot read results from the store");
        let (filter, key, id) = match which {
            ResultsOf::Everything => ("?1 IS NULL AND ?2 IS NULL", None, None),
            ResultsOf::Key(key) => ("key = ?1 AND ?2 IS NULL", Some(key.as_bytes()), None),
            ResultsOf::Job(id) => ("?1 IS NULL AND job_id = ?2", None, Some(id.as_str())),
        };
        let text = format!(
            "SELECT queue, group_name, part, offset, key, job_id, attempt, result, finished_at
             FROM keylane_result WHERE {filter} ORDER BY queue, group_name, part, offset"
        );
        let mut statement = connection.prepare(&text).map_err(&sql)?;
        let mut rows = statement.query(params![key, id]).map_err(&sql)?;
        while let Some(row) = rows.next().map_err(&sql)? {
            if each(read(row)?).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn read(row: &Row<'_>) -> Result<ResultRow, Error> {
    let parse = || -> Result<ResultRow, Box<dyn std::error::Error + Send + Sync>> {
        Ok(ResultRow {
            queue: row.get::<_, String>(0)?.into(),
            group: row.get::<_, String>(1)?.into(),
            partition: Partition(row.get(2)?),
            offset: Offset(uint(row.get(3)?)),
            key: JobKey::try_from(row.get::<_, Vec<u8>>(4)?.as_slice())?,
            id: row.get::<_, String>(5)?.parse()?,
            attempt: Attempt(row.get(6)?),
            result: row.get::<_, String>(7)?.into(),
            finished_at: Timestamp(row.get(8)?),
        })
    };
    parse().map_err(|e| Error::Corrupt(Detail::new("a row of 'keylane_result' cannot be read").because(e)))
}
