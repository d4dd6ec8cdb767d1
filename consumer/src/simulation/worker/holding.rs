//! Carries out what `ownership` decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use keylane_producer::{Offset, Partition};

use super::Part;
use crate::{
    fence::Fence,
    lanes::Tenure,
    ownership::{Action, Ownership},
    simulation::{
        Without,
        store::Claimed,
        world::{ClaimRequest, CommitRequest, Event, Inside, World},
    },
    watermark::Watermark,
};

impl World {
    pub(super) fn act(&mut self, worker: usize, event: impl FnOnce(&mut Ownership) -> Vec<Action>) {
        for action in event(&mut self.workers[worker].ownership) {
            self.note(|| format!("worker {worker}: {action:?}"));
            self.carry_out(worker, &action);
        }
    }

    pub(super) fn carry_out(&mut self, worker: usize, action: &Action) {
        match *action {
            Action::Claim { partition, tenure, generation, after, .. } => {
                let nonce = self.fresh();
                let owner = *self.workers[worker].owners.entry(tenure).or_insert(nonce);
                let process = self.workers[worker].process;
                let epoch = self.workers[worker].epoch;
                let claim = ClaimRequest { partition, tenure, generation, epoch, owner };
                let after = u64::try_from(after.as_millis()).unwrap();
                let road = self.road();
                if road.arrives {
                    let (claim, answered) = (claim.clone(), road.answered);
                    self.after(after + road.delay, Event::ClaimArrives { worker, process, claim, answered });
                }
                if !road.arrives || !road.answered {
                    self.inside(worker, after + 400, Inside::Claimed(claim, None));
                }
            }
            Action::Open(partition, tenure) => self.open(worker, partition, tenure),
            Action::Drain(partition, _) => {
                self.seen.drains += 1;
                self.workers[worker].lanes.drain(partition);
            }
            Action::Abandon(partition, tenure) => drop(self.close(worker, partition, tenure)),
            Action::Close { partition, tenure, clean } => self.hand_back(worker, partition, tenure, clean),
            Action::Prove => self.prove(worker),
            Action::Rejoin(after) => self.inside(worker, u64::try_from(after.as_millis()).unwrap(), Inside::Rejoin),
            Action::FenceIsAhead(_) if self.began_anew => {
                self.seen.fences_ahead += 1;
                self.fence_ahead = true;
            }
            Action::FenceIsAhead(partition) => {
                self.fail(format!("false alarm: partition {partition} is not ahead of its group"));
            }
            Action::Leave => {
                self.seen.leaves += 1;
                self.leave_group(worker);
                self.gone(worker);
            }
        }
    }

    /// The process has ended; another one follows.
    pub(super) fn gone(&mut self, worker: usize) {
        self.workers[worker].left = true;
        let wait = 200 + self.chance().below(1_500);
        self.after(wait, Event::Born(worker));
    }

    pub(super) fn leave_group(&mut self, worker: usize) {
        if let Some(name) = self.workers[worker].name.take() {
            self.group.leave(worker, name, self.now());
        }
    }

    pub(super) fn open(&mut self, worker: usize, partition: Partition, tenure: Tenure) {
        let committed = self.group.committed.get(&partition).copied();
        let process = &mut self.workers[worker];
        let Some(Claimed { token, floor, mut done, stopped }) = process.claimed.remove(&tenure) else {
            return self.fail(format!("worker {worker} opens partition {partition} without a grant"));
        };
        if self.without == Without::Markers {
            done.clear();
        }
        let fence = Fence::raise(partition, token, Arc::clone(&process.lease));
        let begin = if self.without == Without::StoreSays { committed.unwrap_or(Offset(0)) } else { Offset(floor) };
        let (watermark, unwritten) = (Watermark::starting_at(begin), Vec::new());
        let part = Part {
            tenure,
            fence,
            watermark,
            done,
            committed,
            paused: false,
            unwritten,
            lines_read: BTreeMap::new(),
            resumed: Vec::new(),
            skips: BTreeSet::new(),
            heard: BTreeMap::new(),
        };
        process.parts.insert(partition, part);
        process.lanes.open(partition, tenure);
        for key in stopped {
            if self.without != Without::Lines {
                process.lanes.parked(partition, tenure, self.keys[key].clone());
            }
        }
    }

    pub(super) fn close(&mut self, worker: usize, partition: Partition, tenure: Tenure) -> Option<Part> {
        let process = &mut self.workers[worker];
        process.part(partition, tenure)?;
        process.lanes.close(partition);
        let part = process.parts.remove(&partition)?;
        part.fence.give_up();
        Some(part)
    }

    pub(super) fn hand_back(&mut self, worker: usize, partition: Partition, tenure: Option<Tenure>, clean: bool) {
        self.seen.cut_drains += u64::from(!clean);
        if clean && !self.workers[worker].lanes.is_idle(partition) {
            self.fail(format!("worker {worker} gives partition {partition} back while it runs"));
        }
        let watermark =
            tenure.and_then(|tenure| self.close(worker, partition, tenure)).map(|part| self.committable(&part));
        let cut = self.workers[worker].cut_until > self.now();
        // Commits go one after another: one that is overtaken would set the offset back.
        let alone = !self.workers[worker].committing || self.without == Without::OneCommitAtATime;
        let watermark = watermark.filter(|_| alone);
        if let Some(name) = self.workers[worker].name.filter(|_| !cut) {
            if let (Some(watermark), Some((_, generation))) = (watermark, self.workers[worker].ownership.membership()) {
                let (generation, t0) = (*generation, self.clock.now());
                let offsets = vec![(partition, watermark)];
                // Whatever comes of it: what is done is known from the markers.
                let _ = self.commit(worker, &CommitRequest { name, generation, offsets, tenures: Vec::new(), t0 });
            }
            self.group.release(worker, name, partition, self.now());
        }
        if let Some(tenure) = tenure {
            self.act(worker, |ownership| ownership.closed(partition, tenure));
        }
    }
}
