//! The worker's edge and the store: carries out what an [`Ownership`] decides, and holds every act against the rules.

use super::*;

impl World {
    pub(super) fn deliver(&mut self, worker: usize) -> Result<(), Violation> {
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
                let before = self.workers[worker].holdings();
                self.act(worker, |ownership| {
                    ownership.moved_on(me(name), generation(number));
                    Vec::new()
                })?;
                check(before == self.workers[worker].holdings(), || "retained lost".into())
            }
            Told::Revoking(partition) => {
                let bound = now.plus(LIMITS.drain);
                self.workers[worker].bounds.entry(partition).or_insert(bound);
                self.act(worker, |ownership| ownership.revoking(now, &[partition]))
            }
            Told::Lost(partition) => self.act(worker, |ownership| ownership.lost(&[partition])),
        }
    }

    pub(super) fn act(
        &mut self,
        worker: usize,
        event: impl FnOnce(&mut Ownership) -> Vec<Action>,
    ) -> Result<(), Violation> {
        let actions = event(&mut self.workers[worker].ownership);
        actions.iter().try_for_each(|action| self.carry_out(worker, action))
    }

    pub(super) fn carry_out(&mut self, worker: usize, action: &Action) -> Result<(), Violation> {
        let process = &mut self.workers[worker];
        check(!process.left, || format!("{worker} acts after it left: {action:?}"))?;
        match *action {
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

    pub(super) fn close(
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

    pub(super) fn prove(&mut self, worker: usize) {
        let process = &self.workers[worker];
        if let (Some((_, generation)), Some(name)) = (process.ownership.membership(), process.name) {
            let ask = Ask::Proof { name, generation: generation.get(), t0: self.now };
            self.requests.push(Request { worker, incarnation: process.incarnation, given_up: false, ask });
        }
    }

    pub(super) fn arrive(&mut self, pick: usize, fate: Fate) {
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

    pub(super) fn decide(&mut self, request: &Request) -> Option<Says> {
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

    pub(super) fn answer(&mut self, pick: usize) -> Result<(), Violation> {
        if self.answers.is_empty() {
            return Ok(());
        }
        let Answer { worker, incarnation, says } = self.answers.remove(pick % self.answers.len());
        if self.workers[worker].incarnation != incarnation || self.workers[worker].left {
            return Ok(());
        }
        let (now, proofs) = (self.now, self.guards.proof_after_refusal);
        let process = &mut self.workers[worker];
        let before = process.holdings();
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
                self.act(worker, |ownership| ownership.claim_failed(partition, tenure))?;
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
        let after = self.workers[worker].holdings();
        check(!over || before == after, || "word about an old tenure changed something".into())
    }

    pub(super) fn start(&mut self, worker: usize, partition: Partition, key: u8) {
        let process = &self.workers[worker];
        let Some(&(tenure, row)) = process.open.get(&partition) else { return };
        if process.ownership.holding(partition, tenure) == Some(Holding::Held) && self.jobs.len() < 12 {
            let incarnation = process.incarnation;
            self.jobs.push(RunningJob { worker, incarnation, partition, tenure, key, row });
        }
    }

    /// A job writes, whatever became of its worker since.
    pub(super) fn finish_job(&mut self, pick: usize) -> Result<(), Violation> {
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
            // Nothing of a fenced tenure is worth waiting for.
            let now = self.now;
            self.workers[worker].bounds.entry(partition).and_modify(|bound| *bound = now);
            self.act(worker, |ownership| ownership.fenced(partition, job.tenure))?;
        }
        self.say_drained(worker)
    }

    pub(super) fn accepts(&mut self, partition: Partition, key: u8, with: Row, row: Row) -> bool {
        if self.guards.claim_first {
            return with.generation == row.generation && with.claim == row.claim;
        }
        let fence = self.store.keys.entry((partition, key)).or_default();
        let accepted = *fence <= with.generation;
        *fence = (*fence).max(with.generation);
        accepted
    }

    pub(super) fn say_drained(&mut self, worker: usize) -> Result<(), Violation> {
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
}
