//! What is counted for whoever watches, and looked up by whoever decides.

use keylane_producer::{JobKey, Partition};

use super::{Lanes, State};

impl<J> Lanes<J> {
    /// Jobs that run now, those of ended tenures included.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Jobs that are known and not finished, in all partitions.
    pub fn known(&self) -> usize {
        self.partitions.values().map(|p| p.known_jobs).sum()
    }

    /// Jobs of the partition that are known and not finished, and how many of its keys are parked.
    pub fn counts(&self, partition: Partition) -> (usize, usize) {
        self.partitions.get(&partition).map_or((0, 0), |p| (p.known_jobs, p.lanes().filter(|lane| lane.parked).count()))
    }

    /// The keys of the partition with the most jobs that are known here, at least so many each; the most first.
    pub fn longest(&self, partition: Partition, keys: usize, at_least: usize) -> Vec<(JobKey, usize)> {
        let Some(lanes) = self.partitions.get(&partition).filter(|p| p.known_jobs >= at_least) else {
            return Vec::new();
        };
        let mut found: Vec<_> =
            lanes.lanes().map(|lane| (&lane.key, lane.len())).filter(|(_, jobs)| *jobs >= at_least).collect();
        found.sort_unstable_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        found.into_iter().take(keys).map(|(key, jobs)| (key.clone(), jobs)).collect()
    }

    /// Jobs of the key that are known here.
    pub fn waiting(&self, partition: Partition, key: &JobKey) -> usize {
        self.partitions.get(&partition).and_then(|p| p.find(key)).map_or(0, |(_, lane)| lane.len())
    }

    /// Whether nothing is left here but keys whose jobs are all in their lines, so that only a person can move on.
    pub fn only_parked_left(&self) -> bool {
        self.partitions.values().all(|p| p.lanes().all(|lane| lane.state == State::Parked && lane.is_empty()))
    }
}
