//! The group: who is a member, who owns what, in which generation. Eager or cooperative.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keylane_producer::{Offset, Partition};

use super::world::PARTITIONS;

/// After this long without a sign of life a member is forgotten, in ms.
pub(super) const SESSION: u64 = 2_000;
/// How long a member may take to release what was asked back, in ms.
const REVOKE_BOUND: u64 = 2_500;

#[derive(Clone, Debug)]
pub(super) enum Told {
    Assigned { generation: u64, partitions: Vec<Partition>, replaces_all: bool },
    MovedOn(u64),
    Revoking(Vec<Partition>),
    Lost(Partition),
}

#[derive(Debug, PartialEq)]
pub(super) enum Refused {
    GenerationMovedOn,
    UnknownMember,
    NotOwner(Partition),
}

#[derive(Default)]
pub(super) struct Group {
    pub(super) eager: bool,
    generation: u64,
    next_name: u64,
    members: BTreeMap<usize, Member>,
    owners: BTreeMap<Partition, usize>,
    asked: BTreeMap<Partition, u64>,
    pub(super) committed: BTreeMap<Partition, Offset>,
}

struct Member {
    name: u64,
    seen: u64,
    inbox: VecDeque<Told>,
}

impl Group {
    pub(super) fn new(eager: bool) -> Self {
        Self { eager, ..Self::default() }
    }

    /// A fresh member's name.
    pub(super) fn join(&mut self, worker: usize, now: u64) -> u64 {
        self.forget(worker);
        self.next_name += 1;
        let (name, inbox) = (self.next_name, VecDeque::new());
        self.members.insert(worker, Member { name, seen: now, inbox });
        self.generation += 1;
        let generation = self.generation;
        for (other, member) in &mut self.members {
            member.inbox.push_back(if *other == worker {
                Told::Assigned { generation, partitions: Vec::new(), replaces_all: false }
            } else {
                Told::MovedOn(generation)
            });
        }
        self.balance(now);
        name
    }

    pub(super) fn leave(&mut self, worker: usize, name: u64, now: u64) {
        if self.is_member(worker, name) {
            self.forget(worker);
            self.balance(now);
        }
    }

    /// A heartbeat and what there is to tell; `None` if it is no member.
    pub(super) fn poll(&mut self, worker: usize, name: u64, now: u64) -> Option<VecDeque<Told>> {
        let member = self.members.get_mut(&worker).filter(|member| member.name == name)?;
        member.seen = now;
        Some(std::mem::take(&mut member.inbox))
    }

    pub(super) fn release(&mut self, worker: usize, name: u64, partition: Partition, now: u64) {
        let asked = self.asked.contains_key(&partition) && self.owners.get(&partition) == Some(&worker);
        if asked && self.is_member(worker, name) {
            self.take(partition);
            self.balance(now);
        }
    }

    pub(super) fn commit(
        &mut self,
        worker: usize,
        name: u64,
        generation: u64,
        offsets: &[(Partition, Offset)],
        now: u64,
    ) -> Result<(), Refused> {
        if !self.is_member(worker, name) {
            return Err(Refused::UnknownMember);
        }
        if generation != self.generation {
            return Err(Refused::GenerationMovedOn);
        }
        if let Some((partition, _)) = offsets.iter().find(|(partition, _)| self.owners.get(partition) != Some(&worker))
        {
            return Err(Refused::NotOwner(*partition));
        }
        self.committed.extend(offsets.iter().copied());
        self.members.get_mut(&worker).expect("it is a member").seen = now;
        Ok(())
    }

    /// Forgets who is silent, takes what is not released in time. Returns who was forgotten.
    pub(super) fn tick(&mut self, now: u64) -> Vec<usize> {
        let silent = self.members.iter().filter(|(_, member)| now - member.seen > SESSION);
        let silent: Vec<_> = silent.map(|(worker, _)| *worker).collect();
        silent.iter().for_each(|worker| self.forget(*worker));
        let late = self.asked.iter().filter(|(_, since)| now - **since > REVOKE_BOUND);
        for partition in late.map(|(partition, _)| *partition).collect::<Vec<_>>() {
            if let Some(owner) = self.take(partition) {
                self.tell(owner, Told::Lost(partition));
            }
        }
        self.balance(now);
        silent
    }

    /// A metadata change during an unanswered assign: two claimants in one generation, and the first is told nothing.
    pub(super) fn deal_twice(&mut self, partition: Partition, to: usize) -> bool {
        let Some(&from) = self.owners.get(&partition) else { return false };
        if from == to || !self.members.contains_key(&to) || self.asked.contains_key(&partition) {
            return false;
        }
        self.generation += 1;
        self.owners.insert(partition, to);
        let (generation, partitions) = (self.generation, vec![partition]);
        for (worker, member) in &mut self.members {
            let partitions = partitions.clone();
            member.inbox.push_back(if *worker == from || *worker == to {
                Told::Assigned { generation, partitions, replaces_all: false }
            } else {
                Told::MovedOn(generation)
            });
        }
        true
    }

    /// It is deleted with all that it knew, and will count from 1 again.
    pub(super) fn begin_anew(&mut self) {
        let (eager, next_name) = (self.eager, self.next_name);
        *self = Self { eager, next_name, ..Self::default() };
    }

    fn is_member(&self, worker: usize, name: u64) -> bool {
        self.members.get(&worker).is_some_and(|member| member.name == name)
    }

    fn tell(&mut self, worker: usize, told: Told) {
        if let Some(member) = self.members.get_mut(&worker) {
            member.inbox.push_back(told);
        }
    }

    fn take(&mut self, partition: Partition) -> Option<usize> {
        self.asked.remove(&partition);
        self.owners.remove(&partition)
    }

    fn forget(&mut self, worker: usize) {
        self.members.remove(&worker);
        let theirs = self.owners.iter().filter(|(_, owner)| **owner == worker);
        for partition in theirs.map(|(partition, _)| *partition).collect::<Vec<_>>() {
            self.take(partition);
        }
    }

    /// Asks back what should be another's, gives what is free.
    fn balance(&mut self, now: u64) {
        let members: Vec<_> = self.members.keys().copied().collect();
        if members.is_empty() {
            return;
        }
        let target = |partition: Partition| members[partition.0 as usize % members.len()];
        let all: Vec<_> = (0..PARTITIONS).map(Partition).collect();
        let misplaced = |p: &Partition| self.owners.get(p).is_some_and(|owner| *owner != target(*p));
        let moves = all.iter().any(|p| misplaced(p) || !self.owners.contains_key(p));
        let mut asks: BTreeMap<usize, Vec<Partition>> = BTreeMap::new();
        for partition in &all {
            let Some(owner) = self.owners.get(partition) else { continue };
            let wanted = misplaced(partition) || (self.eager && moves);
            if wanted && !self.asked.contains_key(partition) {
                asks.entry(*owner).or_default().push(*partition);
            }
        }
        for (owner, partitions) in asks {
            self.asked.extend(partitions.iter().map(|partition| (*partition, now)));
            self.tell(owner, Told::Revoking(partitions));
        }
        let free: BTreeSet<_> = all.iter().copied().filter(|p| !self.owners.contains_key(p)).collect();
        if free.is_empty() || (self.eager && free.len() < all.len()) {
            return;
        }
        self.generation += 1;
        let (generation, replaces_all) = (self.generation, self.eager);
        for &worker in &members {
            let partitions: Vec<_> = free.iter().copied().filter(|p| target(*p) == worker).collect();
            self.owners.extend(partitions.iter().map(|partition| (*partition, worker)));
            self.tell(
                worker,
                if partitions.is_empty() && !replaces_all {
                    Told::MovedOn(generation)
                } else {
                    Told::Assigned { generation, partitions, replaces_all }
                },
            );
        }
    }
}
