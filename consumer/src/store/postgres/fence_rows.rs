//! Reads the fence rows.

use keylane_producer::{Partition, Timestamp};

use super::{PostgresStore, fault::cannot, schema, uint};
use crate::{
    error::Error,
    store::{FenceRow, TokenNumbers},
};

impl PostgresStore {
    /// The fence rows of every queue and group, in that order. None if the database holds no store.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn fence_rows(&self) -> Result<Vec<FenceRow>, Error> {
        let doing = "cannot read the fence rows from the store";
        let mut wire = self.wire();
        let mut tx = wire.begin_picture(doing)?;
        if !schema::is_there(&mut tx)? {
            return Ok(Vec::new());
        }
        let sql = "SELECT queue, group_name, part, worker, (extract(epoch FROM claimed_at) * 1000)::bigint, closed,
                       handed_over, f.epoch, gen, claim, owner
                   FROM keylane.fence AS f JOIN keylane.scope USING (scope) ORDER BY queue, group_name, part";
        let rows = tx.query(sql, &[]).map_err(cannot(doing))?;
        let read = |row: &tokio_postgres::Row| FenceRow {
            queue: row.get::<_, String>(0).into(),
            group: row.get::<_, String>(1).into(),
            partition: Partition(row.get::<_, i32>(2).unsigned_abs()),
            worker: row.get::<_, Option<String>>(3).map(Into::into),
            claimed_at: row.get::<_, Option<i64>>(4).map(Timestamp),
            closed: row.get(5),
            handed_over: row.get(6),
            numbers: TokenNumbers {
                epoch: uint(row.get(7)),
                generation: uint(row.get(8)),
                claim: uint(row.get(9)),
                owner: row.get::<_, String>(10).into(),
            },
        };
        Ok(rows.iter().map(read).collect())
    }
}
