//! A worker's view of itself.
//!
//! What was proved is over when its time is: a worker that was frozen or whose desk stands still says `expired` by the same
//! clock that stops it, whoever else holds the partition by then.

use std::time::Duration;

use keylane_producer::{GroupName, QueueIdentity, Timestamp};
use keylane_sidecar::{
    Freshness, Lag, Observer, PartitionState, PartitionView, QueueView, Scope, Snapshot, Totals, WhyUnknown,
    WorkerSession, WorkerState, WorkerView,
    snapshot::{self, SCHEMA},
};

use super::{STALE_AFTER, before, keys, ms, name, rfc3339};
use crate::{
    clock::BootTime,
    worker::{
        ShowKeys,
        glance::{Glance, Held},
    },
};

/// Who speaks, and of what.
#[derive(Clone, Debug)]
pub(crate) struct Speaker {
    pub(crate) worker: Box<str>,
    pub(crate) queue: QueueIdentity,
    pub(crate) group: GroupName,
    pub(crate) session: Duration,
    pub(crate) show_keys: ShowKeys,
}

/// What the worker held at the glance, as it stands `now`, which is `wall` on the clock on the wall.
pub(crate) fn of_worker(speaker: &Speaker, glance: &Glance, now: BootTime, wall: Timestamp) -> Snapshot {
    let moment = Moment { speaker, glance, now, wall };
    let mut partitions: Vec<PartitionView> = glance.held.iter().map(|held| moment.partition(held)).collect();
    snapshot::bound_keys(&mut partitions);
    Snapshot {
        schema: SCHEMA,
        scope: Scope::Worker,
        observed_at: rfc3339(wall),
        observer: Observer { name: name(&speaker.worker), version: env!("CARGO_PKG_VERSION").to_owned() },
        queue: QueueView {
            cluster: name(&speaker.queue.cluster),
            topic: name(speaker.queue.name.as_str()),
            group: name(speaker.group.as_str()),
            partition_count: Some(speaker.queue.partitions.0.get()),
        },
        freshness: moment.freshness(),
        stale_after_ms: ms(STALE_AFTER),
        workers: vec![moment.worker()],
        totals: Totals::of(&partitions),
        partitions,
        notices: Vec::new(),
    }
}

struct Moment<'a> {
    speaker: &'a Speaker,
    glance: &'a Glance,
    now: BootTime,
    wall: Timestamp,
}

impl Moment<'_> {
    fn worker(&self) -> WorkerView {
        let glance = self.glance;
        WorkerView {
            worker: name(&self.speaker.worker),
            state: glance.state,
            since: Some(self.time(glance.since)),
            last_seen_at: self.time(glance.at),
            age_ms: self.age(),
            freshness: self.freshness(),
            partitions_held: Some(u32::try_from(glance.held.len()).unwrap_or(u32::MAX)),
            jobs_in_flight: Some(glance.in_flight),
            session: WorkerSession {
                timeout_ms: Some(ms(self.speaker.session).max(1)),
                remaining_ms: self.left(),
                basis: if glance.until == BootTime::ZERO { "none" } else { "heartbeat" },
            },
        }
    }

    fn partition(&self, held: &Held) -> PartitionView {
        let (state, since) = match self.left() {
            Some(0) if held.claimed => (PartitionState::Expired, self.glance.until),
            _ => (held.state, held.since),
        };
        PartitionView {
            partition: held.partition.0,
            state,
            worker: Some(name(&self.speaker.worker)),
            claimants: Vec::new(),
            last_known_worker: None,
            since: Some(self.time(since)),
            session_remaining_ms: self.left(),
            lag: match held.lag {
                Some((jobs, at)) => Lag { jobs: Some(jobs), as_of: Some(self.time(at)), why_unknown: None },
                None => Lag { jobs: None, as_of: None, why_unknown: Some(WhyUnknown::NotReported) },
            },
            last_completed_at: held.last_completed.map(|at| self.time(at)),
            jobs_in_flight: Some(held.in_flight),
            age_ms: Some(self.age()),
            token_present: Some(held.claimed),
            keys_parked: held.claimed.then_some(held.keys_parked),
            keys: keys::shown(self.speaker.show_keys, &held.keys),
        }
    }

    /// In ms; `None` before the first proof and after the last.
    fn left(&self) -> Option<u64> {
        let proved = self.glance.until != BootTime::ZERO && self.glance.state != WorkerState::Stopped;
        proved.then(|| ms(self.glance.until.since(self.now)))
    }

    fn age(&self) -> u64 {
        ms(self.now.since(self.glance.at))
    }

    fn freshness(&self) -> Freshness {
        match self.now.since(self.glance.at) {
            silent if silent >= STALE_AFTER * 2 => Freshness::Lost,
            silent if silent >= STALE_AFTER => Freshness::Stale,
            _ => Freshness::Fresh,
        }
    }

    /// On the clock on the wall.
    fn time(&self, at: BootTime) -> String {
        rfc3339(before(self.wall, self.now.since(at)))
    }
}
