//! Jobs that come, and what goes wrong.

use keylane_producer::Partition;

use super::{Event, FAULTS_END, Inside, PARTITIONS, WORKERS, World};
use crate::simulation::worker::Worker;

impl World {
    pub(super) fn enqueue(&mut self) {
        let partition = Partition(self.chance.below(u64::from(PARTITIONS)) as u32);
        // Each partition has five keys; one of them gets most of the jobs.
        let which = if self.chance.one_in(2) { 0 } else { self.chance.below(5) };
        let key = partition.0 as usize * 5 + which as usize;
        let gap = self.chance.below(3);
        let log = self.store.log.entry(partition).or_default();
        let offset = log.last_key_value().map_or(0, |(last, _)| last + 1) + gap;
        log.insert(offset, key);
        if self.chance.one_in(60) {
            self.poison.push((partition, offset));
        }
        if self.now() < FAULTS_END - 1_000 {
            let wait = self.chance.below(140);
            self.after(wait, Event::Enqueue);
        }
    }

    pub(super) fn fault(&mut self) {
        if self.now() >= FAULTS_END {
            return;
        }
        let worker = self.chance.below(WORKERS as u64) as usize;
        let lasts = 300 + self.chance.below(4_500);
        let until = (self.now() + lasts).min(FAULTS_END);
        match self.chance.below(12) {
            0 | 1 => {
                self.note(|| format!("fault: worker {worker} is killed"));
                self.replace(worker);
                let process = self.workers[worker].process;
                self.workers[worker].frozen_until = until;
                self.after(0, Event::Inside(worker, process, Inside::Turn));
            }
            2..=4 => {
                self.note(|| format!("fault: worker {worker} freezes until {until}"));
                self.workers[worker].frozen_until = until;
            }
            5 | 6 => {
                self.note(|| format!("fault: worker {worker} is cut off from the group until {until}"));
                self.workers[worker].cut_until = until;
            }
            7 => {
                let until = self.now() + lasts / 4;
                self.note(|| format!("fault: the store is away until {until}"));
                self.store_away_until = until;
            }
            8 | 9 => {
                self.note(|| format!("worker {worker} is asked to end"));
                self.end(worker);
            }
            10 if self.chance.one_in(3) => {
                let partition = Partition(self.chance.below(u64::from(PARTITIONS)) as u32);
                if !self.group.eager && self.group.deal_twice(partition, worker) {
                    self.note(|| format!("fault: partition {partition} is dealt twice, to worker {worker} last"));
                    self.dealt_twice = true;
                }
            }
            _ => {}
        }
        let next = 200 + self.chance.below(1_200);
        self.after(next, Event::Fault);
    }

    pub(super) fn born(&mut self, worker: usize) {
        if self.workers[worker].left {
            self.replace(worker);
            self.inside(worker, 0, Inside::Turn);
        }
    }

    pub(super) fn replace(&mut self, worker: usize) {
        let process = self.workers[worker].process + 1;
        self.workers[worker] = Worker::fresh(&self.clock, process, self.without);
    }
}
