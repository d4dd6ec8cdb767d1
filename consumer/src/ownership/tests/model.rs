//! Several workers, a group and a store, all simple, with every answer and every event on its way for as long as the
//! case likes. No worker looks at its own clock before it writes here: only the claim and the row stand.

use std::collections::{BTreeSet, VecDeque};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::*;

mod edge;
mod group;

const WORKERS: usize = 3;
const PARTITIONS: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    /// The group asks for a partition back, for another worker.
    Move {
        partition: u32,
    },
    /// The group takes a partition without asking; the owner is told in its own time.
    Take {
        partition: u32,
    },
    /// Free partitions are given, the generation moves on.
    Give {
        to: usize,
    },
    /// An eager rebalance.
    Deal {
        by: usize,
    },
    /// A metadata change during an unanswered assign: the old owner reads the new generation for the old assignment.
    DealTwice {
        partition: u32,
        to: usize,
    },
    /// The group forgets a silent member.
    Expel {
        worker: usize,
    },
    /// The group was deleted and begins anew at 1.
    Restart,
    Join {
        worker: usize,
    },
    /// The process is gone, a fresh one takes its place; what it had sent still arrives.
    Die {
        worker: usize,
    },
    Deliver {
        worker: usize,
    },
    Prove {
        worker: usize,
    },
    Arrive {
        pick: usize,
        fate: Fate,
    },
    Answer {
        pick: usize,
    },
    Start {
        worker: usize,
        partition: u32,
        key: u8,
    },
    Finish {
        pick: usize,
    },
    Tick {
        worker: usize,
        millis: u64,
    },
    End {
        worker: usize,
    },
    Force {
        worker: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Answered,
    /// Nothing comes back and nothing was done.
    Lost,
    /// It was done, and nothing comes back.
    AnswerLost,
    /// It looks lost to the worker, and is done later.
    Late,
}

fn step() -> impl Strategy<Value = Step> {
    let worker = 0..WORKERS;
    let partition = 0..PARTITIONS;
    let pick = 0..8_usize;
    let fate = prop_oneof![6 => Just(Fate::Answered), 1 => Just(Fate::Lost), 1 => Just(Fate::AnswerLost), 1 => Just(Fate::Late)];
    prop_oneof![
        3 => partition.clone().prop_map(|partition| Step::Move { partition }),
        1 => partition.clone().prop_map(|partition| Step::Take { partition }),
        8 => worker.clone().prop_map(|to| Step::Give { to }),
        1 => worker.clone().prop_map(|by| Step::Deal { by }),
        1 => (partition.clone(), worker.clone()).prop_map(|(partition, to)| Step::DealTwice { partition, to }),
        1 => worker.clone().prop_map(|worker| Step::Expel { worker }),
        6 => worker.clone().prop_map(|worker| Step::Join { worker }),
        1 => worker.clone().prop_map(|worker| Step::Die { worker }),
        20 => worker.clone().prop_map(|worker| Step::Deliver { worker }),
        6 => worker.clone().prop_map(|worker| Step::Prove { worker }),
        16 => (pick.clone(), fate).prop_map(|(pick, fate)| Step::Arrive { pick, fate }),
        14 => pick.clone().prop_map(|pick| Step::Answer { pick }),
        14 => (worker.clone(), partition, 0..3_u8)
            .prop_map(|(worker, partition, key)| Step::Start { worker, partition, key }),
        8 => pick.prop_map(|pick| Step::Finish { pick }),
        4 => (worker.clone(), 1..4_000_u64).prop_map(|(worker, millis)| Step::Tick { worker, millis }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let rare = prop_oneof![
        Just(Step::Restart),
        (0..WORKERS).prop_map(|worker| Step::End { worker }),
        (0..WORKERS).prop_map(|worker| Step::Force { worker }),
    ];
    prop::collection::vec(prop_oneof![60 => step(), 1 => rare], 20..220)
}

/// Which guards stand; a twin takes one away.
#[derive(Clone, Copy)]
struct Guards {
    /// Of two claims with an equal generation only the first is granted.
    equal_is_refused: bool,
    /// A partition is claimed before it is opened. Without it, each key has its own fence, raised at its first write.
    claim_first: bool,
    /// A job writes with the claim that it began under, not with the worker's present one.
    tenures: bool,
    /// A member proves before it calls a row that is ahead the group's fault, and the proof began after the refusal.
    proof_after_refusal: bool,
}

const ALL: Guards = Guards { equal_is_refused: true, claim_first: true, tenures: true, proof_after_refusal: true };

type Violation = String;

struct World {
    guards: Guards,
    now: BootTime,
    group: Group,
    store: Store,
    workers: Vec<Process>,
    requests: Vec<Request>,
    answers: Vec<Answer>,
    jobs: Vec<RunningJob>,
    restarted: bool,
    next: u64,
}

#[derive(Default)]
struct Group {
    generation: u64,
    /// Each member's name; a process that joins again has another one.
    members: BTreeMap<usize, u64>,
    owners: BTreeMap<Partition, usize>,
    /// Asked back, not yet released.
    asked: BTreeSet<Partition>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    generation: u64,
    owner: u64,
    claim: u64,
    /// For the oracle only: which worker won it.
    worker: usize,
}

#[derive(Default)]
struct Store {
    epoch: u64,
    rows: BTreeMap<Partition, Row>,
    /// The fences of the twin without claims.
    keys: BTreeMap<(Partition, u8), u64>,
    minted: u64,
}

struct Process {
    incarnation: u64,
    ownership: Ownership,
    /// Its name in the group, once it joined.
    name: Option<u64>,
    epoch: u64,
    inbox: VecDeque<Told>,
    open: BTreeMap<Partition, (Tenure, Row)>,
    granted: BTreeMap<(Partition, Tenure), Row>,
    candidates: BTreeMap<(Partition, Tenure), u64>,
    assigned_in: BTreeMap<Partition, u64>,
    bounds: BTreeMap<Partition, BootTime>,
    rejoin: bool,
    forced: bool,
    left: bool,
}

#[derive(Clone, Debug)]
enum Told {
    Assigned { name: u64, generation: u64, partitions: Vec<Partition>, replaces_all: bool },
    MovedOn { name: u64, generation: u64 },
    Revoking(Partition),
    Lost(Partition),
}

#[derive(Clone, Debug)]
struct Request {
    worker: usize,
    incarnation: u64,
    /// The worker thinks that it was lost: no answer reaches it.
    given_up: bool,
    ask: Ask,
}

#[derive(Clone, Debug)]
enum Ask {
    Claim { partition: Partition, tenure: Tenure, epoch: u64, generation: u64, owner: u64 },
    Proof { name: u64, generation: u64, t0: BootTime },
}

struct Answer {
    worker: usize,
    incarnation: u64,
    says: Says,
}

#[derive(Clone, Debug)]
enum Says {
    Granted(Partition, Tenure, Row),
    Refused(Partition, Tenure, ClaimRefused),
    Failed(Partition, Tenure),
    Proved(BootTime, u64),
    UnknownMember(u64),
}

struct RunningJob {
    worker: usize,
    incarnation: u64,
    partition: Partition,
    tenure: Tenure,
    key: u8,
    row: Row,
}

impl World {
    fn new(guards: Guards) -> Self {
        let mut world = Self {
            guards,
            now: at(1),
            group: Group::default(),
            store: Store::default(),
            workers: Vec::new(),
            requests: Vec::new(),
            answers: Vec::new(),
            jobs: Vec::new(),
            restarted: false,
            next: 1,
        };
        world.workers = (0..WORKERS).map(|_| Process::fresh(0)).collect();
        world
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn take(&mut self, step: &Step) -> Result<(), Violation> {
        self.now = self.now.plus(Duration::from_millis(1));
        match *step {
            Step::Move { partition } => self.group_asks(Partition(partition)),
            Step::Take { partition } => self.group_takes(Partition(partition)),
            Step::Give { to } => self.group_gives(to),
            Step::Deal { by } => self.group_deals(by),
            Step::DealTwice { partition, to } => self.group_deals_twice(Partition(partition), to),
            Step::Expel { worker } => self.group_forgets(worker),
            Step::Restart => {
                self.group = Group::default();
                self.restarted = true;
            }
            Step::Join { worker } => self.join(worker),
            Step::Die { worker } => {
                let incarnation = self.fresh();
                if !self.workers[worker].left {
                    self.workers[worker] = Process { incarnation, ..Process::fresh(self.store.epoch) };
                }
            }
            Step::Deliver { worker } => return self.deliver(worker),
            Step::Prove { worker } => self.prove(worker),
            Step::Arrive { pick, fate } => self.arrive(pick, fate),
            Step::Answer { pick } => return self.answer(pick),
            Step::Start { worker, partition, key } => self.start(worker, Partition(partition), key),
            Step::Finish { pick } => return self.finish_job(pick),
            Step::Tick { worker, millis } => {
                self.now = self.now.plus(Duration::from_millis(millis));
                let now = self.now;
                return self.act(worker, |ownership| ownership.tick(now));
            }
            Step::End { worker } => {
                let now = self.now;
                return self.act(worker, |ownership| ownership.end(now));
            }
            Step::Force { worker } => {
                self.workers[worker].forced = true;
                return self.act(worker, Ownership::force);
            }
        }
        Ok(())
    }

    /// Faults stop: everything is answered, the silent are forgotten, an operator resets the fence if it is ahead. Soon
    /// every partition is held by the worker that the group gave it to.
    fn settle(mut self) -> Result<(), Violation> {
        if self.restarted {
            self.store.epoch += 1;
            for row in self.store.rows.values_mut() {
                self.store.minted += 1;
                *row = Row { claim: self.store.minted, ..Row::default() };
            }
        }
        for _ in 0..60 {
            for worker in 0..WORKERS {
                if self.group.members.get(&worker).is_some_and(|name| self.workers[worker].name != Some(*name)) {
                    self.group_forgets(worker);
                }
                self.take(&Step::Join { worker })?;
                self.take(&Step::Give { to: worker })?;
                while self.workers[worker].rejoin || !self.workers[worker].inbox.is_empty() {
                    self.take(&Step::Deliver { worker })?;
                }
                self.take(&Step::Prove { worker })?;
                self.take(&Step::Tick { worker, millis: 500 })?;
                // A row that is ahead is asked again and again.
                for _ in 0..self.requests.len() + self.answers.len() + 4 {
                    self.take(&Step::Arrive { pick: 0, fate: Fate::Answered })?;
                    self.take(&Step::Answer { pick: 0 })?;
                }
                self.say_drained(worker)?;
            }
            while !self.jobs.is_empty() {
                self.take(&Step::Finish { pick: 0 })?;
            }
        }
        for (worker, process) in self.workers.iter().enumerate() {
            check(process.left == process.ownership.ending, || format!("{worker} ended and did not leave"))?;
        }
        if self.workers.iter().all(|process| process.left) {
            return Ok(());
        }
        for partition in (0..PARTITIONS).map(Partition) {
            let owner = self.group.owners.get(&partition).map(|owner| &self.workers[*owner]);
            let state = owner.and_then(|process| process.ownership.holdings().find(|(p, ..)| *p == partition));
            let held = matches!(state, Some((_, _, Holding::Held)));
            check(held, || format!("stuck: {partition} is {state:?}"))?;
        }
        Ok(())
    }
}

impl Process {
    fn fresh(epoch: u64) -> Self {
        Self {
            incarnation: 0,
            ownership: Ownership::new(LIMITS),
            name: None,
            epoch,
            inbox: VecDeque::new(),
            open: BTreeMap::new(),
            granted: BTreeMap::new(),
            candidates: BTreeMap::new(),
            assigned_in: BTreeMap::new(),
            bounds: BTreeMap::new(),
            rejoin: false,
            forced: false,
            left: false,
        }
    }

    fn holdings(&self) -> Vec<(Partition, Tenure, Holding)> {
        self.ownership.holdings().collect()
    }

    fn opened(&self, partition: Partition) -> Option<Tenure> {
        self.open.get(&partition).map(|(tenure, _)| *tenure)
    }

    /// What the group had told and was not heard is void.
    fn leave_group(&mut self) {
        self.name = None;
        self.inbox.clear();
    }
}

fn check(holds: bool, violation: impl FnOnce() -> Violation) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(violation()) }
}

fn run(guards: Guards, steps: &[Step]) -> Result<(), Violation> {
    let mut world = World::new(guards);
    for worker in 0..WORKERS {
        world.take(&Step::Join { worker })?;
    }
    steps.iter().try_for_each(|step| world.take(step))?;
    world.settle()
}

/// The violation that a world without this guard shows.
fn violation(guards: Guards, about: &str) -> Option<Violation> {
    let mut runner = TestRunner::deterministic();
    let cases = (0..4_000).map(|_| steps().new_tree(&mut runner).unwrap().current());
    cases.filter_map(|steps| run(guards, &steps).err()).find(|violation| violation.contains(about))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn no_interleaving_lets_a_stale_write_in_or_leaves_a_partition_without_an_owner(steps in steps()) {
        if let Err(violation) = run(ALL, &steps) {
            return Err(TestCaseError::fail(violation));
        }
    }
}

#[test]
fn without_the_rule_for_equal_generations_two_claimants_take_the_row_from_each_other() {
    assert!(violation(Guards { equal_is_refused: false, ..ALL }, "beside the group's owner").is_some());
}

#[test]
fn without_a_claim_on_assignment_a_zombie_writes_to_an_untouched_key() {
    assert!(violation(Guards { claim_first: false, ..ALL }, "stale write").is_some());
}

#[test]
fn without_tenures_a_job_from_before_the_loss_writes_after_the_partition_was_regained() {
    assert!(violation(Guards { tenures: false, ..ALL }, "stale write").is_some());
}

/// A commit succeeds, then the partition moves on and its next owner claims it, then this worker's late claim is refused;
/// the answer to the commit comes last.
fn a_commit_overtaken_by_a_move() -> Vec<Step> {
    let arrive = |pick| Step::Arrive { pick, fate: Fate::Answered };
    let deliver = |worker| (0..4).map(move |_| Step::Deliver { worker });
    let mut steps = vec![Step::Give { to: 0 }];
    steps.extend(deliver(0));
    steps.extend([Step::Prove { worker: 0 }, arrive(2), Step::Take { partition: 0 }, Step::Give { to: 1 }]);
    steps.extend(deliver(1));
    steps.extend([arrive(2), arrive(0), Step::Answer { pick: 2 }, Step::Answer { pick: 0 }]);
    steps
}

#[test]
fn without_the_order_of_refusal_and_proof_an_ordinary_move_is_told_as_a_fence_ahead() {
    let steps = a_commit_overtaken_by_a_move();
    assert_eq!(run(ALL, &steps), Ok(()));
    let unordered = run(Guards { proof_after_refusal: false, ..ALL }, &steps);
    assert!(unordered.is_err_and(|violation| violation.contains("false alarm")));
}
