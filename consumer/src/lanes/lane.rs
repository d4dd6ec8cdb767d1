//! One key's jobs.

use std::collections::VecDeque;

use keylane_producer::{JobKey, Offset};

use super::LaneLimits;

/// One key's jobs: first those with their bytes, then those of which only the place is known.
#[derive(Debug)]
pub(super) struct Lane<J> {
    pub(super) key: JobKey,
    pub(super) held: VecDeque<Held<J>>,
    pub(super) held_bytes: usize,
    pub(super) bare: VecDeque<Bare>,
    /// How many of `bare` are being read again: they count as held already.
    pub(super) asked: usize,
    /// How many, from the head on, were read back from the key's line.
    pub(super) from_line: usize,
    /// How many, from the head on, are on their way to the line.
    pub(super) moving: usize,
    pub(super) parked: bool,
    /// A person wants its line run.
    pub(super) released: bool,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) struct Held<J> {
    pub(super) place: Bare,
    pub(super) job: J,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bare {
    pub(super) offset: Offset,
    pub(super) size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The head can start.
    Ready,
    /// The head runs, or its write is under way.
    Busy,
    /// The head waits for another try.
    Waiting,
    /// The head is being read again.
    Reading,
    /// The key is parked; what is held can move to its line.
    Parked,
    /// Some of what is held is on its way there.
    Moving,
    /// The line is being read back.
    Returning,
}

impl<J> Lane<J> {
    pub(super) fn new(key: JobKey, state: State) -> Self {
        let (held, bare) = (VecDeque::new(), VecDeque::new());
        Self {
            key,
            held,
            held_bytes: 0,
            bare,
            asked: 0,
            from_line: 0,
            moving: 0,
            parked: false,
            released: false,
            state,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len() + self.bare.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.bare.is_empty()
    }

    /// The head leaves: how many jobs of the line that makes less, none or one.
    pub(super) fn off_the_line(&mut self) -> usize {
        let off = self.from_line.min(1);
        self.from_line -= off;
        off
    }

    /// The first job, if its bytes are here.
    pub(super) fn head(&self) -> Option<Offset> {
        self.held.front().map(|head| head.place.offset)
    }

    pub(super) fn has_its_share(&self, limits: &LaneLimits) -> bool {
        !self.held.is_empty() && (self.held.len() >= limits.lane_jobs || self.held_bytes >= limits.lane_bytes())
    }

    /// Begins to read the tail again: up to the lane's share, or one job if the partition is filling. Returns which, and
    /// their bytes.
    pub(super) fn ask(&mut self, limits: &LaneLimits, filling: bool) -> (Vec<Offset>, usize) {
        let most = if filling { 1 } else { limits.lane_jobs.max(1) };
        let mut offsets = Vec::new();
        let mut bytes = 0;
        for place in self.bare.iter().take(most) {
            if !offsets.is_empty() && bytes + place.size > limits.lane_bytes() {
                break;
            }
            offsets.push(place.offset);
            bytes += place.size;
        }
        self.state = State::Reading;
        self.asked = offsets.len();
        (offsets, bytes)
    }
}
