//! What the group does, to whom it tells it, and to whom it does not.

use super::*;

impl World {
    pub(super) fn tell(&mut self, worker: usize, told: Told) {
        // What is for a process that died reaches nobody.
        let process = &mut self.workers[worker];
        if process.name.is_some() && process.name.as_ref() == self.group.members.get(&worker) {
            process.inbox.push_back(told);
        }
    }

    pub(super) fn group_asks(&mut self, partition: Partition) {
        if let Some(&owner) = self.group.owners.get(&partition)
            && self.group.asked.insert(partition)
        {
            self.tell(owner, Told::Revoking(partition));
        }
    }

    pub(super) fn group_takes(&mut self, partition: Partition) {
        self.group.asked.remove(&partition);
        if let Some(owner) = self.group.owners.remove(&partition) {
            self.tell(owner, Told::Lost(partition));
        }
    }

    pub(super) fn group_gives(&mut self, to: usize) {
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

    pub(super) fn group_deals(&mut self, by: usize) {
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

    pub(super) fn group_deals_twice(&mut self, partition: Partition, to: usize) {
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
    pub(super) fn group_forgets(&mut self, worker: usize) {
        self.group.members.remove(&worker);
        let owners = &mut self.group.owners;
        owners.retain(|_, owner| *owner != worker);
        self.group.asked.retain(|p| owners.contains_key(p));
    }

    pub(super) fn join(&mut self, worker: usize) {
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
}
