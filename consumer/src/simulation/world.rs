//! Time, chance, faults, and what is checked from outside.

use std::{collections::BTreeMap, time::Duration};

use keylane_producer::{JobKey, Offset, Partition};

use super::{
    Without,
    group::{Group, Refused},
    store::{Claimed, Key, Store, What, Written},
    worker::Worker,
};
use crate::{
    clock::{BootTime, Clock},
    fence::{FenceToken, Generation},
    lanes::{Tenure, Ticket},
    store::ClaimRefused,
};

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
    /// Two claimants of one generation were made: the one that was told nothing may start jobs, and only the row stands.
    pub(super) dealt_twice: bool,
    queue: BTreeMap<(u64, u64), Event>,
    sent: u64,
    chance: Chance,
    poison: Vec<(Partition, u64)>,
    violation: Option<String>,
    log: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Something that happens in a worker's process, if that is still there.
    Inside(usize, u64, Inside),
    ClaimArrives {
        worker: usize,
        process: u64,
        claim: ClaimRequest,
        answered: bool,
    },
    WriteArrives {
        worker: usize,
        process: u64,
        write: WriteRequest,
        answered: bool,
    },
    CommitArrives {
        worker: usize,
        process: u64,
        commit: CommitRequest,
        answered: bool,
    },
    Born(usize),
    Enqueue,
    GroupTick,
    Fault,
    Operator,
}

#[derive(Clone, Debug)]
pub(super) enum Inside {
    Turn,
    Ended(Ticket),
    Due(Ticket),
    /// `None`: no answer.
    Claimed(ClaimRequest, Option<Result<Claimed, ClaimRefused>>),
    /// `None`: no answer; `Some(None)`: fenced.
    Written(WriteRequest, Option<Option<Vec<Written>>>),
    Committed(CommitRequest, Option<Refusable>),
    Read {
        partition: Partition,
        tenure: Tenure,
        key: Key,
        offsets: Vec<Offset>,
    },
    /// A line is read back.
    Line {
        partition: Partition,
        tenure: Tenure,
        key: Key,
    },
    Rejoin,
}

/// What became of a commit; `Some` with the reason if it was refused.
pub(super) type Refusable = std::sync::Arc<Result<(), Refused>>;

#[derive(Clone, Debug)]
pub(super) struct ClaimRequest {
    pub(super) partition: Partition,
    pub(super) tenure: Tenure,
    pub(super) generation: Generation,
    pub(super) owner: u64,
}

#[derive(Clone, Debug)]
pub(super) struct WriteRequest {
    pub(super) partition: Partition,
    pub(super) tenure: Tenure,
    pub(super) token: FenceToken,
    pub(super) jobs: Vec<(Offset, Key, What)>,
}

#[derive(Clone, Debug)]
pub(super) struct CommitRequest {
    pub(super) name: u64,
    pub(super) generation: Generation,
    pub(super) offsets: Vec<(Partition, Offset)>,
    /// Of each of these partitions, in order.
    pub(super) tenures: Vec<Tenure>,
    pub(super) t0: BootTime,
}

/// How often things happened that the guards are there for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// All that happened to a worker, the group or the store.
    pub(super) events: u64,
    pub(super) refused_writes: u64,
    pub(super) refused_claims: u64,
    pub(super) refused_commits: u64,
    pub(super) disowned: u64,
    pub(super) rejoins: u64,
    pub(super) unknown_writes: u64,
    pub(super) unknown_claims: u64,
    pub(super) retries: u64,
    pub(super) stops: u64,
    pub(super) rereads: u64,
    pub(super) fenced_starts: u64,
    pub(super) words_of_old_tenures: u64,
    pub(super) drains: u64,
    pub(super) cut_drains: u64,
    pub(super) leaves: u64,
    pub(super) skipped_as_done: u64,
    pub(super) parks: u64,
    pub(super) returns: u64,
}

impl Seen {
    fn each(&mut self) -> [&mut u64; 19] {
        let Self { refused_writes: a, refused_claims: b, refused_commits: c, disowned: d, rejoins: e, .. } = self;
        let Self { unknown_writes: f, unknown_claims: g, retries: h, stops: i, rereads: j, .. } = self;
        let Self { fenced_starts: k, words_of_old_tenures: l, drains: m, cut_drains: n, leaves: o, .. } = self;
        let Self { skipped_as_done: p, parks: q, returns: r, events: s, .. } = self;
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s]
    }

    pub(super) fn add(&mut self, more: &Self) {
        let mut more = *more;
        self.each().into_iter().zip(more.each()).for_each(|(sum, more)| *sum += *more);
    }

    pub(super) fn is_complete(mut self) -> bool {
        self.each().into_iter().all(|count| *count > 0)
    }
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
        let workers = (0..WORKERS).map(|_| Worker::fresh(&clock, 0, without)).collect();
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
            dealt_twice: false,
            queue: BTreeMap::new(),
            sent: 0,
            chance,
            poison: Vec::new(),
            violation: None,
            log: logging.then(Vec::new),
        };
        for worker in 0..WORKERS {
            world.inside(worker, worker as u64 * 40, Inside::Turn);
        }
        world.after(0, Event::Enqueue);
        world.after(0, Event::GroupTick);
        world.after(500, Event::Fault);
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
                let granted = (!away).then(|| self.store.claim(claim.partition, claim.generation, claim.owner));
                self.note(|| format!("store: claim of worker {worker} {claim:?} -> {granted:?}"));
                if answered {
                    self.answer(worker, process, Inside::Claimed(claim, granted));
                }
            }
            Event::WriteArrives { worker, process, write, answered } => {
                let away = self.store_away_until > self.now();
                let mut take = || self.store.write(write.partition, write.token, &write.jobs, self.without);
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
                }
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
            Event::Operator => {
                self.store.stopped.values_mut().for_each(|stopped| stopped.released = true);
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
                if before.get(partition).is_some_and(|before| before > offset) {
                    self.fail(format!("partition {partition} was committed at a higher offset than {offset}"));
                }
                if let Some(open) = self.store.lowest_open(*partition).filter(|open| *open < offset.0) {
                    self.fail(format!("partition {partition} is committed up to {offset}, and {open} is not done"));
                }
            }
        }
        result
    }

    fn enqueue(&mut self) {
        let partition = Partition(self.chance.below(u64::from(PARTITIONS)) as u32);
        // Each partition has five keys; one of them gets most of the jobs.
        let which = if self.chance.one_in(2) { 0 } else { self.chance.below(5) };
        let key = partition.0 as usize * 5 + which as usize;
        let gap = self.chance.below(3);
        let log = self.store.log.entry(partition).or_default();
        let offset = log.last_key_value().map_or(0, |(last, _)| last + 1) + gap;
        log.insert(offset, key);
        if self.chance.one_in(60) {
            self.poison.push((partition, offset));
        }
        if self.now() < FAULTS_END - 1_000 {
            let wait = self.chance.below(140);
            self.after(wait, Event::Enqueue);
        }
    }

    fn fault(&mut self) {
        if self.now() >= FAULTS_END {
            return;
        }
        let worker = self.chance.below(WORKERS as u64) as usize;
        let lasts = 300 + self.chance.below(4_500);
        let until = (self.now() + lasts).min(FAULTS_END);
        match self.chance.below(12) {
            0 | 1 => {
                self.note(|| format!("fault: worker {worker} is killed"));
                self.replace(worker);
                let process = self.workers[worker].process;
                self.workers[worker].frozen_until = until;
                self.after(0, Event::Inside(worker, process, Inside::Turn));
            }
            2..=4 => {
                self.note(|| format!("fault: worker {worker} freezes until {until}"));
                self.workers[worker].frozen_until = until;
            }
            5 | 6 => {
                self.note(|| format!("fault: worker {worker} is cut off from the group until {until}"));
                self.workers[worker].cut_until = until;
            }
            7 => {
                let until = self.now() + lasts / 4;
                self.note(|| format!("fault: the store is away until {until}"));
                self.store_away_until = until;
            }
            8 | 9 => {
                self.note(|| format!("worker {worker} is asked to end"));
                self.end(worker);
            }
            10 if self.chance.one_in(3) => {
                let partition = Partition(self.chance.below(u64::from(PARTITIONS)) as u32);
                if !self.group.eager && self.group.deal_twice(partition, worker) {
                    self.note(|| format!("fault: partition {partition} is dealt twice, to worker {worker} last"));
                    self.dealt_twice = true;
                }
            }
            _ => {}
        }
        let next = 200 + self.chance.below(1_200);
        self.after(next, Event::Fault);
    }

    fn born(&mut self, worker: usize) {
        if self.workers[worker].left {
            self.replace(worker);
            self.inside(worker, 0, Inside::Turn);
        }
    }

    fn replace(&mut self, worker: usize) {
        let process = self.workers[worker].process + 1;
        self.workers[worker] = Worker::fresh(&self.clock, process, self.without);
    }

    /// The first job that has not ended, or what is not committed.
    fn unfinished(&self) -> Option<String> {
        for (partition, log) in &self.store.log {
            let done = self.store.applied.get(partition);
            for (offset, key) in log {
                let is_done = |offset: &u64| done.is_some_and(|done| done.contains(offset));
                let mut behind = self.poison.iter().filter(|(p, poison)| p == partition && poison <= offset);
                if !is_done(offset) && !behind.any(|(_, poison)| log[poison] == *key) {
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

pub(super) struct Road {
    pub(super) delay: u64,
    pub(super) arrives: bool,
    pub(super) answered: bool,
}

/// A small generator (splitmix64): the same numbers on every machine.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    pub(super) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}
