//! Keys that are parked: what they hold moves to their lines, and a line comes back when a person wants it run.

use std::mem;

use keylane_producer::{JobKey, Offset, Partition};

#[cfg(doc)]
use super::LaneAction;
use super::{Bare, Lanes, Start, State, Tenure, Ticket};

impl<J: Clone> Lanes<J> {
    /// A key that is parked from the start, before any of its jobs is offered: an earlier owner parked it.
    pub fn parked(&mut self, partition: Partition, tenure: Tenure, key: JobKey) {
        if let Some(lanes) = self.open_mut(partition, tenure)
            && lanes.find(&key).is_none()
        {
            let id = lanes.lane_of(key, State::Parked);
            lanes.get_mut(id).expect("it was just made").parked = true;
        }
    }

    /// Jobs of parked keys to put at the end of their lines now, each key's in order. Word of them is [`Lanes::applied`]
    /// when they are there, or [`Lanes::kept`].
    pub fn moves(&mut self) -> Vec<Start<J>> {
        let mut moves = Vec::new();
        for (partition, tenure, id) in mem::take(&mut self.movable) {
            let Some(lanes) = self.open_mut(partition, tenure).filter(|lanes| !lanes.draining) else { continue };
            let Some(lane) = lanes.get_mut(id).filter(|lane| lane.state == State::Parked) else { continue };
            if lane.held.is_empty() {
                continue;
            }
            lane.state = State::Moving;
            lane.moving = lane.held.len();
            moves.extend(lane.held.iter().map(|held| Start {
                ticket: Ticket { partition, tenure, offset: held.place.offset },
                key: lane.key.clone(),
                job: held.job.clone(),
            }));
            lanes.busy += 1;
            lanes.begin(id);
        }
        moves
    }

    /// Jobs that were on their way to their line, this one the first, are not: its partition drains and the next owner moves
    /// them, or the line is full and is read back first.
    pub fn kept(&mut self, ticket: Ticket) {
        let Some(lanes) = self.open_mut(ticket.partition, ticket.tenure) else { return };
        let Some((id, lane)) = lanes.begun_mut(ticket.offset, &[State::Moving]) else { return };
        lane.state = State::Parked;
        lane.moving = 0;
        let released = lane.released;
        lanes.busy -= 1;
        lanes.unbegin(ticket.offset);
        if released {
            self.head_changed(ticket.partition, id);
        }
    }

    /// Whether a person wants the line of this parked key run, and it is not read back yet.
    pub fn is_released(&self, partition: Partition, key: &JobKey) -> bool {
        self.partitions.get(&partition).and_then(|p| p.find(key)).is_some_and(|(_, lane)| lane.parked && lane.released)
    }

    /// The head could not be done and is in its key's line: the key is parked, and what waits here follows. What was read
    /// back from the line is still in it.
    pub fn park(&mut self, ticket: Ticket) {
        let Some(lanes) = self.open_mut(ticket.partition, ticket.tenure) else { return };
        let Some((id, lane)) = lanes.begun_mut(ticket.offset, &[State::Busy]) else { return };
        lane.parked = true;
        lane.released = false;
        let head = usize::from(lane.from_line == 0);
        lanes.leave_to_the_line(id, head);
        lanes.busy -= 1;
        self.head_changed(ticket.partition, id);
        self.balance(ticket.partition);
    }

    /// A person wants the key to stand still: what it has here, and what comes, moves to its line. What runs of it ends first.
    /// `false` if it stands still already.
    pub fn stand(&mut self, partition: Partition, tenure: Tenure, key: &JobKey) -> bool {
        let Some(lanes) = self.open_mut(partition, tenure) else { return false };
        let id = lanes.lane_of(key.clone(), State::Parked);
        let lane = lanes.get_mut(id).expect("it is found or made");
        if mem::replace(&mut lane.parked, true) {
            return false;
        }
        // A head that runs, or is being read, is seen to when it comes back.
        if matches!(lane.state, State::Ready | State::Waiting | State::Parked) {
            self.head_changed(partition, id);
            self.balance(partition);
        }
        true
    }

    /// A person wants the line of a parked key run: it is read back as soon as nothing is on its way to it. `false` if the
    /// key is not parked here, or this was said before.
    pub fn release(&mut self, partition: Partition, tenure: Tenure, key: &JobKey) -> bool {
        let Some(lanes) = self.open_mut(partition, tenure) else { return false };
        let Some((id, lane)) = lanes.find_mut(key).filter(|(_, lane)| lane.parked && !lane.released) else {
            return false;
        };
        lane.released = true;
        if lane.state == State::Parked {
            self.head_changed(partition, id);
        }
        true
    }

    /// The line that [`LaneAction::Return`] asked for: its jobs run in order, and before all that came since.
    pub fn line(&mut self, partition: Partition, tenure: Tenure, key: &JobKey, jobs: &[(Offset, usize)]) {
        let Some(lanes) = self.open_mut(partition, tenure) else { return };
        let Some((id, lane)) = lanes.find_mut(key).filter(|(_, lane)| lane.state == State::Returning) else { return };
        let held = lane.held.len();
        let bytes = mem::take(&mut lane.held_bytes);
        for held in lane.held.drain(..).rev() {
            lane.bare.push_front(held.place);
        }
        // A store that went back may have in the line what its owner, which has not heard of that, has here.
        let last = jobs.last().map(|(offset, _)| *offset);
        let before = lane.bare.len();
        if lane.bare.front().is_some_and(|first| Some(first.offset) <= last) {
            lane.bare.retain(|place| jobs.binary_search_by_key(&place.offset, |(offset, _)| *offset).is_err());
        }
        let twice = before - lane.bare.len();
        for &(offset, size) in jobs.iter().rev() {
            lane.bare.push_front(Bare { offset, size });
        }
        lane.from_line = jobs.len();
        (lane.parked, lane.released) = (false, false);
        lanes.held_jobs -= held;
        lanes.held_bytes -= bytes;
        lanes.line_jobs += jobs.len();
        lanes.known_jobs += jobs.len();
        lanes.known_jobs -= twice;
        self.head_changed(partition, id);
        self.balance(partition);
    }

    /// Whether a tenure has this key parked.
    pub fn is_parked(&self, partition: Partition, key: &JobKey) -> bool {
        self.partitions.get(&partition).and_then(|p| p.find(key)).is_some_and(|(_, lane)| lane.parked)
    }
}
