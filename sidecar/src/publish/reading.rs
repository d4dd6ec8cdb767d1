//! What the worker's files said so far, and what of it is served now.
//!
//! 1. A file that is refused takes the place of nothing, but after it nobody vouches for the last good one.
//! 2. A file whose stamp is not of this start of the machine is not vouched for until a newer one comes.
//! 3. Of events as many are kept as a worker keeps.
//! 4. Of what the worker counts the latest file is kept, and none if that one is refused.

use super::{
    files::{Fault, Line, Look},
    silence,
};
use crate::{
    clock::Now,
    metrics::counted::Counted,
    snapshot::{Notice, Snapshot},
    spool::Spooled,
    words::{EventType, event::unix_ms},
};

/// So far may the clock on the wall drift against the machine's own between writing and reading.
const CLOCK_JUMP_MS: i64 = 5_000;
/// A stamp may be so far ahead of us: the machine's own clock is one, read at two moments.
const AHEAD_MS: u64 = 1_000;
/// As many as the contract allows.
const MOST_NOTICES: usize = 50;

/// A worker's word, and what it is worth.
pub(super) struct Word<'a> {
    pub(super) said: &'a Snapshot,
    pub(super) age_ms: u64,
    /// Whether it can be taken for the latest that the worker said.
    pub(super) is_vouched: bool,
}

/// How often looks came to what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) ok: u64,
    pub(super) missing: u64,
    /// Also counts `redaction_failures`.
    pub(super) invalid: u64,
    pub(super) version: u64,
    pub(super) redaction_failures: u64,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Reading {
    good: Option<Good>,
    fault: Option<Fault>,
    counts: Counts,
    counted: Option<Counted>,
    counted_counts: Counts,
    events: Vec<Line>,
    events_seen: [u64; EventType::ALL.len()],
    notice: Option<Notice>,
}

#[derive(Debug)]
struct Good {
    spooled: Spooled,
    bytes: usize,
    /// Whether the stamp moved while we looked: then the worker wrote it, and not one before the machine's last start.
    has_moved: bool,
}

impl Reading {
    /// Nothing so far. `notice` goes with every answer.
    pub(super) fn new(notice: Option<Notice>) -> Self {
        Self {
            good: None,
            fault: None,
            counts: Counts::default(),
            counted: None,
            counted_counts: Counts::default(),
            events: Vec::new(),
            events_seen: [0; EventType::ALL.len()],
            notice,
        }
    }

    /// Takes what a look found.
    pub(super) fn take(&mut self, look: Look) {
        match look.snapshot {
            Ok((spooled, bytes)) => {
                self.counts.add(None);
                self.fault = None;
                let before = self.good.as_ref();
                let has_moved =
                    before.is_some_and(|b| b.has_moved || b.spooled.written_boot_ms < spooled.written_boot_ms);
                self.good = Some(Good { spooled: *spooled, bytes, has_moved });
            }
            Err(fault) => {
                self.fault = Some(fault);
                self.counts.add(Some(fault));
            }
        }
        self.counted_counts.add(look.metrics.as_ref().err().copied());
        self.counted = look.metrics.ok();
        if let Some(lines) = look.events {
            for new in lines.iter().filter(|line| self.events.iter().all(|known| known.id != line.id)) {
                self.events_seen[new.kind as usize] += 1;
            }
            self.events = lines;
        }
    }

    /// The events that the worker keeps, oldest first.
    pub(super) fn events(&self) -> &[Line] {
        &self.events
    }

    /// How many events of each type, in the order of [`EventType::ALL`].
    pub(super) fn events_seen(&self) -> [u64; EventType::ALL.len()] {
        self.events_seen
    }

    /// How often looks came to what.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// How often looks at what the worker counts came to what.
    pub(super) fn counted_counts(&self) -> Counts {
        self.counted_counts
    }

    /// What the worker counts, if it said so lately.
    pub(super) fn counted(&self, now: Now, stale_after_ms: u64) -> Option<&Counted> {
        self.counted.as_ref().filter(|counted| {
            counted.written_boot_ms <= now.boot_ms + AHEAD_MS && now.since(counted.written_boot_ms) < stale_after_ms
        })
    }

    /// The size of the last good file; `None` while it cannot be read.
    pub(super) fn bytes(&self) -> Option<usize> {
        self.good.as_ref().filter(|_| self.fault.is_none()).map(|good| good.bytes)
    }

    /// What is served now, and the age of the word in milliseconds; `None` before the first good file.
    pub(super) fn served(&self, now: Now) -> Option<(Snapshot, u64)> {
        let good = self.good.as_ref()?;
        let said = &good.spooled.snapshot;
        let jumped = good.clocks_disagree(now);
        let is_old = good.is_ahead(now) || (jumped && !good.has_moved);
        let age_ms = now.since(good.spooled.written_boot_ms);
        let is_refused = matches!(self.fault, Some(Fault::Torn | Fault::Version | Fault::BreaksTheContract));
        let word = Word {
            said,
            // Of no known age: as old as what is lost.
            age_ms: if is_old { age_ms.max(said.stale_after_ms.saturating_mul(2)) } else { age_ms },
            is_vouched: !is_old && !is_refused,
        };
        let mut snapshot = silence::as_of(now, &word);
        let refused = (self.fault == Some(Fault::BreaksTheContract)).then(redaction_refused);
        let torn = matches!(self.fault, Some(Fault::Torn | Fault::Version)).then(unreadable);
        let clock = (jumped && good.has_moved).then(clock_jump);
        let ours = [self.notice.clone(), refused, torn, clock].into_iter().flatten();
        snapshot.notices = ours.chain(snapshot.notices).take(MOST_NOTICES).collect();
        Some((snapshot, word.age_ms))
    }
}

impl Counts {
    fn add(&mut self, fault: Option<Fault>) {
        *match fault {
            None => &mut self.ok,
            Some(Fault::Missing) => &mut self.missing,
            Some(Fault::Version) => &mut self.version,
            Some(Fault::Torn | Fault::BreaksTheContract) => &mut self.invalid,
        } += 1;
        self.redaction_failures += u64::from(fault == Some(Fault::BreaksTheContract));
    }
}

impl Good {
    fn is_ahead(&self, now: Now) -> bool {
        self.spooled.written_boot_ms > now.boot_ms + AHEAD_MS
    }

    /// Whether the wall stood otherwise against the machine's own clock when it was written.
    fn clocks_disagree(&self, now: Now) -> bool {
        let Some(wall) = unix_ms(&self.spooled.snapshot.observed_at) else { return true };
        let then = wall.saturating_sub_unsigned(self.spooled.written_boot_ms);
        let now = now.wall_ms.saturating_sub_unsigned(now.boot_ms);
        then.abs_diff(now) > CLOCK_JUMP_MS.unsigned_abs()
    }
}

fn redaction_refused() -> Notice {
    notice("redaction_refused", "The worker's file holds what no snapshot may hold, so it is not shown.")
}

fn unreadable() -> Notice {
    notice("file_unreadable", "The worker's file cannot be read as a snapshot of this version.")
}

fn clock_jump() -> Notice {
    notice("clock_jump", "The clock on the wall was set. Ages are right; times from before it are not.")
}

fn notice(code: &str, text: &str) -> Notice {
    Notice { code: code.to_owned(), text: text.to_owned() }
}

#[cfg(test)]
mod tests;
