//! Finished jobs to the scribes, and back.
//!
//! 1. A partition has one scribe for as long as the worker lives, so all writes of a key go over one connection, one after
//!    another, also those that are tried again: only that connection knows that an earlier COMMIT of it may be under way.
//! 2. Scribes know nothing of each other: what one waits for, or does not get an answer to, holds up its own partitions.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
    sync::Arc,
    time::Duration,
};

use keylane_producer::{Job, JobId, Partition};

use super::{Desk, Mail};
use crate::{
    clock::BootTime,
    error::Error,
    fence::Fenced,
    handler::Handler,
    lanes::Ticket,
    notice::Notice,
    store::{FencedStore, JobWrite, PartitionWrite, PartitionWritten, Quarantined, Write, Written as JobWritten},
    worker::{counts::Came, desk::jobs::Run, scribe::Written},
};

/// What waits for the scribes, and what they have in hand.
pub(super) struct Outbox<S: FencedStore> {
    waiting: BTreeMap<Partition, Waiting<S>>,
    in_hand: HashMap<Partition, Vec<Arc<Job>>>,
    ways: Vec<Way>,
    /// The scribe of each partition that this worker has held.
    homes: HashMap<Partition, usize>,
    /// Partitions whose lines are full, and when it is tried again.
    pub(super) full: HashMap<Partition, BootTime>,
    /// Without it, a twin's, a write goes where its first job says.
    one_way: bool,
}

/// The way to one scribe.
struct Way {
    busy: bool,
    /// After the store did not answer: not before this.
    again: Option<BootTime>,
    backoff: Duration,
    /// The store did not answer when it was last asked.
    failed: bool,
}

struct Waiting<S: FencedStore> {
    jobs: Vec<JobWrite<S>>,
    quarantined: Vec<Quarantined>,
}

impl<S: FencedStore> Default for Waiting<S> {
    fn default() -> Self {
        Self { jobs: Vec::new(), quarantined: Vec::new() }
    }
}

/// Waits between tries while the store does not answer.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

impl<S: FencedStore> Outbox<S> {
    pub(super) fn new(ways: usize, one_way: bool) -> Self {
        let ways = (0..ways).map(|_| Way { busy: false, again: None, backoff: FIRST_WAIT, failed: false }).collect();
        let (waiting, in_hand, full) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        Self { waiting, in_hand, ways, homes: HashMap::new(), full, one_way }
    }

    /// A partition is held from now on: if it never was, it goes to the scribe with the fewest of those that are held beside it.
    pub(super) fn settle(&mut self, partition: Partition, held: impl Iterator<Item = Partition>) {
        let mut load = vec![0; self.ways.len()];
        held.filter(|&other| other != partition)
            .filter_map(|other| self.homes.get(&other))
            .for_each(|&way| load[way] += 1);
        let least = (0..load.len()).min_by_key(|&way| load[way]).unwrap_or(0);
        self.homes.entry(partition).or_insert(least);
    }

    /// Which scribe writes for the partition.
    fn way_of(&self, partition: Partition) -> usize {
        if self.one_way {
            return self.homes.get(&partition).copied().unwrap_or(0);
        }
        let first = self.waiting.get(&partition).and_then(|w| w.jobs.iter().map(|job| job.offset.0).min());
        usize::try_from(first.unwrap_or(0) % self.ways.len() as u64).expect("it is below a length")
    }

    /// The soonest that a write is tried again.
    pub(super) fn again(&self) -> Option<BootTime> {
        self.ways.iter().filter_map(|way| way.again).min()
    }

    pub(super) fn put(&mut self, partition: Partition, job: JobWrite<S>) {
        self.waiting.entry(partition).or_default().jobs.push(job);
    }

    pub(super) fn quarantine(&mut self, partition: Partition, record: Quarantined) {
        self.waiting.entry(partition).or_default().quarantined.push(record);
    }

    /// A write is wanted also if no job is finished.
    pub(super) fn want(&mut self, partition: Partition) {
        self.waiting.entry(partition).or_default();
    }

    /// The tenure of the partition is over: drops what waits and says which jobs those were.
    pub(super) fn forget(&mut self, partition: Partition) -> Vec<JobId> {
        self.full.remove(&partition);
        let waiting = self.waiting.remove(&partition);
        waiting.into_iter().flat_map(|w| w.jobs).filter(has_run).map(|job| job.job.id.clone()).collect()
    }

    /// Jobs that have ended and of which nobody knows that they are written.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = &JobId> {
        let waiting = self.waiting.values().flat_map(|w| &w.jobs).filter(|job| has_run(job)).map(|job| &job.job.id);
        waiting.chain(self.in_hand.values().flatten().map(|job| &job.id))
    }

    pub(super) fn concerns(&self, partition: Partition) -> bool {
        self.waiting.contains_key(&partition) || self.in_hand.contains_key(&partition)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_hand.is_empty()
    }

    /// Whether finished jobs wait for a store that did not answer, whichever way.
    pub(super) fn waits_for_store(&self) -> bool {
        (0..self.ways.len()).any(|way| self.is_held_up(way))
    }

    /// Whether no job of the partition is to start, because finished ones wait this way: it could not be written either, and
    /// would run a second time if the worker ended before the store is back.
    pub(super) fn holds_back(&self, partition: Partition) -> bool {
        self.ways.iter().any(|way| way.failed) && self.is_held_up(self.way_of(partition))
    }

    fn is_held_up(&self, way: usize) -> bool {
        let goes = |&partition: &Partition| self.way_of(partition) == way;
        self.ways[way].failed && self.waiting.keys().chain(self.in_hand.keys()).any(goes)
    }

    /// Puts back what could not be written, in front of what came since.
    fn put_back(&mut self, batch: PartitionWrite<S>) {
        let partition = batch.fence.partition();
        self.put_in_front(partition, batch.jobs);
        self.waiting.entry(partition).or_default().quarantined.extend(batch.quarantined);
    }

    pub(super) fn put_in_front(&mut self, partition: Partition, jobs: Vec<JobWrite<S>>) {
        let waiting = self.waiting.entry(partition).or_default();
        let later = mem::replace(&mut waiting.jobs, jobs);
        waiting.jobs.extend(later);
    }

    /// Whether a scribe has something of this partition.
    pub(super) fn has_in_hand(&self, partition: Partition) -> bool {
        self.in_hand.contains_key(&partition)
    }

    /// Takes out of what waits.
    pub(super) fn take_out(&mut self, partition: Partition, which: impl Fn(&JobWrite<S>) -> bool) -> Vec<JobWrite<S>> {
        let Some(waiting) = self.waiting.get_mut(&partition) else { return Vec::new() };
        let (out, stays): (Vec<_>, Vec<_>) = mem::take(&mut waiting.jobs).into_iter().partition(|job| which(job));
        waiting.jobs = stays;
        if waiting.jobs.is_empty() && waiting.quarantined.is_empty() {
            self.waiting.remove(&partition);
        }
        out
    }
}

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    /// Gives each scribe that is free everything that waits for it, as one transaction.
    pub(super) fn send_writes(&mut self, mail: &Mail<S>, now: BootTime) {
        for way in &mut self.outbox.ways {
            way.again.take_if(|at| *at <= now);
        }
        if self.outbox.waiting.is_empty() || self.lease.check().is_err() {
            return;
        }
        for (way, scribe) in mail.scribes.iter().enumerate() {
            let Way { busy, again, .. } = &self.outbox.ways[way];
            if *busy || again.is_some() {
                continue;
            }
            let batch = self.batch(way, now);
            if !batch.is_empty() {
                self.outbox.ways[way].busy = scribe.orders.send(batch).is_ok();
            }
        }
    }

    /// What waits for this scribe, as much as fits.
    fn batch(&mut self, way: usize, now: BootTime) -> Vec<PartitionWrite<S>> {
        let outbox = &self.outbox;
        let mine = |partition: &&Partition| outbox.way_of(**partition) == way && !outbox.has_in_hand(**partition);
        let mine: Vec<Partition> = outbox.waiting.keys().filter(mine).copied().collect();
        let mut batch = Vec::new();
        let mut room = self.settings.batch_jobs;
        let mut kept: Vec<(Partition, Vec<JobWrite<S>>)> = Vec::new();
        for partition in mine {
            if room == 0 {
                break;
            }
            let Some(mut waiting) = self.outbox.waiting.remove(&partition) else { continue };
            let Some(tenancy) = self.tenancies.get_mut(&partition) else { continue };
            // What needs room in a full line stays, in its order; all else goes.
            if self.outbox.full.get(&partition).is_some_and(|&until| now < until) {
                let (stays, goes): (Vec<_>, Vec<_>) = waiting.jobs.into_iter().partition(needs_room);
                kept.push((partition, stays));
                waiting.jobs = goes;
                if waiting.jobs.is_empty() && waiting.quarantined.is_empty() && tenancy.resumed.is_empty() {
                    continue;
                }
            }
            if waiting.jobs.len() > room {
                let rest = waiting.jobs.split_off(room);
                self.outbox.waiting.insert(partition, Waiting { jobs: rest, quarantined: Vec::new() });
            }
            room -= waiting.jobs.len().max(1).min(room);
            self.outbox.in_hand.insert(partition, waiting.jobs.iter().map(|job| Arc::clone(&job.job)).collect());
            batch.push(PartitionWrite {
                fence: Arc::clone(&tenancy.fence),
                jobs: waiting.jobs,
                quarantined: waiting.quarantined,
                watermark: tenancy.watermark.committable(),
                resumed: tenancy.resumed.clone(),
                line_room: self.settings.line_room,
            });
        }
        for (partition, jobs) in kept {
            self.outbox.put_in_front(partition, jobs);
        }
        batch
    }

    pub(super) fn written(&mut self, way: usize, written: Written<S>) -> Result<(), Error> {
        let Written { batch, outcome, took } = written;
        self.counts.database.count(came(&outcome), took);
        for part in &batch {
            self.outbox.in_hand.remove(&part.fence.partition());
        }
        let now = self.clock.now();
        let scribe = &mut self.outbox.ways[way];
        scribe.busy = false;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) if error.is_transient() => {
                scribe.failed = true;
                scribe.again = Some(now.plus(scribe.backoff));
                scribe.backoff = (scribe.backoff * 2).min(LONGEST_WAIT);
                self.is_away("the store", &error);
                batch.into_iter().for_each(|partition| self.put_back_if_held(partition));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if mem::take(&mut scribe.failed) {
            scribe.backoff = FIRST_WAIT;
            self.lanes.go_on();
        }
        if !self.outbox.waits_for_store() {
            self.is_back("the store");
        }
        for (batch, partition) in batch.into_iter().zip(outcome) {
            match partition.jobs {
                Ok(results) => self.partition_written(batch, results),
                Err(why) => self.partition_refused(batch, why),
            }
        }
        self.lane_actions();
        Ok(())
    }

    fn partition_written(&mut self, batch: PartitionWrite<S>, results: Vec<JobWritten>) {
        let partition = batch.fence.partition();
        let (applied, done) = count(&results);
        self.summary.applied += applied;
        self.summary.already_done += done;
        // Written under a tenure that is over: it landed while that one was the newest, and that is all there is to know.
        let Some(tenancy) = self.tenancies.get_mut(&partition).filter(|t| Arc::ptr_eq(&t.fence, &batch.fence)) else {
            return;
        };
        let tenure = tenancy.tenure;
        tenancy.resumed.retain(|row| !batch.resumed.contains(row));
        for record in &batch.quarantined {
            tenancy.watermark.finish(record.offset);
        }
        if applied + done > 0 {
            self.show_completed(partition, tenure);
        }
        if results.iter().any(|result| !matches!(result, JobWritten::EffectFailed(_) | JobWritten::NoRoom)) {
            self.has_moved(partition);
        }
        let took_room = results
            .iter()
            .any(|result| matches!(result, JobWritten::Stopped | JobWritten::Parked | JobWritten::Buried));
        let mut without_room = Vec::new();
        for (job, result) in batch.jobs.into_iter().zip(results) {
            let ticket = Ticket { partition, tenure, offset: job.offset };
            match result {
                JobWritten::Applied | JobWritten::AlreadyDone => {
                    if matches!(result, JobWritten::Applied) {
                        self.counts.attempts.add_number(job.attempt.0.into());
                    }
                    if let Some(tenancy) = self.tenancies.get_mut(&partition) {
                        tenancy.watermark.finish(job.offset);
                    }
                    self.failures.remove(&ticket);
                    self.lanes.applied(ticket);
                }
                JobWritten::EffectFailed(error) => {
                    self.running.insert(ticket, Run::again(&job));
                    self.failed(ticket, &format!("its effect failed: {error}"), None);
                }
                JobWritten::Stopped => self.stopped(ticket, job),
                JobWritten::Buried => self.buried(ticket, job),
                JobWritten::Parked => self.moved(ticket),
                JobWritten::NoRoom => without_room.push(job),
            }
        }
        self.hold_back(partition, without_room, took_room);
    }

    fn partition_refused(&mut self, batch: PartitionWrite<S>, why: Fenced) {
        let partition = batch.fence.partition();
        match why {
            // Not refused by the store: it waits until ownership is proved again, or the partition is lost.
            Fenced::DeadlinePassed | Fenced::PollStalled => self.put_back_if_held(batch),
            Fenced::NewerClaim => {
                self.counts.rejections.database += 1;
                self.summary.refused += batch.jobs.len() as u64;
                (self.notices)(Notice::WriteRefused { partition, jobs: batch.jobs.len() });
                let held = self.tenancies.get(&partition).filter(|t| Arc::ptr_eq(&t.fence, &batch.fence));
                if let Some(tenure) = held.map(|t| t.tenure) {
                    let actions = if self.unheeded.remove(&partition) {
                        self.ownership.lost(&[partition])
                    } else {
                        self.ownership.fenced(partition, tenure)
                    };
                    self.carry_out(actions);
                }
            }
            Fenced::GivenUp | Fenced::Ending => {
                self.dropped(partition, batch.jobs.iter().map(|job| job.job.id.clone()).collect());
            }
        }
    }

    fn put_back_if_held(&mut self, batch: PartitionWrite<S>) {
        let partition = batch.fence.partition();
        if self.tenancies.get(&partition).is_some_and(|t| Arc::ptr_eq(&t.fence, &batch.fence)) {
            self.outbox.put_back(batch);
        } else {
            self.dropped(partition, batch.jobs.iter().map(|job| job.job.id.clone()).collect());
        }
    }

    /// Finished jobs that are not written any more. A worker that ends names them; one that goes on tells and counts them.
    pub(super) fn dropped(&mut self, partition: Partition, jobs: Vec<JobId>) {
        if self.end_by.is_some() {
            return self.summary.cut_short.extend(jobs);
        }
        self.summary.refused += jobs.len() as u64;
        for _ in jobs {
            (self.notices)(Notice::LateResultDropped { partition });
        }
    }
}

/// Whether the job is to go into a line, or to become a dead letter.
pub(super) fn needs_room<S: FencedStore>(job: &JobWrite<S>) -> bool {
    matches!(job.write, Write::Stop(_) | Write::Park | Write::Bury(_))
}

fn has_run<S: FencedStore>(job: &JobWrite<S>) -> bool {
    !matches!(job.write, Write::Park)
}

/// A transaction is refused if a part of it is, whatever came of the others.
fn came(outcome: &Result<Vec<PartitionWritten>, Error>) -> Came {
    match outcome {
        Err(_) => Came::ToNothing,
        Ok(parts) if parts.iter().any(|part| part.jobs.is_err()) => Came::Refused,
        Ok(_) => Came::Through,
    }
}

/// How many of these were applied now, and how many before.
fn count(results: &[JobWritten]) -> (u64, u64) {
    let how_many = |is: fn(&JobWritten) -> bool| results.iter().filter(|&result| is(result)).count() as u64;
    (how_many(|r| matches!(r, JobWritten::Applied)), how_many(|r| matches!(r, JobWritten::AlreadyDone)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::SqliteStore;

    /// With their number modulo the connections, each of these would have the same one.
    #[test]
    fn partitions_are_spread_over_the_connections_whatever_their_numbers_and_keep_theirs() {
        let mut outbox = Outbox::<SqliteStore>::new(4, true);
        let dealt = [0, 4, 8, 12].map(Partition);
        for (at, &partition) in dealt.iter().enumerate() {
            outbox.settle(partition, dealt[..at].iter().copied());
        }
        assert_eq!(dealt.map(|partition| outbox.way_of(partition)), [0, 1, 2, 3]);
        // The one of 8 is free now, and 1 has none yet; 0 was given back, and comes again when all others have one too.
        outbox.settle(Partition(1), [0, 4, 12].map(Partition).into_iter());
        assert_eq!(outbox.way_of(Partition(1)), 2);
        outbox.settle(Partition(0), [1, 4, 12].map(Partition).into_iter());
        assert_eq!(outbox.way_of(Partition(0)), 0, "it keeps its own: a COMMIT of it may be under way there");
        outbox.settle(Partition(4), [0, 1, 12].map(Partition).into_iter());
        assert_eq!(outbox.way_of(Partition(4)), 1);
    }
}
