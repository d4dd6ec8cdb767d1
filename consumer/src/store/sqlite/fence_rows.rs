//! The fence rows for `keylane fence show`. The numbers of the token come out by [`FenceRow::reveal`] only, so that no
//! default output can show them.

use std::fmt;

use keylane_producer::{Partition, Timestamp};

use super::{SqliteStore, cannot, uint};
use crate::error::Error;

/// A partition's row in the store.
#[derive(Clone)]
pub struct FenceRow {
    /// The queue's name.
    pub queue: Box<str>,
    /// The group's name.
    pub group: Box<str>,
    /// Which partition.
    pub partition: Partition,
    /// Who claimed it last; `None`: nobody yet.
    pub worker: Option<Box<str>>,
    /// When.
    pub claimed_at: Option<Timestamp>,
    /// Whether it is closed to claims.
    pub closed: bool,
    /// Whether the last owner finished in order.
    pub handed_over: bool,
    numbers: TokenNumbers,
}

/// What a write must match, in plain numbers: for a person who repairs a fence. It cannot be turned into a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenNumbers {
    /// Raised by an operator only.
    pub epoch: u64,
    /// The group's number when the partition was claimed; 0 if it never was.
    pub generation: u64,
    /// The number that the store minted.
    pub claim: u64,
    /// Member and nonce of the claimant.
    pub owner: Box<str>,
}

impl FenceRow {
    /// The token's numbers. Whoever shows them says so on purpose.
    pub fn reveal(&self) -> &TokenNumbers {
        &self.numbers
    }
}

impl fmt::Debug for FenceRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FenceRow({}/{}/{}, {:?}, [fence])", self.queue, self.group, self.partition, self.worker)
    }
}

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
