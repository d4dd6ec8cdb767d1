//! What a worker tells while it runs, for terminals, logs and tests. Nothing here holds a token, a member id or a payload,
//! and nothing decides by it.

use std::time::Duration;

use keylane_producer::{Attempt, JobId, JobKey, Offset, Partition};

use crate::{fence::Fenced, store::StopRule};

/// Something happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// The group gave these partitions; they are being claimed.
    Assigned(Vec<Partition>),
    /// The claim stands and jobs run, after this long since the assignment.
    TookOver {
        /// Which.
        partition: Partition,
        /// From the assignment to the first job that may start.
        after: Duration,
        /// Whether the last owner handed over in order.
        clean: bool,
    },
    /// The group asked for partitions back.
    Draining(Vec<Partition>),
    /// A partition was given back, with everything that started ended and written (`clean`) or cut short.
    Released {
        /// Which.
        partition: Partition,
        /// Whether nothing was cut short.
        clean: bool,
    },
    /// Partitions are gone without asking; what ran there was stopped, what waited runs on the next owner.
    Lost(Vec<Partition>),
    /// A claim was not granted: the partition stands still here.
    ClaimRefused {
        /// Which.
        partition: Partition,
        /// What the row said.
        why: crate::store::ClaimRefused,
    },
    /// The group began anew below this partition's row: an operator must reset the fence.
    FenceIsAhead(Partition),
    /// The store refused finished jobs of this worker: it has a newer owner for the partition.
    WriteRefused {
        /// Which.
        partition: Partition,
        /// How many finished jobs were in the write.
        jobs: usize,
    },
    /// Finished jobs whose partition was lost before they were written: dropped here.
    LateResultDropped {
        /// Which.
        partition: Partition,
    },
    /// No job starts and nothing is written until ownership is proved again.
    Halted(Fenced),
    /// Ownership is proved again, after this long.
    GoesOn(Duration),
    /// Broker or store does not answer, with its own words; tried again until it does.
    Away {
        /// `the store`, `the group`, `the log`.
        what: &'static str,
        /// The chain of causes.
        why: String,
    },
    /// It answers again, after this long.
    Back {
        /// As in [`Notice::Away`].
        what: &'static str,
        /// How long it was away.
        after: Duration,
    },
    /// A try failed; only its key waits.
    WillRetry {
        /// Which job.
        job: JobId,
        /// Its key.
        key: JobKey,
        /// The try that failed.
        attempt: Attempt,
        /// Until the next one.
        after: Duration,
        /// The handler's words.
        reason: String,
    },
    /// A key is parked: its job, and what follows it, wait in the store until `keylane parked replay` or `drop`.
    KeyStopped {
        /// Where.
        partition: Partition,
        /// Its job that could not be done.
        offset: Offset,
        /// Which job.
        job: JobId,
        /// Its key.
        key: JobKey,
        /// How often it was tried.
        attempts: Attempt,
        /// The rule.
        rule: StopRule,
        /// The handler's words.
        reason: String,
    },
    /// A job left alone, as a dead letter; the next of its key may run. `keylane dead list` has it.
    DeadLettered {
        /// Where.
        partition: Partition,
        /// Its place.
        offset: Offset,
        /// Which job.
        job: JobId,
        /// Its key.
        key: JobKey,
        /// How often it was tried.
        attempts: Attempt,
        /// The rule.
        rule: StopRule,
        /// The handler's words, or those of the person who had it skipped.
        reason: String,
    },
    /// A person wants a key to stand still: its jobs go to its line until `keylane resume`.
    KeyPaused {
        /// Where.
        partition: Partition,
        /// Which.
        key: JobKey,
    },
    /// The lines of a partition's parked keys hold as many jobs as they may: what cannot be done waits here, and the
    /// partition holds back when that is as much as it may hold.
    LinesFull {
        /// Where.
        partition: Partition,
        /// How many jobs that is.
        room: u64,
    },
    /// The line of a parked key is run.
    KeyReleased {
        /// Where.
        partition: Partition,
        /// Which.
        key: JobKey,
    },
    /// A record that cannot be a job of its partition was put aside.
    Quarantined {
        /// Where.
        partition: Partition,
        /// Its place.
        offset: Offset,
        /// Why.
        reason: String,
    },
    /// A job runs longer than its time limit and does not react to being cancelled: it keeps its slot until it ends.
    Overdue {
        /// Which job.
        job: JobId,
        /// For how long so far.
        after: Duration,
    },
    /// A partition has work, and nothing of it was done for as long as the settings allow.
    Stalled {
        /// Which.
        partition: Partition,
        /// For how long.
        after: Duration,
        /// Jobs that are not done.
        waiting: u64,
        /// Why, as far as this worker knows.
        cause: StallCause,
    },
    /// A partition that stood still moves again, or has no work left.
    MovesAgain {
        /// Which.
        partition: Partition,
        /// How long it stood still.
        after: Duration,
    },
    /// The worker was asked to end and drains.
    Ending,
    /// The worker has left the group.
    Left,
}

/// Why a partition stands still.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StallCause {
    /// Ownership is not proved.
    #[error("ownership is not proved: {0}")]
    Halted(Fenced),
    /// Store, log or group does not answer.
    #[error("{0} does not answer")]
    Away(&'static str),
    /// What cannot be done has no room in the lines of parked keys.
    #[error("the lines of its parked keys are full")]
    LinesFull,
    /// A job of it is at its handler; the one that is so for the longest time.
    #[error("job {job} runs, for {since:.1?} so far")]
    Runs {
        /// Which.
        job: JobId,
        /// For how long.
        since: Duration,
    },
    /// All that is left waits behind a job that failed.
    #[error("key {0} waits for its next try")]
    WaitsForItsNextTry(JobKey),
    /// As many jobs of other partitions run as may.
    #[error("no hand is free: as many jobs of other partitions run as may")]
    NoFreeHand,
    /// Nothing that this worker knows of.
    #[error("not known here")]
    Unknown,
}
