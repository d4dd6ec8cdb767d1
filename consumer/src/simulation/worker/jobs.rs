//! Jobs: fetched, started, ended, tried again.

use std::time::Duration;

use keylane_producer::{Attempt, Offset};

use super::RETRY;
use crate::{
    lanes::{LaneAction, Ticket},
    ownership::Holding,
    retry::Decision,
    simulation::{
        Without,
        store::{Key, What},
        world::{Inside, World},
    },
};

impl World {
    pub(super) fn fetch(&mut self, worker: usize) {
        let process = &mut self.workers[worker];
        for (partition, part) in &mut process.parts {
            let held = process.ownership.holding(*partition, part.tenure) == Some(Holding::Held);
            let Some(log) = self.store.log.get(partition).filter(|_| held && !part.paused) else { continue };
            let from = part.watermark.position();
            for (offset, key) in log.range(from.0..).take(6) {
                let offset = Offset(*offset);
                if part.done.contains(&offset.0) {
                    self.seen.skipped_as_done += 1;
                } else if part.watermark.deliver(offset) {
                    process.lanes.offer(*partition, part.tenure, offset, self.keys[*key].clone(), (), 100);
                }
                part.watermark.advance(offset.next());
            }
        }
    }

    /// Carries out what the lanes asked for.
    pub(super) fn lane_actions(&mut self, worker: usize) {
        for action in self.workers[worker].lanes.actions() {
            match action {
                LaneAction::Pause(partition) | LaneAction::Resume(partition) => {
                    let paused = action == LaneAction::Pause(partition);
                    if let Some(part) = self.workers[worker].parts.get_mut(&partition) {
                        part.paused = paused;
                    }
                }
                LaneAction::Reread { partition, tenure, offsets, .. } => {
                    let key = self.store.log[&partition][&offsets[0].0];
                    let wait = self.chance().below(40);
                    self.inside(worker, wait, Inside::Read { partition, tenure, key, offsets });
                }
                LaneAction::Return { partition, tenure, key } => {
                    let key = self.keys.iter().position(|known| *known == key).expect("it is of this world");
                    let wait = self.chance().below(40);
                    self.inside(worker, wait, Inside::Line { partition, tenure, key });
                }
            }
        }
    }

    pub(super) fn start(&mut self, worker: usize) {
        for start in self.workers[worker].lanes.moves() {
            self.finish(worker, start.ticket, (start.ticket.offset, self.key_of(start.ticket), What::Park));
        }
        while let Some(start) = self.workers[worker].lanes.start() {
            let (ticket, key) = (start.ticket, self.key_of(start.ticket));
            let is_own = self.is_own(worker, ticket);
            let process = &mut self.workers[worker];
            let part = process.part(ticket.partition, ticket.tenure).expect("what starts is open");
            let Ok(permit) = part.fence.check() else {
                self.seen.fenced_starts += 1;
                process.lanes.ended(ticket);
                process.lanes.wait(ticket);
                self.inside(worker, 50, Inside::Due(ticket));
                continue;
            };
            let token = permit.token();
            // Of a fail-over an owner hears when it writes or looks.
            let excused = self.only_the_row || token.claim <= self.store.minted_before || is_own;
            if !excused && !self.store.is_newest(ticket.partition, token, self.without) {
                return self.fail(format!("worker {worker}: {ticket:?} starts under an older claim"));
            }
            if self.is_skipped(worker, ticket) {
                self.workers[worker].lanes.ended(ticket);
                self.finish(worker, ticket, (ticket.offset, key, What::Bury));
                continue;
            }
            let is_newest = self.store.is_newest(ticket.partition, token, self.without);
            if is_newest && self.stands_still(worker, ticket.partition, key) {
                return self.fail(format!("worker {worker}: {ticket:?} starts, and its key stands still"));
            }
            let process = &mut self.workers[worker];
            if !process.running.insert((ticket.tenure, key)) {
                return self.fail(format!("worker {worker}: key {key} runs twice"));
            }
            *process.attempts.entry(ticket).or_insert(0) += 1;
            let slow = self.faults() && self.chance().one_in(20);
            let takes = if slow { 1_500 } else { 2 + self.chance().below(120) };
            self.note(|| format!("worker {worker}: starts {ticket:?}"));
            self.inside(worker, takes, Inside::Ended(ticket));
        }
    }

    pub(super) fn ended(&mut self, worker: usize, ticket: Ticket) {
        let key = self.key_of(ticket);
        let lane = self.keys[key].clone();
        let process = &mut self.workers[worker];
        process.running.remove(&(ticket.tenure, key));
        if !process.lanes.ended(ticket) {
            self.seen.words_of_old_tenures += 1;
            return;
        }
        let failed = self.is_poison(ticket) || (self.faults() && self.chance().one_in(6));
        let process = &self.workers[worker];
        let attempt = Attempt(process.attempts.get(&ticket).copied().unwrap_or(1));
        let luck = self.chance().below(1_000) as f64 / 1_000.0;
        match failed.then(|| RETRY.decide(attempt, Duration::ZERO, None, luck)) {
            None => self.finish(worker, ticket, (ticket.offset, key, What::Effect)),
            Some(_) if self.is_skipped(worker, ticket) => {
                self.finish(worker, ticket, (ticket.offset, key, What::Bury));
            }
            Some(Decision::Stop(_)) if self.dead_letter => {
                self.finish(worker, ticket, (ticket.offset, key, What::Bury));
            }
            Some(Decision::Stop(_)) => self.finish(worker, ticket, (ticket.offset, key, What::Stop)),
            Some(Decision::Again(_)) if self.without == Without::PlaceInLane => {
                let lanes = &mut self.workers[worker].lanes;
                lanes.applied(ticket);
                lanes.offer(ticket.partition, ticket.tenure, ticket.offset, lane, (), 100);
            }
            Some(Decision::Again(wait)) => {
                self.seen.retries += 1;
                self.workers[worker].lanes.wait(ticket);
                self.inside(worker, u64::try_from(wait.as_millis()).unwrap(), Inside::Due(ticket));
            }
        }
    }

    pub(super) fn finish(&mut self, worker: usize, ticket: Ticket, job: (Offset, Key, What)) {
        self.note(|| format!("worker {worker}: finished {ticket:?} {:?}", job.2));
        if let Some(part) = self.workers[worker].part(ticket.partition, ticket.tenure) {
            part.unwritten.push(job);
        }
    }

    /// The newest claim is this tenure's own, said again: a first one that was late found the row when it was the owner's already.
    fn is_own(&self, worker: usize, ticket: Ticket) -> bool {
        let owner = self.workers[worker].owners.get(&ticket.tenure);
        owner.is_some_and(|owner| self.store.is_owner(ticket.partition, *owner))
    }

    pub(super) fn key_of(&self, ticket: Ticket) -> Key {
        self.store.log[&ticket.partition][&ticket.offset.0]
    }
}
