//! Pure: whose partition it is. Group events and answers in, claim / open / drain / close out.
//!
//! Why a commit is a proof: the group takes it only from a current member in the current generation, so one that
//! succeeds proves that this member still owned its partitions when the call began. The deadline counts from there.
//!
//! 1. Nothing is read or run for a partition before its claim is granted, and each claim is a new [`Tenure`]. A claim
//!    without an answer is asked again as the same one.
//! 2. A claim carries the generation of the assignment that asked for it, never "the current one".
//! 3. A partition that stays keeps its tenure when the generation moves on under it.
//! 4. A partition is given back only when it is drained or the drain's bound is over, and after its last commit.
//! 5. Word about a tenure that is over changes nothing, nor does a proof of an earlier membership.
//! 6. A refused claim fails closed. Whether this worker is stale or the group began anew is told by a proof, and the epoch
//!    is never raised from here. Only a proof that began after the refusal tells it.

use std::{collections::BTreeMap, mem, time::Duration};

use keylane_producer::Partition;

use crate::{
    clock::BootTime,
    fence::{Generation, MemberId},
    group::Assignment,
    lanes::Tenure,
    store::ClaimRefused,
};

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnershipLimits {
    /// The group gives a silent member's partitions away after this long.
    pub session: Duration,
    /// The worker stops this much earlier: clock drift and the tail of an effect outside the store. The row covers the
    /// store itself. Default 200 ms.
    pub margin: Duration,
    /// How long running jobs may go on after a partition was asked back. Default 10 s.
    pub drain: Duration,
    /// Before a refused or failed claim is tried again; the worker adds jitter. Default 500 ms.
    pub claim_again: Duration,
}

/// What a partition is to this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holding {
    /// Assigned; the store was asked and has not answered.
    Claiming,
    /// Claimed: its jobs run.
    Held,
    /// Asked back: what runs may end until then, nothing starts.
    Draining {
        /// When the bound is over.
        until: BootTime,
    },
    /// Drained: last commit and release are under way.
    Closing,
    /// The store refused; nothing runs.
    Refused(ClaimRefused),
    /// The store's row is ahead although the group took this member's commit: the group began anew. Only an operator's
    /// `keylane fence reset` ends this; until then the claim is asked again and again.
    FenceAhead,
}

/// What the world outside has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the store for the partition, not before `after` has passed. The same tenure again means that the store did not
    /// answer: ask with the same [`crate::store::Candidate`], or a grant whose answer was lost stands in the way.
    Claim {
        /// Which.
        partition: Partition,
        /// The tenure that the claim is for.
        tenure: Tenure,
        /// To claim with.
        member: MemberId,
        /// To claim with.
        generation: Generation,
        /// How long to wait first.
        after: Duration,
    },
    /// The claim stands: read from the committed offset and run.
    Open(Partition, Tenure),
    /// Start nothing more of it, let what runs end; then say [`Ownership::drained`].
    Drain(Partition, Tenure),
    /// Stop what still runs, its word does not count: the partition is not ours any more, or the drain took too long.
    Abandon(Partition, Tenure),
    /// Commit the watermark a last time, hand over in the store if `clean`, release it; then [`Ownership::closed`].
    Close {
        /// Which.
        partition: Partition,
        /// Whose last acts these are; `None`: there was no claim, only release it.
        tenure: Option<Tenure>,
        /// Whether everything that started has ended.
        clean: bool,
    },
    /// Commit now, as a proof.
    Prove,
    /// Leave the group and join it anew, after this long.
    Rejoin(Duration),
    /// Tell the operator: the group began anew below the row of this partition.
    FenceIsAhead(Partition),
    /// Everything is given back: leave the group.
    Leave,
}

/// The ownership of one worker. A value: a checker of models keeps and compares what it has seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ownership {
    limits: OwnershipLimits,
    membership: Option<(MemberId, Generation)>,
    /// The first generation of this membership: proofs from before it prove nothing for it.
    joined: Option<Generation>,
    holdings: BTreeMap<Partition, Hold>,
    next_tenure: u64,
    ending: bool,
    left: bool,
    /// A rejoin was asked for and has not begun.
    rejoining: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hold {
    tenure: Tenure,
    /// As it was when the partition was assigned.
    generation: Generation,
    state: Holding,
    /// When the store's last refusal was read.
    refused_at: BootTime,
}

impl Ownership {
    /// A worker that is no member yet.
    pub fn new(limits: OwnershipLimits) -> Self {
        Self {
            limits,
            membership: None,
            joined: None,
            holdings: BTreeMap::new(),
            next_tenure: 1,
            ending: false,
            left: false,
            rejoining: false,
        }
    }

    /// The group gave partitions.
    pub fn assigned(&mut self, assignment: &Assignment) -> Vec<Action> {
        let mut actions = Vec::new();
        self.join(assignment.member.clone(), assignment.generation);
        self.rejoining = false;
        if assignment.replaces_all {
            let gone: Vec<_> = self.holdings.keys().filter(|p| !assignment.partitions.contains(p)).copied().collect();
            actions.extend(self.abandon(&gone));
        }
        for &partition in &assignment.partitions {
            // Given anew without having been asked back: it may have been somebody else's in between.
            actions.extend(self.abandon(&[partition]));
            actions.push(if self.ending {
                Action::Close { partition, tenure: None, clean: true }
            } else {
                self.claim(partition, assignment.generation)
            });
        }
        actions.extend(self.leave_if_done());
        actions
    }

    /// The group's number moved on under partitions that stay.
    pub fn moved_on(&mut self, member: MemberId, generation: Generation) {
        self.join(member, generation);
    }

    /// The store granted a claim.
    pub fn claim_granted(&mut self, partition: Partition, tenure: Tenure) -> Vec<Action> {
        match self.asking(partition, tenure) {
            Some(hold) => {
                hold.state = Holding::Held;
                // The commit that follows keeps the group from being deleted while it is empty, and proves.
                vec![Action::Open(partition, tenure), Action::Prove]
            }
            None => Vec::new(),
        }
    }

    /// The store refused a claim, and its answer was read at `now`: fail closed, and find out by a proof what it means.
    pub fn claim_refused(
        &mut self,
        now: BootTime,
        partition: Partition,
        tenure: Tenure,
        why: ClaimRefused,
    ) -> Vec<Action> {
        match self.asking(partition, tenure) {
            Some(hold) if hold.state == Holding::FenceAhead && why == ClaimRefused::RowAhead => {
                vec![self.claim_again(partition)]
            }
            Some(hold) => {
                hold.state = Holding::Refused(why);
                hold.refused_at = now;
                vec![Action::Prove]
            }
            None => Vec::new(),
        }
    }

    /// The store did not answer a claim, so it may have been granted: ask the same again as long as the partition is
    /// assigned.
    pub fn claim_failed(&mut self, partition: Partition, tenure: Tenure) -> Vec<Action> {
        let after = self.limits.claim_again;
        match self.asking(partition, tenure).map(|hold| hold.generation) {
            Some(generation) => vec![self.ask(partition, tenure, generation, after)],
            None => Vec::new(),
        }
    }

    /// A commit that began at `t0` succeeded in `generation`. Returns the deadline that it proves, and what follows for
    /// claims that were refused.
    pub fn proved(&mut self, t0: BootTime, generation: Generation) -> (BootTime, Vec<Action>) {
        if self.joined.is_none_or(|joined| generation < joined) {
            return (BootTime::ZERO, Vec::new());
        }
        let until = t0.plus(self.limits.session.saturating_sub(self.limits.margin));
        let mut actions = Vec::new();
        let mut ahead = Vec::new();
        let mut rejoin = false;
        for (&partition, hold) in &mut self.holdings {
            let Holding::Refused(why) = hold.state else { continue };
            if t0 < hold.refused_at {
                // It began before the row was read: the group may have moved on in between.
                continue;
            }
            if why == ClaimRefused::RowAhead && hold.generation == generation {
                // My generation is current and the row is ahead of it: the group went back.
                hold.state = Holding::FenceAhead;
                ahead.push(partition);
            } else {
                rejoin = true;
            }
        }
        for partition in ahead {
            actions.push(Action::FenceIsAhead(partition));
            actions.push(self.claim_again(partition));
        }
        if rejoin && !mem::replace(&mut self.rejoining, true) {
            actions.push(Action::Rejoin(self.limits.claim_again));
        }
        (until, actions)
    }

    /// The group does not know this member any more: everything is lost.
    pub fn disowned(&mut self) -> Vec<Action> {
        self.membership = None;
        self.joined = None;
        self.rejoining = false;
        let all: Vec<_> = self.holdings.keys().copied().collect();
        self.lost(&all)
    }

    /// The group asks for partitions back.
    pub fn revoking(&mut self, now: BootTime, partitions: &[Partition]) -> Vec<Action> {
        partitions.iter().filter_map(|&partition| self.give_back(now, partition)).collect()
    }

    /// Partitions are gone without asking.
    pub fn lost(&mut self, partitions: &[Partition]) -> Vec<Action> {
        let mut actions = self.abandon(partitions);
        actions.extend(self.leave_if_done());
        actions
    }

    /// The store's row refused a write of this tenure. The group may still count the partition as this worker's (an
    /// operator reset the fence, the store lost the last claim), so it is not dropped: another claim tells.
    pub fn fenced(&mut self, partition: Partition, tenure: Tenure) -> Vec<Action> {
        let Some(hold) = self.hold(partition, tenure) else { return Vec::new() };
        let generation = hold.generation;
        match hold.state {
            Holding::Held => vec![Action::Abandon(partition, tenure), self.claim(partition, generation)],
            Holding::Draining { .. } => self.cut_short(partition, tenure).into(),
            _ => Vec::new(),
        }
    }

    /// The group refused a commit because the partition, in this tenure, is another member's. No event need ever tell, and
    /// every later proof would be refused with it.
    pub fn not_owner(&mut self, partition: Partition, tenure: Tenure) -> Vec<Action> {
        match self.hold(partition, tenure) {
            Some(_) => self.lost(&[partition]),
            None => Vec::new(),
        }
    }

    /// Everything of a draining partition has ended and is written.
    pub fn drained(&mut self, partition: Partition, tenure: Tenure) -> Vec<Action> {
        match self.hold(partition, tenure) {
            Some(hold) if matches!(hold.state, Holding::Draining { .. }) => {
                hold.state = Holding::Closing;
                vec![Action::Close { partition, tenure: Some(tenure), clean: true }]
            }
            _ => Vec::new(),
        }
    }

    /// The last commit of a partition is done and it is released.
    pub fn closed(&mut self, partition: Partition, tenure: Tenure) -> Vec<Action> {
        if self.hold(partition, tenure).is_some() {
            self.holdings.remove(&partition);
        }
        self.leave_if_done().into_iter().collect()
    }

    /// Time passed: drains whose bound is over are cut short.
    pub fn tick(&mut self, now: BootTime) -> Vec<Action> {
        let over = |hold: &Hold| matches!(hold.state, Holding::Draining { until } if now >= until);
        let late: Vec<_> = self.holdings.iter().filter(|(_, h)| over(h)).map(|(p, h)| (*p, h.tenure)).collect();
        late.into_iter().flat_map(|(partition, tenure)| self.cut_short(partition, tenure)).collect()
    }

    /// The worker was asked to end: give everything back, take nothing new, then leave.
    pub fn end(&mut self, now: BootTime) -> Vec<Action> {
        self.ending = true;
        let all: Vec<_> = self.holdings.keys().copied().collect();
        let mut actions = self.revoking(now, &all);
        actions.extend(self.leave_if_done());
        actions
    }

    /// The worker was told to end at once: what runs is cut short.
    pub fn force(&mut self) -> Vec<Action> {
        self.ending = true;
        let ran = |hold: &Hold| matches!(hold.state, Holding::Held | Holding::Draining { .. });
        self.holdings.retain(|_, hold| ran(hold) || hold.state == Holding::Closing);
        let run: Vec<_> = self.holdings.iter().filter(|(_, h)| ran(h)).map(|(p, h)| (*p, h.tenure)).collect();
        let mut actions: Vec<_> =
            run.into_iter().flat_map(|(partition, tenure)| self.cut_short(partition, tenure)).collect();
        actions.extend(self.leave_if_done());
        actions
    }

    /// Who this worker is in the group, for commits.
    pub fn membership(&self) -> Option<&(MemberId, Generation)> {
        self.membership.as_ref()
    }

    /// What each assigned partition is to this worker.
    pub fn holdings(&self) -> impl Iterator<Item = (Partition, Tenure, Holding)> {
        self.holdings.iter().map(|(&partition, hold)| (partition, hold.tenure, hold.state))
    }

    /// What this partition is, in this tenure.
    pub fn holding(&self, partition: Partition, tenure: Tenure) -> Option<Holding> {
        self.holdings.get(&partition).filter(|h| h.tenure == tenure).map(|h| h.state)
    }

    /// When [`Ownership::tick`] has something to do next.
    pub fn next_tick(&self) -> Option<BootTime> {
        let drains = self.holdings.values().filter_map(|h| match h.state {
            Holding::Draining { until } => Some(until),
            _ => None,
        });
        drains.min()
    }

    fn hold(&mut self, partition: Partition, tenure: Tenure) -> Option<&mut Hold> {
        self.holdings.get_mut(&partition).filter(|h| h.tenure == tenure)
    }

    /// A hold that waits for the store's answer in this tenure.
    fn asking(&mut self, partition: Partition, tenure: Tenure) -> Option<&mut Hold> {
        self.hold(partition, tenure).filter(|h| matches!(h.state, Holding::Claiming | Holding::FenceAhead))
    }

    fn join(&mut self, member: MemberId, generation: Generation) {
        if self.membership.as_ref().is_none_or(|(known, _)| *known != member) {
            self.joined = Some(generation);
        }
        self.membership = Some((member, generation));
    }

    fn abandon(&mut self, partitions: &[Partition]) -> Vec<Action> {
        let gone = partitions.iter().filter_map(|p| Some((*p, self.holdings.remove(p)?.tenure)));
        gone.map(|(partition, tenure)| Action::Abandon(partition, tenure)).collect()
    }

    fn cut_short(&mut self, partition: Partition, tenure: Tenure) -> [Action; 2] {
        let hold = self.holdings.get_mut(&partition).expect("what ran is held");
        hold.state = Holding::Closing;
        [Action::Abandon(partition, tenure), Action::Close { partition, tenure: Some(tenure), clean: false }]
    }

    /// A new tenure, at the generation of the assignment.
    fn claim(&mut self, partition: Partition, generation: Generation) -> Action {
        let tenure = self.fresh_tenure();
        let hold = Hold { tenure, generation, state: Holding::Claiming, refused_at: BootTime::ZERO };
        self.holdings.insert(partition, hold);
        self.ask(partition, tenure, generation, Duration::ZERO)
    }

    /// Another claim while the row is ahead: an operator's reset lets it through.
    fn claim_again(&mut self, partition: Partition) -> Action {
        let tenure = self.fresh_tenure();
        let hold = self.holdings.get_mut(&partition).expect("what was refused is assigned");
        hold.tenure = tenure;
        let generation = hold.generation;
        self.ask(partition, tenure, generation, self.limits.claim_again)
    }

    fn ask(&self, partition: Partition, tenure: Tenure, generation: Generation, after: Duration) -> Action {
        let member = self.membership.as_ref().expect("partitions come to members only").0.clone();
        Action::Claim { partition, tenure, member, generation, after }
    }

    fn fresh_tenure(&mut self) -> Tenure {
        let tenure = Tenure(self.next_tenure);
        self.next_tenure += 1;
        tenure
    }

    fn give_back(&mut self, now: BootTime, partition: Partition) -> Option<Action> {
        let until = now.plus(self.limits.drain);
        let Some(hold) = self.holdings.get_mut(&partition) else {
            return Some(Action::Close { partition, tenure: None, clean: true });
        };
        match hold.state {
            Holding::Held => {
                hold.state = Holding::Draining { until };
                Some(Action::Drain(partition, hold.tenure))
            }
            // Nothing ran: a claim that is granted later belongs to a tenure that is over, and the next owner's
            // generation is higher.
            Holding::Claiming | Holding::Refused(_) | Holding::FenceAhead => {
                self.holdings.remove(&partition);
                Some(Action::Close { partition, tenure: None, clean: true })
            }
            Holding::Draining { .. } | Holding::Closing => None,
        }
    }

    fn leave_if_done(&mut self) -> Option<Action> {
        if self.ending && self.holdings.is_empty() && !self.left {
            self.left = true;
            return Some(Action::Leave);
        }
        None
    }
}

#[cfg(test)]
mod tests;
