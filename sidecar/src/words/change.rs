//! Pure: what happened between two views of the same group.
//!
//! 1. What passes within moments is not told: nobody holds a partition for a blink in each handover, and two reports of
//!    different ages may both name an owner. See [`ABSENT_TOLD_AFTER`] and [`CONTESTED_TOLD_AFTER`].
//! 2. Partitions that share a happening share its sentence.
//! 3. A first view tells who holds what, and nothing else: what was before was not seen.

use std::{collections::BTreeMap, time::Duration};

use crate::snapshot::{Freshness, PartitionState, PartitionView, Snapshot, WorkerState, WorkerView};

use super::{
    event::unix_ms,
    happening::{Before, Ended, Happening},
};

/// So long nobody holds a partition before it is told.
pub const ABSENT_TOLD_AFTER: Duration = Duration::from_secs(5);
/// So long two claim a partition before it is told: a worker's report and a look at it later.
pub const CONTESTED_TOLD_AFTER: Duration = Duration::from_secs(3);
/// So long jobs wait and none is finished before it is told.
pub const STUCK_AFTER: Duration = Duration::from_secs(60);
/// Two views further apart leave a gap that is told.
pub const GAP_TOLD_AFTER: Duration = Duration::from_secs(10);

/// Most that a worker's clock is believed against ours.
const BELIEVED_MS: i64 = 30_000;

/// What happened, each with its Unix time in milliseconds, in order of time.
pub fn changes(before: Option<&Snapshot>, now: &Snapshot) -> Vec<(i64, Happening)> {
    let Some(at) = unix_ms(&now.observed_at) else { return Vec::new() };
    let change = Change { before, now, at, before_at: before.and_then(|b| unix_ms(&b.observed_at)).unwrap_or(at) };
    let mut told = Told::default();
    if before.is_some() {
        change.gap(&mut told);
        change.workers(&mut told);
    }
    change.partitions(&mut told);
    let mut told = told.0;
    told.sort_by_key(|(at, _)| *at);
    told
}

/// Whether the partition's jobs wait and none was finished for [`STUCK_AFTER`]; since when, in Unix milliseconds.
pub fn stuck_since(partition: &PartitionView, observed_ms: i64) -> Option<i64> {
    let works = partition.state == PartitionState::Held && partition.lag.jobs.is_some_and(|jobs| jobs > 0);
    let last = [&partition.last_completed_at, &partition.since].into_iter().flatten().filter_map(|t| unix_ms(t)).max();
    last.filter(|last| works && observed_ms - last >= ms(STUCK_AFTER))
}

struct Change<'a> {
    before: Option<&'a Snapshot>,
    now: &'a Snapshot,
    at: i64,
    before_at: i64,
}

#[derive(Default)]
struct Told(Vec<(i64, Happening)>);

impl Told {
    fn tell(&mut self, at: i64, happening: Happening) {
        self.0.push((at, happening));
    }

    /// Adds to a sentence that says the same of other partitions, or begins one.
    fn tell_of(&mut self, at: i64, happening: Happening) {
        let joined = self.0.iter_mut().any(|(_, known)| join(known, &happening));
        if !joined {
            self.0.push((at, happening));
        }
    }
}

impl Change<'_> {
    fn gap(&self, told: &mut Told) {
        let Some(before) = self.before else { return };
        let apart = since(self.at, self.before_at);
        let was_blind = before.freshness == Freshness::Lost && self.now.freshness != Freshness::Lost;
        let silent = before.workers.iter().map(|w| w.age_ms).min().filter(|_| was_blind).map(Duration::from_millis);
        let gap = silent.unwrap_or_default() + apart;
        if gap >= GAP_TOLD_AFTER {
            told.tell(self.at, Happening::ObserverGap { group: self.now.queue.group.clone(), gap });
        }
    }

    fn workers(&self, told: &mut Told) {
        let before: BTreeMap<&str, &WorkerView> =
            self.before.iter().flat_map(|b| &b.workers).map(|w| (w.worker.as_str(), w)).collect();
        for now in &self.now.workers {
            match before.get(now.worker.as_str()) {
                Some(before) => self.worker(before, now, told),
                None if now.freshness == Freshness::Fresh && !before.is_empty() => self.started(now, told),
                None => {}
            }
        }
    }

    fn started(&self, now: &WorkerView, told: &mut Told) {
        if matches!(now.state, WorkerState::Starting | WorkerState::Running) {
            let (worker, group) = (now.worker.clone(), self.now.queue.group.clone());
            told.tell(self.believed(now.since.as_deref()), Happening::WorkerStarted { worker, group });
        }
    }

    fn worker(&self, before: &WorkerView, now: &WorkerView, told: &mut Told) {
        let worker = now.worker.clone();
        let spoke = (before.freshness == Freshness::Fresh, now.freshness == Freshness::Fresh);
        match (before.state, now.state) {
            (WorkerState::Stopped, WorkerState::Starting | WorkerState::Running) => return self.started(now, told),
            (was, WorkerState::Stopped) if was != WorkerState::Stopped => {
                let ended = if now.jobs_in_flight == Some(0) { Ended::Clean } else { Ended::Unsaid };
                return told.tell(self.believed(now.since.as_deref()), Happening::WorkerStopped { worker, ended });
            }
            (_, WorkerState::Stopped) => return,
            (was, WorkerState::Draining) if was != WorkerState::Draining => {
                let partitions = held_by(self.now, &worker);
                let happening =
                    Happening::WorkerDraining { worker: worker.clone(), partitions, jobs: now.jobs_in_flight };
                told.tell(self.believed(now.since.as_deref()), happening);
            }
            _ => {}
        }
        match spoke {
            (true, false) => {
                let partitions = self.before.map(|b| held_by(b, &worker)).unwrap_or_default();
                let left = before.session.remaining_ms.map(Duration::from_millis);
                let remaining = left.map(|left| left.saturating_sub(since(self.at, self.before_at)));
                let silent = Duration::from_millis(now.age_ms);
                told.tell(self.at, Happening::WorkerLost { worker, silent, remaining, partitions });
            }
            (false, true) => {
                let silent = Duration::from_millis(before.age_ms) + since(self.at, self.before_at);
                let partitions = held_by(self.now, &worker);
                told.tell(self.at, Happening::WorkerReturned { worker, silent, partitions });
            }
            _ => {}
        }
    }

    fn partitions(&self, told: &mut Told) {
        let before: BTreeMap<u32, &PartitionView> =
            self.before.iter().flat_map(|b| &b.partitions).map(|p| (p.partition, p)).collect();
        for now in &self.now.partitions {
            let before = before.get(&now.partition).copied();
            self.released(before, now, told);
            self.acquired(before, now, told);
            if self.before.is_some() {
                self.troubled(before, now, told);
            }
        }
    }

    fn released(&self, before: Option<&PartitionView>, now: &PartitionView, told: &mut Told) {
        let Some(before) = before.filter(|b| b.state == PartitionState::Draining && owner(now) != owner(b)) else {
            return;
        };
        let Some(worker) = before.worker.clone() else { return };
        // Only a worker that still speaks, or spoke its last word, can be said to have handed something back.
        let by_itself = self
            .now
            .workers
            .iter()
            .any(|w| w.worker == worker && (w.freshness == Freshness::Fresh || w.state == WorkerState::Stopped));
        if by_itself && now.state != PartitionState::Expired {
            let took = before.since.as_deref().and_then(unix_ms).map(|began| since(self.at, began));
            told.tell_of(self.at, Happening::Released { worker, partitions: vec![now.partition], jobs: None, took });
        }
    }

    fn acquired(&self, before: Option<&PartitionView>, now: &PartitionView, told: &mut Told) {
        let Some(worker) = owner(now) else { return };
        let partitions = vec![now.partition];
        let last = before.and_then(last_owner);
        let had_it = before.is_some_and(|b| {
            matches!(b.state, PartitionState::Held | PartitionState::Draining | PartitionState::Unknown)
        });
        if last == Some(worker) && had_it {
            let is_new =
                before.is_some_and(|b| b.state == PartitionState::Held) && now.state == PartitionState::Draining;
            let leaves = self.now.workers.iter().any(|w| w.worker == *worker && w.state == WorkerState::Draining);
            if is_new && !leaves {
                let happening = Happening::Draining { worker: worker.clone(), partitions, jobs: now.jobs_in_flight };
                told.tell_of(self.at, happening);
            }
            return;
        }
        let at = self.believed(now.since.as_deref());
        let was_without = before.filter(|b| matches!(b.state, PartitionState::Absent | PartitionState::Expired));
        let gap = was_without.and_then(|b| b.since.as_deref()).and_then(unix_ms).map(|began| since(at, began));
        let before = last.map_or(Before::Unseen, |from| Before::Handed { from: from.clone(), gap });
        let (worker, lag) = (worker.clone(), now.lag.jobs);
        told.tell_of(at, Happening::Acquired { worker, partitions, before, lag });
    }

    fn troubled(&self, before: Option<&PartitionView>, now: &PartitionView, told: &mut Told) {
        let partitions = vec![now.partition];
        let was = |state| before.is_some_and(|b| b.state == state);
        let expires = now.state == PartitionState::Expired && !was(PartitionState::Expired);
        if let Some(worker) = now.worker.clone().filter(|_| expires) {
            let happening = Happening::Expired { worker, partitions: partitions.clone() };
            told.tell_of(self.believed(now.since.as_deref()), happening);
        }
        let lasts = |state, limit| {
            let now_lasts = now.state == state && lasted(now, self.at, limit);
            now_lasts && !before.is_some_and(|b| b.state == state && lasted(b, self.before_at, limit))
        };
        if lasts(PartitionState::Absent, ABSENT_TOLD_AFTER) {
            let until = now.since.as_deref().and_then(unix_ms).unwrap_or(self.at);
            let last = now.last_known_worker.clone().map(|worker| (worker, until));
            told.tell_of(self.at, Happening::Absent { partitions: partitions.clone(), lag: now.lag.jobs, last });
        }
        if let [a, b, ..] = now.claimants.as_slice()
            && lasts(PartitionState::Contested, CONTESTED_TOLD_AFTER)
        {
            let (a, b) = (a.clone(), b.clone());
            told.tell_of(self.at, Happening::Contested { a, b, partitions: partitions.clone() });
        }
        let stuck = (before.and_then(|b| stuck_since(b, self.before_at)), stuck_since(now, self.at));
        match (stuck, &now.worker) {
            ((None, Some(last)), Some(worker)) => {
                let idle = since(self.at, last);
                told.tell_of(self.at, Happening::Stuck { worker: worker.clone(), partitions, lag: now.lag.jobs, idle });
            }
            ((Some(last), None), Some(_)) if now.state == PartitionState::Held && now.lag.jobs.is_some() => {
                told.tell_of(self.at, Happening::Recovered { partitions, after: since(self.at, last) });
            }
            _ => {}
        }
    }

    /// A worker's own time, if it lies near enough to what we saw.
    fn believed(&self, said: Option<&str>) -> i64 {
        said.and_then(unix_ms)
            .filter(|&said| said <= self.at && said >= self.before_at - BELIEVED_MS)
            .unwrap_or(self.at)
    }
}

/// Whether `known` says the same of other partitions: then `new`'s partitions are added to it.
fn join(known: &mut Happening, new: &Happening) -> bool {
    use Happening as H;
    let same = match (&*known, new) {
        (H::Acquired { worker: a, before: x, .. }, H::Acquired { worker: b, before: y, .. }) => {
            a == b && from(x) == from(y)
        }
        (H::Draining { worker: a, .. }, H::Draining { worker: b, .. })
        | (H::Released { worker: a, .. }, H::Released { worker: b, .. })
        | (H::Expired { worker: a, .. }, H::Expired { worker: b, .. })
        | (H::Stuck { worker: a, .. }, H::Stuck { worker: b, .. }) => a == b,
        (H::Absent { last: a, .. }, H::Absent { last: b, .. }) => a.as_ref().map(|l| &l.0) == b.as_ref().map(|l| &l.0),
        (H::Contested { a, b, .. }, H::Contested { a: c, b: d, .. }) => (a, b) == (c, d),
        (H::Recovered { .. }, H::Recovered { .. }) => true,
        _ => false,
    };
    if !same {
        return false;
    }
    match (known, new) {
        (H::Acquired { partitions, lag, before, .. }, H::Acquired { partitions: p, lag: l, before: b, .. }) => {
            *lag = add(*lag, *l);
            if let (Before::Handed { gap, .. }, Before::Handed { gap: other, .. }) = (before, b) {
                *gap = longest(*gap, *other);
            }
            partitions.extend(p);
        }
        (H::Draining { partitions, jobs, .. }, H::Draining { partitions: p, jobs: j, .. }) => {
            *jobs = add(*jobs, *j);
            partitions.extend(p);
        }
        (H::Released { partitions, took, .. }, H::Released { partitions: p, took: t, .. }) => {
            *took = longest(*took, *t);
            partitions.extend(p);
        }
        (H::Absent { partitions, lag, .. }, H::Absent { partitions: p, lag: l, .. }) => {
            *lag = add(*lag, *l);
            partitions.extend(p);
        }
        (H::Stuck { partitions, lag, idle, .. }, H::Stuck { partitions: p, lag: l, idle: i, .. }) => {
            *lag = add(*lag, *l);
            // The shortest: it is true of all of them.
            *idle = (*idle).min(*i);
            partitions.extend(p);
        }
        (H::Recovered { partitions, after }, H::Recovered { partitions: p, after: a }) => {
            *after = (*after).max(*a);
            partitions.extend(p);
        }
        (H::Expired { partitions, .. }, H::Expired { partitions: p, .. })
        | (H::Contested { partitions, .. }, H::Contested { partitions: p, .. }) => partitions.extend(p),
        _ => {}
    }
    true
}

fn from(before: &Before) -> Option<&str> {
    match before {
        Before::Unseen => None,
        Before::Handed { from, .. } => Some(from),
    }
}

/// A sum is known if all of it is.
fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

fn longest(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    Some(a?.max(b?))
}

fn owner(partition: &PartitionView) -> Option<&String> {
    let owned = matches!(partition.state, PartitionState::Held | PartitionState::Draining);
    partition.worker.as_ref().filter(|_| owned)
}

fn last_owner(partition: &PartitionView) -> Option<&String> {
    partition.worker.as_ref().or(partition.last_known_worker.as_ref())
}

fn held_by(view: &Snapshot, worker: &str) -> Vec<u32> {
    let held = view.partitions.iter().filter(|p| owner(p).is_some_and(|o| o == worker));
    held.map(|p| p.partition).collect()
}

fn lasted(partition: &PartitionView, at: i64, limit: Duration) -> bool {
    partition.since.as_deref().and_then(unix_ms).is_some_and(|since| at - since >= ms(limit))
}

fn since(at: i64, earlier: i64) -> Duration {
    Duration::from_millis(u64::try_from(at - earlier).unwrap_or(0))
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
