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

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use keylane_producer::{JobKey, Offset, Partition};

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
    /// Lanes whose head can start, oldest first; an entry may be outdated.
    ready: VecDeque<(Partition, Tenure, JobKey)>,
    /// Would be ready, and were held back.
    held_back: Vec<(Partition, Tenure, JobKey)>,
    /// Parked lanes that hold something that can move to their lines; an entry may be outdated.
    movable: VecDeque<(Partition, Tenure, JobKey)>,
    running: NumberSet<Ticket>,
    actions: Vec<LaneAction>,
}

#[derive(Debug)]
struct PartitionLanes<J> {
    tenure: Tenure,
    lanes: HashMap<JobKey, Lane<J>>,
    /// Held, or asked for.
    held_jobs: usize,
    held_bytes: usize,
    known_jobs: usize,
    /// How many of them were read back from lines: they do not count against the bound, which is for what the log has.
    line_jobs: usize,
    /// Lanes in [`State::Busy`] or [`State::Moving`].
    busy: usize,
    full: bool,
    draining: bool,
}

/// One key's jobs: first those with their bytes, then those of which only the place is known.
#[derive(Debug)]
struct Lane<J> {
    held: VecDeque<Held<J>>,
    held_bytes: usize,
    bare: VecDeque<Bare>,
    /// How many of `bare` are being read again: they count as held already.
    asked: usize,
    /// How many, from the head on, were read back from the key's line.
    from_line: usize,
    /// How many, from the head on, are on their way to the line.
    moving: usize,
    parked: bool,
    /// A person wants its line run.
    released: bool,
    state: State,
}

#[derive(Debug)]
struct Held<J> {
    place: Bare,
    job: J,
}

#[derive(Clone, Copy, Debug)]
struct Bare {
    offset: Offset,
    size: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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

/// What the world outside has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneAction {
    /// The partition is full: fetch no more of it.
    Pause(Partition),
    /// There is room again.
    Resume(Partition),
    /// Read these records again and give them to [`Lanes::reread`].
    Reread {
        /// Whose.
        partition: Partition,
        /// For which tenure.
        tenure: Tenure,
        /// For which lane.
        key: JobKey,
        /// Ascending.
        offsets: Vec<Offset>,
        /// How many of them, from the first on, are in the key's line and not to be asked of the log.
        from_line: usize,
    },
    /// Read which jobs are in the key's line and give them to [`Lanes::line`].
    Return {
        /// Whose.
        partition: Partition,
        /// For which tenure.
        tenure: Tenure,
        /// Which.
        key: JobKey,
    },
}

impl LaneAction {
    fn partition(&self) -> Partition {
        match self {
            Self::Pause(partition)
            | Self::Resume(partition)
            | Self::Reread { partition, .. }
            | Self::Return { partition, .. } => *partition,
        }
    }
}

/// A job to start now.
#[derive(Debug, PartialEq, Eq)]
pub struct Start<J> {
    /// Its name from here on.
    pub ticket: Ticket,
    /// Its lane.
    pub key: JobKey,
    /// The job.
    pub job: J,
}

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
        let lane = lanes.lanes.entry(key.clone()).or_insert_with(|| Lane::new(State::Ready));
        let place = Bare { offset, size };
        lanes.known_jobs += 1;
        let waits = matches!(lane.state, State::Returning | State::Reading);
        if waits || !lane.bare.is_empty() || (filling && lane.has_its_share(&self.limits)) {
            lane.bare.push_back(place);
        } else {
            if lane.held.is_empty() {
                let queue = if lane.parked { &mut self.movable } else { &mut self.ready };
                queue.push_back((partition, tenure, key));
            }
            lanes.held_jobs += 1;
            lanes.held_bytes += size;
            lane.held_bytes += size;
            lane.held.push_back(Held { place, job });
        }
        self.balance(partition);
    }

    /// A key that is parked from the start, before any of its jobs is offered: an earlier owner parked it.
    pub fn parked(&mut self, partition: Partition, tenure: Tenure, key: JobKey) {
        if let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) {
            lanes.lanes.entry(key).or_insert_with(|| Lane { parked: true, ..Lane::new(State::Parked) });
        }
    }

    /// Jobs of parked keys to put at the end of their lines now, each key's in order. Word of them is [`Lanes::applied`]
    /// when they are there, or [`Lanes::kept`].
    pub fn moves(&mut self) -> Vec<Start<J>> {
        let mut moves = Vec::new();
        for (partition, tenure, key) in mem::take(&mut self.movable) {
            let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) else { continue };
            let Some(lane) = lanes.lanes.get_mut(&key).filter(|lane| lane.state == State::Parked) else { continue };
            if lane.held.is_empty() || lanes.draining {
                continue;
            }
            lane.state = State::Moving;
            lane.moving = lane.held.len();
            lanes.busy += 1;
            moves.extend(lane.held.iter().map(|held| Start {
                ticket: Ticket { partition, tenure, offset: held.place.offset },
                key: key.clone(),
                job: held.job.clone(),
            }));
        }
        moves
    }

    /// Jobs that were on their way to their line, this one the first, are not: its partition drains and the next owner moves
    /// them, or the line is full and is read back first.
    pub fn kept(&mut self, ticket: Ticket, key: &JobKey) {
        if let Some(lanes) = self.partitions.get_mut(&ticket.partition).filter(|p| p.tenure == ticket.tenure)
            && let Some(lane) = lanes.lanes.get_mut(key).filter(|lane| lane.state == State::Moving)
        {
            lane.state = State::Parked;
            lane.moving = 0;
            lanes.busy -= 1;
            if lane.released {
                self.head_changed(ticket.partition, key);
            }
        }
    }

    /// Whether a person wants the line of this parked key run, and it is not read back yet.
    pub fn is_released(&self, partition: Partition, key: &JobKey) -> bool {
        self.partitions.get(&partition).and_then(|p| p.lanes.get(key)).is_some_and(|lane| lane.parked && lane.released)
    }

    /// The next job that may start, if a slot is free. It keeps the slot until [`Lanes::ended`].
    pub fn start(&mut self) -> Option<Start<J>> {
        self.start_unless(|_| false)
    }

    /// The same, of a partition that is not held back. What is held back is not looked at again before [`Lanes::go_on`].
    pub fn start_unless(&mut self, held_back: impl Fn(Partition) -> bool) -> Option<Start<J>> {
        while self.running.len() < self.limits.running {
            let (partition, tenure, key) = self.ready.pop_front()?;
            if held_back(partition) {
                self.held_back.push((partition, tenure, key));
                continue;
            }
            let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) else { continue };
            if lanes.draining {
                continue;
            }
            let Some(lane) = lanes.lanes.get_mut(&key).filter(|l| l.state == State::Ready) else { continue };
            let Some(head) = lane.held.front() else { continue };
            let ticket = Ticket { partition, tenure, offset: head.place.offset };
            let job = head.job.clone();
            lane.state = State::Busy;
            lanes.busy += 1;
            self.running.insert(ticket);
            return Some(Start { ticket, key, job });
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
    pub fn ended(&mut self, ticket: Ticket, key: &JobKey) -> bool {
        self.running.remove(&ticket);
        self.busy_lane(ticket, key).is_some()
    }

    /// The head's write is applied, or the head is in its line: the next job of the key may start, or move.
    pub fn applied(&mut self, ticket: Ticket, key: &JobKey) {
        let Some(lanes) = self.partitions.get_mut(&ticket.partition).filter(|p| p.tenure == ticket.tenure) else {
            return;
        };
        let Some(lane) = lanes.lanes.get_mut(key).filter(|lane| lane.is_at(ticket.offset)) else { return };
        let size = lane.held.pop_front().expect("a busy lane has its head").place.size;
        lane.held_bytes -= size;
        lanes.known_jobs -= 1;
        lanes.held_jobs -= 1;
        lanes.held_bytes -= size;
        lanes.line_jobs -= lane.off_the_line();
        if lane.state == State::Moving {
            lane.moving -= 1;
            if lane.moving > 0 {
                return self.balance(ticket.partition);
            }
        }
        lanes.busy -= 1;
        if lane.parked || lane.held.is_empty() {
            self.head_changed(ticket.partition, key);
        } else {
            lane.state = State::Ready;
            self.ready.push_back((ticket.partition, ticket.tenure, key.clone()));
        }
        self.balance(ticket.partition);
    }

    /// The head failed and waits; [`Lanes::due`] starts it again.
    pub fn wait(&mut self, ticket: Ticket, key: &JobKey) {
        self.settle(ticket, key, State::Waiting);
    }

    /// The head's wait is over.
    pub fn due(&mut self, ticket: Ticket, key: &JobKey) {
        self.wake(ticket.partition, ticket.tenure, key, State::Waiting, Some(ticket.offset));
    }

    /// The head could not be done and is in its key's line: the key is parked, and what waits here follows. What was read
    /// back from the line is still in it.
    pub fn park(&mut self, ticket: Ticket, key: &JobKey) {
        let Some(lane) = self.busy_lane(ticket, key) else { return };
        lane.parked = true;
        lane.released = false;
        let head = usize::from(lane.from_line == 0);
        let lanes = self.partitions.get_mut(&ticket.partition).expect("the lane was just found in it");
        lanes.leave_to_the_line(key, head);
        lanes.busy -= 1;
        self.head_changed(ticket.partition, key);
        self.balance(ticket.partition);
    }

    /// A person wants the key to stand still: what it has here, and what comes, moves to its line. What runs of it ends first.
    /// `false` if it stands still already.
    pub fn stand(&mut self, partition: Partition, tenure: Tenure, key: &JobKey) -> bool {
        let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) else { return false };
        let lane = lanes.lanes.entry(key.clone()).or_insert_with(|| Lane::new(State::Parked));
        if mem::replace(&mut lane.parked, true) {
            return false;
        }
        // A head that runs, or is being read, is seen to when it comes back.
        if matches!(lane.state, State::Ready | State::Waiting | State::Parked) {
            self.head_changed(partition, key);
            self.balance(partition);
        }
        true
    }

    /// A person wants the line of a parked key run: it is read back as soon as nothing is on its way to it. `false` if the
    /// key is not parked here, or this was said before.
    pub fn release(&mut self, partition: Partition, tenure: Tenure, key: &JobKey) -> bool {
        let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) else { return false };
        let Some(lane) = lanes.lanes.get_mut(key).filter(|lane| lane.parked && !lane.released) else { return false };
        lane.released = true;
        if lane.state == State::Parked {
            self.head_changed(partition, key);
        }
        true
    }

    /// The line that [`LaneAction::Return`] asked for: its jobs run in order, and before all that came since.
    pub fn line(&mut self, partition: Partition, tenure: Tenure, key: &JobKey, jobs: &[(Offset, usize)]) {
        let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) else { return };
        let Some(lane) = lanes.lanes.get_mut(key).filter(|lane| lane.state == State::Returning) else { return };
        lanes.held_jobs -= lane.held.len();
        lanes.held_bytes -= mem::take(&mut lane.held_bytes);
        for held in lane.held.drain(..).rev() {
            lane.bare.push_front(held.place);
        }
        // A store that went back may have in the line what its owner, which has not heard of that, has here.
        let last = jobs.last().map(|(offset, _)| *offset);
        if lane.bare.front().is_some_and(|first| Some(first.offset) <= last) {
            let before = lane.bare.len();
            lane.bare.retain(|place| jobs.binary_search_by_key(&place.offset, |(offset, _)| *offset).is_err());
            lanes.known_jobs -= before - lane.bare.len();
        }
        for &(offset, size) in jobs.iter().rev() {
            lane.bare.push_front(Bare { offset, size });
        }
        lane.from_line = jobs.len();
        lanes.line_jobs += jobs.len();
        lanes.known_jobs += jobs.len();
        (lane.parked, lane.released) = (false, false);
        self.head_changed(partition, key);
        self.balance(partition);
    }

    /// Whether a tenure has this key parked.
    pub fn is_parked(&self, partition: Partition, key: &JobKey) -> bool {
        self.partitions.get(&partition).and_then(|p| p.lanes.get(key)).is_some_and(|lane| lane.parked)
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
        let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) else { return Vec::new() };
        let Some(lane) = lanes.lanes.get_mut(key).filter(|l| l.state == State::Reading) else { return Vec::new() };
        if !lane.bare.iter().take(lane.asked).map(|place| place.offset).eq(asked.iter().copied()) {
            return Vec::new();
        }
        let mut found: HashMap<Offset, J> = found.into_iter().map(|(offset, job, _)| (offset, job)).collect();
        let mut gone = Vec::new();
        for place in lane.bare.drain(..mem::take(&mut lane.asked)) {
            if let Some(job) = found.remove(&place.offset) {
                lane.held_bytes += place.size;
                lane.held.push_back(Held { place, job });
            } else {
                lanes.known_jobs -= 1;
                lanes.held_jobs -= 1;
                lanes.held_bytes -= place.size;
                // Those before it are held, so this is the next of the line if any of that is left.
                if lane.held.len() < lane.from_line {
                    lane.from_line -= 1;
                    lanes.line_jobs -= 1;
                }
                gone.push(place.offset);
            }
        }
        lane.state = State::Ready;
        self.head_changed(partition, key);
        self.balance(partition);
        gone
    }

    /// What has to be done outside since the last call.
    pub fn actions(&mut self) -> Vec<LaneAction> {
        mem::take(&mut self.actions)
    }

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
        self.partitions
            .get(&partition)
            .map_or((0, 0), |p| (p.known_jobs, p.lanes.values().filter(|lane| lane.parked).count()))
    }

    /// The keys of the partition with the most jobs that are known here, at least so many each; the most first.
    pub fn longest(&self, partition: Partition, keys: usize, at_least: usize) -> Vec<(JobKey, usize)> {
        let Some(lanes) = self.partitions.get(&partition).filter(|p| p.known_jobs >= at_least) else {
            return Vec::new();
        };
        let mut found: Vec<_> =
            lanes.lanes.iter().map(|(key, lane)| (key, lane.len())).filter(|(_, jobs)| *jobs >= at_least).collect();
        found.sort_unstable_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        found.into_iter().take(keys).map(|(key, jobs)| (key.clone(), jobs)).collect()
    }

    /// Jobs of the key that are known here.
    pub fn waiting(&self, partition: Partition, key: &JobKey) -> usize {
        self.partitions.get(&partition).and_then(|p| p.lanes.get(key)).map_or(0, Lane::len)
    }

    /// Whether nothing is left here but keys whose jobs are all in their lines, so that only a person can move on.
    pub fn only_parked_left(&self) -> bool {
        self.partitions.values().all(|p| p.lanes.values().all(|lane| lane.state == State::Parked && lane.is_empty()))
    }

    /// The lane whose head is this busy ticket.
    fn busy_lane(&mut self, ticket: Ticket, key: &JobKey) -> Option<&mut Lane<J>> {
        let lanes = self.partitions.get_mut(&ticket.partition).filter(|p| p.tenure == ticket.tenure)?;
        lanes.lanes.get_mut(key).filter(|lane| lane.is_busy_with(ticket.offset))
    }

    /// A busy lane stands still, with its head in place. `false` if it is not busy with this ticket.
    fn settle(&mut self, ticket: Ticket, key: &JobKey, state: State) -> bool {
        let Some(lane) = self.busy_lane(ticket, key) else { return false };
        lane.state = state;
        let parked = lane.parked;
        let lanes = self.partitions.get_mut(&ticket.partition).expect("the lane was just found in it");
        lanes.busy -= 1;
        if parked {
            self.head_changed(ticket.partition, key);
        }
        true
    }

    fn wake(&mut self, partition: Partition, tenure: Tenure, key: &JobKey, from: State, head: Option<Offset>) -> bool {
        let Some(lanes) = self.partitions.get_mut(&partition).filter(|p| p.tenure == tenure) else { return false };
        let Some(lane) = lanes.lanes.get_mut(key).filter(|l| l.state == from) else { return false };
        if head.is_some_and(|offset| lane.held.front().is_none_or(|held| held.place.offset != offset)) {
            return false;
        }
        lane.state = State::Ready;
        self.head_changed(partition, key);
        self.balance(partition);
        true
    }

    /// A lane that is not busy has a new head, or none: start it, move it, read it, or forget the lane.
    fn head_changed(&mut self, partition: Partition, key: &JobKey) {
        let Some(lanes) = self.partitions.get_mut(&partition) else { return };
        if lanes.lanes.get(key).is_some_and(|lane| lane.parked) {
            lanes.leave_to_the_line(key, 0);
        }
        let filling = lanes.reaches(&self.limits, 4);
        let Some(lane) = lanes.lanes.get_mut(key) else { return };
        let tenure = lanes.tenure;
        if lane.parked && lane.released {
            lane.state = State::Returning;
            self.actions.push(LaneAction::Return { partition, tenure, key: key.clone() });
        } else if !lane.held.is_empty() {
            let (state, queue) =
                if lane.parked { (State::Parked, &mut self.movable) } else { (State::Ready, &mut self.ready) };
            lane.state = state;
            queue.push_back((partition, tenure, key.clone()));
        } else if !lane.bare.is_empty() {
            let (offsets, bytes) = lane.ask(&self.limits, filling);
            let from_line = lane.from_line.min(offsets.len());
            lanes.held_jobs += offsets.len();
            lanes.held_bytes += bytes;
            self.actions.push(LaneAction::Reread { partition, tenure, key: key.clone(), offsets, from_line });
        } else if lane.parked {
            lane.state = State::Parked;
        } else {
            lanes.lanes.remove(key);
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

impl<J> PartitionLanes<J> {
    fn new(tenure: Tenure) -> Self {
        let lanes = HashMap::new();
        let (held_jobs, held_bytes, known_jobs, line_jobs) = (0, 0, 0, 0);
        Self { tenure, lanes, held_jobs, held_bytes, known_jobs, line_jobs, busy: 0, full: false, draining: false }
    }

    /// What was read back from the key's line, and so many jobs behind it, are in the line: they are none of the lane's any more.
    fn leave_to_the_line(&mut self, key: &JobKey, behind: usize) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        let read_back = mem::take(&mut lane.from_line);
        let in_line = read_back + behind;
        let held: Vec<_> = lane.held.drain(..in_line.min(lane.held.len())).collect();
        let bytes: usize = held.iter().map(|held| held.place.size).sum();
        lane.held_bytes -= bytes;
        lane.bare.drain(..in_line - held.len());
        self.known_jobs -= in_line;
        self.line_jobs -= read_back;
        self.held_jobs -= held.len();
        self.held_bytes -= bytes;
    }

    /// Jobs that are known, without those that were read back from lines.
    fn of_the_log(&self) -> usize {
        self.known_jobs - self.line_jobs
    }

    /// Whether it holds one `share`-th of what it may.
    fn reaches(&self, limits: &LaneLimits, share: usize) -> bool {
        self.held_jobs.saturating_mul(share) >= limits.held_jobs
            || self.held_bytes.saturating_mul(share) >= limits.held_bytes
    }
}

impl<J> Lane<J> {
    fn new(state: State) -> Self {
        let (held, bare) = (VecDeque::new(), VecDeque::new());
        Self { held, held_bytes: 0, bare, asked: 0, from_line: 0, moving: 0, parked: false, released: false, state }
    }

    fn len(&self) -> usize {
        self.held.len() + self.bare.len()
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.bare.is_empty()
    }

    /// Whether this job is at its head and has left the lane's hands: it runs, or is on its way to the line.
    fn is_at(&self, offset: Offset) -> bool {
        let moves = self.state == State::Moving && self.held.front().is_some_and(|head| head.place.offset == offset);
        moves || self.is_busy_with(offset)
    }

    /// The head leaves: how many jobs of the line that makes less, none or one.
    fn off_the_line(&mut self) -> usize {
        let off = self.from_line.min(1);
        self.from_line -= off;
        off
    }

    fn is_busy_with(&self, offset: Offset) -> bool {
        self.state == State::Busy && self.held.front().is_some_and(|head| head.place.offset == offset)
    }

    fn has_its_share(&self, limits: &LaneLimits) -> bool {
        !self.held.is_empty() && (self.held.len() >= limits.lane_jobs || self.held_bytes >= limits.lane_bytes())
    }

    /// Begins to read the tail again: up to the lane's share, or one job if the partition is filling. Returns which, and
    /// their bytes.
    fn ask(&mut self, limits: &LaneLimits, filling: bool) -> (Vec<Offset>, usize) {
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

impl LaneLimits {
    fn lane_bytes(&self) -> usize {
        (self.held_bytes / self.held_jobs.max(1)).saturating_mul(self.lane_jobs)
    }
}

#[cfg(test)]
mod tests;
