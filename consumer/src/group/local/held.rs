//! What a member was told that it holds, and what to tell it when the rows say otherwise. Pure.

use std::collections::{BTreeMap, BTreeSet};

use keylane_producer::Partition;

use super::membership::Standing;
use crate::{
    fence::{Generation, MemberId},
    group::{Assignment, GroupEvent},
};

pub(super) struct Held {
    member: MemberId,
    /// The group's number as last told; `None` until the first look after the join.
    generation: Option<Generation>,
    /// With the generation that each was assigned in.
    owned: BTreeMap<Partition, Generation>,
    /// Those that it was told to release.
    revoking: BTreeSet<Partition>,
}

impl Held {
    pub(super) fn nothing(member: MemberId) -> Self {
        Self { member, generation: None, owned: BTreeMap::new(), revoking: BTreeSet::new() }
    }

    pub(super) fn member(&self) -> &MemberId {
        &self.member
    }

    pub(super) fn generation(&self) -> Option<Generation> {
        self.generation
    }

    /// It is owned, and nobody waits for it to be drained.
    pub(super) fn may_read(&self, partition: Partition) -> bool {
        self.owned.contains_key(&partition) && !self.revoking.contains(&partition)
    }

    /// Those of these that it was told to release.
    pub(super) fn asked_for(&self, partitions: &[Partition]) -> Vec<Partition> {
        partitions.iter().copied().filter(|p| self.revoking.contains(p)).collect()
    }

    pub(super) fn partitions(&self) -> Vec<Partition> {
        self.owned.keys().copied().collect()
    }

    /// It was released.
    pub(super) fn let_go(&mut self, partition: Partition) {
        self.owned.remove(&partition);
        self.revoking.remove(&partition);
    }

    /// Tells, in this order: what is lost, what is new (by rising generation), what is to be released, and the group's
    /// number if none of that said it of the partitions that stay.
    pub(super) fn learn(&mut self, standing: &Standing, sink: &mut dyn FnMut(GroupEvent)) {
        let first = self.generation.is_none();
        self.tell_lost(standing, sink);
        let stays = !self.owned.is_empty();
        let newest = self.tell_assigned(standing, first, sink);
        self.tell_revoking(standing, sink);
        if self.generation != Some(standing.generation) && (stays || newest != Some(standing.generation)) {
            sink(GroupEvent::MovedOn { member: self.member.clone(), generation: standing.generation });
        }
        self.generation = Some(standing.generation);
    }

    /// A partition that was taken and given back meanwhile is lost too: its generation differs.
    fn tell_lost(&mut self, standing: &Standing, sink: &mut dyn FnMut(GroupEvent)) {
        let still: BTreeMap<Partition, Generation> =
            standing.owned.iter().map(|row| (row.partition, row.generation)).collect();
        let lost: Vec<Partition> =
            self.owned.iter().filter(|(p, generation)| still.get(p) != Some(generation)).map(|(&p, _)| p).collect();
        lost.iter().for_each(|&p| self.let_go(p));
        if !lost.is_empty() {
            sink(GroupEvent::Lost(lost));
        }
    }

    /// One assignment for each generation, since that is what a claim is made with. The first look after a join tells
    /// even that there is nothing, so that the member knows its id. Returns the newest generation told.
    fn tell_assigned(
        &mut self,
        standing: &Standing,
        first: bool,
        sink: &mut dyn FnMut(GroupEvent),
    ) -> Option<Generation> {
        let mut fresh: BTreeMap<Generation, Vec<Partition>> = BTreeMap::new();
        for row in standing.owned.iter().filter(|row| !self.owned.contains_key(&row.partition)) {
            fresh.entry(row.generation).or_default().push(row.partition);
        }
        if first && fresh.is_empty() {
            fresh.insert(standing.generation, Vec::new());
        }
        for (&generation, partitions) in &fresh {
            self.owned.extend(partitions.iter().map(|&p| (p, generation)));
            sink(GroupEvent::Assigned(Assignment {
                member: self.member.clone(),
                generation,
                partitions: partitions.clone(),
                replaces_all: false,
            }));
        }
        fresh.last_key_value().map(|(&generation, _)| generation)
    }

    fn tell_revoking(&mut self, standing: &Standing, sink: &mut dyn FnMut(GroupEvent)) {
        let asked: Vec<Partition> = standing
            .owned
            .iter()
            .filter(|row| row.revoking && !self.revoking.contains(&row.partition))
            .map(|row| row.partition)
            .collect();
        self.revoking.extend(&asked);
        if !asked.is_empty() {
            sink(GroupEvent::Revoking(asked));
        }
    }
}
