//! All that can happen, each with exactly what its sentence needs.

use std::time::Duration;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the words of the sentence")]
pub enum Happening {
    /// A worker joined.
    WorkerStarted { worker: String, group: String },
    /// A worker was asked to stop. `jobs`: how many it still runs.
    WorkerDraining { worker: String, partitions: Vec<u32>, jobs: Option<u64> },
    /// A worker stopped in order.
    WorkerStopped { worker: String, ended: Ended },
    /// A worker went silent. `remaining`: how long its session may still run.
    WorkerLost { worker: String, silent: Duration, remaining: Option<Duration>, partitions: Vec<u32> },
    /// A silent worker spoke again.
    WorkerReturned { worker: String, silent: Duration, partitions: Vec<u32> },
    /// A worker took partitions.
    Acquired { worker: String, partitions: Vec<u32>, before: Before, lag: Option<u64> },
    /// A worker finishes what runs on partitions, and gives them back.
    Draining { worker: String, partitions: Vec<u32>, jobs: Option<u64> },
    /// A worker handed partitions back.
    Released { worker: String, partitions: Vec<u32>, jobs: Option<u64>, took: Option<Duration> },
    /// A worker let its session run out.
    Expired { worker: String, partitions: Vec<u32> },
    /// Nobody holds the partitions. `last`: the last owner, and until when (Unix time in milliseconds).
    Absent { partitions: Vec<u32>, lag: Option<u64>, last: Option<(String, i64)> },
    /// Two say that they hold the partitions.
    Contested { a: String, b: String, partitions: Vec<u32> },
    /// A worker tried to finish jobs after losing their partition.
    WriteRefused { worker: String, partitions: Vec<u32>, jobs: u64 },
    /// Jobs wait, and none is finished.
    Stuck { worker: String, partitions: Vec<u32>, lag: Option<u64>, idle: Duration },
    /// Jobs are finished again.
    Recovered { partitions: Vec<u32>, after: Duration },
    /// A handler fails again and again.
    HandlerFailing { handler: String, times: u64, code: u16, keys: u64 },
    /// A handler is not called any more.
    HandlerPaused { handler: String, code: u16 },
    /// A handler answers again.
    HandlerRecovered { handler: String, after: Duration },
    /// Partitions changed hands together.
    Rebalanced { partitions: Vec<u32>, took: Duration, left: Option<String>, took_over: Vec<String> },
    /// The observer saw nothing for a while.
    ObserverGap { group: String, gap: Duration },
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All was finished.
    Clean,
    /// It did not say whether all was finished.
    Unsaid,
    /// Time ran out.
    TimedOut {
        /// The time it had.
        limit: Duration,
        /// Jobs that were cut short.
        jobs: u64,
    },
}

/// Who had it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nobody that was seen.
    Unseen,
    /// This one.
    Handed {
        /// The last owner.
        from: String,
        /// How long there was no owner; `None`: not known.
        gap: Option<Duration>,
    },
}
