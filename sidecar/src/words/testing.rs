//! Views for tests, by hand.

use crate::snapshot::{
    Freshness, Lag, Observer, PartitionState, PartitionView, QueueView, SCHEMA, Scope, Snapshot, Totals, WhyUnknown,
    WorkerSession, WorkerState, WorkerView,
};

use super::event::rfc3339;

/// 14:02:31.000 UTC.
pub(crate) const AT: i64 = 1_764_597_751_000;

/// A group's view: partition `n` is held by the `n`th name, for a minute, lag unknown.
#[derive(Clone)]
pub(crate) struct View {
    at: i64,
    pub(crate) workers: Vec<WorkerView>,
    pub(crate) partitions: Vec<PartitionView>,
}

impl View {
    pub(crate) fn at(at: i64) -> Self {
        Self { at, workers: Vec::new(), partitions: Vec::new() }
    }

    pub(crate) fn held(mut self, owners: &[&str]) -> Self {
        for (partition, &owner) in owners.iter().enumerate() {
            if !self.workers.iter().any(|w| w.worker == owner) {
                self = self.worker(owner, WorkerState::Running, Some(1));
            }
            self.partitions.push(PartitionView {
                partition: partition as u32,
                state: PartitionState::Held,
                worker: Some(owner.to_owned()),
                claimants: Vec::new(),
                last_known_worker: None,
                since: Some(rfc3339(self.at - 60_000)),
                session_remaining_ms: Some(40_000),
                lag: Lag { jobs: None, as_of: None, why_unknown: Some(WhyUnknown::NotReported) },
                last_completed_at: None,
                jobs_in_flight: Some(1),
                age_ms: Some(400),
                token_present: Some(true),
                keys_parked: None,
                keys: Vec::new(),
            });
        }
        self
    }

    pub(crate) fn later(mut self, ms: i64) -> Self {
        self.at += ms;
        self
    }

    pub(crate) fn worker(mut self, name: &str, state: WorkerState, jobs: Option<u64>) -> Self {
        self.workers.retain(|w| w.worker != name);
        self.workers.push(WorkerView {
            worker: name.to_owned(),
            state,
            since: None,
            last_seen_at: rfc3339(self.at),
            age_ms: 400,
            freshness: Freshness::Fresh,
            partitions_held: None,
            jobs_in_flight: jobs,
            session: WorkerSession { timeout_ms: Some(45_000), remaining_ms: Some(40_000), basis: "heartbeat" },
        });
        self.workers.sort_by(|a, b| a.worker.cmp(&b.worker));
        self
    }

    pub(crate) fn silent(mut self, name: &str, age_ms: u64) -> Self {
        for worker in self.workers.iter_mut().filter(|w| w.worker == name) {
            worker.freshness = if age_ms > 20_000 { Freshness::Lost } else { Freshness::Stale };
            worker.age_ms = age_ms;
            worker.state = WorkerState::Unknown;
            worker.last_seen_at = rfc3339(self.at - age_ms.cast_signed());
            worker.session.remaining_ms = None;
            (worker.partitions_held, worker.jobs_in_flight) = (None, None);
        }
        for partition in self.partitions.iter_mut().filter(|p| p.worker.as_deref() == Some(name)) {
            partition.state = PartitionState::Unknown;
            partition.last_known_worker = partition.worker.take();
            partition.session_remaining_ms = None;
            partition.since = None;
            partition.lag = Lag { jobs: None, as_of: None, why_unknown: Some(WhyUnknown::NotReported) };
        }
        self
    }

    fn partition(mut self, number: usize, change: impl FnOnce(&mut PartitionView, i64)) -> Self {
        change(&mut self.partitions[number], self.at);
        self
    }

    pub(crate) fn expired(self, number: usize, worker: &str, for_ms: i64) -> Self {
        let worker = Some(worker.to_owned());
        self.partition(number, |p, at| {
            (p.state, p.worker, p.last_known_worker) = (PartitionState::Expired, worker, None);
            (p.since, p.session_remaining_ms) = (Some(rfc3339(at - for_ms)), Some(0));
        })
    }

    pub(crate) fn absent(self, number: usize, last: Option<&str>, for_ms: i64) -> Self {
        let last = last.map(str::to_owned);
        self.partition(number, |p, at| {
            (p.state, p.worker, p.last_known_worker) = (PartitionState::Absent, None, last);
            (p.since, p.session_remaining_ms) = (Some(rfc3339(at - for_ms)), None);
        })
    }

    pub(crate) fn contested(self, number: usize, claimants: &[&str], for_ms: i64) -> Self {
        let claimants = claimants.iter().map(|&c| c.to_owned()).collect();
        self.partition(number, |p, at| {
            (p.state, p.worker, p.claimants) = (PartitionState::Contested, None, claimants);
            (p.since, p.session_remaining_ms) = (Some(rfc3339(at - for_ms)), None);
        })
    }

    pub(crate) fn draining(self, number: usize) -> Self {
        self.partition(number, |p, _| p.state = PartitionState::Draining)
    }

    pub(crate) fn since(self, number: usize, for_ms: i64) -> Self {
        self.partition(number, |p, at| p.since = Some(rfc3339(at - for_ms)))
    }

    pub(crate) fn lag(self, number: usize, jobs: u64) -> Self {
        self.partition(number, |p, at| p.lag = Lag { jobs: Some(jobs), as_of: Some(rfc3339(at)), why_unknown: None })
    }

    pub(crate) fn completed(self, number: usize, at: i64) -> Self {
        self.partition(number, |p, _| p.last_completed_at = Some(rfc3339(at)))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let living: Vec<_> = self.workers.iter().filter(|w| w.state != WorkerState::Stopped).collect();
        let fresh = living.iter().filter(|w| w.freshness == Freshness::Fresh).count();
        let freshness = match fresh {
            0 => Freshness::Lost,
            fresh if fresh == living.len() => Freshness::Fresh,
            _ => Freshness::Stale,
        };
        Snapshot {
            schema: SCHEMA,
            scope: Scope::Group,
            observed_at: rfc3339(self.at),
            observer: Observer { name: "board".into(), version: "0.1.0".into() },
            queue: QueueView {
                cluster: "here".into(),
                topic: "jobs".into(),
                group: "workers".into(),
                partition_count: Some(self.partitions.len() as u32).filter(|&n| n > 0),
            },
            freshness,
            stale_after_ms: 10_000,
            workers: self.workers.clone(),
            partitions: self.partitions.clone(),
            totals: Totals::of(&self.partitions),
            notices: Vec::new(),
        }
    }
}
