//! What is held of one partition.

use std::{collections::HashMap, mem};

use keylane_producer::{JobKey, Offset};
use slab::Slab;

use super::{Lane, LaneLimits, State, Tenure};
use crate::numbers::NumberMap;

/// Names a lane of a partition for as long as it is there; another one may have the number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId(usize);

#[derive(Debug)]
pub(super) struct PartitionLanes<J> {
    pub(super) tenure: Tenure,
    lanes: Slab<Lane<J>>,
    by_key: HashMap<JobKey, LaneId>,
    /// Lanes whose head was started or is on its way to its line, by that head. So word of a job finds its lane without its key.
    begun: NumberMap<Offset, LaneId>,
    /// Held, or asked for.
    pub(super) held_jobs: usize,
    pub(super) held_bytes: usize,
    pub(super) known_jobs: usize,
    /// How many of them were read back from lines: they do not count against the bound, which is for what the log has.
    pub(super) line_jobs: usize,
    /// Lanes in [`State::Busy`] or [`State::Moving`].
    pub(super) busy: usize,
    pub(super) full: bool,
    pub(super) draining: bool,
}

impl<J> PartitionLanes<J> {
    pub(super) fn new(tenure: Tenure) -> Self {
        let (lanes, by_key, begun) = (Slab::new(), HashMap::new(), NumberMap::default());
        let (held_jobs, held_bytes, known_jobs, line_jobs) = (0, 0, 0, 0);
        let (busy, full, draining) = (0, false, false);
        Self { tenure, lanes, by_key, begun, held_jobs, held_bytes, known_jobs, line_jobs, busy, full, draining }
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane<J>> {
        self.lanes.iter().map(|(_, lane)| lane)
    }

    pub(super) fn find(&self, key: &JobKey) -> Option<(LaneId, &Lane<J>)> {
        let id = *self.by_key.get(key)?;
        Some((id, &self.lanes[id.0]))
    }

    pub(super) fn find_mut(&mut self, key: &JobKey) -> Option<(LaneId, &mut Lane<J>)> {
        let id = *self.by_key.get(key)?;
        Some((id, &mut self.lanes[id.0]))
    }

    pub(super) fn get(&self, id: LaneId) -> Option<&Lane<J>> {
        self.lanes.get(id.0)
    }

    pub(super) fn get_mut(&mut self, id: LaneId) -> Option<&mut Lane<J>> {
        self.lanes.get_mut(id.0)
    }

    /// The key's lane; a new one is made in this state.
    pub(super) fn lane_of(&mut self, key: JobKey, fresh: State) -> LaneId {
        let lanes = &mut self.lanes;
        *self.by_key.entry(key).or_insert_with_key(|key| LaneId(lanes.insert(Lane::new(key.clone(), fresh))))
    }

    pub(super) fn remove(&mut self, id: LaneId) {
        self.by_key.remove(&self.lanes.remove(id.0).key);
    }

    /// The head of this lane was started, or is on its way to its line.
    pub(super) fn begin(&mut self, id: LaneId) {
        if let Some(head) = self.lanes[id.0].head() {
            self.begun.insert(head, id);
        }
    }

    /// It is not any more.
    pub(super) fn unbegin(&mut self, head: Offset) {
        self.begun.remove(&head);
    }

    /// The lane with this job at its head, if that has begun and the lane is in one of these states.
    pub(super) fn begun_mut(&mut self, head: Offset, states: &[State]) -> Option<(LaneId, &mut Lane<J>)> {
        let id = *self.begun.get(&head)?;
        let lane = self.get_mut(id).filter(|lane| lane.head() == Some(head) && states.contains(&lane.state))?;
        Some((id, lane))
    }

    /// What was read back from the key's line, and so many jobs behind it, are in the line: they are none of the lane's any more.
    pub(super) fn leave_to_the_line(&mut self, id: LaneId, behind: usize) {
        let Some(lane) = self.lanes.get_mut(id.0) else { return };
        let read_back = mem::take(&mut lane.from_line);
        let in_line = read_back + behind;
        let held: Vec<_> = lane.held.drain(..in_line.min(lane.held.len())).collect();
        let bytes: usize = held.iter().map(|held| held.place.size).sum();
        lane.held_bytes -= bytes;
        lane.bare.drain(..in_line - held.len());
        if let Some(head) = held.first() {
            self.begun.remove(&head.place.offset);
        }
        self.known_jobs -= in_line;
        self.line_jobs -= read_back;
        self.held_jobs -= held.len();
        self.held_bytes -= bytes;
    }

    /// Jobs that are known, without those that were read back from lines.
    pub(super) fn of_the_log(&self) -> usize {
        self.known_jobs - self.line_jobs
    }

    /// Whether it holds one `share`-th of what it may.
    pub(super) fn reaches(&self, limits: &LaneLimits, share: usize) -> bool {
        self.held_jobs.saturating_mul(share) >= limits.held_jobs
            || self.held_bytes.saturating_mul(share) >= limits.held_bytes
    }

    /// Whether it is known of exactly those lanes what has begun of them.
    #[cfg(test)]
    pub(super) fn knows_what_has_begun(&self) -> bool {
        let begun = self.lanes.iter().filter(|(_, l)| matches!(l.state, State::Busy | State::Waiting | State::Moving));
        let heads: NumberMap<_, _> = begun.filter_map(|(id, lane)| Some((lane.head()?, LaneId(id)))).collect();
        heads == self.begun
    }
}
