//! Pure: what each worker said, and when, becomes the view of the group.
//!
//! 1. Nobody is shown as an owner on old word: a silent worker's partitions are `unknown` while its session may run, then
//!    `expired`. Its lag and its running jobs are unknown, never 0.
//! 2. `absent` needs proof: no claim, every expected sidecar fresh, and the number of partitions known.
//! 3. Two fresh owners are `contested`; nothing ranks them.
//! 4. Fresh goes before silent; of fresh claims `held` before `draining` before `expired`.
//! 5. Ages and sessions count on the board's boot clock, from before a sidecar was asked.

mod claims;
mod notices;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    clock::Now,
    snapshot::{
        Freshness, Observer, QueueView, SCHEMA, Scope, Snapshot, Totals, WorkerSession, WorkerState, WorkerView,
        bound_keys,
    },
    words::event::{rfc3339, unix_ms},
};

use claims::Memory;

/// A worker writes on change and at least every 2 s. Who has said nothing for two such periods and a look, and whose session
/// should be over, is silent.
const WORD_IS_DUE_MS: u64 = 5_000;
/// So far may a worker's clock drift against ours between two reports.
const CLOCK_JUMP_MS: i64 = 5_000;
/// So long a worker's own times are not shown after its clock jumped.
const JUMP_SHOWN_MS: u64 = 600_000;
/// So long a sidecar that was seen is expected to be seen again.
const EXPECTED_MS: u64 = 3_600_000;

/// What is merged, and by which limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The queue; reports of others are not used.
    pub queue: String,
    /// The group; reports of others are not used.
    pub group: String,
    /// Who looks.
    pub observer: Observer,
    /// After so long without word a worker is silent.
    pub stale_after_ms: u64,
    /// After so long it may be gone.
    pub lost_after_ms: u64,
}

/// All that was said so far.
#[derive(Clone, Debug)]
pub struct Merge {
    settings: Settings,
    rules: Rules,
    sources: BTreeMap<String, Source>,
    workers: BTreeMap<String, Heard>,
    cluster: Option<String>,
    memory: BTreeMap<u32, Memory>,
    last: Option<Now>,
    board_jumped_at: Option<u64>,
}

/// The guards, each of which a twin test takes away.
#[derive(Clone, Copy, Debug)]
struct Rules {
    silence_ends_ownership: bool,
    absence_needs_coverage: bool,
    unknown_is_null: bool,
    two_owners_contest: bool,
}

const ALL: Rules = Rules {
    silence_ends_ownership: true,
    absence_needs_coverage: true,
    unknown_is_null: true,
    two_owners_contest: true,
};

/// A sidecar.
#[derive(Clone, Debug, Default)]
struct Source {
    expected_until: u64,
    worker: Option<String>,
    trouble: Option<Trouble>,
    answered: bool,
}

/// Why a sidecar's last answer was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It cannot be reached.
    Away,
    /// Its answer breaks the contract.
    Unreadable,
    /// It speaks of another queue or group.
    Elsewhere,
}

/// A worker's last word.
#[derive(Clone, Debug)]
struct Heard {
    said: Snapshot,
    view: WorkerView,
    /// When it was asked for, on our boot clock: its session is counted from there.
    asked_ms: u64,
    /// When it spoke, on our boot clock.
    spoke_ms: u64,
    /// When it spoke, on our wall clock.
    spoke_wall_ms: i64,
    /// Our wall clock less its own.
    skew_ms: i64,
    jumped_at: Option<u64>,
}

impl Merge {
    /// Nothing heard yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            rules: ALL,
            sources: BTreeMap::new(),
            workers: BTreeMap::new(),
            cluster: None,
            memory: BTreeMap::new(),
            last: None,
            board_jumped_at: None,
        }
    }

    /// These sidecars should answer. Of others only those that did answer are still waited for.
    pub fn expect<'a>(&mut self, sources: impl IntoIterator<Item = &'a str>, now: Now) {
        let expected: BTreeSet<&str> = sources.into_iter().collect();
        self.sources.retain(|name, source| source.answered || expected.contains(name.as_str()));
        for source in expected {
            self.sources.entry(source.to_owned()).or_default().expected_until = now.boot_ms + EXPECTED_MS;
        }
    }

    /// A sidecar did not answer with something that can be used. What it said before goes on ageing.
    pub fn miss(&mut self, source: &str, trouble: Trouble) {
        self.sources.entry(source.to_owned()).or_default().trouble = Some(trouble);
    }

    /// A sidecar answered, to a question sent at `asked`.
    pub fn hear(&mut self, source: &str, said: Snapshot, asked: Now) {
        if (&said.queue.topic, &said.queue.group) != (&self.settings.queue, &self.settings.group) {
            return self.miss(source, Trouble::Elsewhere);
        }
        self.cluster = Some(said.queue.cluster.clone());
        let entry = self.sources.entry(source.to_owned()).or_default();
        entry.expected_until = entry.expected_until.max(asked.boot_ms + EXPECTED_MS);
        entry.answered = true;
        entry.trouble = None;
        // A worker speaks for itself: one report has one worker, or none before its first word.
        let Some(view) = said.workers.first().cloned() else { return };
        entry.worker = Some(view.worker.clone());
        let before = self.workers.get(&view.worker);
        let spoke_ms = asked.boot_ms.saturating_sub(view.age_ms);
        if before.is_some_and(|b| b.spoke_ms > spoke_ms) {
            return;
        }
        let skew_ms = unix_ms(&said.observed_at).map_or(0, |observed| asked.wall_ms - observed);
        let jumped = before.is_some_and(|b| (skew_ms - b.skew_ms).abs() > CLOCK_JUMP_MS);
        let jumped_at = if jumped { Some(asked.boot_ms) } else { before.and_then(|b| b.jumped_at) };
        let spoke_wall_ms = asked.wall_ms - view.age_ms.cast_signed();
        let heard = Heard { asked_ms: asked.boot_ms, spoke_ms, spoke_wall_ms, skew_ms, jumped_at, view, said };
        self.workers.insert(heard.view.worker.clone(), heard);
    }

    /// The view at this moment.
    pub fn view(&mut self, now: Now) -> Snapshot {
        self.forget(now);
        self.notice_a_jump(now);
        let partition_counts = self.partition_counts(now);
        let partition_count = if partition_counts.len() == 1 { partition_counts.first().copied() } else { None };
        let workers: Vec<WorkerView> = self.workers.values().map(|heard| self.worker(heard, now)).collect();
        let mut partitions = self.partitions(partition_count, now);
        bound_keys(&mut partitions);
        let mut view = Snapshot {
            schema: SCHEMA,
            scope: Scope::Group,
            observed_at: rfc3339(now.wall_ms),
            observer: self.settings.observer.clone(),
            queue: QueueView {
                cluster: self.cluster.clone().unwrap_or_else(|| "unknown".to_owned()),
                topic: self.settings.queue.clone(),
                group: self.settings.group.clone(),
                partition_count,
            },
            freshness: self.freshness(now),
            stale_after_ms: self.settings.stale_after_ms,
            totals: Totals::of(&partitions),
            workers,
            partitions,
            notices: Vec::new(),
        };
        view.notices = self.notices(&view, partition_counts.len() > 1, now);
        self.last = Some(now);
        view
    }

    /// Whether some sidecar has not answered once.
    pub fn is_warming_up(&self) -> bool {
        self.sources.values().any(|source| !source.answered)
    }

    /// How long ago the youngest word is; `None` if there is none.
    pub fn age_ms(&self, now: Now) -> Option<u64> {
        self.workers.values().map(|heard| now.since(heard.spoke_ms)).min()
    }

    /// How many sidecars' words are fresh, stale and lost; those whose worker stopped in order are not waited for.
    pub(super) fn sidecars(&self, now: Now) -> [u32; 3] {
        let mut counts = [0; 3];
        for source in self.sources.values() {
            let heard = source.worker.as_ref().and_then(|name| self.workers.get(name));
            if !heard.is_some_and(Self::is_stopped) {
                let freshness = heard.map_or(Freshness::Lost, |heard| self.freshness_of(heard, now));
                counts[freshness as usize] += 1;
            }
        }
        counts
    }

    /// Sidecars and workers of which nothing was seen for an hour.
    fn forget(&mut self, now: Now) {
        self.sources.retain(|_, source| source.expected_until > now.boot_ms);
        let named: BTreeSet<&String> = self.sources.values().filter_map(|s| s.worker.as_ref()).collect();
        self.workers.retain(|name, heard| named.contains(name) && now.since(heard.spoke_ms) < EXPECTED_MS);
    }

    fn notice_a_jump(&mut self, now: Now) {
        let Some(last) = self.last else { return };
        let (boot, wall) = (now.since(last.boot_ms).cast_signed(), now.wall_ms - last.wall_ms);
        if (wall - boot).abs() > CLOCK_JUMP_MS {
            self.board_jumped_at = Some(now.boot_ms);
        }
    }

    fn has_jumped(&self, heard: &Heard, now: Now) -> bool {
        heard.jumped_at.into_iter().chain(self.board_jumped_at).any(|at| now.since(at) < JUMP_SHOWN_MS)
    }

    /// What fresh workers say, or all if none is fresh.
    fn partition_counts(&self, now: Now) -> Vec<u32> {
        let of = |fresh_only: bool| -> BTreeSet<u32> {
            let heard = self.workers.values().filter(|heard| !fresh_only || !self.is_silent(heard, now));
            heard.filter_map(|heard| heard.said.queue.partition_count).collect()
        };
        let fresh = of(true);
        if fresh.is_empty() { of(false) } else { fresh }.into_iter().collect()
    }

    fn is_stopped(heard: &Heard) -> bool {
        heard.view.state == WorkerState::Stopped
    }

    fn is_silent(&self, heard: &Heard, now: Now) -> bool {
        // Its sidecar knows no more of it.
        if heard.view.state == WorkerState::Unknown {
            return true;
        }
        let age = now.since(heard.spoke_ms);
        let is_over = heard.view.session.remaining_ms.is_some_and(|left| left <= now.since(heard.asked_ms));
        age > self.settings.stale_after_ms || (age > WORD_IS_DUE_MS && is_over)
    }

    fn freshness_of(&self, heard: &Heard, now: Now) -> Freshness {
        match (self.is_silent(heard, now), now.since(heard.spoke_ms) > self.settings.lost_after_ms) {
            (false, _) => Freshness::Fresh,
            (true, false) => Freshness::Stale,
            (true, true) => Freshness::Lost,
        }
    }

    /// Whether every sidecar that should speak does: only then can "nobody" be said.
    fn is_covered(&self, now: Now) -> bool {
        let speaks = |heard: &Heard| Self::is_stopped(heard) || !self.is_silent(heard, now);
        let source = |s: &Source| s.worker.as_ref().and_then(|name| self.workers.get(name)).is_some_and(&speaks);
        !self.sources.is_empty() && self.sources.values().all(source)
    }

    fn freshness(&self, now: Now) -> Freshness {
        let living = self.workers.values().filter(|heard| !Self::is_stopped(heard));
        let best = living.map(|heard| self.freshness_of(heard, now) as u8).min();
        match best {
            _ if self.is_covered(now) && !self.is_warming_up() => Freshness::Fresh,
            Some(best) if best < Freshness::Lost as u8 => Freshness::Stale,
            _ if self.is_warming_up() => Freshness::Stale,
            _ => Freshness::Lost,
        }
    }

    fn worker(&self, heard: &Heard, now: Now) -> WorkerView {
        let freshness = self.freshness_of(heard, now);
        let said = &heard.view;
        let since = said.since.clone().filter(|_| !self.has_jumped(heard, now));
        let common = WorkerView {
            since,
            last_seen_at: rfc3339(heard.spoke_wall_ms),
            age_ms: now.since(heard.spoke_ms),
            freshness,
            ..said.clone()
        };
        if Self::is_stopped(heard) {
            return common;
        }
        if freshness != Freshness::Fresh {
            return WorkerView {
                state: WorkerState::Unknown,
                since: None,
                partitions_held: None,
                jobs_in_flight: None,
                session: WorkerSession { timeout_ms: said.session.timeout_ms, remaining_ms: None, basis: "none" },
                ..common
            };
        }
        let left = said.session.remaining_ms.map(|left| left.saturating_sub(now.since(heard.asked_ms)));
        let session = WorkerSession { remaining_ms: left, ..said.session.clone() };
        WorkerView { session, ..common }
    }
}

#[cfg(test)]
mod tests;
