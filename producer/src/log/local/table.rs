//! A partition's table, and its row in `keylane_partition`.
//!
//! A table each, so that every append is at the right edge of a B-tree (SQLite's quick path: pages fill up, none is
//! split) and every expiry at the left one. Measured against the alternatives in docs/decisions/0002.

use std::fmt;

use rusqlite::{Connection, OptionalExtension};

use crate::{
    error::{Detail, Error},
    partition::{Offset, Partition},
    queue::QueueIdentity,
    sqlite::sorted,
};

/// The table's name is its `Display`. Both numbers are ours, so it may stand in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableName {
    pub(super) queue_id: i64,
    pub(super) partition: Partition,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "keylane_q{}_p{}", self.queue_id, self.partition)
    }
}

/// A partition's table with what its row said when it was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: TableName,
    /// What the next append gets.
    pub(super) next: Offset,
    /// Bytes of the keys and payloads in the table.
    pub(super) bytes: u64,
}

impl Table {
    /// Makes an empty one and its row.
    pub(super) fn create(tx: &Connection, name: TableName) -> rusqlite::Result<()> {
        tx.execute_batch(&format!(
            "CREATE TABLE {name} (offset INTEGER PRIMARY KEY, at INTEGER NOT NULL, key BLOB, value BLOB, headers BLOB) STRICT"
        ))?;
        tx.prepare_cached("INSERT INTO keylane_partition (queue_id, part, next_offset, bytes) VALUES (?1, ?2, 0, 0)")?
            .execute((name.queue_id, name.partition.0))?;
        Ok(())
    }

    /// Looks up the row.
    pub(super) fn find(
        connection: &Connection,
        queue_id: i64,
        queue: &QueueIdentity,
        partition: Partition,
    ) -> Result<Self, Error> {
        let name = TableName { queue_id, partition };
        connection
            .prepare_cached("SELECT next_offset, bytes FROM keylane_partition WHERE queue_id = ?1 AND part = ?2")
            .and_then(|mut ask| {
                ask.query_row((queue_id, partition.0), |row| {
                    Ok(Self { name, next: Offset(row.get(0)?), bytes: row.get(1)? })
                })
                .optional()
            })
            .map_err(|e| sorted(&format!("cannot look up partition {partition} of queue '{}'", queue.name), e))?
            .ok_or_else(|| {
                Error::Invalid(
                    Detail::new(format!(
                        "queue '{}' has no partition {partition}: it has {}, numbered from 0",
                        queue.name, queue.partitions
                    ))
                    .remedy("see 'keylane queue describe'"),
                )
            })
    }

    /// Writes the row.
    pub(super) fn save(self, tx: &Connection) -> rusqlite::Result<()> {
        tx.prepare_cached(
            "UPDATE keylane_partition SET next_offset = ?3, bytes = ?4 WHERE queue_id = ?1 AND part = ?2",
        )?
        .execute((self.name.queue_id, self.name.partition.0, self.next.0, self.bytes))?;
        Ok(())
    }
}

/// An offset as SQLite keeps it; one that is too high to exist becomes the highest.
pub(super) fn column(offset: Offset) -> i64 {
    i64::try_from(offset.0).unwrap_or(i64::MAX)
}
