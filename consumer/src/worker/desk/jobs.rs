//! Records in, starts, ends, tries.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use keylane_producer::{Attempt, Job, Offset, Partition, StoredRecord, Timestamp};

use super::{ASK_AGAIN, Desk, Timer, noting::Waits};
use crate::{
    clock::BootTime,
    error::Error,
    fence::{Fence, Fenced},
    handler::{Done, Handler, JobContext, Outcome, Retry},
    lanes::{LaneAction, Start, Ticket},
    notice::Notice,
    retry::Decision,
    store::{FencedStore, JobWrite, Quarantined, StopReason, StopRule, Write, cut},
    worker::{clerk, runner::Ended, tenancy::Tenancy},
};

/// Failed tries of a job under this owner.
pub(super) struct Failures {
    count: u32,
    /// When the first one failed.
    since: BootTime,
}

/// A job that runs.
pub(super) struct Run {
    pub(super) job: Arc<Job>,
    pub(super) attempt: Attempt,
    pub(super) since: BootTime,
    told_overdue: bool,
    /// The store knows, or is told, that it runs: it may be what killed a worker.
    on_record: bool,
    /// It is in the summary already.
    pub(super) cut_short: bool,
}

impl Run {
    fn begin(job: Arc<Job>, attempt: Attempt, since: BootTime) -> Self {
        Self { job, attempt, since, told_overdue: false, on_record: false, cut_short: false }
    }

    /// A job that had ended, whose effect then failed.
    pub(super) fn again<S: FencedStore>(job: &JobWrite<S>) -> Self {
        Self {
            job: Arc::clone(&job.job),
            attempt: job.attempt,
            since: BootTime::ZERO,
            told_overdue: true,
            on_record: false,
            cut_short: false,
        }
    }
}

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    pub(super) fn records(
        &mut self,
        partition: Partition,
        from: Offset,
        records: Vec<StoredRecord>,
        position: Offset,
        end: Offset,
    ) {
        let now = self.clock.now();
        let Some(tenancy) = self.tenancies.get_mut(&partition) else { return };
        if from > tenancy.watermark.position() {
            // Of a resume that an earlier tenure asked for: what lies between was not seen here.
            return self.control.resume(partition, tenancy.watermark.position());
        }
        if tenancy.waiting() == 0 {
            tenancy.moved = now;
        }
        tenancy.end = tenancy.end.max(end);
        let tenure = tenancy.tenure;
        self.show_read(partition, tenure);
        for StoredRecord { offset, record } in records {
            let tenancy = self.tenancies.get_mut(&partition).expect("nothing here ends a tenancy");
            if tenancy.is_done(offset) {
                tenancy.watermark.advance(offset.next());
                continue;
            }
            if !tenancy.watermark.deliver(offset) {
                continue;
            }
            let (size, key) = (record.size(), record.key.clone());
            let reason = match record.into_job(partition, offset) {
                Ok(job) => {
                    if self.places.ever_of(job.key.as_bytes(), partition) {
                        if self.sight.is_some() {
                            tenancy.fetched(offset, job.enqueued_at);
                        }
                        self.counts.fetched += 1;
                        let job = Arc::new(job);
                        self.lanes.offer(partition, tenure, offset, job.key.clone(), job, size);
                        continue;
                    }
                    let belongs = self.places.of(job.key.as_bytes());
                    format!("key belongs to partition {belongs}: its producer hashes in another way")
                }
                Err(error) => error.detail().chain(),
            };
            (self.notices)(Notice::Quarantined { partition, offset, reason: reason.clone() });
            self.outbox.quarantine(partition, Quarantined { offset, key, reason: cut(&reason) });
        }
        if let Some(tenancy) = self.tenancies.get_mut(&partition) {
            tenancy.watermark.advance(position);
        }
        self.lane_actions();
    }

    /// Starts what may start, as long as ownership is proved and what ended before can be written.
    pub(super) fn start_jobs(&mut self, now: BootTime) {
        if self.lease.check().is_err() {
            return;
        }
        if !self.outbox.waits_for_store() {
            self.lanes.go_on();
        }
        let mut to_record: HashMap<Partition, Vec<Ticket>> = HashMap::new();
        while let Some(Start { ticket, job, .. }) =
            self.lanes.start_unless(|partition| self.outbox.holds_back(partition))
        {
            let tenancy = self.tenancies.get(&ticket.partition);
            let deaths = tenancy.and_then(|t| t.deaths(ticket.offset));
            let skip = tenancy.and_then(|t| t.skips.get(&ticket.offset)).cloned();
            let failures = self.failures.get(&ticket).map_or(0, |failures| failures.count);
            let attempt = Attempt(1 + failures + deaths.unwrap_or(0));
            // Not a try: one that is left out was tried as often as it failed.
            let attempt = if skip.is_some() { Attempt(attempt.0 - 1) } else { attempt };
            self.running.insert(ticket, Run::begin(job, attempt, now));
            if let Some(text) = skip {
                self.lanes.ended(ticket);
                self.write(ticket, Write::Bury(StopReason { rule: StopRule::Skipped, text }));
                continue;
            }
            match deaths {
                None => self.run_job(ticket),
                Some(0) => to_record.entry(ticket.partition).or_default().push(ticket),
                Some(deaths) if deaths >= self.settings.retry.attempts => {
                    let text = format!("{deaths} workers died while it ran");
                    self.lanes.ended(ticket);
                    self.stop_key(ticket, StopRule::WorkerDied, &text);
                }
                Some(_) => self.suspects.push_back(ticket),
            }
        }
        // One suspect at a time, so that the next death points at one job.
        while self.suspect.is_none()
            && let Some(ticket) = self.suspects.pop_front()
        {
            if self.running.contains_key(&ticket) && self.is_live(ticket) {
                self.suspect = Some(ticket);
                to_record.entry(ticket.partition).or_default().push(ticket);
            } else {
                self.unstart(ticket);
            }
        }
        to_record.into_iter().for_each(|(partition, tickets)| self.record(partition, tickets));
    }

    /// Has jobs noted as running before they do, if their tenure lasts.
    pub(super) fn record(&mut self, partition: Partition, tickets: Vec<Ticket>) {
        let (tickets, gone): (Vec<_>, Vec<_>) = tickets.into_iter().partition(|&ticket| self.is_live(ticket));
        gone.into_iter().for_each(|ticket| self.unstart(ticket));
        if tickets.is_empty() {
            return;
        }
        for ticket in &tickets {
            self.running.entry(*ticket).and_modify(|run| run.on_record = true);
        }
        let Tenancy { fence, tenure, .. } = &self.tenancies[&partition];
        let mine =
            self.running.iter().filter(|(t, run)| run.on_record && t.partition == partition && t.tenure == *tenure);
        let running: BTreeSet<Offset> = mine.map(|(ticket, _)| ticket.offset).collect();
        let (fence, running) = (Arc::clone(fence), running.into_iter().collect());
        self.for_clerk.push_back(clerk::Order::Starting { fence, tickets, running });
    }

    /// Jobs under suspicion are on record now: they may start.
    pub(super) fn recorded(
        &mut self,
        fence: &Arc<Fence>,
        tickets: Vec<Ticket>,
        outcome: Result<Result<(), Fenced>, Error>,
    ) -> Result<(), Error> {
        match outcome {
            Ok(Ok(())) => {
                self.is_back("the store");
                tickets.into_iter().for_each(|ticket| self.run_job(ticket));
            }
            Ok(Err(why)) => {
                let tenure = self.tenancies.get(&fence.partition()).filter(|t| Arc::ptr_eq(&t.fence, fence));
                if let Some(tenure) = tenure.filter(|_| why == Fenced::NewerClaim).map(|t| t.tenure) {
                    let actions = self.ownership.fenced(fence.partition(), tenure);
                    self.carry_out(actions);
                }
                tickets.into_iter().for_each(|ticket| self.unstart(ticket));
            }
            Err(error) if error.is_transient() => {
                self.is_away("the store", &error);
                self.set_timer(self.clock.now().plus(ASK_AGAIN), Timer::Record(fence.partition(), tickets));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn run_job(&mut self, ticket: Ticket) {
        if !self.is_live(ticket) {
            return self.unstart(ticket);
        }
        let (run, tenancy) = (&self.running[&ticket], &self.tenancies[&ticket.partition]);
        if run.attempt == Attempt::FIRST {
            let waited = self.wall.0.saturating_sub(run.job.enqueued_at.0);
            self.counts.wait.add(Duration::from_millis(waited.max(0).cast_unsigned()));
        }
        let context = JobContext {
            job: Arc::clone(&run.job),
            partition: ticket.partition,
            offset: ticket.offset,
            attempt: run.attempt,
            pass: tenancy.pass.clone(),
            cancel: tenancy.cancel.clone(),
        };
        self.runner.start(ticket, context, Arc::clone(&tenancy.fence));
    }

    fn is_live(&self, ticket: Ticket) -> bool {
        self.tenancies.get(&ticket.partition).is_some_and(|t| t.tenure == ticket.tenure)
    }

    /// A job that was chosen but did not begin goes back to the head of its lane.
    fn unstart(&mut self, ticket: Ticket) {
        self.forget_suspect(ticket);
        if self.running.remove(&ticket).is_some() {
            self.lanes.ended(ticket);
            self.lanes.wait(ticket);
            self.lanes.due(ticket);
        }
    }

    fn forget_suspect(&mut self, ticket: Ticket) {
        if self.suspect == Some(ticket) {
            self.suspect = None;
        }
    }

    pub(super) fn job_ended(&mut self, ticket: Ticket, end: Ended<S>, took: Duration) {
        let tries = &mut self.counts.tries;
        match &end {
            Ended::Cancelled | Ended::Refused => return self.unstart(ticket),
            Ended::With(Outcome::Done(_)) => tries.ok.add(took),
            Ended::With(Outcome::Retry(_) | Outcome::Reject(_)) | Ended::Panicked(_) => tries.error.add(took),
            Ended::TooLong(_) => tries.timeout.add(took),
        }
        self.forget_suspect(ticket);
        let Some(run) = self.running.get(&ticket) else { return };
        if let Some(tenancy) = self.tenancies.get_mut(&ticket.partition) {
            tenancy.spent.add(&run.job.key, took, fastrand::f64);
        }
        if !self.lanes.ended(ticket) {
            self.running.remove(&ticket);
            self.summary.refused += 1;
            return (self.notices)(Notice::LateResultDropped { partition: ticket.partition });
        }
        match end {
            Ended::With(Outcome::Done(done)) => {
                let write = match done {
                    Done::Nothing => Write::Nothing,
                    Done::Effect(effect) => Write::Effect(effect),
                    Done::Result(json) => Write::Result(json),
                };
                self.write(ticket, write);
            }
            Ended::With(Outcome::Retry(Retry { reason, after })) => self.failed(ticket, &reason, after),
            Ended::With(Outcome::Reject(reason)) => self.stop_key(ticket, StopRule::Rejected, &reason),
            Ended::Panicked(words) => self.failed(ticket, &format!("handler panicked: {words}"), None),
            Ended::TooLong(time) => {
                let limit = self.settings.job_limit;
                self.failed(ticket, &format!("took {time:.1?}: the limit is {limit:?}"), None);
            }
            Ended::Cancelled | Ended::Refused => unreachable!("handled above"),
        }
    }

    /// A try failed: again later, or the key is parked.
    pub(super) fn failed(&mut self, ticket: Ticket, reason: &str, asked: Option<Duration>) {
        let Some(run) = self.running.get(&ticket) else { return };
        let now = self.clock.now();
        if let Some(text) = self.tenancies.get(&ticket.partition).and_then(|t| t.skips.get(&ticket.offset)).cloned() {
            return self.write(ticket, Write::Bury(StopReason { rule: StopRule::Skipped, text }));
        }
        let failing = self.failures.get(&ticket).map_or(Duration::ZERO, |failures| now.since(failures.since));
        match self.settings.retry.decide(run.attempt, failing, asked, fastrand::f64()) {
            Decision::Stop(rule) => self.stop_key(ticket, rule, reason),
            Decision::Again(after) => {
                let (job, key, attempt) = (run.job.id.clone(), run.job.key.clone(), run.attempt);
                self.running.remove(&ticket);
                self.failures.entry(ticket).or_insert(Failures { count: 0, since: now }).count += 1;
                self.lanes.wait(ticket);
                self.set_timer(now.plus(after), Timer::Retry(ticket));
                let reason = cut(reason);
                let next_try = Timestamp(self.wall.0 + i64::try_from(after.as_millis()).unwrap_or(i64::MAX / 2));
                let waits = Waits { key: key.clone(), attempts: attempt.0, next_try, reason: reason.clone() };
                self.keys_waiting.insert(ticket, waits);
                self.summary.retried += 1;
                (self.notices)(Notice::WillRetry { job, key, attempt, after, reason: reason.into() });
            }
        }
    }

    pub(super) fn retry_due(&mut self, ticket: Ticket) {
        if self.keys_waiting.remove(&ticket).is_some() {
            self.lanes.due(ticket);
            self.lane_actions();
        }
    }

    /// The job cannot be done: by the settings its key stops there, or it leaves alone.
    fn stop_key(&mut self, ticket: Ticket, rule: StopRule, text: &str) {
        let reason = StopReason { rule, text: cut(text) };
        let leaves = self.settings.dead_letter.contains(&rule);
        self.write(ticket, if leaves { Write::Bury(reason) } else { Write::Stop(reason) });
    }

    /// Puts a finished job in the outbox; it stays at the head of its lane until it is written.
    fn write(&mut self, ticket: Ticket, write: Write<S>) {
        let run = self.running.remove(&ticket).expect("a job that ended was running");
        let write = JobWrite { offset: ticket.offset, job: run.job, attempt: run.attempt, write };
        self.outbox.put(ticket.partition, write);
    }

    /// Carries out what the lanes asked for.
    pub(super) fn lane_actions(&mut self) {
        for action in self.lanes.actions() {
            match action {
                LaneAction::Pause(partition) => self.control.pause(partition),
                LaneAction::Resume(partition) => {
                    if let Some(tenancy) = self.tenancies.get(&partition) {
                        self.control.go_on(partition, tenancy.watermark.position());
                    }
                }
                LaneAction::Reread { partition, tenure, key, offsets, from_line } => {
                    let order = clerk::Reread { partition, tenure, key, offsets, from_line };
                    self.for_clerk.push_back(clerk::Order::Reread(order));
                }
                LaneAction::Return { partition, tenure, key } => {
                    self.for_clerk.push_back(clerk::Order::Line { partition, tenure, key });
                }
            }
        }
    }

    pub(super) fn read_again(
        &mut self,
        order: clerk::Reread,
        outcome: Result<Vec<StoredRecord>, Error>,
    ) -> Result<(), Error> {
        let records = match outcome {
            Ok(records) => records,
            Err(error) if error.is_transient() => {
                self.is_away("the log", &error);
                self.set_timer(self.clock.now().plus(ASK_AGAIN), Timer::Ask(clerk::Order::Reread(order)));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.is_back("the log");
        let clerk::Reread { partition, tenure, key, offsets, .. } = order;
        let found = records.into_iter().filter_map(|stored| {
            let size = stored.record.size();
            // It could be read when it first came.
            let job = stored.record.into_job(partition, stored.offset).ok()?;
            Some((stored.offset, Arc::new(job), size))
        });
        let gone = self.lanes.reread(partition, tenure, &key, &offsets, found.collect());
        if let Some(tenancy) = self.tenancies.get_mut(&partition).filter(|t| t.tenure == tenure) {
            for offset in gone {
                tenancy.watermark.finish(offset);
            }
        }
        self.lane_actions();
        Ok(())
    }

    /// Tells once about each job that does not react to its time limit.
    pub(super) fn notice_overdue(&mut self, now: BootTime) {
        let limit = self.settings.job_limit + std::time::Duration::from_secs(1);
        for run in self.running.values_mut() {
            let after = now.since(run.since);
            if after > limit && !run.told_overdue {
                run.told_overdue = true;
                (self.notices)(Notice::Overdue { job: run.job.id.clone(), after });
            }
        }
    }
}
