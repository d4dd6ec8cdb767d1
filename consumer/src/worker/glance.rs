//! One look at a worker, as its desk puts it down for whoever watches. It has no number of the group or the store.

use keylane_producer::{JobKey, Partition, Timestamp};
use keylane_sidecar::{PartitionState, WorkerState};

use super::{Summary, counts::Counts};
use crate::clock::BootTime;

/// One look at what a worker holds and has done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Glance {
    pub(crate) at: BootTime,
    pub(crate) state: WorkerState,
    pub(crate) since: BootTime,
    /// Until when ownership is proved.
    pub(crate) until: BootTime,
    pub(crate) held: Vec<Held>,
    pub(crate) in_flight: u64,
    /// Since when partitions or the membership come and go.
    pub(crate) rebalancing_since: Option<BootTime>,
    /// Since when all work stands still for no known reason.
    pub(crate) stuck_since: Option<BootTime>,
    pub(crate) load: Load,
    pub(crate) finished: Finished,
    pub(crate) counts: Counts,
}

/// What there is to do, and what there is to do it with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) running: u64,
    /// Known, not finished, and not running.
    pub(crate) buffered: u64,
    /// Keys that wait for another try.
    pub(crate) keys_blocked: u64,
    pub(crate) slots: u64,
    pub(crate) slots_busy: u64,
    /// Partitions that were told to stand still.
    pub(crate) stalled: u64,
    /// When the polling thread last turned.
    pub(crate) polled: BootTime,
}

/// How jobs ended, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) completed: u64,
    pub(crate) retried: u64,
    pub(crate) parked: u64,
    pub(crate) dead_lettered: u64,
    pub(crate) skipped: u64,
    pub(crate) refused: u64,
    pub(crate) abandoned: u64,
}

impl Finished {
    pub(crate) fn of(summary: &Summary) -> Self {
        Self {
            completed: summary.applied,
            retried: summary.retried,
            parked: summary.stopped + summary.parked,
            dead_lettered: summary.buried,
            skipped: summary.already_done,
            refused: summary.refused,
            abandoned: summary.cut_short.len() as u64,
        }
    }
}

/// One partition of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) partition: Partition,
    pub(crate) state: PartitionState,
    /// Whether its claim stands.
    pub(crate) claimed: bool,
    pub(crate) since: BootTime,
    /// Jobs not finished, and when that was known.
    pub(crate) lag: Option<(u64, BootTime)>,
    pub(crate) last_completed: Option<BootTime>,
    pub(crate) in_flight: u64,
    /// When its oldest job that was fetched and is not finished was enqueued, as that job says.
    pub(crate) oldest: Option<Timestamp>,
    pub(crate) keys_parked: u64,
    /// Some that are parked or hot, if they may be shown.
    pub(crate) keys: Vec<Marked>,
}

/// A key that is parked or hot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) key: JobKey,
    pub(crate) parked: bool,
    /// Its jobs that wait, of a hot one.
    pub(crate) waiting: Option<u64>,
}

impl Glance {
    /// Of a worker that holds nothing.
    pub(super) fn alone(at: BootTime, state: WorkerState) -> Self {
        Self {
            at,
            state,
            since: at,
            until: BootTime::ZERO,
            held: Vec::new(),
            in_flight: 0,
            rebalancing_since: None,
            stuck_since: None,
            load: Load { polled: at, ..Load::default() },
            finished: Finished::default(),
            counts: Counts::new(),
        }
    }

    /// Whether somebody holds something else than before, or in another way.
    pub(super) fn differs(&self, before: &Self) -> bool {
        let held =
            |glance: &Self| -> Vec<_> { glance.held.iter().map(|h| (h.partition, h.state, h.claimed)).collect() };
        self.state != before.state || held(self) != held(before)
    }
}
