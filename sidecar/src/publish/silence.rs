//! Pure: what may still be said of a worker that spoke so long ago.
//!
//! 1. A silent worker's state is `unknown`, since its last word; what it held is `unknown` while its session may run (its
//!    name is the `last_known_worker` then), and `expired` once that is over, by the name of the worker that let it run out.
//! 2. Its lag and its running jobs are unknown, never what they were. When a job was last finished stays: it is past.
//! 3. Who said that it stopped is not silent: that word is its last.

use super::reading::Word;
use crate::{
    clock::Now,
    snapshot::{
        Freshness, Lag, PartitionState, PartitionView, Snapshot, Totals, WhyUnknown, WorkerSession, WorkerState,
        WorkerView,
    },
    words::event::{rfc3339, unix_ms},
};

/// The worker's word as it stands now.
pub(super) fn as_of(now: Now, word: &Word<'_>) -> Snapshot {
    let said = word.said;
    let age_ms = said.workers.first().map_or(0, |own| own.age_ms).saturating_add(word.age_ms);
    let late = Late { word, is_silent: !word.is_vouched || age_ms >= said.stale_after_ms };
    let workers: Vec<WorkerView> = said.workers.iter().map(|worker| late.worker(worker)).collect();
    let partitions: Vec<PartitionView> = said.partitions.iter().map(|partition| late.partition(partition)).collect();
    Snapshot {
        observed_at: rfc3339(now.wall_ms),
        freshness: workers.first().map_or_else(|| late.freshness(word.age_ms), |worker| worker.freshness),
        totals: Totals::of(&partitions),
        workers,
        partitions,
        ..said.clone()
    }
}

struct Late<'a> {
    word: &'a Word<'a>,
    is_silent: bool,
}

impl Late<'_> {
    fn worker(&self, said: &WorkerView) -> WorkerView {
        let age_ms = said.age_ms.saturating_add(self.word.age_ms);
        let heard = WorkerView { age_ms, freshness: self.freshness(age_ms), ..said.clone() };
        if said.state == WorkerState::Stopped {
            return heard;
        }
        if self.is_silent {
            return WorkerView {
                state: WorkerState::Unknown,
                since: Some(said.last_seen_at.clone()),
                partitions_held: None,
                jobs_in_flight: None,
                session: WorkerSession { timeout_ms: said.session.timeout_ms, remaining_ms: None, basis: "none" },
                ..heard
            };
        }
        let session = WorkerSession { remaining_ms: self.left(said.session.remaining_ms), ..said.session.clone() };
        WorkerView { session, ..heard }
    }

    fn partition(&self, said: &PartitionView) -> PartitionView {
        let left = self.left(said.session_remaining_ms);
        let held = matches!(said.state, PartitionState::Held | PartitionState::Draining);
        let heard = PartitionView {
            age_ms: said.age_ms.map(|age| age.saturating_add(self.word.age_ms)),
            session_remaining_ms: left,
            ..said.clone()
        };
        if held && left == Some(0) {
            return self.forgotten(PartitionView {
                state: PartitionState::Expired,
                since: self.ran_out(said),
                ..heard
            });
        }
        if held && self.is_silent {
            return self.forgotten(PartitionView {
                state: PartitionState::Unknown,
                worker: None,
                last_known_worker: heard.worker.clone(),
                since: self.word.said.workers.first().map(|worker| worker.last_seen_at.clone()),
                session_remaining_ms: None,
                ..heard
            });
        }
        if self.is_silent { self.forgotten(heard) } else { heard }
    }

    /// What changes by itself is not known any more.
    fn forgotten(&self, view: PartitionView) -> PartitionView {
        let token_present = if view.state == PartitionState::Expired { Some(false) } else { None };
        if !self.is_silent {
            return PartitionView { token_present, ..view };
        }
        let lag = Lag { jobs: None, as_of: None, why_unknown: Some(WhyUnknown::NotReported) };
        PartitionView { lag, jobs_in_flight: None, token_present, keys_parked: None, keys: Vec::new(), ..view }
    }

    fn left(&self, said: Option<u64>) -> Option<u64> {
        said.map(|left| left.saturating_sub(self.word.age_ms))
    }

    /// When the session ran out, by the clock on the wall as the worker read it.
    fn ran_out(&self, said: &PartitionView) -> Option<String> {
        let spoke = unix_ms(&self.word.said.observed_at)?;
        Some(rfc3339(spoke.saturating_add_unsigned(said.session_remaining_ms?)))
    }

    fn freshness(&self, age_ms: u64) -> Freshness {
        let stale_after = self.word.said.stale_after_ms;
        match age_ms {
            age if age >= stale_after.saturating_mul(2) => Freshness::Lost,
            age if age >= stale_after || !self.word.is_vouched => Freshness::Stale,
            _ => Freshness::Fresh,
        }
    }
}

#[cfg(test)]
mod tests;
