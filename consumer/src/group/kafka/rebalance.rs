//! What the group gives and wants back, and how a member joins anew.

use keylane_producer::Partition;

use super::{FAREWELL, KafkaGroup, Part, SEEK};
use crate::{
    clock::{BootTime, Clock},
    error::{Detail, Error},
    group::{Assignment, GroupEvent},
};

/// Partitions that were asked back and are not given back yet.
pub(super) struct Revoked {
    pub(super) partitions: Vec<Partition>,
    /// Those that are not drained yet.
    left: Vec<Partition>,
}

impl KafkaGroup {
    pub(super) fn assigned(
        &mut self,
        partitions: Vec<Partition>,
        sink: &mut dyn FnMut(GroupEvent),
    ) -> Result<(), Error> {
        // First of all, while the number is still that of this assignment.
        let standing = self.client.standing();
        if matches!(self.part, Part::Leaving(_) | Part::Departing(..) | Part::Left) {
            // It is closing, and what it is given meanwhile goes back with the rest.
            return self.did("decline partitions", self.client.take(&partitions));
        }
        self.did("take partitions", self.client.take(&partitions))?;
        self.go_on_reading();
        self.check_partitions(&partitions)?;
        let Some((member, generation)) = standing else {
            tracing::warn!("the group gave partitions without a member id or a generation; joining anew");
            return self.rejoin(sink);
        };
        if matches!(&self.part, Part::Rejoining(Some(former)) if *former == member) {
            // Given to what this member was before.
            return Ok(());
        }
        self.part = Part::Member;
        let known = self.standing.replace((member.clone(), generation));
        let same_member = known.as_ref().is_some_and(|(known, _)| *known == member);
        {
            let mut shared = self.control.shared();
            if !self.cooperative {
                shared.owned.retain(|p, _| partitions.contains(p));
            }
            for &partition in &partitions {
                shared.owned.entry(partition).or_default();
            }
        }
        partitions.iter().for_each(|&p| self.stop_reading(p));
        if partitions.is_empty() && same_member && self.cooperative {
            if known.is_some_and(|(_, told)| told != generation) {
                sink(GroupEvent::MovedOn { member, generation });
            }
        } else {
            sink(GroupEvent::Assigned(Assignment { member, generation, partitions, replaces_all: !self.cooperative }));
        }
        Ok(())
    }

    /// A partition that the queue's identity does not have: the keys' places changed under the workers.
    fn check_partitions(&self, partitions: &[Partition]) -> Result<(), Error> {
        let count = self.queue.partitions.0.get();
        if partitions.iter().all(|p| p.0 < count) {
            return Ok(());
        }
        let name = &self.queue.name;
        Err(Error::Refused(
            Detail::new(format!(
                "the topic of queue '{name}' has more partitions than the {count} that the store has pinned: keys would \
                 change their places while they are worked on"
            ))
            .remedy("make a queue with the new count and move over; or accept it: keylane fence reset"),
        ))
    }

    pub(super) fn asked_back(
        &mut self,
        partitions: Vec<Partition>,
        sink: &mut dyn FnMut(GroupEvent),
    ) -> Result<(), Error> {
        partitions.iter().for_each(|&p| self.stop_reading(p));
        let owned: Vec<Partition> = partitions.iter().copied().filter(|&p| self.owns(p)).collect();
        let lost = self.client.assignment_lost();
        self.revoked = Some(Revoked { partitions, left: owned.clone() });
        if lost || owned.is_empty() || self.part != Part::Member {
            if !owned.is_empty() {
                sink(GroupEvent::Lost(owned));
            }
            return self.give_back();
        }
        self.did("pause what is asked back", self.client.pause(&owned))?;
        sink(GroupEvent::Revoking(owned));
        Ok(())
    }

    pub(super) fn lose_everything(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        let lost: Vec<Partition> = std::mem::take(&mut self.control.shared().owned).into_keys().collect();
        self.reads.stop_all().for_each(|partition| self.client.let_go_on(partition));
        self.waiting.clear();
        if !lost.is_empty() {
            sink(GroupEvent::Lost(lost));
        }
        self.give_back()
    }

    /// Drained: once all that was asked back is, it is given back.
    pub(super) fn release(&mut self, partitions: &[Partition]) -> Result<(), Error> {
        let Some(revoked) = &mut self.revoked else { return Ok(()) };
        revoked.left.retain(|p| !partitions.contains(p));
        let drained = revoked.left.is_empty();
        let asked = |p: &&Partition| revoked.partitions.contains(p);
        let mut shared = self.control.shared();
        for partition in partitions.iter().filter(asked) {
            shared.owned.remove(partition);
        }
        drop(shared);
        if drained { self.give_back() } else { Ok(()) }
    }

    /// Answers what was asked back, drained or not.
    fn give_back(&mut self) -> Result<(), Error> {
        let Some(revoked) = self.revoked.take() else { return Ok(()) };
        self.forget(&revoked.partitions);
        self.did("give partitions back", self.client.give_back(&revoked.partitions))?;
        self.go_on_reading();
        Ok(())
    }

    /// The client stops fetching while it waits for an answer to a rebalance, also what stays. After the answer it goes on
    /// when its fetching threads happen to wake up, which can take a second, if nobody wakes them.
    fn go_on_reading(&self) {
        for (partition, next) in self.reads.positions() {
            if let Err(error) = self.client.seek(partition, next, SEEK) {
                // It goes on by itself, later.
                tracing::debug!(partition = partition.0, %error, "cannot wake the client up");
            }
        }
    }

    pub(super) fn rejoin(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        self.lose_everything(sink)?;
        let former = self.standing.take().map(|(member, _)| member);
        // To subscribe at once would be taken for another subscription of the same member.
        self.client.unsubscribe();
        self.part = Part::Departing(former, Clock::boot().now().plus(FAREWELL));
        Ok(())
    }

    pub(super) fn go_on_rejoining(&mut self, now: BootTime) -> Result<(), Error> {
        let Part::Departing(former, until) = &mut self.part else { return Ok(()) };
        if now >= *until || self.client.standing().is_none() {
            self.part = Part::Rejoining(former.take());
            return self.did("join the group anew", self.client.subscribe());
        }
        Ok(())
    }

    fn forget(&mut self, partitions: &[Partition]) {
        for &partition in partitions {
            self.control.shared().owned.remove(&partition);
            self.stop_reading(partition);
        }
    }
}
