//! The job contract: what a job is, which partition its key belongs to, and how it reaches the log.
//!
//! Everything here is known to the ones who enqueue. Nothing here knows who owns a partition: this crate
//! cannot name a fence token, because the crate that mints it depends on this one and Cargo forbids cycles.
//!
//! - [`job`]: [`Job`], its [`JobKey`], [`JobId`], [`Headers`] and their limits
//! - [`record`]: a job as the log keeps it; the wire format, held by golden vectors
//! - [`partition`]: key to partition, held for ever by golden vectors
//! - [`queue`]: [`QueueIdentity`], what must not change under a running worker
//! - [`enqueue`]: [`Enqueuer`] and [`Receipt`]; sent means that the log said so
//! - [`log`]: the port, and its adapters: [`log::local`], one SQLite file, and [`log::kafka`]
//! - [`kafka`]: speaking to Apache Kafka, for this adapter and the group's

pub mod enqueue;
pub mod error;
pub mod job;
pub mod kafka;
pub mod log;
pub mod partition;
pub mod queue;
pub mod record;
pub mod sqlite;

pub use enqueue::{Enqueuer, Receipt};
pub use error::{Detail, Error};
pub use job::{Attempt, Headers, Job, JobId, JobKey, Timestamp};
pub use log::Log;
pub use partition::{Offset, Partition, PartitionCount, partition_of};
pub use queue::{GroupName, Incarnation, QueueIdentity, QueueName, QueueSpec, Retention};
pub use record::{Record, StoredRecord};
