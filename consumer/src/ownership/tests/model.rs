//! Several workers, a group and a store, all simple, with every answer and every event on its way for as long as the
//! case likes. No worker looks at its own clock before it writes here: only the claim and the row stand.

use std::collections::{BTreeSet, VecDeque};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};

use super::*;

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

    // The group.

    fn tell(&mut self, worker: usize, told: Told) {
        self.workers[worker].inbox.push_back(told);
    }

    fn group_asks(&mut self, partition: Partition) {
        if let Some(&owner) = self.group.owners.get(&partition)
            && self.group.asked.insert(partition)
        {
            self.tell(owner, Told::Revoking(partition));
        }
    }

    fn group_takes(&mut self, partition: Partition) {
        self.group.asked.remove(&partition);
        if let Some(owner) = self.group.owners.remove(&partition) {
            self.tell(owner, Told::Lost(partition));
        }
    }

    fn group_gives(&mut self, to: usize) {
        if !self.group.members.contains_key(&to) {
            return;
        }
        let free = (0..PARTITIONS).map(Partition).filter(|p| !self.group.owners.contains_key(p));
        let partitions: Vec<_> = free.take(2).collect();
        if partitions.is_empty() {
            return;
        }
        self.group.generation += 1;
        self.group.owners.extend(partitions.iter().map(|p| (*p, to)));
        let generation = self.group.generation;
        for (worker, name) in self.group.members.clone() {
            let partitions = partitions.clone();
            self.tell(
                worker,
                if worker == to {
                    Told::Assigned { name, generation, partitions, replaces_all: false }
                } else {
                    Told::MovedOn { name, generation }
                },
            );
        }
    }

    fn group_deals(&mut self, by: usize) {
        let members: Vec<_> = self.group.members.clone().into_iter().collect();
        if members.is_empty() {
            return;
        }
        self.group.generation += 1;
        self.group.asked.clear();
        self.group.owners =
            (0..PARTITIONS).map(|p| (Partition(p), members[(p as usize + by) % members.len()].0)).collect();
        let generation = self.group.generation;
        for (worker, name) in members {
            let mine = self.group.owners.iter().filter(|(_, owner)| **owner == worker);
            let partitions = mine.map(|(p, _)| *p).collect();
            self.tell(worker, Told::Assigned { name, generation, partitions, replaces_all: true });
        }
    }

    fn group_deals_twice(&mut self, partition: Partition, to: usize) {
        let Some(&old) = self.group.owners.get(&partition) else { return };
        let Some((&name, &old_name)) = self.group.members.get(&to).zip(self.group.members.get(&old)) else { return };
        if old == to {
            return;
        }
        self.group.generation += 1;
        let generation = self.group.generation;
        self.group.asked.remove(&partition);
        self.group.owners.insert(partition, to);
        let told = |name| Told::Assigned { name, generation, partitions: vec![partition], replaces_all: false };
        self.tell(old, told(old_name));
        self.tell(to, told(name));
        let others: Vec<_> = self.group.members.iter().map(|(w, n)| (*w, *n)).collect();
        for (worker, name) in others.into_iter().filter(|(w, _)| *w != old && *w != to) {
            self.tell(worker, Told::MovedOn { name, generation });
        }
    }

    /// The member is not told: its next commit is.
    fn group_forgets(&mut self, worker: usize) {
        self.group.members.remove(&worker);
        let owners = &mut self.group.owners;
        owners.retain(|_, owner| *owner != worker);
        self.group.asked.retain(|p| owners.contains_key(p));
    }

    fn join(&mut self, worker: usize) {
        if self.workers[worker].name.is_some() || self.workers[worker].left {
            return;
        }
        self.group_forgets(worker);
        let name = self.fresh();
        self.workers[worker].name = Some(name);
        // A session is opened anew with the membership, never under it: the epoch belongs to the assignment as its
        // generation does.
        self.workers[worker].epoch = self.store.epoch;
        self.group.members.insert(worker, name);
        self.group.generation += 1;
        let generation = self.group.generation;
        for (other, name) in self.group.members.clone() {
            self.tell(
                other,
                if other == worker {
                    Told::Assigned { name, generation, partitions: Vec::new(), replaces_all: false }
                } else {
                    Told::MovedOn { name, generation }
                },
            );
        }
    }

    // The worker's edge.

    fn deliver(&mut self, worker: usize) -> Result<(), Violation> {
        if std::mem::take(&mut self.workers[worker].rejoin) {
            self.group_forgets(worker);
            self.workers[worker].leave_group();
            let gone: Vec<_> = self.workers[worker].ownership.holdings().map(|(p, ..)| p).collect();
            self.act(worker, |ownership| ownership.lost(&gone))?;
            self.join(worker);
            return Ok(());
        }
        let Some(told) = self.workers[worker].inbox.pop_front() else { return Ok(()) };
        let now = self.now;
        let me = |name: u64| member(&format!("w{worker}.{name}"));
        match told {
            Told::Assigned { name, generation: number, partitions, replaces_all } => {
                let generation = generation(number);
                self.workers[worker].assigned_in.extend(partitions.iter().map(|p| (*p, number)));
                let assignment = Assignment { member: me(name), generation, partitions, replaces_all };
                self.act(worker, |ownership| ownership.assigned(&assignment))
            }
            Told::MovedOn { name, generation: number } => {
                let before = format!("{:?}", self.workers[worker].ownership.holdings);
                self.act(worker, |ownership| {
                    ownership.moved_on(me(name), generation(number));
                    Vec::new()
                })?;
                check(before == format!("{:?}", self.workers[worker].ownership.holdings), || "retained lost".into())
            }
            Told::Revoking(partition) => {
                let bound = now.plus(LIMITS.drain);
                self.workers[worker].bounds.entry(partition).or_insert(bound);
                self.act(worker, |ownership| ownership.revoking(now, &[partition]))
            }
            Told::Lost(partition) => self.act(worker, |ownership| ownership.lost(&[partition])),
        }
    }

    fn act(&mut self, worker: usize, event: impl FnOnce(&mut Ownership) -> Vec<Action>) -> Result<(), Violation> {
        let actions = event(&mut self.workers[worker].ownership);
        actions.into_iter().try_for_each(|action| self.carry_out(worker, action))
    }

    fn carry_out(&mut self, worker: usize, action: Action) -> Result<(), Violation> {
        let process = &mut self.workers[worker];
        check(!process.left, || format!("{worker} acts after it left: {action:?}"))?;
        match action {
            Action::Claim { partition, tenure, generation, .. } => {
                let from = process.assigned_in.get(&partition).copied();
                check(from == Some(generation.get()), || format!("claim with another generation than {from:?}"))?;
                if !self.guards.claim_first {
                    let row = Row { generation: generation.get(), worker, ..Row::default() };
                    process.granted.insert((partition, tenure), row);
                    self.store.rows.insert(partition, row);
                    return self.act(worker, |ownership| ownership.claim_granted(partition, tenure));
                }
                self.next += 1;
                let owner = *process.candidates.entry((partition, tenure)).or_insert(self.next);
                let (epoch, generation) = (process.epoch, generation.get());
                let ask = Ask::Claim { partition, tenure, epoch, generation, owner };
                let incarnation = process.incarnation;
                self.requests.push(Request { worker, incarnation, given_up: false, ask });
            }
            Action::Open(partition, tenure) => {
                let Some(row) = process.granted.get(&(partition, tenure)) else {
                    return Err(format!("{worker} opens {partition} without a grant of {tenure:?}"));
                };
                process.open.insert(partition, (tenure, *row));
                process.bounds.remove(&partition);
            }
            Action::Drain(partition, tenure) => {
                check(process.opened(partition) == Some(tenure), || "drains what is not open".into())?;
                let bound = self.now.plus(LIMITS.drain);
                process.bounds.entry(partition).or_insert(bound);
            }
            Action::Abandon(partition, tenure) => {
                if process.opened(partition) == Some(tenure) {
                    process.open.remove(&partition);
                }
            }
            Action::Close { partition, tenure, clean } => return self.close(worker, partition, tenure, clean),
            Action::Prove => self.prove(worker),
            Action::Rejoin(_) => process.rejoin = true,
            Action::FenceIsAhead(partition) => {
                check(self.restarted, || format!("false alarm: {partition} is not ahead of its group"))?;
            }
            Action::Leave => {
                check(process.ownership.holdings().next().is_none(), || "left holding something".into())?;
                process.left = true;
                process.leave_group();
                self.group_forgets(worker);
            }
        }
        Ok(())
    }

    fn close(
        &mut self,
        worker: usize,
        partition: Partition,
        tenure: Option<Tenure>,
        clean: bool,
    ) -> Result<(), Violation> {
        let process = &mut self.workers[worker];
        let runs = |tenure| {
            let mut mine = self.jobs.iter().filter(|j| j.worker == worker && j.incarnation == process.incarnation);
            mine.any(|j| j.partition == partition && j.tenure == tenure)
        };
        match tenure {
            None => check(process.opened(partition).is_none(), || format!("{worker} releases {partition} while open"))?,
            Some(tenure) if clean => check(!runs(tenure), || "released clean while a job runs".into())?,
            Some(_) => {
                let over = process.forced || process.bounds.get(&partition).is_some_and(|bound| self.now >= *bound);
                check(over, || format!("{worker} cut {partition} short before its bound"))?;
            }
        }
        process.open.remove(&partition);
        process.bounds.remove(&partition);
        // Assigned anew before this release: the group takes the release of the old one for nothing.
        if self.group.owners.get(&partition) == Some(&worker) && self.group.asked.remove(&partition) {
            self.group.owners.remove(&partition);
        }
        match tenure {
            Some(tenure) => self.act(worker, |ownership| ownership.closed(partition, tenure)),
            None => Ok(()),
        }
    }

    fn prove(&mut self, worker: usize) {
        let process = &self.workers[worker];
        if let (Some((_, generation)), Some(name)) = (process.ownership.membership(), process.name) {
            let ask = Ask::Proof { name, generation: generation.get(), t0: self.now };
            self.requests.push(Request { worker, incarnation: process.incarnation, given_up: false, ask });
        }
    }

    fn arrive(&mut self, pick: usize, fate: Fate) {
        if self.requests.is_empty() {
            return;
        }
        let at = pick % self.requests.len();
        let mut request = self.requests.remove(at);
        let (worker, incarnation) = (request.worker, request.incarnation);
        let says = if fate == Fate::Lost || fate == Fate::Late { None } else { self.decide(&request) };
        let says = match (&request.ask, fate) {
            (_, Fate::Answered) => says,
            (Ask::Claim { partition, tenure, .. }, _) => Some(Says::Failed(*partition, *tenure)),
            (Ask::Proof { .. }, _) => None,
        };
        if let Some(says) = says.filter(|_| !request.given_up) {
            self.answers.push(Answer { worker, incarnation, says });
        }
        if fate == Fate::Late {
            request.given_up = true;
            self.requests.push(request);
        }
    }

    fn decide(&mut self, request: &Request) -> Option<Says> {
        match request.ask {
            Ask::Claim { partition, tenure, epoch, generation, owner } => {
                let row = self.store.rows.entry(partition).or_default();
                let refused = if epoch != self.store.epoch {
                    Some(ClaimRefused::OtherEpoch)
                } else if row.generation > generation {
                    Some(ClaimRefused::RowAhead)
                } else if row.generation == generation && row.owner != owner && self.guards.equal_is_refused {
                    Some(ClaimRefused::EqualGeneration)
                } else {
                    None
                };
                if let Some(why) = refused {
                    return Some(Says::Refused(partition, tenure, why));
                }
                if row.owner != owner {
                    self.store.minted += 1;
                    *row = Row { generation, owner, claim: self.store.minted, worker: request.worker };
                }
                Some(Says::Granted(partition, tenure, *row))
            }
            Ask::Proof { name, generation, t0 } => {
                if self.group.members.get(&request.worker) != Some(&name) {
                    return Some(Says::UnknownMember(name));
                }
                (generation == self.group.generation).then_some(Says::Proved(t0, generation))
            }
        }
    }

    fn answer(&mut self, pick: usize) -> Result<(), Violation> {
        if self.answers.is_empty() {
            return Ok(());
        }
        let Answer { worker, incarnation, says } = self.answers.remove(pick % self.answers.len());
        if self.workers[worker].incarnation != incarnation || self.workers[worker].left {
            return Ok(());
        }
        let (now, proofs) = (self.now, self.guards.proof_after_refusal);
        let process = &mut self.workers[worker];
        let before = format!("{:?}", process.ownership.holdings);
        let current = |partition, tenure| process.ownership.holding(partition, tenure).is_some();
        let over = match &says {
            Says::Granted(p, t, _) | Says::Refused(p, t, _) | Says::Failed(p, t) => !current(*p, *t),
            Says::Proved(..) | Says::UnknownMember(_) => false,
        };
        match says {
            Says::Granted(partition, tenure, row) => {
                process.granted.insert((partition, tenure), row);
                self.act(worker, |ownership| ownership.claim_granted(partition, tenure))?;
            }
            Says::Refused(partition, tenure, why) => {
                let read = if proofs { now } else { BootTime::ZERO };
                self.act(worker, |ownership| ownership.claim_refused(read, partition, tenure, why))?;
            }
            Says::Failed(partition, tenure) => {
                self.act(worker, |ownership| ownership.claim_failed(partition, tenure))?
            }
            Says::Proved(t0, number) => {
                self.act(worker, |ownership| ownership.proved(t0, generation(number)).1)?;
            }
            Says::UnknownMember(name) => {
                if process.name == Some(name) {
                    process.leave_group();
                    self.act(worker, Ownership::disowned)?;
                }
            }
        }
        let after = format!("{:?}", self.workers[worker].ownership.holdings);
        check(!over || before == after, || "word about an old tenure changed something".into())
    }

    fn start(&mut self, worker: usize, partition: Partition, key: u8) {
        let process = &self.workers[worker];
        let Some(&(tenure, row)) = process.open.get(&partition) else { return };
        if process.ownership.holding(partition, tenure) == Some(Holding::Held) && self.jobs.len() < 12 {
            let incarnation = process.incarnation;
            self.jobs.push(RunningJob { worker, incarnation, partition, tenure, key, row });
        }
    }

    /// A job writes, whatever became of its worker since.
    fn finish_job(&mut self, pick: usize) -> Result<(), Violation> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let job = self.jobs.remove(pick % self.jobs.len());
        let (worker, partition) = (job.worker, job.partition);
        let open = self.workers[worker].open.get(&partition).copied();
        let with = if self.guards.tenures { job.row } else { open.map_or(job.row, |(_, row)| row) };
        let row = self.store.rows.get(&partition).copied().unwrap_or_default();
        if self.accepts(partition, job.key, with, row) {
            check(job.row == row, || format!("stale write: {:?} began under {:?}", row, job.row))?;
            let owner = self.group.owners.get(&partition).filter(|owner| **owner != worker);
            if let Some(owner) = owner.map(|owner| &self.workers[*owner]) {
                let rightful = owner.open.get(&partition).is_some_and(|(tenure, row)| {
                    owner.assigned_in.get(&partition) == Some(&row.generation)
                        && owner.ownership.holding(partition, *tenure) == Some(Holding::Held)
                        && row.generation >= job.row.generation
                });
                check(!rightful, || "a write beside the group's owner, which was granted its claim".into())?;
            }
        } else if self.workers[worker].incarnation == job.incarnation && open.is_some_and(|(t, _)| t == job.tenure) {
            // Fenced: somebody newer owns it.
            let now = self.now;
            // A drain has nothing left to wait for once the store refuses what it writes.
            self.workers[worker].bounds.entry(partition).and_modify(|bound| *bound = (*bound).min(now));
            self.act(worker, |ownership| ownership.fenced(now, partition, job.tenure))?;
        }
        self.say_drained(worker)
    }

    fn accepts(&mut self, partition: Partition, key: u8, with: Row, row: Row) -> bool {
        if self.guards.claim_first {
            return with.generation == row.generation && with.claim == row.claim;
        }
        let fence = self.store.keys.entry((partition, key)).or_default();
        let accepted = *fence <= with.generation;
        *fence = (*fence).max(with.generation);
        accepted
    }

    fn say_drained(&mut self, worker: usize) -> Result<(), Violation> {
        let process = &self.workers[worker];
        let draining: Vec<_> = process
            .ownership
            .holdings()
            .filter(|(p, t, state)| {
                let mut jobs = self.jobs.iter();
                let runs = jobs.any(|j| {
                    j.worker == worker && j.incarnation == process.incarnation && j.partition == *p && j.tenure == *t
                });
                matches!(state, Holding::Draining { .. }) && !runs
            })
            .collect();
        for (partition, tenure, _) in draining {
            self.act(worker, |ownership| ownership.drained(partition, tenure))?;
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
