//! One SQLite file as the log. For one machine; several processes share the file.
//!
//! A queue file is for people too. With `sqlite3 queue.db`:
//!
//! | table | what a row is |
//! |---|---|
//! | `keylane_file` | the file itself: `cluster`, its random id |
//! | `keylane_queue` | a queue: `id`, `name`, `incarnation`, partition count, retention |
//! | `keylane_partition` | a partition: its `next_offset`, and the bytes of keys and payloads it holds |
//! | `keylane_q1_p3` | the records of queue 1, partition 3: `offset`, `at` (ms since 1970), `key`, `value`, `headers` |
//! | `keylane_checkpoint` | how far a source was brought in |
//! | `keylane_finished` | the next offset of a group (`grp`) in a partition: all below it is finished |
//!
//! 1. A batch, its offsets and its checkpoint are one transaction; it compares the queue's incarnation first.
//! 2. `next_offset` never goes back, also when everything below it has expired.
//! 3. A record leaves only by [`LocalLog::expire`], and only below what every group has finished.
//!
//! The group adapter keeps its own tables in the same file. It finds the queue's id with [`LocalLog::queue_id`], writes
//! `keylane_finished` on a connection of its own, and reads records with a [`LocalLog`] of its own.

use std::path::Path;

use rusqlite::Connection;

use crate::{
    enqueue::Receipt,
    error::Error,
    log::{AppendError, Bounds, Checkpoint, EachKey, Log, Page, QueueDescription, ReadLimit},
    partition::{Offset, Partition},
    queue::{QueueIdentity, QueueName, QueueSpec},
    record::{Record, StoredRecord},
    sqlite::{self, Patience, Purpose},
};

mod append;
mod checkpoint;
pub mod headers;
mod queues;
mod read;
mod retention;
mod schema;
mod table;

#[cfg(test)]
mod tests;

pub use retention::Expired;
pub use schema::{SCHEMA_VERSION, schema};
use table::Table;

/// A connection to one queue file.
pub struct LocalLog {
    connection: Connection,
    cluster: Box<str>,
}

/// Prepared statements that are kept, at about 4 KiB each: a partition has three of its own.
const STATEMENTS: usize = 512;

/// Whether a missing file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The file must be there.
    Existing,
    /// The file is made if it is missing; two processes may do so at once.
    Create,
}

impl LocalLog {
    /// Opens the file and compares its format.
    ///
    /// # Errors
    /// As [`sqlite::open`]; [`Error::Invalid`] if a newer Keylane wrote the file.
    pub fn open(path: &Path, open: Open, patience: Patience) -> Result<Self, Error> {
        let purpose = match open {
            Open::Existing => Purpose::QueueFile,
            Open::Create => Purpose::NewQueueFile,
        };
        Self::on(sqlite::open(path, purpose, patience)?)
    }

    /// On a connection that [`sqlite::open`] made for a queue file.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a newer Keylane wrote the file; [`Error::Unavailable`], [`Error::Corrupt`].
    pub fn on(mut connection: Connection) -> Result<Self, Error> {
        let cluster = schema(&mut connection)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(Self { connection, cluster })
    }

    /// The id that stands for the queue in `keylane_finished` and in the group's tables.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the queue is gone, or is another making of the name.
    pub fn queue_id(&self, queue: &QueueIdentity) -> Result<i64, Error> {
        queues::find(&self.connection, &self.cluster, queue)
    }

    fn table(&self, queue: &QueueIdentity, partition: Partition) -> Result<Table, Error> {
        Table::find(&self.connection, self.queue_id(queue)?, queue, partition)
    }

    /// The connection underneath, for statements on other tables of the file between two calls of the log.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Log for LocalLog {
    fn create(&mut self, spec: &QueueSpec) -> Result<QueueIdentity, Error> {
        queues::create(&mut self.connection, &self.cluster, spec)
    }

    fn describe(&mut self, queue: &QueueName) -> Result<QueueDescription, Error> {
        queues::describe(&self.connection, &self.cluster, queue)
    }

    fn queues(&mut self) -> Result<Vec<QueueName>, Error> {
        queues::names(&self.connection)
    }

    fn append(
        &mut self,
        queue: &QueueIdentity,
        records: Vec<(Partition, Record)>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Vec<Receipt>, AppendError> {
        append::append(&mut self.connection, &self.cluster, queue, &records, checkpoint)
    }

    fn keys(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        from: Offset,
        each: EachKey<'_>,
    ) -> Result<(), Error> {
        // Reads no payload.
        let table = self.table(queue, partition)?;
        read::keys(&self.connection, table, from, each).map_err(|e| read::failed(queue, partition, e))
    }

    fn checkpoint(&mut self, queue: &QueueIdentity, source: &str) -> Result<Option<Checkpoint>, Error> {
        let id = self.queue_id(queue)?;
        checkpoint::read(&self.connection, id, source)
    }

    fn read(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        from: Offset,
        limit: ReadLimit,
    ) -> Result<Page, Error> {
        let table = self.table(queue, partition)?;
        read::page(&self.connection, table, from, limit).map_err(|e| read::failed(queue, partition, e))
    }

    fn read_at(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        offsets: &[Offset],
    ) -> Result<Vec<StoredRecord>, Error> {
        let table = self.table(queue, partition)?;
        read::exactly(&self.connection, table, offsets).map_err(|e| read::failed(queue, partition, e))
    }

    fn bounds(&mut self, queue: &QueueIdentity, partition: Partition) -> Result<Bounds, Error> {
        let table = self.table(queue, partition)?;
        read::bounds(&self.connection, table).map_err(|e| read::failed(queue, partition, e))
    }
}
