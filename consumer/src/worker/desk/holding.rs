//! Carries out what [`crate::ownership`] decides.

use keylane_producer::Partition;

use super::{Desk, Timer};
use crate::{
    error::{Detail, Error},
    fence::{Fence, Generation, MemberId, Owner},
    group::GroupEvent,
    handler::Handler,
    lanes::Tenure,
    notice::Notice,
    ownership::{Action, Holding},
    store::{Candidate, ClaimError, ClaimRefused, Claimed, FencedStore},
    worker::{
        clerk::{self, Answer},
        polling::Polled,
        tenancy::Tenancy,
    },
};

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    pub(super) fn polled(&mut self, polled: Polled) -> Result<(), Error> {
        let event = match polled {
            Polled::Event(event) => event,
            Polled::Away(error) => {
                self.is_away("the group", &error);
                return Ok(());
            }
            Polled::Back => {
                self.is_back("the group");
                return Ok(());
            }
            Polled::Failed(error) => return Err(error),
        };
        let now = self.clock.now();
        match event {
            GroupEvent::Assigned(assignment) => {
                self.counts.rebalances.assigned += 1;
                if !assignment.partitions.is_empty() {
                    (self.notices)(Notice::Assigned(assignment.partitions.clone()));
                }
                self.assigned_at.extend(assignment.partitions.iter().map(|&p| (p, now)));
                let actions = self.ownership.assigned(&assignment);
                self.carry_out(actions);
            }
            GroupEvent::MovedOn { member, generation } => {
                self.counts.rebalances.unchanged += 1;
                self.ownership.moved_on(member, generation);
                self.next_proof = now;
            }
            GroupEvent::Revoking(partitions) => {
                self.counts.rebalances.revoked += 1;
                (self.notices)(Notice::Draining(partitions.clone()));
                let actions = self.ownership.revoking(now, &partitions);
                self.carry_out(actions);
            }
            GroupEvent::Lost(partitions) => self.lost(&partitions),
            GroupEvent::Records { partition, from, records, position, end } => {
                self.records(partition, from, records, position, end);
            }
            GroupEvent::Left => self.left = true,
        }
        Ok(())
    }

    /// The group took partitions without asking.
    pub(super) fn lost(&mut self, partitions: &[Partition]) {
        let held = partitions.iter().copied().filter(|p| self.tenancies.contains_key(p));
        if !self.settings.guards.let_go {
            // What runs goes on until the store refuses it; what it refused already is over.
            self.unheeded.extend(held);
            let bare: Vec<_> = partitions.iter().copied().filter(|p| !self.tenancies.contains_key(p)).collect();
            let actions = self.ownership.lost(&bare);
            return self.carry_out(actions);
        }
        let held: Vec<_> = held.collect();
        self.count_lost(held.len());
        if !held.is_empty() {
            (self.notices)(Notice::Lost(held));
        }
        let actions = self.ownership.lost(partitions);
        self.carry_out(actions);
    }

    pub(super) fn count_lost(&mut self, held: usize) {
        self.counts.rebalances.lost += u64::from(held > 0);
        self.counts.moved.lost += held as u64;
    }

    pub(super) fn carry_out(&mut self, actions: Vec<Action>) {
        let now = self.clock.now();
        for action in actions {
            match action {
                Action::Claim { partition, tenure, member, generation, after } => {
                    if !after.is_zero() {
                        let action =
                            Action::Claim { partition, tenure, member, generation, after: std::time::Duration::ZERO };
                        let jitter = after.mul_f64(0.5 + fastrand::f64());
                        self.set_timer(now.plus(jitter), Timer::Act(action));
                    } else {
                        self.ask_for_claim(partition, tenure, &member, generation);
                    }
                }
                // Opened where the claim was answered, since it needs what was granted.
                Action::Open(..) => {}
                Action::Drain(partition, tenure) => {
                    self.drains.insert(partition, (tenure, now));
                    self.lanes.drain(partition);
                }
                Action::Abandon(partition, tenure) => self.abandon(partition, tenure),
                Action::Close { partition, tenure, clean } => self.close(partition, tenure, clean),
                Action::Prove => self.next_proof = now,
                Action::Rejoin(after) => {
                    self.set_timer(now.plus(after.mul_f64(0.5 + fastrand::f64())), Timer::Rejoin);
                }
                Action::FenceIsAhead(partition) => (self.notices)(Notice::FenceIsAhead(partition)),
                Action::Leave => self.control.leave(),
            }
        }
    }

    /// One owner for each tenure: a claim that is asked again may have been granted, and must be known again.
    fn ask_for_claim(&mut self, partition: Partition, tenure: Tenure, member: &MemberId, generation: Generation) {
        let waits = matches!(self.ownership.holding(partition, tenure), Some(Holding::Claiming | Holding::FenceAhead));
        if !waits {
            return;
        }
        let asked = self.owners.remove(&partition).filter(|(of, _)| *of == tenure);
        let (_, owner) = asked.unwrap_or_else(|| (tenure, Owner::fresh(member)));
        self.owners.insert(partition, (tenure, owner.clone()));
        let candidate = Candidate { partition, generation, owner, worker: self.settings.name.clone(), begin: None };
        self.claims.push_back((candidate, tenure));
    }

    pub(super) fn answered(&mut self, answer: Answer) -> Result<(), Error> {
        match answer {
            Answer::Claimed { partition, tenure, outcome } => return self.claimed(partition, tenure, outcome),
            Answer::Started { fence, tickets, outcome } => self.recorded(&fence, tickets, outcome)?,
            Answer::Reread { order, outcome } => self.read_again(order, outcome)?,
            Answer::Line { partition, tenure, key, outcome } => self.line_read(partition, tenure, key, outcome)?,
            Answer::Looked(partitions, Ok(Some(steering))) => self.steered(&partitions, steering),
            Answer::Noted { partition, outcome } => self.noted(partition, &outcome),
            Answer::Surveyed(Ok(remaining)) => self.surveyed(&remaining),
            Answer::Identified(Ok(Some(other))) => return Err(Error::Refused(other)),
            // A log that does not answer says so elsewhere, and one that does not know the queue may know it again soon.
            Answer::HandedOver | Answer::Identified(_) | Answer::Looked(_, Ok(None)) => {}
            Answer::Looked(_, Err(error)) if error.is_transient() => {}
            Answer::Surveyed(Err(error)) if error.is_transient() => self.surveying = false,
            Answer::Looked(_, Err(error)) | Answer::Surveyed(Err(error)) => return Err(error),
        }
        Ok(())
    }

    fn claimed(
        &mut self,
        partition: Partition,
        tenure: Tenure,
        outcome: Result<(Claimed, Option<keylane_producer::Offset>), ClaimError>,
    ) -> Result<(), Error> {
        let actions = match outcome {
            Ok((claimed, committed)) => {
                self.is_back("the store");
                let actions = self.ownership.claim_granted(partition, tenure);
                if actions.contains(&Action::Open(partition, tenure)) {
                    self.open(partition, tenure, claimed, committed);
                } else {
                    // Asked back meanwhile. Nothing ran under this claim, so nothing of it is to be suspected.
                    let fence = Fence::unused(partition, claimed.token);
                    self.for_clerk.push_back(clerk::Order::HandOver(fence));
                }
                actions
            }
            Err(ClaimError::Refused(ClaimRefused::OtherEpoch)) => {
                // What this worker read of the store is older than the reset; a new process reads it anew.
                return Err(Error::Refused(
                    Detail::new("an operator has reset the fence of this queue")
                        .remedy("start the worker again: it goes on under the new fence"),
                ));
            }
            Err(ClaimError::Refused(why)) => {
                self.counts.rejections.claim += 1;
                (self.notices)(Notice::ClaimRefused { partition, why });
                self.ownership.claim_refused(self.clock.now(), partition, tenure, why)
            }
            Err(ClaimError::Failed(error)) if error.is_transient() => {
                self.is_away("the store", &error);
                self.ownership.claim_failed(partition, tenure)
            }
            Err(ClaimError::Failed(error)) => return Err(error),
        };
        self.carry_out(actions);
        Ok(())
    }

    fn open(
        &mut self,
        partition: Partition,
        tenure: Tenure,
        claimed: Claimed,
        committed: Option<keylane_producer::Offset>,
    ) {
        let clean = claimed.clean;
        let window = self.settings.lanes.known_jobs;
        let released: Vec<_> = claimed.stopped.iter().filter(|row| row.released).map(|row| row.key.clone()).collect();
        let tenancy = Tenancy::begin(tenure, claimed, committed, partition, &self.lease, window);
        self.outbox.settle(partition, self.tenancies.keys().copied());
        self.lanes.open(partition, tenure);
        for key in &tenancy.parked {
            self.lanes.parked(partition, tenure, key.clone());
        }
        // Released while nobody held the partition, or not through their lines when the last owner ended.
        for key in &released {
            self.lanes.release(partition, tenure, key);
        }
        // A key may have been released since the claim.
        self.for_clerk.push_back(clerk::Order::Look { partitions: vec![partition], anyway: true });
        self.control.resume(partition, tenancy.watermark.position());
        self.tenancies.insert(partition, tenancy);
        self.unheeded.remove(&partition);
        let after = self.assigned_at.remove(&partition).map(|at| self.clock.now().since(at)).unwrap_or_default();
        self.counts.moved.acquired += 1;
        self.counts.takeover.add(after);
        (self.notices)(Notice::TookOver { partition, after, clean });
        self.lane_actions();
    }

    /// The tenure ends now: nothing of it may act, whatever still runs.
    fn abandon(&mut self, partition: Partition, tenure: Tenure) {
        let Some(tenancy) = self.tenancies.get(&partition).filter(|t| t.tenure == tenure) else { return };
        let fence = std::sync::Arc::clone(&tenancy.fence);
        tenancy.cancel.cancel();
        self.lanes.close(partition);
        let dropped = self.outbox.forget(partition);
        self.dropped(partition, dropped);
        self.failures.retain(|ticket, _| ticket.partition != partition);
        self.keys_waiting.retain(|ticket, _| ticket.partition != partition);
        if self.ownership.holding(partition, tenure) == Some(Holding::Closing) {
            // The drain's bound is over. Kept for its last acts, which are the prover's.
            for run in self.running.iter_mut().filter(|(t, _)| t.partition == partition && t.tenure == tenure) {
                run.1.cut_short = true;
                self.summary.cut_short.push(run.1.job.id.clone());
            }
        } else {
            fence.give_up();
            self.tenancies.remove(&partition);
        }
    }

    /// Draining partitions in which nothing runs and nothing waits for its write are drained.
    pub(super) fn settle_drains(&mut self) {
        let draining: Vec<_> = self
            .ownership
            .holdings()
            .filter(|(.., holding)| matches!(holding, Holding::Draining { .. }))
            .map(|(partition, ..)| partition)
            .collect();
        draining.into_iter().for_each(|partition| self.keep_back(partition));
        let drained: Vec<_> = self
            .ownership
            .holdings()
            .filter(|(partition, _, holding)| {
                matches!(holding, Holding::Draining { .. })
                    && self.lanes.is_idle(*partition)
                    && !self.outbox.concerns(*partition)
            })
            .map(|(partition, tenure, _)| (partition, tenure))
            .collect();
        for (partition, tenure) in drained {
            let actions = self.ownership.drained(partition, tenure);
            self.carry_out(actions);
        }
    }
}
