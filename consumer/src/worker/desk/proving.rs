//! Commits, deadlines, closes.

use std::{sync::Arc, time::Duration};

use keylane_producer::{Offset, Partition};

use super::{Desk, Mail};
use crate::{
    clock::BootTime,
    error::Error,
    group::{Commit, CommitError},
    handler::Handler,
    lanes::Tenure,
    notice::Notice,
    store::FencedStore,
    worker::{
        counts::Came,
        prover::{Closing, Order, Proved},
    },
};

/// After a commit that proved nothing: how soon to try again.
const SOON: Duration = Duration::from_millis(50);

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    /// Gives the prover its next order: closes first, then a proof when it is time.
    pub(super) fn send_proofs(&mut self, mail: &Mail<S>, now: BootTime) {
        self.notice_overdue(now);
        let finished = self.settings.until_empty && self.tenancies.values().any(|t| t.to_commit().is_some());
        if finished && self.looks_empty() {
            self.next_proof = now;
        }
        if self.prover_busy {
            return;
        }
        if self.for_prover.is_empty() && now >= self.next_proof {
            self.next_proof = now.plus(self.settings.prove_every);
            self.for_prover.extend(self.proof());
        }
        if let Some(order) = self.for_prover.pop_front() {
            self.prover_busy = mail.prover.orders.send(order).is_ok();
        }
    }

    /// One commit for all partitions that moved, or none of them: then it only proves.
    fn proof(&self) -> Option<Order> {
        let (member, generation) = self.ownership.membership()?.clone();
        let heeded = self.tenancies.iter().filter(|(p, _)| !self.unheeded.contains(p));
        let moved = heeded.filter_map(|(&p, t)| Some((p, t.tenure, t.to_commit()?)));
        let tenures: Vec<_> = moved.collect();
        let offsets = tenures.iter().map(|&(partition, _, offset)| (partition, offset)).collect();
        let commit = Commit { member, generation, offsets };
        Some(Order::Prove { commit, tenures, limit: self.settings.ownership.session })
    }

    /// Queues the last acts of a partition.
    pub(super) fn close(&mut self, partition: Partition, tenure: Option<Tenure>, clean: bool) {
        let limit = self.settings.ownership.session;
        let is_held = self.tenancies.get(&partition).is_some_and(|t| Some(t.tenure) == tenure);
        let held = if is_held { self.tenancies.remove(&partition) } else { None };
        let closing = held.map(|tenancy| {
            tenancy.cancel.cancel();
            self.lanes.close(partition);
            self.failures.retain(|ticket, _| ticket.partition != partition);
            let commit = tenancy.to_commit().zip(self.ownership.membership().cloned());
            let commit = commit.map(|(offset, (member, generation))| Commit {
                member,
                generation,
                offsets: vec![(partition, offset)],
            });
            Closing { tenure: tenancy.tenure, fence: Arc::clone(&tenancy.fence), commit, clean }
        });
        // A tenure without a tenancy was lost meanwhile; the partition is released all the same.
        self.for_prover.push_back(Order::Close { partition, closing, limit });
    }

    pub(super) fn proved(&mut self, answer: Proved) -> Result<(), Error> {
        let now = self.clock.now();
        match answer {
            Proved::Closed { partition, tenure, clean } => {
                if let Some(tenure) = tenure {
                    self.counts.moved.released += 1;
                    if let Some((_, since)) = self.drains.remove(&partition).filter(|(of, _)| *of == tenure) {
                        let drains = &mut self.counts.drains;
                        let drained = if clean { &mut drains.clean } else { &mut drains.timed_out };
                        drained.add(now.since(since));
                    }
                    (self.notices)(Notice::Released { partition, clean });
                    let actions = self.ownership.closed(partition, tenure);
                    self.carry_out(actions);
                }
            }
            Proved::Committed { t0, took, commit, tenures, outcome } => {
                self.count_commit(&outcome, took);
                self.committed(t0, &commit, tenures, outcome)?;
            }
        }
        Ok(())
    }

    fn count_commit(&mut self, outcome: &Result<(), CommitError>, took: Duration) {
        let came = match outcome {
            Ok(()) => Came::Through,
            Err(CommitError::Unavailable(_) | CommitError::Fatal(_)) => Came::ToNothing,
            Err(_) => Came::Refused,
        };
        self.counts.offsets.count(came, took);
        if matches!(outcome, Err(CommitError::UnknownMember | CommitError::NotOwner(_))) {
            self.counts.rejections.offset += 1;
        }
    }

    fn committed(
        &mut self,
        t0: BootTime,
        commit: &Commit,
        tenures: Vec<(Partition, Tenure, Offset)>,
        outcome: Result<(), CommitError>,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        match outcome {
            Ok(()) => {
                self.is_back("the group");
                // The group has it, whichever tenure it was sent in: a later one may begin below it.
                for (partition, _, offset) in tenures {
                    if let Some(t) = self.tenancies.get_mut(&partition) {
                        t.committed = t.committed.max(Some(offset));
                    }
                }
                let (until, actions) = self.ownership.proved(t0, commit.generation);
                self.lease.proved(until);
                self.carry_out(actions);
            }
            // No loss during a rebalance: the polling thread learns the new number.
            Err(CommitError::GenerationMovedOn) => self.next_proof = now.plus(SOON),
            Err(CommitError::UnknownMember) => self.disowned(commit),
            Err(CommitError::NotOwner(partition)) => {
                self.next_proof = now.plus(SOON);
                let committed = tenures.iter().find(|(of, ..)| *of == partition);
                if !self.settings.guards.let_go {
                    self.lost(&[partition]);
                } else if let Some(&(_, tenure, _)) = committed {
                    let actions = self.ownership.not_owner(partition, tenure);
                    self.carry_out(actions);
                }
            }
            Err(CommitError::Unavailable(error)) => {
                self.is_away("the group", &error);
                self.next_proof = now.plus(SOON);
            }
            Err(CommitError::Fatal(error)) => return Err(error),
        }
        Ok(())
    }

    /// The group does not know the member that committed. Word about an earlier membership changes nothing.
    fn disowned(&mut self, commit: &Commit) {
        let current = self.ownership.membership().is_some_and(|(member, _)| *member == commit.member);
        if !current || !self.settings.guards.let_go {
            return;
        }
        self.lease.disproved();
        let held: Vec<_> = self.tenancies.keys().copied().collect();
        self.count_lost(held.len());
        if !held.is_empty() {
            (self.notices)(Notice::Lost(held));
        }
        let actions = self.ownership.disowned();
        self.carry_out(actions);
    }
}
