//! Pure: one job at a time a key, many keys at once, both bounded.
//!
//! A lane is one key's jobs in log order. Its head stays in place until its write is applied, so no follower starts
//! before the job in front of it has its last word: not while it runs, not while it waits for another try. A key whose job
//! cannot be done is parked: what it has here, and what comes, moves to the key's line in the store, in order.
//!
//! 1. No key has two jobs running, and no job starts before the ones in front of it in its lane are applied.
//! 2. What is running is bounded; what is held for each partition is bounded in jobs and bytes. A full partition asks to
//!    be paused, the others go on.
//! 3. No key fills its partition: in a filling partition, what a lane has beyond its share keeps its place only and is read
//!    again from the log when its turn comes.
//! 4. A [`Ticket`] names its tenure, so word of a job that began under an earlier claim changes nothing, also if the
//!    same offset runs again.
//! 5. A parked key starts nothing until its line was read back in front of all that came since; and the line is not read
//!    while a job is on its way to it.
//!
//! - `lanes.rs`: records in, starts, ends, what is read again
//! - `lanes/parking.rs`: keys that are parked, and their lines
//! - `lanes/partition.rs`, `lanes/lane.rs`: what is held of a partition, and of a key
//! - `lanes/counts.rs`: what others are shown

mod action;
mod counts;
mod lane;
mod parking;
mod partition;

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use keylane_producer::{JobKey, Offset, Partition};

pub use self::action::{LaneAction, Start};
use self::{
    lane::{Bare, Held, Lane, State},
    partition::{LaneId, PartitionLanes},
};
use crate::numbers::{NumberMap, NumberSet};

/// Numbers this process's tenures of partitions: one for each claim it tried. Local, and no fence token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenure(pub u64);

/// Names one started job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Whose partition.
    pub partition: Partition,
    /// Under which tenure.
    pub tenure: Tenure,
    /// Which job.
    pub offset: Offset,
}

/// What lanes may hold and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Jobs running at once in this worker. Default 64.
    pub running: usize,
    /// Jobs held with their bytes, for each partition. Default 2,000.
    pub held_jobs: usize,
    /// Bytes of keys, payloads and headers held, for each partition. Default 8 MiB.
    pub held_bytes: usize,
    /// Jobs known, held or not, for each partition: how far reading may be ahead of a job that does not end.
    /// Default 100,000, about 2 MB a partition when all but a few wait behind one key.
    pub known_jobs: usize,
    /// A lane's share of `held_jobs`, and in proportion of `held_bytes`, once its partition is a quarter full; at least one
    /// job. Default 32.
    pub lane_jobs: usize,
}

impl Default for LaneLimits {
    fn default() -> Self {
        Self { running: 64, held_jobs: 2_000, held_bytes: 8 << 20, known_jobs: 100_000, lane_jobs: 32 }
    }
}

/// All lanes of a worker; `J` is a job as the handler gets it.
#[derive(Debug)]
pub struct Lanes<J> {
    limits: LaneLimits,
    partitions: NumberMap<Partition, PartitionLanes<J>>,
    /// Lanes whose head can start, oldest first; an entry may be outdated, or name a lane that came after: then that one starts
    /// before its turn.
    ready: VecDeque<Place>,
    /// Would be ready, and were held back.
    held_back: Vec<Place>,
    /// Parked lanes that hold something that can move to their lines; an entry may be outdated.
    movable: VecDeque<Place>,
    running: NumberSet<Ticket>,
    actions: Vec<LaneAction>,
}

/// Where a lane is.
type Place = (Partition, Tenure, LaneId);

impl<J: Clone> Lanes<J> {
    /// Holds nothing yet.
    pub fn new(limits: LaneLimits) -> Self {
        Self {
            limits,
            partitions: NumberMap::default(),
            ready: VecDeque::new(),
            held_back: Vec::new(),
            movable: VecDeque::new(),
            running: NumberSet::default(),
            actions: Vec::new(),
        }
    }

    /// A tenure of a partition begins. What was there of an earlier one is dropped.
    pub fn open(&mut self, partition: Partition, tenure: Tenure) {
        self.close(partition);
        self.partitions.insert(partition, PartitionLanes::new(tenure));
    }

    /// A tenure ends. Jobs that still run keep their slot until [`Lanes::ended`]; their word changes nothing more.
    /// Returns how many jobs were known and not finished.
    pub fn close(&mut self, partition: Partition) -> usize {
        // What was asked for it must not reach its next tenure: a pause would hold that for ever.
        self.actions.retain(|action| action.partition() != partition);
        self.ready.retain(|(of, ..)| *of != partition);
        self.held_back.retain(|(of, ..)| *of != partition);
        self.movable.retain(|(of, ..)| *of != partition);
        self.partitions.remove(&partition).map_or(0, |p| p.known_jobs)
    }

    /// Nothing of this partition starts from now on; what runs may end and be applied.
    pub fn drain(&mut self, partition: Partition) {
        if let Some(partition) = self.partitions.get_mut(&partition) {
            partition.draining = true;
        }
    }

    /// Whether nothing of the partition runs or waits for its write.
    pub fn is_idle(&self, partition: Partition) -> bool {
        self.partitions.get(&partition).is_none_or(|p| p.busy == 0)
    }

    /// The next job of a key, in log order. `size` is what it counts against the bound.
    pub fn offer(&mut self, partition: Partition, tenure: Tenure, offset: Offset, key: JobKey, job: J, size: usize) {
        let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) else { return };
        let filling = lanes.reaches(&self.limits, 4);
        let id = lanes.lane_of(key, State::Ready);
        lanes.known_jobs += 1;
        let lane = lanes.get_mut(id).expect("it is found or made");
        let place = Bare { offset, size };
        let waits = matches!(lane.state, State::Returning | State::Reading);
        if waits || !lane.bare.is_empty() || (filling && lane.has_its_share(&self.limits)) {
            lane.bare.push_back(place);
        } else {
            if lane.held.is_empty() {
                let queue = if lane.parked { &mut self.movable } else { &mut self.ready };
                queue.push_back((partition, tenure, id));
            }
            lane.held_bytes += size;
            lane.held.push_back(Held { place, job });
            lanes.held_jobs += 1;
            lanes.held_bytes += size;
        }
        self.balance(partition);
    }

    /// The next job that may start, if a slot is free. It keeps the slot until [`Lanes::ended`].
    pub fn start(&mut self) -> Option<Start<J>> {
        self.start_unless(|_| false)
    }

    /// The same, of a partition that is not held back. What is held back is not looked at again before [`Lanes::go_on`].
    pub fn start_unless(&mut self, held_back: impl Fn(Partition) -> bool) -> Option<Start<J>> {
        while self.running.len() < self.limits.running {
            let (partition, tenure, id) = self.ready.pop_front()?;
            if held_back(partition) {
                self.held_back.push((partition, tenure, id));
                continue;
            }
            let Some(lanes) = self.open_mut(partition, tenure).filter(|lanes| !lanes.draining) else { continue };
            let Some(lane) = lanes.get_mut(id).filter(|l| l.state == State::Ready) else { continue };
            let Some(head) = lane.held.front() else { continue };
            let ticket = Ticket { partition, tenure, offset: head.place.offset };
            let start = Start { ticket, key: lane.key.clone(), job: head.job.clone() };
            lane.state = State::Busy;
            lanes.busy += 1;
            lanes.begin(id);
            self.running.insert(ticket);
            return Some(start);
        }
        None
    }

    /// What was held back may start, in front of what came since.
    pub fn go_on(&mut self) {
        while let Some(ready) = self.held_back.pop() {
            self.ready.push_front(ready);
        }
    }

    /// The handler returned: the slot is free. `false` if the job's tenure is over and its word does not count.
    pub fn ended(&mut self, ticket: Ticket) -> bool {
        self.running.remove(&ticket);
        let lanes = self.open_mut(ticket.partition, ticket.tenure);
        lanes.is_some_and(|lanes| lanes.begun_mut(ticket.offset, &[State::Busy]).is_some())
    }

    /// The head's write is applied, or the head is in its line: the next job of the key may start, or move.
    pub fn applied(&mut self, ticket: Ticket) {
        let Ticket { partition, tenure, offset } = ticket;
        let Some(lanes) = self.open_mut(partition, tenure) else { return };
        let Some((id, lane)) = lanes.begun_mut(offset, &[State::Busy, State::Moving]) else { return };
        let size = lane.held.pop_front().expect("a lane that has begun has its head").place.size;
        lane.held_bytes -= size;
        let off_the_line = lane.off_the_line();
        lane.moving = lane.moving.saturating_sub(1);
        let (moves_on, goes_on) = (lane.moving > 0, !lane.parked && !lane.held.is_empty());
        if goes_on && !moves_on {
            lane.state = State::Ready;
        }
        lanes.unbegin(offset);
        lanes.known_jobs -= 1;
        lanes.held_jobs -= 1;
        lanes.held_bytes -= size;
        lanes.line_jobs -= off_the_line;
        if moves_on {
            lanes.begin(id);
        } else {
            lanes.busy -= 1;
            if goes_on {
                self.ready.push_back((partition, tenure, id));
            } else {
                self.head_changed(partition, id);
            }
        }
        self.balance(partition);
    }

    /// The head failed and waits, and stays in its place; [`Lanes::due`] starts it again.
    pub fn wait(&mut self, ticket: Ticket) {
        let Some(lanes) = self.open_mut(ticket.partition, ticket.tenure) else { return };
        let Some((id, lane)) = lanes.begun_mut(ticket.offset, &[State::Busy]) else { return };
        lane.state = State::Waiting;
        let parked = lane.parked;
        lanes.busy -= 1;
        if parked {
            self.head_changed(ticket.partition, id);
        }
    }

    /// The head's wait is over.
    pub fn due(&mut self, ticket: Ticket) {
        let Some(lanes) = self.open_mut(ticket.partition, ticket.tenure) else { return };
        let Some((id, lane)) = lanes.begun_mut(ticket.offset, &[State::Waiting]) else { return };
        lane.state = State::Ready;
        self.head_changed(ticket.partition, id);
        self.balance(ticket.partition);
    }

    /// Records that [`LaneAction::Reread`] asked for. Those of `asked` that the log does not have any more are dropped
    /// from the lane and returned: they count as finished.
    pub fn reread(
        &mut self,
        partition: Partition,
        tenure: Tenure,
        key: &JobKey,
        asked: &[Offset],
        found: Vec<(Offset, J, usize)>,
    ) -> Vec<Offset> {
        let Some(lanes) = self.open_mut(partition, tenure) else { return Vec::new() };
        let Some((id, lane)) = lanes.find_mut(key).filter(|(_, l)| l.state == State::Reading) else {
            return Vec::new();
        };
        if !lane.bare.iter().take(lane.asked).map(|place| place.offset).eq(asked.iter().copied()) {
            return Vec::new();
        }
        let mut found: HashMap<Offset, J> = found.into_iter().map(|(offset, job, _)| (offset, job)).collect();
        let (mut gone, mut bytes, mut of_the_line) = (Vec::new(), 0, 0);
        for place in lane.bare.drain(..mem::take(&mut lane.asked)) {
            if let Some(job) = found.remove(&place.offset) {
                lane.held_bytes += place.size;
                lane.held.push_back(Held { place, job });
            } else {
                bytes += place.size;
                // Those before it are held, so this is the next of the line if any of that is left.
                if lane.held.len() < lane.from_line {
                    lane.from_line -= 1;
                    of_the_line += 1;
                }
                gone.push(place.offset);
            }
        }
        lane.state = State::Ready;
        lanes.known_jobs -= gone.len();
        lanes.held_jobs -= gone.len();
        lanes.held_bytes -= bytes;
        lanes.line_jobs -= of_the_line;
        self.head_changed(partition, id);
        self.balance(partition);
        gone
    }

    /// What has to be done outside since the last call.
    pub fn actions(&mut self) -> Vec<LaneAction> {
        mem::take(&mut self.actions)
    }

    /// The partition, if this is its tenure.
    fn open_mut(&mut self, partition: Partition, tenure: Tenure) -> Option<&mut PartitionLanes<J>> {
        self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure)
    }

    /// A lane that is not busy has a new head, or none: start it, move it, read it, or forget the lane.
    fn head_changed(&mut self, partition: Partition, id: LaneId) {
        let Some(lanes) = self.partitions.get_mut(&partition) else { return };
        let Some(lane) = lanes.get(id) else { return };
        let (head, parked) = (lane.head(), lane.parked);
        if let Some(head) = head {
            lanes.unbegin(head);
        }
        if parked {
            lanes.leave_to_the_line(id, 0);
        }
        let filling = lanes.reaches(&self.limits, 4);
        let tenure = lanes.tenure;
        let Some(lane) = lanes.get_mut(id) else { return };
        if lane.parked && lane.released {
            lane.state = State::Returning;
            self.actions.push(LaneAction::Return { partition, tenure, key: lane.key.clone() });
        } else if !lane.held.is_empty() {
            let (state, queue) =
                if lane.parked { (State::Parked, &mut self.movable) } else { (State::Ready, &mut self.ready) };
            lane.state = state;
            queue.push_back((partition, tenure, id));
        } else if !lane.bare.is_empty() {
            let (offsets, bytes) = lane.ask(&self.limits, filling);
            let from_line = lane.from_line.min(offsets.len());
            let key = lane.key.clone();
            lanes.held_jobs += offsets.len();
            lanes.held_bytes += bytes;
            self.actions.push(LaneAction::Reread { partition, tenure, key, offsets, from_line });
        } else if lane.parked {
            lane.state = State::Parked;
        } else {
            lanes.remove(id);
        }
    }

    /// Pauses a partition that became full, resumes one that is half empty again.
    fn balance(&mut self, partition: Partition) {
        let Some(lanes) = self.partitions.get_mut(&partition) else { return };
        let above = |share| lanes.reaches(&self.limits, share) || lanes.of_the_log() * share >= self.limits.known_jobs;
        if !lanes.full && above(1) {
            lanes.full = true;
            self.actions.push(LaneAction::Pause(partition));
        } else if lanes.full && !lanes.draining && !above(2) {
            lanes.full = false;
            self.actions.push(LaneAction::Resume(partition));
        }
    }
}

impl LaneLimits {
    fn lane_bytes(&self) -> usize {
        (self.held_bytes / self.held_jobs.max(1)).saturating_mul(self.lane_jobs)
    }
}

#[cfg(test)]
mod tests;
