//! A group that notes when the first record was asked for and when the last offset was committed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use keylane_consumer::{
    Error,
    clock::{BootTime, Clock},
    group::{Commit, CommitError, Group, GroupControl, GroupEvent},
};
use keylane_producer::{Offset, Partition};

use super::measure::cpu_seconds;

/// A moment, and the processor time that was used up to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) at: BootTime,
    pub(super) cpu_seconds: f64,
}

/// From the first fetch to the commit that finishes the last partition.
#[derive(Debug)]
pub(super) struct Watch {
    clock: Clock,
    begun: OnceLock<Moment>,
    ended: OnceLock<Moment>,
    /// Partitions that are not finished, and the offset at which they are.
    open: Mutex<BTreeMap<Partition, Offset>>,
    /// How long each commit took, in seconds.
    commits: Mutex<Vec<f64>>,
}

impl Watch {
    pub(super) fn until(ends: BTreeMap<Partition, Offset>) -> Arc<Self> {
        let open = Mutex::new(ends);
        Arc::new(Self {
            clock: Clock::boot(),
            begun: OnceLock::new(),
            ended: OnceLock::new(),
            open,
            commits: Mutex::default(),
        })
    }

    /// Both moments, once everything is committed.
    pub(super) fn moments(&self) -> Option<(Moment, Moment)> {
        Some((*self.begun.get()?, *self.ended.get()?))
    }

    /// How long each commit took, in seconds.
    pub(super) fn commits(&self) -> Vec<f64> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now(&self) -> Moment {
        Moment { at: self.clock.now(), cpu_seconds: cpu_seconds() }
    }

    fn resumed(&self) {
        self.begun.get_or_init(|| self.now());
    }

    fn committed(&self, commit: &Commit) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (partition, offset) in &commit.offsets {
            if open.get(partition).is_some_and(|end| offset >= end) {
                open.remove(partition);
            }
        }
        if open.is_empty() {
            self.ended.get_or_init(|| self.now());
        }
    }
}

/// The group underneath, watched.
pub(super) struct Observed<G> {
    pub(super) group: G,
    pub(super) watch: Arc<Watch>,
}

impl<G: Group> Group for Observed<G> {
    fn poll(&mut self, limit: Duration, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        self.group.poll(limit, sink)
    }

    fn control(&self) -> Arc<dyn GroupControl> {
        Arc::new(ObservedControl { control: self.group.control(), watch: Arc::clone(&self.watch) })
    }
}

struct ObservedControl {
    control: Arc<dyn GroupControl>,
    watch: Arc<Watch>,
}

impl GroupControl for ObservedControl {
    fn resume(&self, partition: Partition, from: Offset) {
        self.watch.resumed();
        self.control.resume(partition, from);
    }

    fn go_on(&self, partition: Partition, from: Offset) {
        self.control.go_on(partition, from);
    }

    fn pause(&self, partition: Partition) {
        self.control.pause(partition);
    }

    fn release(&self, partitions: &[Partition]) {
        self.control.release(partitions);
    }

    fn rejoin(&self) {
        self.control.rejoin();
    }

    fn leave(&self) {
        self.control.leave();
    }

    fn commit(&self, commit: &Commit, limit: Duration) -> Result<(), CommitError> {
        let begun = self.watch.clock.now();
        self.control.commit(commit, limit)?;
        let took = self.watch.clock.now().since(begun).as_secs_f64();
        self.watch.commits.lock().unwrap_or_else(PoisonError::into_inner).push(took);
        self.watch.committed(commit);
        Ok(())
    }

    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, Option<Offset>>, Error> {
        self.control.committed(partitions)
    }
}
