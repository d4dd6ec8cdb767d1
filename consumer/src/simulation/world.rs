//! Time, chance, faults, and what is checked from outside.

mod chance;
mod event;
mod faults;
mod persons;
mod seen;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use keylane_producer::{JobKey, Partition};

use super::{
    Without,
    group::{Group, Refused},
    store::Store,
    worker::Worker,
};
use crate::{
    clock::Clock,
    fence::FenceToken,
    lanes::{Tenure, Ticket},
};

pub(super) use chance::{Chance, Road};
pub(super) use event::{ClaimRequest, CommitRequest, Event, Inside, WriteRequest};
pub(super) use seen::Seen;

pub(super) const PARTITIONS: u32 = 3;
const WORKERS: usize = 3;
const KEYS: usize = 15;
/// Faults end here, in ms; jobs come until a little before.
const FAULTS_END: u64 = 8_000;
/// By then every job has ended, in ms.
const LIMIT: u64 = 60_000;

pub(super) struct World {
    pub(super) clock: Clock,
    pub(super) without: Without,
    pub(super) group: Group,
    pub(super) store: Store,
    pub(super) workers: Vec<Worker>,
    pub(super) keys: Vec<JobKey>,
    pub(super) seen: Seen,
    pub(super) store_away_until: u64,
    /// Two claimants of one generation were made, or the group began anew: one that was told nothing may start jobs, and only
    /// the row stands.
    pub(super) only_the_row: bool,
    /// The group began anew: whoever says that its fence is ahead is right.
    pub(super) began_anew: bool,
    /// Of these a commit had no answer: where the store has failed over, its owner may have begun below it.
    unsure: BTreeSet<Partition>,
    /// Somebody said so, and the operator has not come yet.
    pub(super) fence_ahead: bool,
    queue: BTreeMap<(u64, u64), Event>,
    sent: u64,
    chance: Chance,
    poison: Vec<(Partition, u64)>,
    /// What cannot be done leaves alone, and its key does not stop.
    pub(super) dead_letter: bool,
    violation: Option<String>,
    log: Option<Vec<String>>,
}

impl World {
    /// Runs one seed to its end.
    pub(super) fn run(seed: u64, without: Without) -> Result<Seen, String> {
        let mut world = Self::new(seed, without, false);
        world.play()?;
        world.seen.refused_writes = world.store.refused_writes;
        Ok(world.seen)
    }

    /// Runs one seed and tells all that happened.
    pub(super) fn replay(seed: u64, without: Without) -> (Vec<String>, Result<(), String>) {
        let mut world = Self::new(seed, without, true);
        let result = world.play();
        (world.log.take().unwrap_or_default(), result)
    }

    fn new(seed: u64, without: Without, logging: bool) -> Self {
        let mut chance = Chance(seed);
        let clock = Clock::by_hand();
        let group = Group::new(chance.one_in(3));
        let dead_letter = chance.one_in(2);
        let workers = (0..WORKERS).map(|_| Worker::fresh(&clock, 0, 0, without)).collect();
        let keys = (0..KEYS).map(|key| JobKey::try_from(&*format!("k{key}")).unwrap()).collect();
        let mut world = Self {
            clock,
            without,
            group,
            store: Store::default(),
            workers,
            keys,
            seen: Seen::default(),
            store_away_until: 0,
            only_the_row: false,
            began_anew: false,
            unsure: BTreeSet::new(),
            fence_ahead: false,
            queue: BTreeMap::new(),
            sent: 0,
            chance,
            poison: Vec::new(),
            dead_letter,
            violation: None,
            log: logging.then(Vec::new),
        };
        for worker in 0..WORKERS {
            world.inside(worker, worker as u64 * 40, Inside::Turn);
        }
        world.after(0, Event::Enqueue);
        world.after(0, Event::GroupTick);
        world.after(500, Event::Fault);
        world.after(700, Event::Person);
        world.after(2_000, Event::Operator);
        world
    }

    fn play(&mut self) -> Result<(), String> {
        while let Some(((time, _), event)) = self.queue.pop_first() {
            self.clock.advance(Duration::from_millis(time - self.now()));
            if self.now() > LIMIT {
                return Err(format!("not every job ended: {}", self.unfinished().unwrap_or_default()));
            }
            self.seen.events += 1;
            self.happen(event);
            if let Some(violation) = self.violation.take() {
                return Err(violation);
            }
            if self.now() > FAULTS_END && self.unfinished().is_none() {
                return Ok(());
            }
        }
        Err("nothing happens any more".to_owned())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Inside(worker, process, what) => {
                if self.workers[worker].process != process {
                    return;
                }
                let frozen_until = self.workers[worker].frozen_until;
                if frozen_until > self.now() {
                    self.after(frozen_until - self.now(), Event::Inside(worker, process, what));
                } else {
                    self.happen_inside(worker, what);
                }
            }
            Event::ClaimArrives { worker, process, claim, answered } => {
                let away = self.store_away_until > self.now();
                let granted =
                    (!away).then(|| self.store.claim(claim.partition, claim.epoch, claim.generation, claim.owner));
                self.note(|| format!("store: claim of worker {worker} {claim:?} -> {granted:?}"));
                if answered {
                    self.answer(worker, process, Inside::Claimed(claim, granted));
                }
            }
            Event::WriteArrives { worker, process, write, answered } => {
                let away = self.store_away_until > self.now();
                let mut take =
                    || self.store.write(write.partition, write.token, &write.jobs, &write.resumed, self.without);
                let written = match (!away).then(&mut take).transpose() {
                    Ok(written) => written,
                    Err(violation) => return self.fail(violation),
                };
                self.note(|| format!("store: write of worker {worker} {write:?} -> {written:?}"));
                if answered {
                    self.answer(worker, process, Inside::Written(write, written));
                }
            }
            Event::CommitArrives { worker, process, commit, answered } => {
                let result = self.commit(worker, &commit);
                if answered {
                    self.answer(worker, process, Inside::Committed(commit, Some(result.into())));
                } else {
                    self.unsure.extend(commit.offsets.iter().map(|(partition, _)| *partition));
                }
            }
            Event::LookArrives { worker, process, claims } => {
                if self.store_away_until <= self.now() {
                    let gone = |(partition, _, token): &(Partition, Tenure, FenceToken)| {
                        !self.store.is_newest(*partition, *token, self.without)
                    };
                    let gone = claims.into_iter().filter(gone).map(|(partition, tenure, _)| (partition, tenure));
                    let gone = gone.collect();
                    self.answer(worker, process, Inside::Looked(gone));
                }
            }
            Event::FailOver(copy) => {
                let (claims, jobs) = self.store.fail_over(*copy);
                self.note(|| format!("fault: the store fails over, and has lost {claims} claims and {jobs} jobs"));
                self.seen.lost_claims += claims;
                self.seen.lost_jobs += jobs;
            }
            Event::Born(worker) => self.born(worker),
            Event::Enqueue => self.enqueue(),
            Event::GroupTick => {
                let silent = self.group.tick(self.now());
                if !silent.is_empty() {
                    self.note(|| format!("group: {silent:?} are forgotten"));
                }
                self.after(100, Event::GroupTick);
            }
            Event::Fault => self.fault(),
            Event::Person => self.person(),
            Event::Operator => {
                let places: Vec<_> = self.store.tables.stopped.keys().copied().collect();
                for place in places {
                    self.store.replay(place);
                }
                if self.without != Without::Reset && std::mem::take(&mut self.fence_ahead) {
                    self.note(|| "the operator resets the fence".to_owned());
                    self.seen.resets += 1;
                    self.store.reset();
                }
                self.after(1_500, Event::Operator);
            }
        }
    }

    /// Commits for a worker, and holds what was committed against what is done.
    pub(super) fn commit(&mut self, worker: usize, commit: &CommitRequest) -> Result<(), Refused> {
        let (generation, now) = (commit.generation.get(), self.now());
        let before = self.group.committed.clone();
        let result = self.group.commit(worker, commit.name, generation, &commit.offsets, now);
        self.note(|| format!("group: commit of worker {worker} {commit:?} in {generation} -> {result:?}"));
        if result.is_ok() {
            for (partition, offset) in &commit.offsets {
                let excused = self.store.minted_before > 0 && self.unsure.contains(partition);
                if !excused && before.get(partition).is_some_and(|before| before > offset) {
                    self.fail(format!("partition {partition} was committed at a higher offset than {offset}"));
                }
                if let Some(open) = self.store.lowest_never_marked(*partition).filter(|open| *open < offset.0) {
                    self.fail(format!("partition {partition} is committed up to {offset}, and {open} is not done"));
                }
            }
        }
        result
    }

    /// The first job that has not ended, or what is not committed.
    fn unfinished(&self) -> Option<String> {
        for (partition, log) in &self.store.log {
            let done = self.store.tables.applied.get(partition);
            for (offset, key) in log {
                let is_done =
                    done.is_some_and(|done| done.contains(offset)) || self.store.has_left(*partition, *offset);
                let line = self.store.tables.lines.get(&(*partition, *key));
                let mut behind = line.into_iter().flatten().filter(|waiting| *waiting <= offset);
                if !is_done && !behind.any(|waiting| self.poison.contains(&(*partition, *waiting))) {
                    return Some(format!("partition {partition}, offset {offset}"));
                }
            }
            let end = log.last_key_value().map_or(0, |(last, _)| last + 1);
            let reached = self.store.lowest_open(*partition).unwrap_or(end);
            if self.group.committed.get(partition).is_none_or(|offset| offset.0 != reached) {
                return Some(format!("partition {partition} is not committed up to {reached}"));
            }
        }
        None
    }

    // What the worker's edge needs.

    pub(super) fn now(&self) -> u64 {
        self.clock.now().millis()
    }

    pub(super) fn chance(&mut self) -> &mut Chance {
        &mut self.chance
    }

    pub(super) fn faults(&self) -> bool {
        self.now() < FAULTS_END
    }

    pub(super) fn is_poison(&self, ticket: Ticket) -> bool {
        self.poison.contains(&(ticket.partition, ticket.offset.0))
    }

    pub(super) fn fresh(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    pub(super) fn after(&mut self, wait: u64, event: Event) {
        let order = self.fresh();
        self.queue.insert((self.now() + wait, order), event);
    }

    pub(super) fn inside(&mut self, worker: usize, wait: u64, what: Inside) {
        let process = self.workers[worker].process;
        self.after(wait, Event::Inside(worker, process, what));
    }

    fn answer(&mut self, worker: usize, process: u64, what: Inside) {
        let wait = 1 + self.chance.below(20);
        self.after(wait, Event::Inside(worker, process, what));
    }

    /// How long a request is on its way, whether it arrives, and whether its answer does.
    pub(super) fn road(&mut self) -> Road {
        let faults = self.faults();
        let slow = faults && self.chance.one_in(25);
        let delay = if slow { 500 + self.chance.below(5_000) } else { 1 + self.chance.below(30) };
        Road { delay, arrives: !(faults && self.chance.one_in(30)), answered: !(faults && self.chance.one_in(25)) }
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now();
        if let Some(log) = &mut self.log {
            log.push(format!("{now:>6} {}", line()));
        }
    }

    pub(super) fn fail(&mut self, violation: String) {
        self.note(|| format!("VIOLATION {violation}"));
        self.violation.get_or_insert(violation);
    }
}
