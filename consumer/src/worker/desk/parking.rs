//! Keys that are parked: their jobs on the way to their lines, and back.

use keylane_producer::{Attempt, JobKey, Partition};

use super::{ASK_AGAIN, Desk, Timer, writing::needs_room};
use crate::{
    error::Error,
    handler::Handler,
    lanes::{Start, Tenure, Ticket},
    notice::Notice,
    store::{FencedStore, JobWrite, Line, Steering, StoppedKey, Write},
    worker::clerk,
};

/// How often it is looked whether lines that were full have room again.
const ROOM_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    /// Puts what parked keys hold here in the outbox, for the ends of their lines.
    pub(super) fn start_moves(&mut self) {
        if self.lease.check().is_err() {
            return;
        }
        for Start { ticket, job, .. } in self.lanes.moves() {
            let write = JobWrite { offset: ticket.offset, job, attempt: Attempt::FIRST, write: Write::Park };
            self.outbox.put(ticket.partition, write);
        }
    }

    /// The job is the first in its key's line, and what waits here follows it.
    pub(super) fn stopped(&mut self, ticket: Ticket, job: JobWrite<S>) {
        let Write::Stop(reason) = job.write else { return };
        let key = &job.job.key;
        self.lanes.park(ticket);
        self.failures.remove(&ticket);
        self.summary.stopped += 1;
        if let Some(tenancy) = self.tenancies.get_mut(&ticket.partition) {
            tenancy.watermark.finish(ticket.offset);
            tenancy.parked.insert(key.clone());
            tenancy.acquit(ticket.offset);
        }
        (self.notices)(Notice::KeyStopped {
            partition: ticket.partition,
            offset: ticket.offset,
            job: job.job.id.clone(),
            key: key.clone(),
            attempts: job.attempt,
            rule: reason.rule,
            reason: reason.text.into(),
        });
    }

    /// The job is at the end of its key's line.
    pub(super) fn moved(&mut self, ticket: Ticket) {
        if let Some(tenancy) = self.tenancies.get_mut(&ticket.partition) {
            tenancy.watermark.finish(ticket.offset);
        }
        self.summary.parked += 1;
        self.lanes.applied(ticket);
    }

    /// Lines are full: what has no room in them waits here, in its order, and is tried again. A partition that drains keeps
    /// nothing: its next owner runs what failed, and moves what follows.
    pub(super) fn hold_back(&mut self, partition: Partition, jobs: Vec<JobWrite<S>>, took_room: bool) {
        if jobs.is_empty() {
            if took_room {
                self.outbox.full.remove(&partition);
            }
            return;
        }
        if self.outbox.full.insert(partition, self.clock.now().plus(ROOM_AGAIN)).is_none() {
            (self.notices)(Notice::LinesFull { partition, room: self.settings.line_room });
        }
        self.set_timer(self.clock.now().plus(ROOM_AGAIN), Timer::Nothing);
        self.outbox.put_in_front(partition, jobs);
        self.make_room(partition);
    }

    /// A line that is full and to be replayed makes room by that: what waits for room behind it runs here, after it.
    fn make_room(&mut self, partition: Partition) {
        if !self.outbox.full.contains_key(&partition) || self.outbox.has_in_hand(partition) {
            return;
        }
        let Some(tenure) = self.tenancies.get(&partition).map(|tenancy| tenancy.tenure) else { return };
        let lanes = &self.lanes;
        for job in self
            .outbox
            .take_out(partition, |job| matches!(job.write, Write::Park) && lanes.is_released(partition, &job.job.key))
        {
            self.lanes.kept(Ticket { partition, tenure, offset: job.offset });
        }
    }

    /// What waits for room goes back to its lanes: the partition drains.
    pub(super) fn keep_back(&mut self, partition: Partition) {
        if !self.outbox.full.contains_key(&partition) {
            return;
        }
        let Some(tenure) = self.tenancies.get(&partition).map(|tenancy| tenancy.tenure) else { return };
        self.outbox.full.remove(&partition);
        for job in self.outbox.take_out(partition, needs_room) {
            let ticket = Ticket { partition, tenure, offset: job.offset };
            match job.write {
                Write::Park => self.lanes.kept(ticket),
                _ => self.lanes.wait(ticket),
            }
        }
    }

    /// What persons want of these partitions: lines run, keys stand still, jobs left out.
    pub(super) fn steered(&mut self, partitions: &[Partition], steering: Steering) {
        let Steering { keys, skips } = steering;
        for partition in partitions {
            let Some(tenancy) = self.tenancies.get_mut(partition) else { continue };
            tenancy.skips.clear();
            tenancy.lines_read.retain(|key, _| keys.iter().any(|(of, row)| of == partition && row.key == *key));
        }
        for (partition, row) in keys {
            self.key_steered(partition, row);
        }
        for (partition, skip) in skips {
            let Some(tenancy) = self.tenancies.get_mut(&partition) else { continue };
            let ticket = Ticket { partition, tenure: tenancy.tenure, offset: skip.offset };
            tenancy.skips.insert(skip.offset, skip.text);
            // One that waits for another try need not wait to be left out.
            self.retry_due(ticket);
        }
        self.lane_actions();
    }

    fn key_steered(&mut self, partition: Partition, row: StoppedKey) {
        let Some(tenancy) = self.tenancies.get_mut(&partition) else { return };
        // A line that is run already; unless something was put into it since.
        if row.released && tenancy.lines_read.get(&row.key).is_some_and(|&version| version >= row.version) {
            return;
        }
        let stands = self.lanes.stand(partition, tenancy.tenure, &row.key);
        tenancy.parked.insert(row.key.clone());
        if !row.released {
            if stands {
                (self.notices)(Notice::KeyPaused { partition, key: row.key });
            }
        } else if self.lanes.release(partition, tenancy.tenure, &row.key) {
            (self.notices)(Notice::KeyReleased { partition, key: row.key });
            self.make_room(partition);
        }
    }

    /// The job left alone; the next of its key may run.
    pub(super) fn buried(&mut self, ticket: Ticket, job: JobWrite<S>) {
        let Write::Bury(reason) = job.write else { return };
        let key = &job.job.key;
        self.failures.remove(&ticket);
        self.summary.buried += 1;
        if let Some(tenancy) = self.tenancies.get_mut(&ticket.partition) {
            tenancy.watermark.finish(ticket.offset);
            tenancy.skips.remove(&ticket.offset);
            tenancy.acquit(ticket.offset);
        }
        self.lanes.applied(ticket);
        (self.notices)(Notice::DeadLettered {
            partition: ticket.partition,
            offset: ticket.offset,
            job: job.job.id.clone(),
            key: key.clone(),
            attempts: job.attempt,
            rule: reason.rule,
            reason: reason.text.into(),
        });
    }

    /// A line is read: its jobs run before all that came since.
    pub(super) fn line_read(
        &mut self,
        partition: Partition,
        tenure: Tenure,
        key: JobKey,
        outcome: Result<Line, Error>,
    ) -> Result<(), Error> {
        let line = match outcome {
            Ok(line) => line,
            Err(error) if error.is_transient() => {
                self.is_away("the store", &error);
                let again = Timer::Ask(clerk::Order::Line { partition, tenure, key });
                self.set_timer(self.clock.now().plus(ASK_AGAIN), again);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.is_back("the store");
        if let Some(tenancy) = self.tenancies.get_mut(&partition).filter(|tenancy| tenancy.tenure == tenure) {
            tenancy.parked.remove(&key);
            tenancy.lines_read.insert(key.clone(), line.version);
            if line.jobs.is_empty() {
                tenancy.resumed.push((key.clone(), line.version));
                self.outbox.want(partition);
            }
            self.lanes.line(partition, tenure, &key, &line.jobs);
        }
        self.lane_actions();
        Ok(())
    }
}
