//! The log port: append, read, describe a queue. Adapters: [`local`], one SQLite file; [`kafka`], topics.
//!
//! Every adapter passes `log::conformance`. What the port promises:
//!
//! 1. **A receipt is durable.** When `append` has answered, a power cut loses none of what it acknowledged.
//! 2. **A partition is in order.** Offsets of one `append` rise in the order given, and later appends come after.
//! 3. **Records survive byte for byte**: null and empty values and headers, names that are not UTF-8.
//! 4. **Offsets may have gaps**, and the head may expire; a read says how far it looked, so a gap is not a wait.

use std::ops::ControlFlow;

use crate::{
    enqueue::Receipt,
    error::Error,
    partition::{Offset, Partition},
    queue::{QueueIdentity, QueueName, QueueSpec, Replication, Retention},
    record::{Record, StoredRecord},
};

pub mod kafka;
pub mod local;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

/// Gets the offset and key of a record, and says whether to go on.
pub type EachKey<'a> = &'a mut dyn FnMut(Offset, Option<&[u8]>) -> ControlFlow<()>;

/// A connection to a broker's queues. One thread uses it at a time; open several for several threads.
pub trait Log: Send {
    /// Makes a queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a queue of that name exists: with the same partition count the message says that it is
    /// there already, with another that a count change is a migration.
    fn create(&mut self, spec: &QueueSpec) -> Result<QueueIdentity, Error>;

    /// The identity and retention of a queue.
    ///
    /// # Errors
    /// [`Error::NotFound`], with the queues that are there.
    fn describe(&mut self, queue: &QueueName) -> Result<QueueDescription, Error>;

    /// The identity of a queue alone: asked again and again, so it may cost little.
    ///
    /// # Errors
    /// As [`Log::describe`].
    fn identity(&mut self, queue: &QueueName) -> Result<QueueIdentity, Error> {
        Ok(self.describe(queue)?.identity)
    }

    /// All queues, by name.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    fn queues(&mut self) -> Result<Vec<QueueName>, Error>;

    /// Appends records to the partitions given. A receipt for each, in order, once all are durable. With a
    /// checkpoint, that commits together with them: how an interrupted import sends nothing twice.
    ///
    /// # Errors
    /// Whatever the error, the answer says what is on the log: [`AppendError::sent`].
    fn append(
        &mut self,
        queue: &QueueIdentity,
        records: Vec<(Partition, Record)>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Vec<Receipt>, AppendError>;

    /// The last checkpoint of a source.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Corrupt`].
    fn checkpoint(&mut self, queue: &QueueIdentity, source: &str) -> Result<Option<Checkpoint>, Error>;

    /// Records of one partition from an offset on, up to the limits (at least one record if there is one).
    ///
    /// # Errors
    /// [`Error::NotFound`] if the queue is gone, [`Error::Unavailable`], [`Error::Corrupt`].
    fn read(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        from: Offset,
        limit: ReadLimit,
    ) -> Result<Page, Error>;

    /// The records at exactly these offsets (ascending); those that are gone are left out.
    ///
    /// # Errors
    /// As [`Log::read`].
    fn read_at(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        offsets: &[Offset],
    ) -> Result<Vec<StoredRecord>, Error>;

    /// Passes the keys of a partition's records from an offset on, in order, until `each` says stop.
    ///
    /// # Errors
    /// As [`Log::read`].
    fn keys(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        from: Offset,
        each: EachKey<'_>,
    ) -> Result<(), Error> {
        let end = self.bounds(queue, partition)?.end;
        let mut from = from;
        while from < end {
            let page = self.read(queue, partition, from, KEYS_AT_ONCE)?;
            for stored in &page.records {
                if each(stored.offset, stored.record.key.as_deref()).is_break() {
                    return Ok(());
                }
            }
            from = page.next;
        }
        Ok(())
    }

    /// First offset that is still there, and the one that the next append gets.
    ///
    /// # Errors
    /// As [`Log::read`].
    fn bounds(&mut self, queue: &QueueIdentity, partition: Partition) -> Result<Bounds, Error>;
}

/// What is read at once for keys.
const KEYS_AT_ONCE: ReadLimit = ReadLimit { records: 1_000, bytes: 4 << 20 };

/// Whatever the broker is.
impl Log for Box<dyn Log> {
    fn create(&mut self, spec: &QueueSpec) -> Result<QueueIdentity, Error> {
        (**self).create(spec)
    }

    fn describe(&mut self, queue: &QueueName) -> Result<QueueDescription, Error> {
        (**self).describe(queue)
    }

    fn identity(&mut self, queue: &QueueName) -> Result<QueueIdentity, Error> {
        (**self).identity(queue)
    }

    fn queues(&mut self) -> Result<Vec<QueueName>, Error> {
        (**self).queues()
    }

    fn append(
        &mut self,
        queue: &QueueIdentity,
        records: Vec<(Partition, Record)>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Vec<Receipt>, AppendError> {
        (**self).append(queue, records, checkpoint)
    }

    fn checkpoint(&mut self, queue: &QueueIdentity, source: &str) -> Result<Option<Checkpoint>, Error> {
        (**self).checkpoint(queue, source)
    }

    fn read(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        from: Offset,
        limit: ReadLimit,
    ) -> Result<Page, Error> {
        (**self).read(queue, partition, from, limit)
    }

    fn read_at(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        offsets: &[Offset],
    ) -> Result<Vec<StoredRecord>, Error> {
        (**self).read_at(queue, partition, offsets)
    }

    fn keys(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        from: Offset,
        each: EachKey<'_>,
    ) -> Result<(), Error> {
        (**self).keys(queue, partition, from, each)
    }

    fn bounds(&mut self, queue: &QueueIdentity, partition: Partition) -> Result<Bounds, Error> {
        (**self).bounds(queue, partition)
    }
}

/// What `queue describe` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDescription {
    /// The pinned facts.
    pub identity: QueueIdentity,
    /// When finished records may go.
    pub retention: Retention,
    /// Copies of each record, and how many must be in sync; `None` on the embedded engine, which has one file.
    pub replication: Option<Replication>,
}

/// How much to read at once.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// At most this many records.
    pub records: usize,
    /// Stop after the record that reaches this many bytes.
    pub bytes: usize,
}

/// What a read found.
#[derive(Clone, Debug)]
pub struct Page {
    /// Ascending by offset.
    pub records: Vec<StoredRecord>,
    /// Read on from here: everything below it was in `records` or does not exist.
    pub next: Offset,
}

/// Where a partition begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset that is still there; equal to `end` if there is none.
    pub start: Offset,
    /// The offset that the next append gets.
    pub end: Offset,
}

/// How far a source (a file, a table) was brought into the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Names the source, for instance a file's absolute path.
    pub source: Box<str>,
    /// Items of the source that are on the log (or were passed over), counted from its start.
    pub position: u64,
    /// Recognises a source that changed under its name: a digest of all up to `position`.
    pub digest: Box<str>,
    /// Whether the source was brought in to its end.
    pub complete: bool,
}

/// An append that did not wholly succeed.
#[derive(Debug, thiserror::Error)]
#[error("{cause}")]
pub struct AppendError {
    /// A receipt for each record that is on the log for certain; `None`: it is not, or nobody knows.
    pub sent: Vec<Option<Receipt>>,
    /// Whether records without a receipt are certainly not on the log.
    pub rest_is_absent: bool,
    /// Why.
    pub cause: Error,
}
