//! Carries out what [`crate::ownership`] decides.

use std::{collections::HashSet, mem};

use keylane_producer::Partition;

use super::{Desk, Timer};
use crate::{
    error::Error,
    fence::Owner,
    group::GroupEvent,
    handler::Handler,
    lanes::Tenure,
    notice::Notice,
    ownership::{Action, Holding},
    store::{Candidate, ClaimError, Claimed, FencedStore},
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
                if !assignment.partitions.is_empty() {
                    (self.notices)(Notice::Assigned(assignment.partitions.clone()));
                }
                self.assigned_at.extend(assignment.partitions.iter().map(|&p| (p, now)));
                let actions = self.ownership.assigned(&assignment);
                self.carry_out(actions);
            }
            GroupEvent::MovedOn { member, generation } => {
                self.ownership.moved_on(member, generation);
                self.next_proof = now;
            }
            GroupEvent::Revoking(partitions) => {
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
        if !held.is_empty() {
            (self.notices)(Notice::Lost(held));
        }
        let actions = self.ownership.lost(partitions);
        self.carry_out(actions);
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
                    } else if self.ownership.holding(partition, tenure) == Some(Holding::Claiming) {
                        let owner = Owner::fresh(&member);
                        let worker = self.settings.name.clone();
                        let candidate = Candidate { partition, generation, owner, worker };
                        self.for_clerk.push_front(clerk::Order::Claim { candidate, tenure });
                    }
                }
                // Opened where the claim was answered, since it needs what was granted.
                Action::Open(..) => {}
                Action::Drain(partition, _) => self.lanes.drain(partition),
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

    pub(super) fn answered(&mut self, answer: Answer) -> Result<(), Error> {
        match answer {
            Answer::Claimed { partition, tenure, outcome } => return self.claimed(partition, tenure, outcome),
            Answer::Started { tickets, outcome } => self.recorded(tickets, outcome)?,
            Answer::Reread { partition, tenure, key, offsets, outcome } => {
                self.read_again(partition, tenure, key, offsets, outcome)?;
            }
            Answer::Looked(Ok(released)) => self.keys_released(released),
            Answer::Surveyed(Ok(remaining)) => self.surveyed(&remaining),
            Answer::Looked(Err(error)) if error.is_transient() => {}
            Answer::Surveyed(Err(error)) if error.is_transient() => self.surveying = false,
            Answer::Looked(Err(error)) | Answer::Surveyed(Err(error)) => return Err(error),
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
                }
                actions
            }
            Err(ClaimError::Refused(why)) => {
                (self.notices)(Notice::ClaimRefused { partition, why });
                self.ownership.claim_refused(partition, tenure, why)
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
        let tenancy = Tenancy::begin(tenure, claimed, committed, partition, &self.lease, window);
        self.lanes.open(partition, tenure);
        for key in tenancy.stopped.keys() {
            self.lanes.stopped(partition, tenure, key.clone());
        }
        self.control.resume(partition, tenancy.watermark.position());
        self.tenancies.insert(partition, tenancy);
        self.unheeded.remove(&partition);
        let after = self.assigned_at.remove(&partition).map(|at| self.clock.now().since(at)).unwrap_or_default();
        (self.notices)(Notice::TookOver { partition, after, clean });
    }

    /// The tenure ends now: nothing of it may act, whatever still runs.
    fn abandon(&mut self, partition: Partition, tenure: Tenure) {
        let Some(tenancy) = self.tenancies.get(&partition).filter(|t| t.tenure == tenure) else { return };
        tenancy.fence.give_up();
        tenancy.cancel.cancel();
        self.lanes.close(partition);
        let dropped = self.outbox.forget(partition);
        self.summary.refused += dropped as u64;
        self.failures.retain(|ticket, _| ticket.partition != partition);
        if self.ownership.holding(partition, tenure) == Some(Holding::Closing) {
            // The drain's bound is over. Kept for its last commit.
            for run in self.running.iter_mut().filter(|(t, _)| t.partition == partition && t.tenure == tenure) {
                run.1.cut_short = true;
                self.summary.cut_short.push(run.1.job.id.clone());
            }
        } else {
            self.tenancies.remove(&partition);
        }
    }

    /// Draining partitions in which nothing runs and nothing waits for its write are drained.
    pub(super) fn settle_drains(&mut self) {
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

    fn keys_released(&mut self, released: Vec<(Partition, crate::store::StoppedKey)>) {
        let mut seen = HashSet::new();
        for (partition, row) in released {
            let Some(tenancy) = self.tenancies.get_mut(&partition) else { continue };
            let known = tenancy.stopped.contains_key(&row.key) && seen.insert((partition, row.key.clone()));
            if !known || !self.lanes.release(partition, tenancy.tenure, &row.key) {
                continue;
            }
            tenancy.stopped.remove(&row.key);
            tenancy.resumed.push((row.key.clone(), row.version));
            let mut stale = mem::take(&mut self.failures);
            stale.retain(|ticket, _| ticket.partition != partition || ticket.offset != row.offset);
            self.failures = stale;
            self.outbox.want(partition);
            (self.notices)(Notice::KeyReleased { partition, key: row.key });
        }
        self.lane_actions();
    }
}
