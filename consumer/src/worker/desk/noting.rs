//! What people are told of partitions in which something waits, through the store: [`Note`]. It decides nothing.

use std::time::Duration;

use keylane_producer::{JobKey, Partition, Timestamp};

use super::Desk;
use crate::{
    clock::BootTime,
    error::Error,
    fence::Fenced,
    handler::Handler,
    store::{FencedStore, HotKey, MAX_NOTED, Note, NotedRetry, NotedStall},
    worker::clerk,
};

/// How often notes are taken; one that says the same is not written again.
const NOTE_EVERY: Duration = Duration::from_secs(5);
/// How often the time that keys took counts half.
const HALVE_EVERY: Duration = Duration::from_secs(300);
/// A key with fewer jobs waiting is not told for that.
const MANY: usize = 10;
/// A key that took less is not told for that.
const LONG: Duration = Duration::from_secs(1);
/// Keys told for one reason.
const HOT: usize = 20;
/// Characters of a reason in a note.
const WORDS: usize = 200;

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    /// Has the clerk write what is new.
    pub(super) fn take_notes(&mut self, now: BootTime) {
        if now >= self.next_halving {
            self.next_halving = now.plus(HALVE_EVERY);
            self.tenancies.values_mut().for_each(|tenancy| tenancy.spent.halve());
        }
        if now < self.next_note {
            return;
        }
        self.next_note = now.plus(NOTE_EVERY);
        let partitions: Vec<Partition> = self.tenancies.keys().copied().collect();
        for partition in partitions {
            let note = Some(self.note(partition, now)).filter(|note| !note.is_empty());
            let Some(tenancy) = self.tenancies.get_mut(&partition).filter(|tenancy| tenancy.noted != note) else {
                continue;
            };
            tenancy.noted.clone_from(&note);
            self.for_clerk.push_back(clerk::Order::Note { fence: tenancy.fence.clone(), note });
        }
    }

    /// One that could not be written is written anew.
    pub(super) fn noted(&mut self, partition: Partition, outcome: &Result<Result<(), Fenced>, Error>) {
        if !matches!(outcome, Ok(Ok(())))
            && let Some(tenancy) = self.tenancies.get_mut(&partition)
        {
            tenancy.noted = None;
        }
    }

    fn note(&self, partition: Partition, now: BootTime) -> Note {
        let Some(tenancy) = self.tenancies.get(&partition) else { return Note::default() };
        let stall = tenancy.stalled.map(|since| NotedStall {
            since: whole_seconds(self.wall.0 - i64::try_from(now.since(since).as_millis()).unwrap_or(0)),
            waiting: tenancy.waiting(),
            cause: self.stall_cause(partition, now).to_string(),
        });
        let waiting = self.keys_waiting.iter().filter(|(ticket, _)| ticket.partition == partition);
        let mut retrying: Vec<_> = waiting
            .map(|(ticket, waits)| NotedRetry {
                key: waits.key.to_string(),
                offset: ticket.offset.0,
                attempts: waits.attempts,
                next_try: waits.next_try.0,
                reason: waits.reason.chars().take(WORDS).collect(),
            })
            .collect();
        retrying.sort_unstable_by(|a, b| b.attempts.cmp(&a.attempts).then(a.offset.cmp(&b.offset)));
        retrying.truncate(MAX_NOTED);
        let hot = |(key, waiting): (JobKey, usize)| HotKey {
            waiting: waiting as u64,
            spent_ms: u64::try_from(tenancy.spent.of(&key).as_millis()).unwrap_or(u64::MAX),
            key: key.to_string(),
        };
        let many = self.lanes.longest(partition, HOT, MANY);
        let long = tenancy
            .spent
            .top(HOT)
            .into_iter()
            .filter(|(key, spent)| *spent >= LONG && !many.iter().any(|(counted, _)| counted == key));
        let long: Vec<_> = long.map(|(key, _)| (self.lanes.waiting(partition, &key), key)).collect();
        let hot = many.iter().cloned().chain(long.into_iter().map(|(waiting, key)| (key, waiting))).map(hot).collect();
        Note { stall, retrying, hot }
    }
}

/// Milliseconds since 1970 UTC, to the second: two looks at one moment say the same.
fn whole_seconds(ms: i64) -> i64 {
    (ms + 500).div_euclid(1_000) * 1_000
}

/// A key whose first job failed and waits.
pub(super) struct Waits {
    pub(super) key: JobKey,
    pub(super) attempts: u32,
    pub(super) next_try: Timestamp,
    pub(super) reason: Box<str>,
}
