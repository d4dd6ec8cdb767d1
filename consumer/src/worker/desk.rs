//! The desk: owns all state of a worker, decides with the pure machines, gives orders, takes answers. It never waits for
//! broker, store or handler.
//!
//! - `desk.rs`: the loop, the timers, what is asked from outside
//! - [`holding`]: assignments, claims, revokes: carries out what `ownership` decides
//! - [`jobs`]: records in, starts, ends, tries
//! - [`noting`]: what people are told through the store
//! - [`parking`]: keys that are parked, and their lines; what persons want
//! - [`writing`]: finished jobs to the scribes, and back
//! - [`proving`]: commits, deadlines, closes
//! - [`rows`]: whether the store still knows the claims
//! - [`showing`]: what others are shown
//! - [`stalls`]: partitions that have work and do not move

mod holding;
mod jobs;
mod keys;
mod noting;
mod parking;
mod proving;
mod rows;
mod showing;
mod stalls;
mod writing;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    mem,
    sync::Arc,
    time::Duration,
};

use crossbeam_channel::{Receiver, Select, TryRecvError};
use keylane_producer::{Job, Partition, Timestamp};
use keylane_sidecar::WorkerState;

use crate::{
    clock::{BootTime, Clock},
    error::{Detail, Error},
    fence::{Lease, Owner},
    group::{GroupControl, GroupEvent},
    handler::Handler,
    lanes::{Lanes, Tenure, Ticket},
    notice::Notice,
    numbers::NumberMap,
    ownership::{Action, Holding, Ownership},
    store::{Candidate, FencedStore},
    worker::{
        Office, Request, Summary, WorkerSettings,
        clerk::{self, Answer},
        counts::Counts,
        desk::{
            jobs::{Failures, Run},
            noting::Waits,
            writing::Outbox,
        },
        places::Places,
        polling::{EVENTS, Polled},
        prover::{self, Proved},
        runner::{End, Runner},
        scribe::Written,
        sight::Sight,
        tenancy::Tenancy,
    },
};

/// Where answers come from and orders go.
pub(crate) struct Mail<S: FencedStore> {
    pub(crate) polled: Receiver<Polled>,
    pub(crate) clerk: Office<clerk::Order, Answer>,
    pub(crate) scribes: Vec<Office<Vec<crate::store::PartitionWrite<S>>, Written<S>>>,
    pub(crate) prover: Office<prover::Order, Proved>,
    pub(crate) requests: Receiver<Request>,
}

pub(crate) struct Desk<S: FencedStore, H> {
    settings: WorkerSettings,
    places: Places,
    clock: Clock,
    lease: Arc<Lease>,
    control: Arc<dyn GroupControl>,
    runner: Runner<S, H>,
    sight: Option<Sight>,
    notices: Box<dyn FnMut(Notice) + Send>,

    ownership: Ownership,
    lanes: Lanes<Arc<Job>>,
    tenancies: NumberMap<Partition, Tenancy>,
    /// Lost, and worked on all the same: only where the guard that lets go was taken away.
    unheeded: HashSet<Partition>,
    /// Since when partitions wait for their claim.
    assigned_at: HashMap<Partition, BootTime>,
    /// With which owner each partition's latest claim was asked.
    owners: HashMap<Partition, (Tenure, Owner)>,
    running: NumberMap<Ticket, Run>,
    /// Failed tries of jobs that will be tried again.
    failures: NumberMap<Ticket, Failures>,
    /// Lanes that wait for another try.
    keys_waiting: HashMap<Ticket, Waits>,
    /// Jobs that may have killed a worker, waiting to run one at a time; and the one that does.
    suspects: VecDeque<Ticket>,
    suspect: Option<Ticket>,

    outbox: Outbox<S>,
    /// Orders that wait until the office has a free hand.
    claims: VecDeque<(Candidate, Tenure)>,
    for_clerk: VecDeque<clerk::Order>,
    for_prover: VecDeque<prover::Order>,
    clerk_busy: bool,
    prover_busy: bool,
    surveying: bool,

    timers: BTreeMap<(BootTime, u64), Timer>,
    timers_set: u64,
    next_proof: BootTime,
    next_look: BootTime,
    next_identity: BootTime,
    next_stall_look: BootTime,
    next_note: BootTime,
    next_halving: BootTime,
    halted: Option<BootTime>,
    away: HashMap<&'static str, BootTime>,
    end_by: Option<BootTime>,
    left: bool,
    summary: Summary,
    /// What is counted for whoever watches; nothing is decided by it.
    counts: Counts,
    /// The clock on the wall, as it stood when this turn began: for counts only.
    wall: Timestamp,
    /// Since when partitions that were asked back drain.
    drains: HashMap<Partition, (Tenure, BootTime)>,
    stuck_since: Option<BootTime>,
}

/// What happens later.
enum Timer {
    Retry(Ticket),
    Act(Action),
    Rejoin,
    /// Ask the clerk again.
    Ask(clerk::Order),
    /// Put these jobs of one partition on record again.
    Record(Partition, Vec<Ticket>),
    /// Look again.
    Nothing,
}

/// How many messages of one kind are taken before the desk acts: large enough to make batches, small enough that no
/// other kind waits long.
const TAKE: usize = 1_024;
/// After the drain's bound: for the last commits and the leave.
const LAST_ACTS: Duration = Duration::from_secs(5);
/// The same after a forced end.
const FORCED: Duration = Duration::from_secs(2);
/// After an order that store or log could not carry out.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// How often a worker that ends when the queue is empty looks.
const SURVEY: Duration = Duration::from_millis(200);

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    pub(crate) fn new(
        settings: WorkerSettings,
        places: Places,
        lease: Arc<Lease>,
        control: Arc<dyn GroupControl>,
        runner: Runner<S, H>,
        sight: Option<Sight>,
        notices: Box<dyn FnMut(Notice) + Send>,
    ) -> Self {
        let clock = lease.clock().clone();
        let now = clock.now();
        Self {
            ownership: Ownership::new(settings.ownership),
            lanes: Lanes::new(settings.lanes),
            outbox: Outbox::new(settings.connections::<S>(), settings.guards.one_way),
            settings,
            places,
            clock,
            lease,
            control,
            runner,
            sight,
            notices,
            tenancies: NumberMap::default(),
            unheeded: HashSet::new(),
            assigned_at: HashMap::new(),
            owners: HashMap::new(),
            running: NumberMap::default(),
            failures: NumberMap::default(),
            keys_waiting: HashMap::new(),
            suspects: VecDeque::new(),
            suspect: None,
            claims: VecDeque::new(),
            for_clerk: VecDeque::new(),
            for_prover: VecDeque::new(),
            clerk_busy: false,
            prover_busy: false,
            surveying: false,
            timers: BTreeMap::new(),
            timers_set: 0,
            next_proof: now,
            next_look: now,
            next_identity: now,
            next_stall_look: now,
            next_note: now,
            next_halving: now,
            halted: None,
            away: HashMap::new(),
            end_by: None,
            left: false,
            summary: Summary::default(),
            counts: Counts::new(),
            wall: Timestamp::now(),
            drains: HashMap::new(),
            stuck_since: None,
        }
    }

    pub(crate) fn run(mut self, mail: &Mail<S>) -> Result<Summary, Error> {
        let outcome = self.work(mail);
        // Whatever still runs may not act any more.
        self.lease.end();
        for tenancy in self.tenancies.values() {
            tenancy.cancel.cancel();
        }
        let running = self.running.values().filter(|run| !run.cut_short).map(|run| run.job.id.clone());
        self.summary.cut_short.extend(running);
        self.summary.cut_short.extend(self.outbox.unwritten().cloned());
        if let Err(error) = outcome {
            self.leave_at_once(mail);
            self.show_last(WorkerState::Unknown);
            return Err(error);
        }
        self.summary.clean = self.left && self.summary.cut_short.is_empty();
        if self.left {
            (self.notices)(Notice::Left);
        }
        self.show_last(WorkerState::Stopped);
        Ok(self.summary)
    }

    /// The worker cannot go on: others need not wait for its session to run out.
    fn leave_at_once(&self, mail: &Mail<S>) {
        self.control.leave();
        let by = self.clock.now().plus(FORCED);
        while self.clock.now() < by {
            match mail.polled.recv_timeout(FORCED) {
                Ok(Polled::Event(GroupEvent::Left)) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    fn work(&mut self, mail: &Mail<S>) -> Result<(), Error> {
        while !self.left && self.end_by.is_none_or(|by| self.clock.now() < by) {
            self.wait(mail);
            self.wall = Timestamp::now();
            self.take_in(mail)?;
            let now = self.clock.now();
            self.timers_due(now);
            self.notice_standing(now);
            self.start_jobs(now);
            self.start_moves();
            self.look_for_stalls(now);
            self.take_notes(now);
            self.runner.set_off();
            self.send_writes(mail, now);
            self.settle_drains();
            self.send_proofs(mail, now);
            self.send_clerk(mail, now);
            self.show(now);
        }
        Ok(())
    }

    /// Until something comes, or something is due.
    fn wait(&self, mail: &Mail<S>) {
        let now = self.clock.now();
        let soonest = [
            // While a commit is under way its answer wakes, and the next one is not sent before.
            (!self.prover_busy).then_some(self.next_proof),
            Some(self.next_look),
            self.timers.keys().next().map(|&(at, _)| at),
            self.ownership.next_tick(),
            self.outbox.again(),
            self.sight.as_ref().map(Sight::next),
            self.end_by,
        ];
        let wake = soonest.into_iter().flatten().min().unwrap_or(BootTime::NEVER);
        let limit = wake.since(now).min(self.settings.prove_every);
        let mut select = Select::new();
        select.recv(&self.runner.ends);
        select.recv(&mail.polled);
        for scribe in &mail.scribes {
            select.recv(&scribe.answers);
        }
        select.recv(&mail.prover.answers);
        select.recv(&mail.clerk.answers);
        select.recv(&mail.requests);
        let _ = select.ready_timeout(limit); // either way it is looked at everything
    }

    fn take_in(&mut self, mail: &Mail<S>) -> Result<(), Error> {
        for request in mail.requests.try_iter() {
            self.requested(request);
        }
        // Pages only as many as the channel holds: while they are taken in the polling thread puts others there, and what is
        // taken in is in memory beside them.
        // Losses first, so that no end or write of a lost partition is taken for a good one.
        for polled in taken(&mail.polled, "polling", EVENTS)? {
            self.polled(polled)?;
        }
        for answer in taken(&mail.prover.answers, "prover", TAKE)? {
            self.prover_busy = false;
            self.proved(answer)?;
        }
        for answer in taken(&mail.clerk.answers, "clerk", TAKE)? {
            self.clerk_busy = false;
            self.answered(answer)?;
        }
        for (way, scribe) in mail.scribes.iter().enumerate() {
            for written in taken(&scribe.answers, "scribe", TAKE)? {
                self.written(way, written)?;
            }
        }
        for End { ticket, how, took } in taken(&self.runner.ends, "handlers", TAKE)? {
            self.job_ended(ticket, how, took);
        }
        Ok(())
    }

    fn requested(&mut self, request: Request) {
        let now = self.clock.now();
        let actions = match request {
            Request::End if self.end_by.is_none() => {
                self.end_by = Some(now.plus(self.settings.ownership.drain + LAST_ACTS));
                (self.notices)(Notice::Ending);
                self.ownership.end(now)
            }
            Request::End => Vec::new(),
            Request::Force => {
                self.end_by = Some(now.plus(FORCED));
                self.ownership.force()
            }
        };
        self.carry_out(actions);
    }

    fn timers_due(&mut self, now: BootTime) {
        let due = self.timers.split_off(&(now, u64::MAX));
        for timer in mem::replace(&mut self.timers, due).into_values() {
            match timer {
                Timer::Retry(ticket) => self.retry_due(ticket),
                Timer::Act(action) => self.carry_out(vec![action]),
                Timer::Rejoin => self.control.rejoin(),
                Timer::Ask(order) => self.for_clerk.push_back(order),
                Timer::Record(partition, tickets) => self.record(partition, tickets),
                Timer::Nothing => {}
            }
        }
        let actions = self.ownership.tick(now);
        self.carry_out(actions);
    }

    fn set_timer(&mut self, at: BootTime, timer: Timer) {
        self.timers_set += 1;
        self.timers.insert((at, self.timers_set), timer);
    }

    /// Says once that nothing is admitted, and once that it goes on.
    fn notice_standing(&mut self, now: BootTime) {
        match (self.lease.check(), self.halted) {
            (Err(why), None) if !self.tenancies.is_empty() && self.lease.until() != BootTime::ZERO => {
                self.halted = Some(now);
                (self.notices)(Notice::Halted(why));
            }
            (Ok(()), Some(since)) => {
                self.halted = None;
                (self.notices)(Notice::GoesOn(now.since(since)));
            }
            _ => {}
        }
    }

    fn is_away(&mut self, what: &'static str, error: &Error) {
        let now = self.clock.now();
        let notices = &mut self.notices;
        self.away.entry(what).or_insert_with(|| {
            notices(Notice::Away { what, why: error.detail().chain() });
            now
        });
    }

    fn is_back(&mut self, what: &'static str) {
        if let Some(since) = self.away.remove(what) {
            (self.notices)(Notice::Back { what, after: self.clock.now().since(since) });
        }
    }

    /// Gives the clerk its next order; claims before looks.
    fn send_clerk(&mut self, mail: &Mail<S>, now: BootTime) {
        if now >= self.next_look {
            self.next_look = now.plus(self.settings.look_every);
            if !self.tenancies.is_empty() {
                let partitions = self.tenancies.keys().copied().collect();
                self.for_clerk.push_back(clerk::Order::Look { partitions, anyway: false });
            }
            if self.settings.until_empty && self.end_by.is_none() && !self.surveying && self.looks_empty() {
                self.next_look = now.plus(SURVEY);
                self.surveying = true;
                self.for_clerk.push_back(clerk::Order::Survey);
            }
        }
        if now >= self.next_identity && !(self.tenancies.is_empty() && self.away.is_empty()) {
            self.next_identity = now.plus(clerk::IDENTIFY);
            self.look_at_rows();
            self.for_clerk.push_back(clerk::Order::Identify);
        }
        if self.clerk_busy {
            return;
        }
        let ownership = &self.ownership;
        self.claims.retain(|(candidate, tenure)| ownership.holding(candidate.partition, *tenure).is_some());
        let claim = self.claims.pop_front().map(|(candidate, tenure)| clerk::Order::Claim { candidate, tenure });
        if let Some(order) = claim.or_else(|| self.for_clerk.pop_front()) {
            self.clerk_busy = mail.clerk.orders.send(order).is_ok();
        }
    }

    /// Whether this worker knows of nothing that it could still do. It must have seen what the group gives it: a store that
    /// was restored from an older copy has work that only its owner finds.
    fn looks_empty(&self) -> bool {
        self.ownership.membership().is_some()
            && self.running.is_empty()
            && self.outbox.is_empty()
            && self.lanes.only_parked_left()
            && self.tenancies.values().all(|t| t.watermark.position() >= t.end)
            && self.ownership.holdings().all(|(_, _, holding)| holding != Holding::Claiming)
    }

    fn surveyed(&mut self, remaining: &[clerk::Remaining]) {
        self.surveying = false;
        let mut empty = self.looks_empty();
        for left in remaining {
            empty &= left.finished;
        }
        if empty && self.end_by.is_none() {
            self.summary.keys_left = remaining.iter().map(|left| left.parked as u64).sum();
            self.requested(Request::End);
        }
    }
}

/// What has come, up to so many. A thread that is gone without having been told to end has panicked.
fn taken<T>(answers: &Receiver<T>, thread: &str, most: usize) -> Result<Vec<T>, Error> {
    let mut taken = Vec::new();
    while taken.len() < most {
        match answers.try_recv() {
            Ok(answer) => taken.push(answer),
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Disconnected) if !taken.is_empty() => break,
            Err(TryRecvError::Disconnected) => {
                return Err(Error::Bug(Detail::new(format!("the worker's thread '{thread}' has ended"))));
            }
        }
    }
    Ok(taken)
}
