//! Reads the fence rows.

use keylane_producer::{Partition, Timestamp};

use super::{SqliteStore, cannot, uint};
use crate::{
    error::Error,
    store::{FenceRow, TokenNumbers},
};

impl SqliteStore {
    /// The fence rows of every queue and group, in that order. None if the file holds no store.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn fence_rows(&self) -> Result<Vec<FenceRow>, Error> {
        let Some(connection) = self.connect_to_read()? else { return Ok(Vec::new()) };
        let sql = cannot("cannot read the fence rows from the store");
        let text = "SELECT queue, group_name, part, worker, claimed_at, closed, handed_over, f.epoch, gen, claim, owner
                    FROM keylane_fence AS f JOIN keylane_scope USING (scope) ORDER BY queue, group_name, part";
        let mut statement = connection.prepare(text).map_err(&sql)?;
        let rows = statement.query_map([], |row| {
            Ok(FenceRow {
                queue: row.get::<_, String>(0)?.into(),
                group: row.get::<_, String>(1)?.into(),
                partition: Partition(row.get(2)?),
                worker: row.get::<_, Option<String>>(3)?.map(Into::into),
                claimed_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
                closed: row.get(5)?,
                handed_over: row.get(6)?,
                numbers: TokenNumbers {
                    epoch: uint(row.get(7)?),
                    generation: uint(row.get(8)?),
                    claim: uint(row.get(9)?),
                    owner: row.get::<_, String>(10)?.into(),
                },
            })
        });
        rows.and_then(Iterator::collect).map_err(&sql)
    }
}
