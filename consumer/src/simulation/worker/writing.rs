//! Finished jobs to the store, and back.

use crate::{
    lanes::Ticket,
    ownership::Holding,
    simulation::{
        Without,
        store::Written,
        world::{Event, Inside, World, WriteRequest},
    },
};

impl World {
    /// Writes what is finished, one transaction a partition.
    pub(super) fn flush(&mut self, worker: usize) {
        let process = &mut self.workers[worker];
        let mut writes = Vec::new();
        for (&partition, part) in &mut process.parts {
            let Ok(permit) = part.fence.check() else { continue };
            if !part.unwritten.is_empty() || !part.resumed.is_empty() {
                let (tenure, token, jobs) = (part.tenure, permit.token(), std::mem::take(&mut part.unwritten));
                let resumed = part.resumed.clone();
                writes.push(WriteRequest { partition, tenure, token, jobs, resumed });
            }
        }
        let process = process.process;
        for write in writes {
            let road = self.road();
            if road.arrives {
                let (write, answered) = (write.clone(), road.answered);
                self.after(road.delay, Event::WriteArrives { worker, process, write, answered });
            }
            if !road.arrives || !road.answered {
                self.inside(worker, 300, Inside::Written(write, None));
            }
        }
    }

    pub(super) fn written(&mut self, worker: usize, write: &WriteRequest, answer: Option<Option<Vec<Written>>>) {
        let (partition, tenure) = (write.partition, write.tenure);
        let process = &mut self.workers[worker];
        let Some(part) = process.part(partition, tenure) else { return };
        match answer {
            None => {
                self.seen.unknown_writes += 1;
                part.unwritten.extend(write.jobs.iter().copied());
            }
            Some(None) => {
                self.note(|| format!("worker {worker}: is fenced in partition {partition}"));
                self.act(worker, |ownership| ownership.fenced(partition, tenure));
            }
            Some(Some(written)) => {
                part.resumed.retain(|row| !write.resumed.contains(row));
                for (&(offset, key, _), written) in write.jobs.iter().zip(written) {
                    let ticket = Ticket { partition, tenure, offset };
                    self.workers[worker].attempts.remove(&ticket);
                    match written {
                        Written::Applied => self.applied(worker, ticket),
                        Written::Stopped => {
                            self.seen.stops += 1;
                            let process = &mut self.workers[worker];
                            process.lanes.park(ticket);
                            process.part(partition, tenure).expect("it is open").watermark.finish(offset);
                        }
                        Written::Buried => {
                            self.seen.buried += 1;
                            if self.without == Without::LetterInOneTransaction {
                                self.store.tables.dead.insert((partition, offset.0));
                            }
                            self.applied(worker, ticket);
                        }
                        Written::Parked => {
                            self.seen.parks += 1;
                            if self.without == Without::OneTransaction {
                                self.store.tables.lines.entry((partition, key)).or_default().insert(offset.0);
                            }
                            self.applied(worker, ticket);
                        }
                    }
                }
            }
        }
    }

    pub(super) fn applied(&mut self, worker: usize, ticket: Ticket) {
        let process = &mut self.workers[worker];
        process.lanes.applied(ticket);
        let part = process.part(ticket.partition, ticket.tenure).expect("it was written under this tenure");
        part.watermark.finish(ticket.offset);
    }

    pub(super) fn say_drained(&mut self, worker: usize) {
        let process = &self.workers[worker];
        let drained: Vec<_> = process
            .ownership
            .holdings()
            .filter(|(partition, _, state)| {
                matches!(state, Holding::Draining { .. }) && process.lanes.is_idle(*partition)
            })
            .collect();
        for (partition, tenure, _) in drained {
            self.act(worker, |ownership| ownership.drained(partition, tenure));
        }
    }
}
