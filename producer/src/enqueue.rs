//! Putting jobs on the log. Sent means that the log said so.

use crate::{
    error::Error,
    job::{Job, JobId},
    log::{AppendError, Checkpoint, Log},
    partition::{Offset, Partition, partition_of},
    queue::{QueueIdentity, QueueName},
    record::Record,
};

#[cfg(test)]
mod tests;

/// The log's word for one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Where it went.
    pub partition: Partition,
    /// Its place there.
    pub offset: Offset,
}

/// Sends jobs to one queue, each to the partition of its key.
pub struct Enqueuer<L> {
    log: L,
    queue: QueueIdentity,
}

impl<L: Log> Enqueuer<L> {
    /// For a queue that exists.
    ///
    /// # Errors
    /// [`Error::NotFound`], with the queues that are there; [`Error::Unavailable`], [`Error::Corrupt`].
    pub fn open(mut log: L, queue: &QueueName) -> Result<Self, Error> {
        let queue = log.identity(queue)?;
        Ok(Self { log, queue })
    }

    /// The queue's pinned facts.
    pub fn queue(&self) -> &QueueIdentity {
        &self.queue
    }

    /// The log behind it.
    pub fn log(&mut self) -> &mut L {
        &mut self.log
    }

    /// Sends all jobs; the answer comes when every one of them is durable.
    ///
    /// # Errors
    /// [`AppendError`], which says what is on the log and what is not.
    pub fn send(&mut self, jobs: Vec<Job>) -> Result<Vec<(JobId, Receipt)>, AppendError> {
        self.send_with(jobs, None)
    }

    /// As [`Enqueuer::send`], with a checkpoint that commits together with the jobs.
    ///
    /// # Errors
    /// As [`Enqueuer::send`].
    pub fn send_with(
        &mut self,
        jobs: Vec<Job>,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Vec<(JobId, Receipt)>, AppendError> {
        if let Some(cause) = jobs.iter().find_map(|job| job.check_payload().err()) {
            return Err(AppendError { sent: vec![None; jobs.len()], rest_is_absent: true, cause });
        }
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id.clone()).collect();
        let records = jobs
            .into_iter()
            .map(|job| (partition_of(job.key.as_bytes(), self.queue.partitions), Record::from(job)))
            .collect();
        let receipts = self.log.append(&self.queue, records, checkpoint)?;
        Ok(ids.into_iter().zip(receipts).collect())
    }
}
