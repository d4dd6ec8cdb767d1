//! The machine: which steps there are, what bounds them, and which guard a run goes without.

use std::cell::RefCell;

use super::{
    explore::Machine,
    minds::Minds,
    progress::Duty,
    world::{Given, Group, Id, Inbox, Key, Life, PerKey, Stage, Whose, Worker, World},
};

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) engine: Engine,
    /// How many faults a run may have, of any of these kinds in any order.
    pub(crate) faults: u8,
    pub(crate) kinds: &'static [Fault],
    /// How often the group may begin anew, among the faults.
    pub(crate) restarts: u8,
    pub(crate) jobs: PerKey,
    /// Writers go on without a pause while a claim waits.
    pub(crate) notes: bool,
    /// Proofs may begin before the answer to a claim is read.
    pub(crate) early_proofs: bool,
}

/// Which store's way of claiming and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// A claim announces itself, then waits for the writers in flight; they share the row.
    Postgres,
    /// One writer at a time, and a claim is one.
    Sqlite,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A process stands still, with all that it has on its way.
    Freeze,
    /// A process is gone; a claim that it had sent still arrives.
    Die,
    /// The group gives the partition to the other member and tells the first in its own time.
    Move,
    /// A metadata change during an unanswered assign: two claimants of one generation, and the first is told nothing.
    DealTwice,
    /// A static member's successor takes its place in the same generation.
    TakeSeat,
    /// The group is deleted and begins anew at 1.
    Restart,
    /// The store comes back without its last claim and all that was written under it.
    FailOver,
    /// The store comes back without its last write, the claim before it is kept.
    LoseWrite,
    /// The answer to a claim does not come.
    LoseAnswer,
    /// The connection is cut in the middle of a COMMIT that succeeds.
    CutCommit,
}

/// A guard that is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    Nothing,
    /// A claim wins with an equal generation too.
    StrictClaim,
    /// There is a fence for each key, raised by its first write; nothing is claimed.
    PartitionFence,
    /// The row is looked at before the transaction begins.
    CheckInside,
    /// A claim waits for the writers in flight without announcing itself.
    Intent,
    /// A write must match epoch and generation only.
    ClaimNumber,
    /// The first write raises the row.
    ClaimOnAssignment,
    /// A reset sets the generation back and leaves the epoch.
    Epoch,
    /// A worker that meets another epoch goes on with a new session.
    Ending,
    /// The claim number counts up by one.
    RandomClaimNumber,
    /// A write applies what it carries, done or not.
    Markers,
    /// A frozen writer's transaction stays open.
    IdleTimeout,
    /// What was claimed before a failover holds after it.
    Timeline,
    /// The judge knows no excuse for a group that began anew unseen: no guard of ours, a limit.
    Excuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Join(Id),
    Give(Id),
    Expel(Id),
    Hear(Id),
    Prove(Id),
    HearProof(Id),
    FindOut(Id),
    Rejoin(Id),
    Start(Id),
    Begin(Id, Key),
    Commit(Id, Key),
    /// An owner that knows of nothing to do compares the row all the same.
    Look(Id),
    BeginLate(Id),
    CommitLate(Id),
    Note(Id, bool),
    EndNote(Id, bool),
    AskAgain(Id),
    Learn(Id),
    Announce(Whose),
    Decide(Whose),
    Vanish,
    TimeOut(Id),
    Thaw(Id),
    ResetFence,
    EndProcess(Id),
    /// A fault, and the worker (and key) that it hits.
    Fault(Fault, Id, Key),
}

impl Step {
    /// Who must take it, and when: for progress with faults at an end and an operator who does the named steps, or not.
    pub(crate) fn duty(self, operator: bool) -> Duty {
        match self {
            Self::Fault(..) => Duty::Over,
            Self::Note(..) | Self::Vanish | Self::Thaw(_) => Duty::Free,
            Self::ResetFence | Self::EndProcess(_) if !operator => Duty::Over,
            _ => Duty::Fair,
        }
    }
}

pub(crate) struct Protocol {
    pub(crate) bounds: Bounds,
    pub(crate) without: Without,
    pub(crate) minds: RefCell<Minds>,
}

impl Protocol {
    pub(crate) fn new(bounds: Bounds, without: Without) -> Self {
        Self { bounds, without, minds: RefCell::new(Minds::new()) }
    }

    pub(crate) fn has_fault(&self, fault: Fault) -> bool {
        self.bounds.kinds.contains(&fault)
    }

    pub(crate) fn all_done(&self, world: &World) -> bool {
        world.store.rows.done == self.bounds.jobs
    }

    /// Nothing that is worth a look can follow.
    fn is_over(&self, world: &World) -> bool {
        let copies = [world.store.before_claim, world.store.before_write];
        let may_be_undone = copies.iter().any(Option::is_some) && world.faults_left > 0;
        self.all_done(world) && !may_be_undone && !self.bounds.notes && self.without != Without::Markers
    }

    fn faults(&self, world: &World, steps: &mut Vec<Step>) {
        if world.faults_left == 0 {
            return;
        }
        for &fault in self.bounds.kinds {
            for id in Id::ALL {
                for key in Key::ALL {
                    if self.can_fail(world, fault, id, key) {
                        steps.push(Step::Fault(fault, id, key));
                    }
                }
            }
        }
    }

    /// Whether this fault can hit this worker (and key) now. What hits nobody in particular hits `a` and `x`.
    fn can_fail(&self, world: &World, fault: Fault, id: Id, key: Key) -> bool {
        let (worker, group) = (world.worker(id), &world.group);
        if fault == Fault::CutCommit {
            return worker.is_up() && worker.lanes[key as usize].is_some_and(|write| write.checked);
        }
        if key != Key::X {
            return false;
        }
        let owns = group.owner == Some(id);
        let is_member = |id: Id| group.seats[id as usize].is_some();
        match fault {
            Fault::Freeze => worker.is_up(),
            Fault::Die => worker.life != Life::Down,
            Fault::Move => owns && is_member(id) && is_member(id.other()),
            Fault::DealTwice => {
                let mut inbox = worker.inbox;
                owns && is_member(id) && is_member(id.other()) && inbox.unheard().is_some()
            }
            Fault::TakeSeat => {
                let next = world.worker(id.other());
                owns && is_member(id) && !is_member(id.other()) && next.is_up() && next.seat.is_none()
            }
            Fault::Restart => id == Id::A && group.generation > 0 && group.truth_restarts < self.bounds.restarts,
            Fault::FailOver => id == Id::A && world.store.before_claim.is_some(),
            Fault::LoseWrite => id == Id::A && world.store.before_write.is_some(),
            Fault::LoseAnswer => {
                let stage = worker.claim.map(|claim| claim.stage);
                matches!(stage, Some(Stage::Granted(..) | Stage::Refused(_)))
            }
            Fault::CutCommit => unreachable!("answered above"),
        }
    }
}

impl Machine for Protocol {
    type State = World;
    type Step = Step;

    /// Two processes, of which `a` has joined first: it is the same with the names changed.
    fn start(&self) -> World {
        let nothing = Given { generation: 0, truth_restarts: 0, truth_give: 0 };
        let worker = Worker {
            life: Life::Up,
            seat: None,
            next_seat: false,
            session: 1,
            truth_since: 0,
            ownership: self.minds.borrow_mut().fresh(),
            given: nothing,
            inbox: Inbox::default(),
            claim: None,
            hold: None,
            lanes: [None; 2],
            late: None,
            notes: [false; 2],
            proof: None,
            rejoins: false,
        };
        let group = Group { generation: 0, owner: None, seats: [None; 2], truth_restarts: 0, truth_gives: 0 };
        let mut world = World::new(group, [worker; 2], self.bounds.faults);
        self.join(&mut world, Id::A);
        world
    }

    fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        if self.is_over(world) {
            return;
        }
        self.group_steps(world, steps);
        self.store_steps(world, steps);
        for id in Id::ALL {
            self.worker_steps(world, id, steps);
        }
        self.faults(world, steps);
    }

    fn take(&self, world: &World, step: Step) -> World {
        let mut next = *world;
        self.act(&mut next, step);
        if next.faults_left == 0 {
            // Nothing will bring it back.
            (next.store.before_claim, next.store.before_write) = (None, None);
        }
        next
    }

    fn is_broken(&self, world: &World) -> bool {
        world.broken.is_some()
    }
}

impl Protocol {
    fn act(&self, world: &mut World, step: Step) {
        match step {
            Step::Join(id) => self.join(world, id),
            Step::Give(id) => self.give(world, id),
            Step::Expel(id) => self.expel(world, id),
            Step::Hear(id) => self.hear(world, id),
            Step::Prove(id) => self.prove(world, id),
            Step::HearProof(id) => self.hear_proof(world, id),
            Step::FindOut(id) => self.find_out(world, id),
            Step::Rejoin(id) => self.rejoin(world, id),
            Step::Start(id) => self.start_process(world, id),
            Step::Begin(id, key) => self.begin(world, id, key),
            Step::Commit(id, key) => self.commit(world, id, key, true),
            Step::Look(id) => self.fenced(world, id),
            Step::BeginLate(id) => self.begin_late(world, id),
            Step::CommitLate(id) => self.commit_late(world, id),
            Step::Note(id, which) => self.note(world, id, which),
            Step::EndNote(id, which) => world.worker_mut(id).notes[usize::from(which)] = false,
            Step::AskAgain(id) => self.ask_again(world, id),
            Step::Learn(id) => self.learn(world, id),
            Step::Announce(whose) => self.announce(world, whose),
            Step::Decide(whose) => self.decide(world, whose),
            Step::Vanish => world.stray = None,
            Step::TimeOut(id) => world.worker_mut(id).roll_back(),
            Step::Thaw(id) => world.worker_mut(id).life = Life::Up,
            Step::ResetFence => self.reset_fence(world),
            Step::EndProcess(id) => self.die(world, id),
            Step::Fault(fault, id, key) => {
                world.faults_left -= 1;
                self.fail(world, fault, id, key);
            }
        }
    }

    fn fail(&self, world: &mut World, fault: Fault, id: Id, key: Key) {
        match fault {
            Fault::Freeze => world.worker_mut(id).life = Life::Frozen,
            Fault::Die => self.die(world, id),
            Fault::Move => self.move_away(world, id),
            Fault::DealTwice => self.deal_twice(world, id),
            Fault::TakeSeat => self.take_seat(world, id),
            Fault::Restart => self.restart_group(world),
            Fault::FailOver | Fault::LoseWrite => self.fail_over(world, fault == Fault::FailOver),
            Fault::LoseAnswer => {
                let claim = world.worker_mut(id).claim.as_mut().expect("there is an answer to lose");
                claim.stage = Stage::Failed;
            }
            Fault::CutCommit => self.commit(world, id, key, false),
        }
    }
}
