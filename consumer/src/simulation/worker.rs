//! The part of the worker loop: carries out what the machines decide, and tells them what came of it.

mod holding;
mod jobs;
mod proving;
mod steering;
mod writing;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use keylane_producer::{Offset, Partition};

use super::{
    Without,
    group::{SESSION, Told},
    store::{Claimed, Key, What},
    world::{Inside, World},
};
use crate::{
    clock::Clock,
    fence::{Fence, Generation, Guards, Lease, MemberId},
    group::Assignment,
    lanes::{LaneLimits, Lanes, Tenure, Ticket},
    ownership::{Ownership, OwnershipLimits},
    retry::RetryPolicy,
    store::ClaimRefused,
    watermark::Watermark,
};

const LANES: LaneLimits = LaneLimits { running: 4, held_jobs: 8, held_bytes: 800, known_jobs: 1_000, lane_jobs: 2 };
const RETRY: RetryPolicy = RetryPolicy {
    attempts: 3,
    first: Duration::from_millis(40),
    longest: Duration::from_millis(200),
    give_up_after: None,
};
const OWNERSHIP: OwnershipLimits = OwnershipLimits {
    session: Duration::from_millis(SESSION),
    margin: Duration::from_millis(200),
    drain: Duration::from_millis(900),
    claim_again: Duration::from_millis(100),
};
const POLL_LIMIT: Duration = Duration::from_millis(700);
const PROVE_EVERY: u64 = 200;
const LOOK_EVERY: u64 = 500;
const STEER_EVERY: u64 = 100;

/// One process.
pub(super) struct Worker {
    pub(super) process: u64,
    pub(super) frozen_until: u64,
    pub(super) cut_until: u64,
    pub(super) left: bool,
    ownership: Ownership,
    lanes: Lanes<()>,
    lease: Arc<Lease>,
    /// Its name in the group.
    name: Option<u64>,
    parts: BTreeMap<Partition, Part>,
    owners: BTreeMap<Tenure, u64>,
    claimed: BTreeMap<Tenure, Claimed>,
    attempts: BTreeMap<Ticket, u32>,
    running: BTreeSet<(Tenure, Key)>,
    committing: bool,
    next_proof: u64,
    next_look: u64,
    next_steering: u64,
    /// As it was when its session with the store was opened.
    epoch: u64,
}

/// A partition that is open.
struct Part {
    tenure: Tenure,
    fence: Arc<Fence>,
    watermark: Watermark,
    done: BTreeSet<u64>,
    /// What the group had committed when it was opened: nothing lower is committed.
    committed: Option<Offset>,
    paused: bool,
    unwritten: Vec<(Offset, Key, What)>,
    /// Lines that were read, and the versions of their rows; of rows that are still there.
    lines_read: BTreeMap<Key, u64>,
    /// Rows of lines that held nothing.
    resumed: Vec<(Key, u64)>,
    /// Jobs to leave out.
    skips: BTreeSet<u64>,
    /// Keys that stand still, as this owner heard, and the versions of their rows.
    heard: BTreeMap<Key, u64>,
}

impl Worker {
    pub(super) fn fresh(clock: &Clock, process: u64, epoch: u64, without: Without) -> Self {
        let guards = Guards { deadline: without != Without::Deadline, ..Guards::default() };
        Self {
            process,
            frozen_until: 0,
            cut_until: 0,
            left: false,
            ownership: Ownership::new(OWNERSHIP),
            lanes: Lanes::new(LANES),
            lease: Lease::with_guards(clock.clone(), POLL_LIMIT, guards),
            name: None,
            parts: BTreeMap::new(),
            owners: BTreeMap::new(),
            claimed: BTreeMap::new(),
            attempts: BTreeMap::new(),
            running: BTreeSet::new(),
            committing: false,
            next_proof: 0,
            next_look: 0,
            next_steering: 0,
            epoch,
        }
    }

    fn part(&mut self, partition: Partition, tenure: Tenure) -> Option<&mut Part> {
        self.parts.get_mut(&partition).filter(|part| part.tenure == tenure)
    }
}

impl World {
    pub(super) fn happen_inside(&mut self, worker: usize, what: Inside) {
        match what {
            Inside::Turn => self.turn(worker),
            Inside::Ended(ticket) => self.ended(worker, ticket),
            Inside::Due(ticket) => self.workers[worker].lanes.due(ticket),
            Inside::Claimed(claim, answer) => {
                let (partition, tenure, now) = (claim.partition, claim.tenure, self.clock.now());
                match answer {
                    Some(Ok(claimed)) => {
                        self.workers[worker].claimed.insert(tenure, claimed);
                        self.act(worker, |ownership| ownership.claim_granted(partition, tenure));
                        self.workers[worker].claimed.remove(&tenure);
                    }
                    Some(Err(ClaimRefused::OtherEpoch)) => {
                        self.seen.ended_by_reset += 1;
                        self.leave_group(worker);
                        self.gone(worker);
                    }
                    Some(Err(why)) => {
                        self.seen.refused_claims += 1;
                        self.act(worker, |ownership| ownership.claim_refused(now, partition, tenure, why));
                    }
                    None => {
                        self.seen.unknown_claims += 1;
                        self.act(worker, |ownership| ownership.claim_failed(partition, tenure));
                    }
                }
            }
            Inside::Written(write, answer) => self.written(worker, &write, answer),
            Inside::Committed(commit, answer) => self.committed(worker, &commit, answer.as_deref()),
            Inside::Read { partition, tenure, key, offsets } => {
                self.seen.rereads += 1;
                let found = offsets.iter().map(|offset| (*offset, (), 100)).collect();
                let gone = self.workers[worker].lanes.reread(partition, tenure, &self.keys[key], &offsets, found);
                if !gone.is_empty() {
                    self.fail(format!("partition {partition} lost {gone:?} though the log has them"));
                }
            }
            Inside::Line { partition, tenure, key } => self.line_read(worker, partition, tenure, key),
            Inside::Steered => self.steered(worker),
            Inside::Looked(gone) => {
                for (partition, tenure) in gone {
                    self.seen.found_by_looking += u64::from(self.workers[worker].part(partition, tenure).is_some());
                    self.act(worker, |ownership| ownership.fenced(partition, tenure));
                }
            }
            Inside::Rejoin => {
                self.seen.rejoins += 1;
                self.leave_group(worker);
                let all: Vec<_> = self.workers[worker].ownership.holdings().map(|(p, ..)| p).collect();
                self.act(worker, |ownership| ownership.lost(&all));
            }
        }
        self.lane_actions(worker);
    }

    pub(super) fn end(&mut self, worker: usize) {
        let now = self.clock.now();
        if self.workers[worker].frozen_until <= self.now() && !self.workers[worker].left {
            self.act(worker, |ownership| ownership.end(now));
        }
    }

    fn turn(&mut self, worker: usize) {
        if self.workers[worker].left {
            return;
        }
        self.poll(worker);
        let now = self.clock.now();
        self.act(worker, |ownership| ownership.tick(now));
        self.fetch(worker);
        self.lane_actions(worker);
        self.start(worker);
        self.flush(worker);
        self.say_drained(worker);
        if self.now() >= self.workers[worker].next_proof {
            self.prove(worker);
        }
        if self.now() >= self.workers[worker].next_look && self.without != Without::Look {
            self.look(worker);
        }
        if self.now() >= self.workers[worker].next_steering {
            self.workers[worker].next_steering = self.now() + STEER_EVERY;
            let wait = self.chance().below(60);
            self.inside(worker, wait, Inside::Steered);
        }
        if !self.workers[worker].left {
            let wait = 20 + self.chance().below(50);
            self.inside(worker, wait, Inside::Turn);
        }
    }

    fn poll(&mut self, worker: usize) {
        let now = self.now();
        self.workers[worker].lease.polled();
        if self.workers[worker].cut_until > now {
            return;
        }
        let name = match self.workers[worker].name {
            Some(name) => name,
            None => {
                let name = self.group.join(worker, now);
                self.workers[worker].name = Some(name);
                self.note(|| format!("worker {worker}: joined as {name}"));
                name
            }
        };
        let member = MemberId::new(&format!("w{worker}.{name}")).unwrap();
        let generation = |number| Generation::new(number).unwrap();
        for told in self.group.poll(worker, name, now).unwrap_or_default() {
            self.note(|| format!("worker {worker}: is told {told:?}"));
            let now = self.clock.now();
            match told {
                Told::Assigned { generation: number, partitions, replaces_all } => {
                    let (member, generation) = (member.clone(), generation(number));
                    let assignment = Assignment { member, generation, partitions, replaces_all };
                    self.act(worker, |ownership| ownership.assigned(&assignment));
                }
                Told::MovedOn(number) => {
                    self.workers[worker].ownership.moved_on(member.clone(), generation(number));
                }
                Told::Revoking(partitions) => self.act(worker, |ownership| ownership.revoking(now, &partitions)),
                Told::Lost(partition) => self.act(worker, |ownership| ownership.lost(&[partition])),
            }
        }
    }
}
