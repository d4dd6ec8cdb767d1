//! [`Lanes`] against a world that does it the simple way: a queue for each key, and what each key is doing.

mod compare;
mod parking;
mod step;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use self::step::{Step, step};
use super::*;

const KEYS: usize = 4;
const PARTITIONS: u32 = 2;

/// What a key is doing.
#[derive(Clone, Debug, PartialEq)]
enum Doing {
    Nothing,
    Running(Ticket),
    /// Ended, its write under way.
    Writing(Ticket),
    Waiting(Ticket),
    Reading(Vec<Offset>),
    /// Parked, and so many of its jobs are on their way to the line.
    Moving(usize),
    /// Its line is asked for.
    Returning,
}

/// A parked key: whether it was released.
type Parked = BTreeMap<usize, bool>;

#[derive(Debug)]
struct ModelPartition {
    tenure: Tenure,
    draining: bool,
    paused: bool,
    queues: BTreeMap<usize, VecDeque<Offset>>,
    doing: BTreeMap<usize, Doing>,
    parked: Parked,
    /// In the store.
    lines: BTreeMap<usize, VecDeque<Offset>>,
    /// How many of a key's queue were read back from its line.
    from_line: BTreeMap<usize, usize>,
}

/// The real thing, the simple one, and what the simple one saw of the real.
struct World {
    lanes: Lanes<u64>,
    partitions: BTreeMap<Partition, ModelPartition>,
    /// Every slot, with its key: those of ended tenures too.
    slots: BTreeMap<Ticket, usize>,
    over: Vec<(Ticket, usize)>,
    sizes: BTreeMap<Offset, usize>,
    next_tenure: u64,
    next_offset: u64,
    finished: BTreeSet<Offset>,
}

fn name(key: usize) -> JobKey {
    super::key(&format!("k{key}"))
}

impl World {
    fn new() -> Self {
        Self {
            lanes: Lanes::new(SMALL),
            partitions: BTreeMap::new(),
            slots: BTreeMap::new(),
            over: Vec::new(),
            sizes: BTreeMap::new(),
            next_tenure: 1,
            next_offset: 0,
            finished: BTreeSet::new(),
        }
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Open { partition } => self.open(Partition(partition)),
            Step::Close { partition } => self.close(Partition(partition))?,
            Step::Drain { partition } => self.drain(Partition(partition)),
            Step::Offer { partition, key, size } => self.offer(Partition(partition), key, size),
            Step::Start => self.start()?,
            Step::Ended { pick } => self.ended(pick)?,
            Step::Applied { pick } => self.settle(pick, 0),
            Step::Wait { pick } => self.settle(pick, 1),
            Step::Stop { pick } => self.settle(pick, 2),
            Step::Due { pick } => self.due(pick),
            Step::Release { partition, key } => self.release(Partition(partition), key)?,
            Step::Stand { partition, key } => self.stand(Partition(partition), key)?,
            Step::Reread { pick, gone } => self.reread(pick, gone)?,
            Step::Move => self.moves()?,
            Step::Moved { pick } => self.moved(pick),
            Step::Line { pick } => self.line(pick),
            Step::Stale { pick, word } => self.stale(pick, word)?,
        }
        self.see_actions()?;
        self.compare()
    }

    fn open(&mut self, partition: Partition) {
        self.forget(partition);
        let tenure = Tenure(self.next_tenure);
        self.next_tenure += 1;
        self.lanes.open(partition, tenure);
        let fresh = ModelPartition {
            tenure,
            draining: false,
            paused: false,
            queues: BTreeMap::new(),
            doing: BTreeMap::new(),
            parked: BTreeMap::new(),
            lines: BTreeMap::new(),
            from_line: BTreeMap::new(),
        };
        self.partitions.insert(partition, fresh);
    }

    fn forget(&mut self, partition: Partition) -> usize {
        let Some(old) = self.partitions.remove(&partition) else { return 0 };
        for (key, doing) in &old.doing {
            if let Doing::Running(ticket) | Doing::Writing(ticket) | Doing::Waiting(ticket) = doing {
                self.over.push((*ticket, *key));
            }
        }
        old.queues.values().map(VecDeque::len).sum()
    }

    fn close(&mut self, partition: Partition) -> Result<(), TestCaseError> {
        let known = self.forget(partition);
        prop_assert_eq!(self.lanes.close(partition), known);
        Ok(())
    }

    fn drain(&mut self, partition: Partition) {
        self.lanes.drain(partition);
        if let Some(p) = self.partitions.get_mut(&partition) {
            p.draining = true;
        }
    }

    fn offer(&mut self, partition: Partition, key: usize, size: usize) {
        let Some(p) = self.partitions.get_mut(&partition) else { return };
        // A few records come after a pause, as from a real group.
        if p.paused && !self.next_offset.is_multiple_of(4) {
            return;
        }
        let offset = Offset(self.next_offset);
        self.next_offset += 1;
        self.sizes.insert(offset, size);
        self.lanes.offer(partition, p.tenure, offset, name(key), offset.0, size);
        p.queues.entry(key).or_default().push_back(offset);
        p.doing.entry(key).or_insert(Doing::Nothing);
    }

    /// Something starts if and only if something can, and it is the head of a lane that is doing nothing.
    fn start(&mut self) -> Result<(), TestCaseError> {
        let can: BTreeSet<Ticket> = self
            .partitions
            .iter()
            .filter(|(_, p)| !p.draining)
            .flat_map(|(&partition, p)| {
                let idle =
                    p.doing.iter().filter(|(key, doing)| **doing == Doing::Nothing && !p.parked.contains_key(key));
                let heads = idle.filter_map(|(key, _)| p.queues[key].front());
                heads.map(move |&offset| Ticket { partition, tenure: p.tenure, offset })
            })
            .collect();
        let started = self.lanes.start();
        if self.slots.len() == SMALL.running || can.is_empty() {
            prop_assert!(started.is_none(), "{:?} started", started);
            return Ok(());
        }
        let Some(Start { ticket, key, job }) = started else {
            return Err(TestCaseError::fail(format!("none of {can:?} starts")));
        };
        prop_assert!(can.contains(&ticket), "{:?} started, of {:?}", ticket, can);
        prop_assert_eq!(job, ticket.offset.0);
        let p = self.partitions.get_mut(&ticket.partition).unwrap();
        let key = (0..KEYS).find(|k| name(*k) == key).unwrap();
        prop_assert_eq!(p.queues[&key].front(), Some(&ticket.offset));
        p.doing.insert(key, Doing::Running(ticket));
        prop_assert!(self.slots.insert(ticket, key).is_none(), "started twice: {:?}", ticket);
        Ok(())
    }

    fn doing(&mut self, ticket: Ticket, key: usize) -> Option<&mut Doing> {
        self.partitions.get_mut(&ticket.partition).filter(|p| p.tenure == ticket.tenure)?.doing.get_mut(&key)
    }

    fn ended(&mut self, pick: usize) -> Result<(), TestCaseError> {
        let Some((&ticket, &key)) = self.slots.iter().nth(pick % self.slots.len().max(1)) else { return Ok(()) };
        self.slots.remove(&ticket);
        let counts = self.lanes.ended(ticket);
        let doing = self.doing(ticket, key).filter(|doing| **doing == Doing::Running(ticket));
        prop_assert_eq!(counts, doing.is_some());
        if let Some(doing) = doing {
            *doing = Doing::Writing(ticket);
        }
        Ok(())
    }

    fn pick(&self, pick: usize, want: impl Fn(&Doing) -> Option<Ticket>) -> Option<(Ticket, usize)> {
        let all = self.partitions.values().flat_map(|p| p.doing.iter());
        let fits: Vec<_> = all.filter_map(|(key, doing)| Some((want(doing)?, *key))).collect();
        fits.get(pick % fits.len().max(1)).copied()
    }

    fn settle(&mut self, pick: usize, how: u8) {
        let writing = |doing: &Doing| if let Doing::Writing(ticket) = doing { Some(*ticket) } else { None };
        let Some((ticket, key)) = self.pick(pick, writing) else { return };
        match how {
            0 => self.lanes.applied(ticket),
            1 => self.lanes.wait(ticket),
            _ => self.lanes.park(ticket),
        }
        let p = self.partitions.get_mut(&ticket.partition).unwrap();
        let waits = how == 1 && !p.parked.contains_key(&key);
        p.doing.insert(key, if waits { Doing::Waiting(ticket) } else { Doing::Nothing });
        let (queue, from_line) = (p.queues.get_mut(&key).unwrap(), p.from_line.entry(key).or_default());
        if how == 0 {
            assert_eq!(queue.pop_front(), Some(ticket.offset));
            *from_line = from_line.saturating_sub(1);
            assert!(self.finished.insert(ticket.offset), "applied twice");
            self.over.push((ticket, key));
        } else if how > 1 {
            // It, and what was read back behind it, is in the line still.
            let line = p.lines.entry(key).or_default();
            assert!(line.is_empty(), "all of it was read back");
            line.extend(queue.drain(..std::mem::take(from_line).max(1)));
            p.parked.insert(key, false);
        }
        self.leave_to_the_line(ticket.partition, key);
    }

    fn due(&mut self, pick: usize) {
        let waiting = |doing: &Doing| if let Doing::Waiting(ticket) = doing { Some(*ticket) } else { None };
        let Some((ticket, key)) = self.pick(pick, waiting) else { return };
        self.lanes.due(ticket);
        *self.doing(ticket, key).unwrap() = Doing::Nothing;
    }

    fn reread(&mut self, pick: usize, gone: u8) -> Result<(), TestCaseError> {
        let reading: Vec<_> = self
            .partitions
            .iter()
            .flat_map(|(&partition, p)| p.doing.iter().map(move |(&key, doing)| (partition, p.tenure, key, doing)))
            .filter_map(|(partition, tenure, key, doing)| match doing {
                Doing::Reading(offsets) => Some((partition, tenure, key, offsets.clone())),
                _ => None,
            })
            .collect();
        let Some((partition, tenure, key, asked)) = reading.get(pick % reading.len().max(1)).cloned() else {
            return Ok(());
        };
        // One in four answers misses some of the records.
        let is_gone = |at: usize| gone.is_multiple_of(4) && gone & (4 << at) != 0;
        let (absent, found): (Vec<_>, Vec<_>) = asked.iter().enumerate().partition(|(at, _)| is_gone(*at));
        let found = found.into_iter().map(|(_, &offset)| (offset, offset.0, self.sizes[&offset])).collect();
        let mut absent: Vec<_> = absent.into_iter().map(|(_, &offset)| offset).collect();
        let p = self.partitions.get_mut(&partition).unwrap();
        p.doing.insert(key, Doing::Nothing);
        let queue = p.queues.get_mut(&key).unwrap();
        let from_line = p.from_line.entry(key).or_default();
        *from_line -= queue.iter().take(*from_line).filter(|offset| absent.contains(offset)).count();
        queue.retain(|offset| !absent.contains(offset));
        let mut told = self.lanes.reread(partition, tenure, &name(key), &asked, found);
        told.sort_unstable();
        absent.sort_unstable();
        prop_assert_eq!(&told, &absent);
        self.finished.extend(told);
        self.leave_to_the_line(partition, key);
        Ok(())
    }

    fn stale(&mut self, pick: usize, word: u8) -> Result<(), TestCaseError> {
        let Some(&(ticket, key)) = self.over.get(pick % self.over.len().max(1)) else { return Ok(()) };
        let lane = name(key);
        match word {
            0 => self.lanes.applied(ticket),
            1 => self.lanes.wait(ticket),
            2 => self.lanes.park(ticket),
            3 => self.lanes.due(ticket),
            _ if self.partitions.get(&ticket.partition).is_some_and(|p| p.tenure == ticket.tenure) => {}
            _ => prop_assert!(!self.lanes.release(ticket.partition, ticket.tenure, &lane)),
        }
        Ok(())
    }

    /// The world answers everything: whatever was offered to a tenure that lives on is finished.
    fn finish(mut self) -> Result<(), TestCaseError> {
        let gone: Vec<_> = self.partitions.iter().filter(|(_, p)| p.draining).map(|(p, _)| *p).collect();
        gone.into_iter().try_for_each(|p| self.close(p))?;
        for _ in 0..10_000 {
            for (partition, key) in (0..PARTITIONS).flat_map(|partition| (0..KEYS).map(move |key| (partition, key))) {
                self.take(&Step::Release { partition, key })?;
            }
            for step in [
                Step::Start,
                Step::Ended { pick: 0 },
                Step::Applied { pick: 0 },
                Step::Due { pick: 0 },
                Step::Reread { pick: 0, gone: 1 },
                Step::Move,
                Step::Moved { pick: 0 },
                Step::Line { pick: 0 },
            ] {
                self.take(&step)?;
            }
            let is_through = |p: &ModelPartition| {
                p.parked.is_empty() && p.queues.values().chain(p.lines.values()).all(VecDeque::is_empty)
            };
            if self.slots.is_empty() && self.partitions.values().all(is_through) {
                break;
            }
        }
        for p in self.lanes.partitions.values() {
            prop_assert_eq!((p.known_jobs, p.held_jobs, p.held_bytes, p.busy), (0, 0, 0, 0));
            prop_assert!(p.lanes().next().is_none() && !p.full);
        }
        prop_assert!(self.lanes.ready.is_empty() || self.lanes.start().is_none());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn lanes_do_what_a_queue_for_each_key_would(steps in prop::collection::vec(step(), 0..160)) {
        let mut world = World::new();
        world.open(Partition(0));
        world.open(Partition(1));
        for step in &steps {
            world.take(step)?;
        }
        world.finish()?;
    }

    /// R22: nine of ten jobs have one key, which never ends. The others never wait for it.
    #[test]
    fn a_hot_key_never_keeps_another_from_starting(hot in prop::collection::vec(0..10_u8, 0..120)) {
        let limits = LaneLimits { known_jobs: 1_000, ..SMALL };
        let mut lanes = opened(limits);
        let mut paused = false;
        let mut stuck = 0;
        for (offset, dice) in hot.iter().enumerate() {
            let name = if *dice > 0 { "hot".to_owned() } else { format!("k{offset}") };
            offer(&mut lanes, offset as u64, &name);
            let mut found = name == "hot";
            while let Some(start) = lanes.start() {
                if start.key == super::key("hot") {
                    stuck += 1;
                } else {
                    found |= start.ticket.offset == Offset(offset as u64);
                    finish(&mut lanes, &start);
                }
            }
            prop_assert!(found, "the key's only job starts at once");
            for action in lanes.actions() {
                paused = action == LaneAction::Pause(P0);
            }
            prop_assert!(!paused && stuck <= 1);
        }
    }
}
