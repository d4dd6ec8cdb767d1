//! A worker's settings, each with its unit, range and default.

use std::time::Duration;

use crate::{
    error::{Detail, Error},
    fence::Guards,
    lanes::LaneLimits,
    ownership::OwnershipLimits,
    retry::RetryPolicy,
    store::{FencedStore, MAX_PARKED, StopRule},
};

/// How a worker behaves. Start from [`WorkerSettings::named`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Its name for people: in `status`, events and the store's fence row.
    pub name: Box<str>,
    /// What may run and wait at once.
    pub lanes: LaneLimits,
    /// What follows a failed try.
    pub retry: RetryPolicy,
    /// Rules by which a job leaves alone, as a dead letter, and its key goes on with the next one. By all others its key is
    /// parked. Default: none.
    pub dead_letter: Vec<StopRule>,
    /// A try that takes longer has failed. Default 30 s.
    pub job_limit: Duration,
    /// Session, margin, drain.
    pub ownership: OwnershipLimits,
    /// Ownership is proved, and progress committed, this often; 250 ms to 1 s. Together with the margin it bounds how long
    /// a partition that does not move can stand still. Default 250 ms.
    pub prove_every: Duration,
    /// The polling thread may stand still this long before nothing is admitted any more. Default 6 s.
    pub poll_limit: Duration,
    /// How long ago a person may have released a key before the worker looks. Default 500 ms.
    pub look_every: Duration,
    /// A partition that has work, and in which nothing was done for this long, is told. Default 5 min.
    pub stall_after: Duration,
    /// Jobs that the lines of parked keys of one partition, and its dead letters, may hold together in the store. Beyond it the partition holds
    /// back what cannot be done, and goes on by itself when there is room. Default [`MAX_PARKED`].
    pub line_room: u64,
    /// Threads that run Rust handlers. Default: one a core.
    pub handler_threads: usize,
    /// Jobs in one fenced transaction at most. Default 5,000.
    pub batch_jobs: usize,
    /// Connections to the store that write side by side, 1 to 64; each partition has one of them. Default: the store's
    /// [`CONNECTIONS`](crate::FencedStore::CONNECTIONS). Two more are for claims and closes.
    pub store_connections: Option<usize>,
    /// What of keys that are parked or hot those may see who see what the worker holds. Default: nothing.
    pub show_keys: ShowKeys,
    /// End when every job of the queue is finished.
    pub until_empty: bool,
    /// For twin tests and `demo` only.
    pub guards: Guards,
}

/// What of keys may be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShowKeys {
    /// Only how many are parked.
    #[default]
    None,
    /// `#` and twelve digits of their SHA-256: who knows a key can find it, and who can guess keys as well.
    Hash,
    /// Their text.
    Text,
}

impl WorkerSettings {
    /// The defaults, for a session of 15 s.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            lanes: LaneLimits::default(),
            retry: RetryPolicy::default(),
            dead_letter: Vec::new(),
            job_limit: Duration::from_secs(30),
            ownership: OwnershipLimits {
                session: Duration::from_secs(15),
                margin: Duration::from_millis(200),
                drain: Duration::from_secs(10),
                claim_again: Duration::from_millis(500),
            },
            prove_every: Duration::from_millis(250),
            poll_limit: Duration::from_secs(6),
            look_every: Duration::from_millis(500),
            stall_after: Duration::from_secs(300),
            line_room: MAX_PARKED,
            handler_threads: std::thread::available_parallelism().map_or(2, std::num::NonZero::get),
            batch_jobs: 5_000,
            store_connections: None,
            show_keys: ShowKeys::None,
            until_empty: false,
            guards: Guards::default(),
        }
    }

    /// Over how many connections it writes to this store.
    pub(super) fn connections<S: FencedStore>(&self) -> usize {
        self.store_connections.unwrap_or(S::CONNECTIONS)
    }

    /// Whether the settings fit together.
    ///
    /// # Errors
    /// [`Error::Invalid`], with the setting, the rule and the remedy.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |what: String, remedy: &str| Err(Error::Invalid(Detail::new(what).remedy(remedy)));
        let own = &self.ownership;
        if !(1..=200).contains(&self.name.len()) || self.name.chars().any(char::is_control) {
            return wrong(
                format!("worker name {:?} does not fit: 1 to 200 printable characters", self.name),
                "shorten it",
            );
        }
        if self.prove_every.is_zero() || own.session < own.margin + self.prove_every * 3 {
            return wrong(
                format!(
                    "session of {:?} is too short: it must hold the margin of {:?} and three proofs, one each {:?}",
                    own.session, own.margin, self.prove_every
                ),
                "raise --session-timeout",
            );
        }
        if self.lanes.running == 0 || self.lanes.held_jobs == 0 || self.lanes.held_bytes == 0 || self.batch_jobs == 0 {
            return wrong("concurrency and buffers must be at least 1".into(), "leave them at their defaults");
        }
        if self.lanes.known_jobs < self.lanes.held_jobs {
            return wrong("fewer jobs may be known than held".into(), "leave the buffers at their defaults");
        }
        if self.store_connections.is_some_and(|count| !(1..=64).contains(&count)) {
            return wrong("connections to the store must be 1 to 64".into(), "change --store-connections");
        }
        if self.retry.attempts == 0 {
            return wrong("attempts must be at least 1".into(), "use --attempts 1 for a single try");
        }
        if self.stall_after.is_zero() {
            return wrong(
                "time after which a partition is told to stand still must be above zero".into(),
                "raise --stall-after",
            );
        }
        if self.job_limit.is_zero() {
            return wrong("time limit of a job must be above zero".into(), "raise --job-timeout");
        }
        Ok(())
    }
}
