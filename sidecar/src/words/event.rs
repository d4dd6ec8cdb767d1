//! A happening as one line for programs: `docs/schemas/event.schema.json`.
//!
//! An event's id says when it was written down and is random beyond that; an episode's id likewise. Neither is made from
//! anything that the group or the store counts.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use super::{
    happening::{Before, Ended, Happening},
    sentence::sentence,
};

/// The value of [`Event::schema`].
pub const SCHEMA: &str = "keylane.ownership-event/v1";

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "named and described in the schema")]
pub struct Event {
    pub schema: &'static str,
    pub id: String,
    pub at: String,
    pub recorded_at: String,
    pub observer: String,
    pub episode: String,
    #[serde(rename = "type")]
    pub kind: EventType,
    pub severity: Severity,
    pub partitions: Vec<u32>,
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_worker: Option<String>,
    pub reason: Reason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_jobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    pub text: String,
    /// What it was made from: for sentences that fold many into one.
    #[serde(skip)]
    pub happening: Happening,
    /// When it was, in milliseconds of Unix time.
    #[serde(skip)]
    pub at_ms: i64,
}

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants of Happening, which are described there")]
pub enum EventType {
    #[serde(rename = "worker.started")]
    WorkerStarted,
    #[serde(rename = "worker.draining")]
    WorkerDraining,
    #[serde(rename = "worker.stopped")]
    WorkerStopped,
    #[serde(rename = "worker.lost")]
    WorkerLost,
    #[serde(rename = "worker.returned")]
    WorkerReturned,
    #[serde(rename = "partition.acquired")]
    Acquired,
    #[serde(rename = "partition.draining")]
    Draining,
    #[serde(rename = "partition.released")]
    Released,
    #[serde(rename = "partition.expired")]
    Expired,
    #[serde(rename = "partition.absent")]
    Absent,
    #[serde(rename = "partition.contested")]
    Contested,
    #[serde(rename = "partition.stuck")]
    Stuck,
    #[serde(rename = "partition.recovered")]
    Recovered,
    #[serde(rename = "write.refused")]
    WriteRefused,
    #[serde(rename = "handler.failing")]
    HandlerFailing,
    #[serde(rename = "handler.paused")]
    HandlerPaused,
    #[serde(rename = "handler.recovered")]
    HandlerRecovered,
    #[serde(rename = "group.rebalanced")]
    Rebalanced,
    #[serde(rename = "observer.gap")]
    ObserverGap,
}

impl EventType {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::WorkerStarted,
        Self::WorkerDraining,
        Self::WorkerStopped,
        Self::WorkerLost,
        Self::WorkerReturned,
        Self::Acquired,
        Self::Draining,
        Self::Released,
        Self::Expired,
        Self::Absent,
        Self::Contested,
        Self::Stuck,
        Self::Recovered,
        Self::WriteRefused,
        Self::HandlerFailing,
        Self::HandlerPaused,
        Self::HandlerRecovered,
        Self::Rebalanced,
        Self::ObserverGap,
    ];

    /// The word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WorkerStarted => "worker.started",
            Self::WorkerDraining => "worker.draining",
            Self::WorkerStopped => "worker.stopped",
            Self::WorkerLost => "worker.lost",
            Self::WorkerReturned => "worker.returned",
            Self::Acquired => "partition.acquired",
            Self::Draining => "partition.draining",
            Self::Released => "partition.released",
            Self::Expired => "partition.expired",
            Self::Absent => "partition.absent",
            Self::Contested => "partition.contested",
            Self::Stuck => "partition.stuck",
            Self::Recovered => "partition.recovered",
            Self::WriteRefused => "write.refused",
            Self::HandlerFailing => "handler.failing",
            Self::HandlerPaused => "handler.paused",
            Self::HandlerRecovered => "handler.recovered",
            Self::Rebalanced => "group.rebalanced",
            Self::ObserverGap => "observer.gap",
        }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing to do.
    Info,
    /// Somebody should know.
    Warning,
    /// Somebody should look.
    Critical,
}

impl Severity {
    /// The word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// Why it happened, as far as the observer can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Reason {
    Started,
    Rebalance,
    DrainRequested,
    SessionTimeout,
    DrainTimeout,
    HandlerError,
    SnapshotStale,
    Unknown,
}

impl Event {
    /// What happened at `at_ms`, written down by `observer` at `recorded_ms` (Unix time in milliseconds).
    pub fn new(observer: &str, episode: Ulid, at_ms: i64, recorded_ms: i64, happening: Happening) -> Self {
        let (kind, severity, reason) = kind(&happening);
        let facts = facts(&happening);
        Self {
            schema: SCHEMA,
            id: fresh_id(recorded_ms).to_string(),
            at: rfc3339(at_ms),
            recorded_at: rfc3339(recorded_ms),
            observer: observer.to_owned(),
            episode: episode.to_string(),
            kind,
            severity,
            partitions: facts.partitions.map_or_else(Vec::new, <[u32]>::to_vec),
            worker: facts.worker.cloned(),
            from_worker: facts.from.cloned(),
            reason,
            duration_ms: facts.duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
            lag_jobs: facts.lag,
            count: facts.count.filter(|&count| count > 0),
            text: sentence(at_ms, &happening),
            happening,
            at_ms,
        }
    }
}

/// An id of that time, random beyond it.
pub fn fresh_id(at_ms: i64) -> Ulid {
    Ulid::from_parts(at_ms.cast_unsigned(), fastrand::u128(..))
}

/// RFC 3339, UTC, three decimals.
pub fn rfc3339(at_ms: i64) -> String {
    let instant = jiff::Timestamp::from_millisecond(at_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    instant.to_zoned_datetime(jiff::tz::TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Unix time in milliseconds, of a time as a snapshot writes it.
pub fn unix_ms(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

#[derive(Default)]
struct Facts<'a> {
    partitions: Option<&'a [u32]>,
    worker: Option<&'a String>,
    from: Option<&'a String>,
    duration: Option<Duration>,
    lag: Option<u64>,
    count: Option<u64>,
}

fn kind(happening: &Happening) -> (EventType, Severity, Reason) {
    use {EventType as T, Happening as H, Severity as S};
    match happening {
        H::WorkerStarted { .. } => (T::WorkerStarted, S::Info, Reason::Started),
        H::WorkerDraining { .. } => (T::WorkerDraining, S::Info, Reason::DrainRequested),
        H::WorkerStopped { ended: Ended::Clean | Ended::Unsaid, .. } => {
            (T::WorkerStopped, S::Info, Reason::DrainRequested)
        }
        H::WorkerStopped { ended: Ended::TimedOut { .. }, .. } => (T::WorkerStopped, S::Warning, Reason::DrainTimeout),
        H::WorkerLost { .. } => (T::WorkerLost, S::Warning, Reason::SnapshotStale),
        H::WorkerReturned { .. } => (T::WorkerReturned, S::Info, Reason::Unknown),
        H::Acquired { .. } => (T::Acquired, S::Info, Reason::Rebalance),
        H::Draining { .. } => (T::Draining, S::Info, Reason::Rebalance),
        H::Released { .. } => (T::Released, S::Info, Reason::Rebalance),
        H::Expired { .. } => (T::Expired, S::Critical, Reason::SessionTimeout),
        H::Absent { .. } => (T::Absent, S::Critical, Reason::Unknown),
        H::Contested { .. } => (T::Contested, S::Critical, Reason::Unknown),
        H::WriteRefused { .. } => (T::WriteRefused, S::Warning, Reason::Unknown),
        H::Stuck { .. } => (T::Stuck, S::Warning, Reason::Unknown),
        H::Recovered { .. } => (T::Recovered, S::Info, Reason::Unknown),
        H::HandlerFailing { .. } => (T::HandlerFailing, S::Warning, Reason::HandlerError),
        H::HandlerPaused { .. } => (T::HandlerPaused, S::Critical, Reason::HandlerError),
        H::HandlerRecovered { .. } => (T::HandlerRecovered, S::Info, Reason::HandlerError),
        H::Rebalanced { .. } => (T::Rebalanced, S::Info, Reason::Rebalance),
        H::ObserverGap { .. } => (T::ObserverGap, S::Warning, Reason::SnapshotStale),
    }
}

fn facts(happening: &Happening) -> Facts<'_> {
    use Happening as H;
    match happening {
        H::WorkerStarted { worker, .. } => Facts { worker: Some(worker), ..Facts::default() },
        H::WorkerDraining { worker, partitions, jobs } | H::Draining { worker, partitions, jobs } => {
            Facts { worker: Some(worker), partitions: Some(partitions), count: *jobs, ..Facts::default() }
        }
        H::WorkerStopped { worker, ended } => {
            let (duration, count) = match ended {
                Ended::Clean | Ended::Unsaid => (None, None),
                Ended::TimedOut { limit, jobs } => (Some(*limit), Some(*jobs)),
            };
            Facts { worker: Some(worker), duration, count, ..Facts::default() }
        }
        H::WorkerLost { worker, silent, partitions, .. } | H::WorkerReturned { worker, silent, partitions } => {
            Facts { worker: Some(worker), partitions: Some(partitions), duration: Some(*silent), ..Facts::default() }
        }
        H::Acquired { worker, partitions, before, lag } => {
            let (from, duration) = match before {
                Before::Unseen => (None, None),
                Before::Handed { from, gap } => (Some(from), *gap),
            };
            let lag = *lag;
            Facts { worker: Some(worker), partitions: Some(partitions), from, duration, lag, ..Facts::default() }
        }
        H::Released { worker, partitions, jobs, took } => Facts {
            worker: Some(worker),
            partitions: Some(partitions),
            duration: *took,
            count: *jobs,
            ..Facts::default()
        },
        H::Expired { worker, partitions } => {
            Facts { worker: Some(worker), partitions: Some(partitions), ..Facts::default() }
        }
        H::Absent { partitions, lag, last } => Facts {
            partitions: Some(partitions),
            from: last.as_ref().map(|(worker, _)| worker),
            lag: *lag,
            ..Facts::default()
        },
        H::Contested { a, b, partitions } => {
            Facts { worker: Some(a), from: Some(b), partitions: Some(partitions), ..Facts::default() }
        }
        H::WriteRefused { worker, partitions, jobs } => {
            Facts { worker: Some(worker), partitions: Some(partitions), count: Some(*jobs), ..Facts::default() }
        }
        H::Stuck { worker, partitions, lag, idle } => Facts {
            worker: Some(worker),
            partitions: Some(partitions),
            lag: *lag,
            duration: Some(*idle),
            ..Facts::default()
        },
        H::Recovered { partitions, after } => {
            Facts { partitions: Some(partitions), duration: Some(*after), ..Facts::default() }
        }
        H::HandlerFailing { times, .. } => Facts { count: Some(*times), ..Facts::default() },
        H::HandlerPaused { .. } => Facts::default(),
        H::HandlerRecovered { after, .. } => Facts { duration: Some(*after), ..Facts::default() },
        H::Rebalanced { partitions, took, left, .. } => Facts {
            partitions: Some(partitions),
            from: left.as_ref(),
            duration: Some(*took),
            count: Some(partitions.len() as u64),
            ..Facts::default()
        },
        H::ObserverGap { gap, .. } => Facts { duration: Some(*gap), ..Facts::default() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_shown_by_the_word_that_is_written() {
        for (at, kind) in EventType::ALL.into_iter().enumerate() {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
            assert_eq!(kind as usize, at, "it counts as many");
        }
    }
}
