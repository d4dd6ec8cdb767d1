//! The part of the worker loop: carries out what the machines decide, and tells them what came of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use keylane_producer::{Attempt, Offset, Partition};

use super::{
    Without,
    group::{Refused, SESSION, Told},
    store::{Claimed, Key, What, Written},
    world::{ClaimRequest, CommitRequest, Event, Inside, World, WriteRequest},
};
use crate::{
    clock::Clock,
    fence::{Fence, Generation, Guards, Lease, MemberId},
    group::Assignment,
    lanes::{LaneAction, LaneLimits, Lanes, Tenure, Ticket},
    ownership::{Action, Holding, Ownership, OwnershipLimits},
    retry::{Decision, RetryPolicy},
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
}

/// A partition that is open.
struct Part {
    tenure: Tenure,
    fence: Arc<Fence>,
    watermark: Watermark,
    done: BTreeSet<u64>,
    paused: bool,
    unwritten: Vec<(Offset, Key, What)>,
}

impl Worker {
    pub(super) fn fresh(clock: &Clock, process: u64, without: Without) -> Self {
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
            Inside::Due(ticket) => {
                let key = self.key_of(ticket);
                self.workers[worker].lanes.due(ticket, &self.keys[key]);
            }
            Inside::Claimed(claim, answer) => {
                let (partition, tenure, now) = (claim.partition, claim.tenure, self.clock.now());
                match answer {
                    Some(Ok(claimed)) => {
                        self.workers[worker].claimed.insert(tenure, claimed);
                        self.act(worker, |ownership| ownership.claim_granted(partition, tenure));
                        self.workers[worker].claimed.remove(&tenure);
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
            Inside::Line { partition, tenure, key } => {
                // An owner that is not the newest reads what it may not run; the row stops it.
                if let Some(part) = self.workers[worker].part(partition, tenure) {
                    let token = part.fence.check().map(|permit| permit.token());
                    let newest = token.is_ok_and(|token| self.store.is_newest(partition, token));
                    self.seen.returns += 1;
                    let line = self.store.read_line(partition, key, newest);
                    let jobs: Vec<_> = line.into_iter().map(|offset| (Offset(offset), 100)).collect();
                    self.workers[worker].lanes.line(partition, tenure, &self.keys[key], &jobs);
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
        self.go_on_with_released(worker);
        self.lane_actions(worker);
        self.start(worker);
        self.flush(worker);
        self.say_drained(worker);
        if self.now() >= self.workers[worker].next_proof {
            self.prove(worker);
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

    fn act(&mut self, worker: usize, event: impl FnOnce(&mut Ownership) -> Vec<Action>) {
        for action in event(&mut self.workers[worker].ownership) {
            self.note(|| format!("worker {worker}: {action:?}"));
            self.carry_out(worker, &action);
        }
    }

    fn carry_out(&mut self, worker: usize, action: &Action) {
        match *action {
            Action::Claim { partition, tenure, generation, after, .. } => {
                let nonce = self.fresh();
                let owner = *self.workers[worker].owners.entry(tenure).or_insert(nonce);
                let process = self.workers[worker].process;
                let claim = ClaimRequest { partition, tenure, generation, owner };
                let after = u64::try_from(after.as_millis()).unwrap();
                let road = self.road();
                if road.arrives {
                    let (claim, answered) = (claim.clone(), road.answered);
                    self.after(after + road.delay, Event::ClaimArrives { worker, process, claim, answered });
                }
                if !road.arrives || !road.answered {
                    self.inside(worker, after + 400, Inside::Claimed(claim, None));
                }
            }
            Action::Open(partition, tenure) => self.open(worker, partition, tenure),
            Action::Drain(partition, _) => {
                self.seen.drains += 1;
                self.workers[worker].lanes.drain(partition);
            }
            Action::Abandon(partition, tenure) => drop(self.close(worker, partition, tenure)),
            Action::Close { partition, tenure, clean } => self.hand_back(worker, partition, tenure, clean),
            Action::Prove => self.prove(worker),
            Action::Rejoin(after) => self.inside(worker, u64::try_from(after.as_millis()).unwrap(), Inside::Rejoin),
            Action::FenceIsAhead(partition) => {
                self.fail(format!("false alarm: partition {partition} is not ahead of its group"));
            }
            Action::Leave => {
                self.seen.leaves += 1;
                self.leave_group(worker);
                self.workers[worker].left = true;
                let wait = 200 + self.chance().below(1_500);
                self.after(wait, Event::Born(worker));
            }
        }
    }

    fn leave_group(&mut self, worker: usize) {
        if let Some(name) = self.workers[worker].name.take() {
            self.group.leave(worker, name, self.now());
        }
    }

    fn open(&mut self, worker: usize, partition: Partition, tenure: Tenure) {
        let start = self.group.committed.get(&partition).copied().unwrap_or(Offset(0));
        let process = &mut self.workers[worker];
        let Some(Claimed { token, mut done, stopped }) = process.claimed.remove(&tenure) else {
            return self.fail(format!("worker {worker} opens partition {partition} without a grant"));
        };
        if self.without == Without::Markers {
            done.clear();
        }
        let fence = Fence::raise(partition, token, Arc::clone(&process.lease));
        let watermark = Watermark::starting_at(start);
        process.parts.insert(partition, Part { tenure, fence, watermark, done, paused: false, unwritten: Vec::new() });
        process.lanes.open(partition, tenure);
        for key in stopped {
            if self.without != Without::Lines {
                process.lanes.parked(partition, tenure, self.keys[key].clone());
            }
        }
    }

    fn close(&mut self, worker: usize, partition: Partition, tenure: Tenure) -> Option<Part> {
        let process = &mut self.workers[worker];
        process.part(partition, tenure)?;
        process.lanes.close(partition);
        let part = process.parts.remove(&partition)?;
        part.fence.give_up();
        Some(part)
    }

    fn hand_back(&mut self, worker: usize, partition: Partition, tenure: Option<Tenure>, clean: bool) {
        self.seen.cut_drains += u64::from(!clean);
        if clean && !self.workers[worker].lanes.is_idle(partition) {
            self.fail(format!("worker {worker} gives partition {partition} back while it runs"));
        }
        let watermark = tenure.and_then(|tenure| self.close(worker, partition, tenure)).map(|part| part.watermark);
        let cut = self.workers[worker].cut_until > self.now();
        // Commits go one after another: one that is overtaken would set the offset back.
        let alone = !self.workers[worker].committing || self.without == Without::OneCommitAtATime;
        let watermark = watermark.filter(|_| alone);
        if let Some(name) = self.workers[worker].name.filter(|_| !cut) {
            if let (Some(watermark), Some((_, generation))) = (watermark, self.workers[worker].ownership.membership()) {
                let (generation, t0) = (*generation, self.clock.now());
                let offsets = vec![(partition, self.committable(&watermark))];
                // Whatever comes of it: what is done is known from the markers.
                let _ = self.commit(worker, &CommitRequest { name, generation, offsets, tenures: Vec::new(), t0 });
            }
            self.group.release(worker, name, partition, self.now());
        }
        if let Some(tenure) = tenure {
            self.act(worker, |ownership| ownership.closed(partition, tenure));
        }
    }

    fn fetch(&mut self, worker: usize) {
        let process = &mut self.workers[worker];
        for (partition, part) in &mut process.parts {
            let held = process.ownership.holding(*partition, part.tenure) == Some(Holding::Held);
            let Some(log) = self.store.log.get(partition).filter(|_| held && !part.paused) else { continue };
            let from = part.watermark.position();
            for (offset, key) in log.range(from.0..).take(6) {
                let offset = Offset(*offset);
                if part.done.contains(&offset.0) {
                    self.seen.skipped_as_done += 1;
                } else if part.watermark.deliver(offset) {
                    process.lanes.offer(*partition, part.tenure, offset, self.keys[*key].clone(), (), 100);
                }
                part.watermark.advance(offset.next());
            }
        }
    }

    /// Carries out what the lanes asked for.
    fn lane_actions(&mut self, worker: usize) {
        for action in self.workers[worker].lanes.actions() {
            match action {
                LaneAction::Pause(partition) | LaneAction::Resume(partition) => {
                    let paused = action == LaneAction::Pause(partition);
                    if let Some(part) = self.workers[worker].parts.get_mut(&partition) {
                        part.paused = paused;
                    }
                }
                LaneAction::Reread { partition, tenure, offsets, .. } => {
                    let key = self.store.log[&partition][&offsets[0].0];
                    let wait = self.chance().below(40);
                    self.inside(worker, wait, Inside::Read { partition, tenure, key, offsets });
                }
                LaneAction::Return { partition, tenure, key } => {
                    let key = self.keys.iter().position(|known| *known == key).expect("it is of this world");
                    let wait = self.chance().below(40);
                    self.inside(worker, wait, Inside::Line { partition, tenure, key });
                }
            }
        }
    }

    fn go_on_with_released(&mut self, worker: usize) {
        let process = &mut self.workers[worker];
        for ((partition, key), stopped) in &self.store.stopped {
            if let Some(part) = process.parts.get(partition).filter(|_| stopped.released) {
                process.lanes.release(*partition, part.tenure, &self.keys[*key]);
            }
        }
    }

    fn start(&mut self, worker: usize) {
        for start in self.workers[worker].lanes.moves() {
            self.finish(worker, start.ticket, (start.ticket.offset, self.key_of(start.ticket), What::Park));
        }
        while let Some(start) = self.workers[worker].lanes.start() {
            let (ticket, key) = (start.ticket, self.key_of(start.ticket));
            let process = &mut self.workers[worker];
            let part = process.part(ticket.partition, ticket.tenure).expect("what starts is open");
            let Ok(permit) = part.fence.check() else {
                self.seen.fenced_starts += 1;
                process.lanes.ended(ticket, &start.key);
                process.lanes.wait(ticket, &start.key);
                self.inside(worker, 50, Inside::Due(ticket));
                continue;
            };
            if !self.dealt_twice && !self.store.is_newest(ticket.partition, permit.token()) {
                return self.fail(format!("worker {worker}: {ticket:?} starts under an older claim"));
            }
            if !process.running.insert((ticket.tenure, key)) {
                return self.fail(format!("worker {worker}: key {key} runs twice"));
            }
            *process.attempts.entry(ticket).or_insert(0) += 1;
            let slow = self.faults() && self.chance().one_in(20);
            let takes = if slow { 1_500 } else { 2 + self.chance().below(120) };
            self.note(|| format!("worker {worker}: starts {ticket:?}"));
            self.inside(worker, takes, Inside::Ended(ticket));
        }
    }

    fn ended(&mut self, worker: usize, ticket: Ticket) {
        let key = self.key_of(ticket);
        let lane = self.keys[key].clone();
        let process = &mut self.workers[worker];
        process.running.remove(&(ticket.tenure, key));
        if !process.lanes.ended(ticket, &lane) {
            self.seen.words_of_old_tenures += 1;
            return;
        }
        let failed = self.is_poison(ticket) || (self.faults() && self.chance().one_in(6));
        let process = &self.workers[worker];
        let attempt = Attempt(process.attempts.get(&ticket).copied().unwrap_or(1));
        let luck = self.chance().below(1_000) as f64 / 1_000.0;
        match failed.then(|| RETRY.decide(attempt, Duration::ZERO, None, luck)) {
            None => self.finish(worker, ticket, (ticket.offset, key, What::Effect)),
            Some(Decision::Stop(_)) => self.finish(worker, ticket, (ticket.offset, key, What::Stop)),
            Some(Decision::Again(_)) if self.without == Without::PlaceInLane => {
                let lanes = &mut self.workers[worker].lanes;
                lanes.applied(ticket, &lane);
                lanes.offer(ticket.partition, ticket.tenure, ticket.offset, lane, (), 100);
            }
            Some(Decision::Again(wait)) => {
                self.seen.retries += 1;
                self.workers[worker].lanes.wait(ticket, &lane);
                self.inside(worker, u64::try_from(wait.as_millis()).unwrap(), Inside::Due(ticket));
            }
        }
    }

    fn finish(&mut self, worker: usize, ticket: Ticket, job: (Offset, Key, What)) {
        self.note(|| format!("worker {worker}: finished {ticket:?} {:?}", job.2));
        if let Some(part) = self.workers[worker].part(ticket.partition, ticket.tenure) {
            part.unwritten.push(job);
        }
    }

    /// Writes what is finished, one transaction a partition.
    fn flush(&mut self, worker: usize) {
        let process = &mut self.workers[worker];
        let mut writes = Vec::new();
        for (&partition, part) in &mut process.parts {
            let Ok(permit) = part.fence.check() else { continue };
            if !part.unwritten.is_empty() {
                let (tenure, token, jobs) = (part.tenure, permit.token(), std::mem::take(&mut part.unwritten));
                writes.push(WriteRequest { partition, tenure, token, jobs });
            }
        }
        let process = process.process;
        for write in writes {
            let road = self.road();
            if road.arrives {
                let (write, answered) = (write.clone(), road.answered);
                self.after(road.delay, Event::WriteArrives { worker, process, write, answered });
            }
            if !road.arrives || !road.answered {
                self.inside(worker, 300, Inside::Written(write, None));
            }
        }
    }

    fn written(&mut self, worker: usize, write: &WriteRequest, answer: Option<Option<Vec<Written>>>) {
        let (partition, tenure) = (write.partition, write.tenure);
        let process = &mut self.workers[worker];
        let Some(part) = process.part(partition, tenure) else { return };
        match answer {
            None => {
                self.seen.unknown_writes += 1;
                part.unwritten.extend(write.jobs.iter().copied());
            }
            Some(None) => {
                self.note(|| format!("worker {worker}: is fenced in partition {partition}"));
                self.act(worker, |ownership| ownership.fenced(partition, tenure));
            }
            Some(Some(written)) => {
                for (&(offset, key, _), written) in write.jobs.iter().zip(written) {
                    let ticket = Ticket { partition, tenure, offset };
                    self.workers[worker].attempts.remove(&ticket);
                    match written {
                        Written::Applied => self.applied(worker, ticket, key),
                        Written::Stopped => {
                            self.seen.stops += 1;
                            let process = &mut self.workers[worker];
                            process.lanes.park(ticket, &self.keys[key]);
                            process.part(partition, tenure).expect("it is open").watermark.finish(offset);
                        }
                        Written::Parked => {
                            self.seen.parks += 1;
                            if self.without == Without::OneTransaction {
                                self.store.lines.entry((partition, key)).or_default().insert(offset.0);
                            }
                            self.applied(worker, ticket, key);
                        }
                    }
                }
            }
        }
    }

    fn applied(&mut self, worker: usize, ticket: Ticket, key: Key) {
        let process = &mut self.workers[worker];
        process.lanes.applied(ticket, &self.keys[key]);
        let part = process.part(ticket.partition, ticket.tenure).expect("it was written under this tenure");
        part.watermark.finish(ticket.offset);
    }

    fn say_drained(&mut self, worker: usize) {
        let process = &self.workers[worker];
        let drained: Vec<_> = process
            .ownership
            .holdings()
            .filter(|(partition, _, state)| {
                matches!(state, Holding::Draining { .. }) && process.lanes.is_idle(*partition)
            })
            .collect();
        for (partition, tenure, _) in drained {
            self.act(worker, |ownership| ownership.drained(partition, tenure));
        }
    }

    fn prove(&mut self, worker: usize) {
        let now = self.now();
        let process = &mut self.workers[worker];
        let Some((name, (_, generation))) = process.name.zip(process.ownership.membership()) else { return };
        if std::mem::replace(&mut process.committing, true) {
            return;
        }
        let (generation, process) = (*generation, process.process);
        let parts = self.workers[worker].parts.iter();
        let offsets = parts.map(|(partition, part)| (*partition, self.committable(&part.watermark))).collect();
        let tenures = self.workers[worker].parts.values().map(|part| part.tenure).collect();
        let commit = CommitRequest { name, generation, offsets, tenures, t0: self.clock.now() };
        self.workers[worker].next_proof = now + PROVE_EVERY;
        let cut = self.workers[worker].cut_until > now;
        let road = self.road();
        // One connection: a commit arrives before its answer is given up, or never.
        let delay = road.delay.min(350);
        if road.arrives && !cut {
            let (commit, answered) = (commit.clone(), road.answered);
            self.after(delay, Event::CommitArrives { worker, process, commit, answered });
        }
        if cut || !road.arrives || !road.answered {
            self.inside(worker, 400, Inside::Committed(commit, None));
        }
    }

    fn committable(&self, watermark: &Watermark) -> Offset {
        if self.without == Without::Watermark { watermark.position() } else { watermark.committable() }
    }

    fn committed(&mut self, worker: usize, commit: &CommitRequest, answer: Option<&Result<(), Refused>>) {
        self.workers[worker].committing = false;
        match answer {
            Some(Ok(())) => {
                let (until, actions) = self.workers[worker].ownership.proved(commit.t0, commit.generation);
                self.workers[worker].lease.proved(until);
                self.act(worker, |_| actions);
            }
            Some(Err(Refused::UnknownMember)) if self.workers[worker].name == Some(commit.name) => {
                self.seen.disowned += 1;
                self.workers[worker].name = None;
                self.workers[worker].lease.disproved();
                self.act(worker, Ownership::disowned);
            }
            Some(Err(Refused::NotOwner(partition))) => {
                self.seen.refused_commits += 1;
                // Without this, one partition that is another's would keep the whole worker from proving.
                let named = commit.offsets.iter().zip(&commit.tenures).find(|((of, _), _)| of == partition);
                let (_, &tenure) = named.expect("it was in the commit");
                self.act(worker, |ownership| ownership.not_owner(*partition, tenure));
            }
            Some(Err(_)) => self.seen.refused_commits += 1,
            None => {}
        }
    }

    fn key_of(&self, ticket: Ticket) -> Key {
        self.store.log[&ticket.partition][&ticket.offset.0]
    }
}
