//! The workers' steps: what they hear, what their real `Ownership` wants done, and what they write.

use keylane_consumer::{
    Generation,
    clock::BootTime,
    fence::MemberId,
    group::Assignment,
    lanes::Tenure,
    ownership::{Action, Holding, Ownership},
    store::ClaimRefused,
};

use super::{
    minds::PARTITION,
    protocol::{Fault, Protocol, Step, Without},
    world::{Broken, Claim, Hold, Id, Inbox, Key, Life, Owner, PerKey, Proof, Seat, Stage, Token, Told, World, Write},
};

impl Protocol {
    pub(crate) fn worker_steps(&self, world: &World, id: Id, steps: &mut Vec<Step>) {
        let worker = world.worker(id);
        match worker.life {
            Life::Down => return steps.push(Step::Start(id)),
            Life::Frozen => return steps.push(Step::Thaw(id)),
            Life::Up => {}
        }
        let stage = worker.claim.map(|claim| claim.stage);
        // One claim is on its way at a time: a new one waits for the answer to the last.
        let may_claim = matches!(stage, None | Some(Stage::Later));
        match worker.inbox.first() {
            Some(Told::Assigned(_)) if !may_claim => {}
            Some(_) => steps.push(Step::Hear(id)),
            None => {}
        }
        match stage {
            Some(Stage::Granted(..) | Stage::Refused(_) | Stage::Failed) => steps.push(Step::Learn(id)),
            Some(Stage::Later) => {
                let claim = worker.claim.as_ref().expect("it is to be asked again");
                if self.decision(&world.store.rows.fence, claim) != Err(ClaimRefused::RowAhead) {
                    steps.push(Step::AskAgain(id));
                }
            }
            _ => {}
        }
        self.group_words(world, id, steps);
        self.write_steps(world, id, steps);
    }

    /// What a worker says to the group, or finds out from it.
    fn group_words(&self, world: &World, id: Id, steps: &mut Vec<Step>) {
        let worker = world.worker(id);
        if worker.seat.is_some() && world.group.seats[id as usize] != worker.seat {
            steps.push(Step::FindOut(id));
        }
        if worker.rejoins {
            steps.push(Step::Rejoin(id));
        }
        if worker.proof.is_some() {
            steps.push(Step::HearProof(id));
        } else if worker.seat.is_some() && world.group.seats[id as usize] == worker.seat {
            let minds = self.minds.borrow();
            if minds.generation(worker.ownership) != Generation::new(world.group.generation.into()) {
                return;
            }
            let holding = minds.holding(worker.ownership);
            let early = self.bounds.early_proofs && holding == Some(Holding::Claiming);
            if matches!(holding, Some(Holding::Refused(_))) && !worker.rejoins || early {
                steps.push(Step::Prove(id));
            }
        }
    }

    fn write_steps(&self, world: &World, id: Id, steps: &mut Vec<Step>) {
        let worker = world.worker(id);
        for key in Key::ALL {
            match worker.lanes[key as usize] {
                Some(_) => steps.push(Step::Commit(id, key)),
                None if self.next_job(world, id, key).is_some() && self.can_begin(world) => {
                    steps.push(Step::Begin(id, key));
                }
                None => {}
            }
        }
        let idle = Key::ALL.iter().all(|&key| self.next_job(world, id, key).is_none());
        if let Some(hold) = worker.hold
            && idle
            && !self.admits(&mut world.clone(), Key::X, &hold.token)
        {
            steps.push(Step::Look(id));
        }
        match worker.late {
            Some((_, write)) if write.checked => steps.push(Step::CommitLate(id)),
            Some(_) if self.can_begin(world) => steps.push(Step::BeginLate(id)),
            _ => {}
        }
        let waits = |id: Id| world.worker(id).claim.is_some_and(|claim| claim.stage == Stage::Announced);
        let asked = |id: Id| world.worker(id).claim.is_some_and(|claim| claim.stage == Stage::Asked);
        for which in [false, true] {
            if worker.notes[usize::from(which)] {
                steps.push(Step::EndNote(id, which));
            } else if self.bounds.notes && worker.hold.is_some() && Id::ALL.iter().any(|&id| waits(id) || asked(id)) {
                steps.push(Step::Note(id, which));
            }
        }
    }

    fn next_job(&self, world: &World, id: Id, key: Key) -> Option<(u8, Token)> {
        let hold = world.worker(id).hold?;
        let next = hold.done[key as usize] + 1;
        (next <= self.bounds.jobs[key as usize]).then_some((next, hold.token))
    }

    pub(crate) fn waits_for_operator(&self, world: &World, id: Id) -> bool {
        let worker = world.worker(id);
        let ahead = self.minds.borrow().holding(worker.ownership) == Some(Holding::FenceAhead);
        let waits = worker.claim.filter(|claim| claim.stage == Stage::Later && ahead && worker.is_up());
        waits.is_some_and(|claim| self.decision(&world.store.rows.fence, &claim) == Err(ClaimRefused::RowAhead))
    }

    /// Tells the worker's `Ownership` something, and does what it wants done.
    fn tell(&self, world: &mut World, id: Id, word: impl FnOnce(&mut Ownership) -> Vec<Action>) {
        let (number, actions) = self.minds.borrow_mut().tell(world.worker(id).ownership, word);
        world.worker_mut(id).ownership = number;
        for action in actions {
            self.carry_out(world, id, &action);
        }
    }

    fn carry_out(&self, world: &mut World, id: Id, action: &Action) {
        match action {
            Action::Claim { tenure, generation, .. } => self.ask(world, id, *tenure, *generation),
            Action::Abandon(..) => self.let_go(world, id),
            Action::Rejoin(_) => world.worker_mut(id).rejoins = true,
            Action::FenceIsAhead(_) => {
                if world.group.truth_restarts == 0 {
                    world.break_by(Broken::FalseAlarm);
                }
            }
            // What a grant opens is done where it is learned; proofs are steps of their own.
            Action::Open(..) | Action::Prove => {}
            Action::Drain(..) | Action::Close { .. } | Action::Leave => {
                unreachable!("nobody asks back or ends in order")
            }
        }
    }

    fn ask(&self, world: &mut World, id: Id, tenure: Tenure, generation: Generation) {
        let ahead = self.minds.borrow().holding(world.worker(id).ownership) == Some(Holding::FenceAhead);
        let worker = world.worker_mut(id);
        let tenure = u8::try_from(tenure.0).expect("faults are few");
        debug_assert_eq!(Generation::new(worker.given.generation.into()), Some(generation));
        let claim = Claim {
            tenure,
            generation: worker.given.generation,
            owner: Owner { id, give: worker.given.truth_give, tenure },
            session: worker.session,
            given: worker.given,
            truth_since: worker.truth_since,
            stage: if ahead { Stage::Later } else { Stage::Asked },
        };
        worker.claim = Some(claim);
        if matches!(self.without, Without::PartitionFence | Without::ClaimOnAssignment) {
            let token = self.take_unclaimed(world, &claim);
            let done = world.store.rows.done;
            world.worker_mut(id).claim = Some(Claim { stage: Stage::Granted(token, done), ..claim });
        }
    }

    /// One handler does not heed that its partition is lost, and writes when it ends.
    fn let_go(&self, world: &mut World, id: Id) {
        let running = Key::ALL.into_iter().rev().find_map(|key| {
            let idle = world.worker(id).lanes[key as usize].is_none();
            let (job, token) = self.next_job(world, id, key).filter(|_| idle)?;
            Some((key, Write { job, token, checked: false, locked: false }))
        });
        let worker = world.worker_mut(id);
        worker.hold = None;
        worker.late = worker.late.or(running);
    }

    pub(crate) fn hear(&self, world: &mut World, id: Id) {
        let worker = world.worker_mut(id);
        let told = worker.inbox.pop().expect("there is something to hear");
        let member = member(id, worker.seat.expect("words come to members"));
        match told {
            Told::Assigned(given) => {
                worker.given = given;
                worker.claim = None;
                let assignment = Assignment {
                    member,
                    generation: generation(given.generation),
                    partitions: vec![PARTITION],
                    replaces_all: false,
                };
                self.tell(world, id, |ownership| ownership.assigned(&assignment));
            }
            Told::Lost => {
                self.tell(world, id, |ownership| ownership.lost(&[PARTITION]));
                self.ask_no_more(world, id);
            }
            Told::MovedOn(number) => self.tell(world, id, |ownership| {
                ownership.moved_on(member, generation(number));
                Vec::new()
            }),
        }
    }

    /// A claim that is not under way is not sent any more.
    fn ask_no_more(&self, world: &mut World, id: Id) {
        let claim = &mut world.worker_mut(id).claim;
        if claim.is_some_and(|claim| claim.stage == Stage::Later) {
            *claim = None;
        }
    }

    /// A commit reaches the group and succeeds; its answer is on the way. One that the group refuses tells a worker nothing
    /// that it does not hear or find out besides.
    pub(crate) fn prove(&self, world: &mut World, id: Id) {
        let generation = world.group.generation;
        world.worker_mut(id).proof = Some(Proof { generation, early: false });
    }

    pub(crate) fn hear_proof(&self, world: &mut World, id: Id) {
        let proof = world.worker_mut(id).proof.take().expect("there is an answer");
        let t0 = if proof.early { BootTime::ZERO } else { REFUSED_AT };
        self.tell(world, id, |ownership| ownership.proved(t0, generation(proof.generation)).1);
    }

    /// The group does not know it any more.
    pub(crate) fn find_out(&self, world: &mut World, id: Id) {
        self.tell(world, id, Ownership::disowned);
        self.stand_outside(world, id);
    }

    pub(crate) fn rejoin(&self, world: &mut World, id: Id) {
        if world.group.seats[id as usize] == world.worker(id).seat {
            self.expel(world, id);
        }
        self.tell(world, id, |ownership| ownership.lost(&[PARTITION]));
        self.stand_outside(world, id);
    }

    fn stand_outside(&self, world: &mut World, id: Id) {
        self.ask_no_more(world, id);
        let worker = world.worker_mut(id);
        worker.seat = None;
        worker.inbox = Inbox::default();
        worker.rejoins = false;
        worker.proof = None;
    }

    pub(crate) fn start_process(&self, world: &mut World, id: Id) {
        let (session, since) = (world.store.rows.fence.epoch, world.store.truth_resets);
        let ownership = self.minds.borrow_mut().fresh();
        let worker = world.worker_mut(id);
        (worker.life, worker.session, worker.truth_since, worker.ownership) = (Life::Up, session, since, ownership);
    }

    /// The process is gone, with its connections. A claim that it had sent may still arrive.
    pub(crate) fn die(&self, world: &mut World, id: Id) {
        self.stand_outside(world, id);
        let worker = world.worker_mut(id);
        worker.life = Life::Down;
        worker.roll_back();
        (worker.late, worker.hold) = (None, None);
        let claim = worker.claim.take();
        if let Some(claim) = claim.filter(|claim| matches!(claim.stage, Stage::Asked | Stage::Announced)) {
            world.stray = world.stray.or(Some(claim));
        }
    }

    pub(crate) fn ask_again(&self, world: &mut World, id: Id) {
        world.worker_mut(id).claim.as_mut().expect("it is to be asked again").stage = Stage::Asked;
    }

    /// The answer to a claim.
    pub(crate) fn learn(&self, world: &mut World, id: Id) {
        let claim = world.worker_mut(id).claim.take().expect("there is an answer");
        let tenure = Tenure(claim.tenure.into());
        match claim.stage {
            Stage::Granted(token, done) => self.granted(world, id, tenure, token, done),
            Stage::Refused(ClaimRefused::OtherEpoch) if self.without == Without::Ending => {
                let session = world.store.rows.fence.epoch;
                let worker = world.worker_mut(id);
                worker.session = session;
                worker.claim = Some(Claim { session, stage: Stage::Asked, ..claim });
            }
            Stage::Refused(ClaimRefused::OtherEpoch) => self.die(world, id),
            Stage::Refused(why) => {
                if let Some(proof) = &mut world.worker_mut(id).proof {
                    proof.early = true;
                }
                self.tell(world, id, |ownership| ownership.claim_refused(REFUSED_AT, PARTITION, tenure, why));
            }
            Stage::Failed => self.tell(world, id, |ownership| ownership.claim_failed(PARTITION, tenure)),
            Stage::Later | Stage::Asked | Stage::Announced => unreachable!("there is an answer"),
        }
    }

    fn granted(&self, world: &mut World, id: Id, tenure: Tenure, token: Token, done: PerKey) {
        self.tell(world, id, |ownership| ownership.claim_granted(PARTITION, tenure));
        // A grant for a tenure that is over opens nothing.
        if self.minds.borrow().holds(world.worker(id).ownership, tenure) {
            let tenure = u8::try_from(tenure.0).expect("faults are few");
            world.worker_mut(id).hold = Some(Hold { tenure, token, done });
        }
    }

    /// A write checks the row.
    pub(crate) fn begin(&self, world: &mut World, id: Id, key: Key) {
        let (job, token) = self.next_job(world, id, key).expect("there is a job to write");
        if self.admits(world, key, &token) {
            let locked = self.without != Without::CheckInside;
            world.worker_mut(id).lanes[key as usize] = Some(Write { job, token, checked: true, locked });
        } else {
            self.fenced(world, id);
        }
    }

    /// The row is another claim's.
    pub(crate) fn fenced(&self, world: &mut World, id: Id) {
        let Some(hold) = world.worker(id).hold else { return };
        // Another write of the same claim would be refused as this one was.
        world.worker_mut(id).hold = None;
        self.tell(world, id, |ownership| ownership.fenced(PARTITION, Tenure(hold.tenure.into())));
    }

    /// The write ends. `told`: whether the worker hears of it.
    pub(crate) fn commit(&self, world: &mut World, id: Id, key: Key, told: bool) {
        let write = world.worker_mut(id).lanes[key as usize].take().expect("a write is open");
        self.land(world, key, &write);
        if let Some(hold) = &mut world.worker_mut(id).hold
            && told
            && hold.token == write.token
        {
            hold.done[key as usize] = write.job;
        }
    }

    pub(crate) fn begin_late(&self, world: &mut World, id: Id) {
        let (key, write) = world.worker(id).late.expect("a handler goes on");
        let admitted = self.admits(world, key, &write.token);
        let locked = self.without != Without::CheckInside;
        world.worker_mut(id).late = admitted.then_some((key, Write { checked: true, locked, ..write }));
    }

    pub(crate) fn commit_late(&self, world: &mut World, id: Id) {
        let (key, write) = world.worker_mut(id).late.take().expect("a late write is open");
        self.land(world, key, &write);
    }

    pub(crate) fn note(&self, world: &mut World, id: Id, which: bool) {
        let token = world.worker(id).hold.expect("an owner writes notes").token;
        if self.admits(world, Key::X, &token) {
            world.worker_mut(id).notes[usize::from(which)] = true;
        } else {
            self.fenced(world, id);
        }
    }

    /// Marker and effect, in one transaction, as its commit makes them stand.
    fn land(&self, world: &mut World, key: Key, write: &Write) {
        let before = world.store.rows;
        let done = before.done[key as usize];
        if write.job <= done {
            if self.without == Without::Markers {
                world.break_by(Broken::Twice);
            }
            return;
        }
        if write.token.truth_number != before.fence.newest.truth_number {
            world.break_by(Broken::Stale);
        } else if write.job != done + 1 {
            world.break_by(Broken::OutOfOrder);
        }
        world.store.rows.done[key as usize] = write.job;
        if self.has_fault(Fault::LoseWrite) {
            world.store.before_write = Some(before);
        }
    }
}

/// When refusals are read. Proofs that count begin then, others before it.
const REFUSED_AT: BootTime = BootTime::NEVER;

fn generation(number: u8) -> Generation {
    Generation::new(number.into()).expect("the group counts from 1")
}

fn member(id: Id, seat: Seat) -> MemberId {
    MemberId::new(&format!("{}{}", id.name(), u8::from(seat))).expect("it has a name")
}
