//! The JSON contract `keylane.ownership-snapshot/v1`: who holds what, for whoever watches. Plain data.
//!
//! 1. Every field is named here and in `docs/schemas/snapshot.schema.json`, which allows no other.
//! 2. No field holds a token, or anything that one could be guessed from: no generation, claim, member id, offset or
//!    payload, and no key unless whoever runs the worker says so ([`PartitionView::keys`]).
//!    [`PartitionView::token_present`] says that the owner holds a claim, and nothing more.
//! 3. Unknown is `null` with a reason, never 0.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// The value of [`Snapshot::schema`].
pub const SCHEMA: &str = "keylane.ownership-snapshot/v1";

const LONGEST_NAME: usize = 249;

/// A word of the contract; never text from outside.
pub type Word = &'static str;

/// Who holds what, as one observer saw it at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Always [`SCHEMA`].
    #[serde(deserialize_with = "schema")]
    pub schema: Word,
    /// Whether one worker speaks for itself, or somebody who sees all of them.
    pub scope: Scope,
    /// RFC 3339, UTC, three decimals.
    pub observed_at: String,
    /// Who looked.
    pub observer: Observer,
    /// At what.
    pub queue: QueueView,
    /// Whether this can be acted on.
    pub freshness: Freshness,
    /// After this long without word, in milliseconds, it is stale.
    pub stale_after_ms: u64,
    /// The workers, by name.
    pub workers: Vec<WorkerView>,
    /// The partitions, ascending.
    pub partitions: Vec<PartitionView>,
    /// Counts by state.
    pub totals: Totals,
    /// What a person should know, in sentences.
    pub notices: Vec<Notice>,
}

/// Whose view it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One worker's, of itself.
    Worker,
    /// Of all workers of the group.
    Group,
}

/// Who looked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observer {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// At which queue and group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueView {
    /// The broker.
    pub cluster: String,
    /// The queue's name.
    pub topic: String,
    /// The group's name.
    pub group: String,
    /// `None`: not known.
    pub partition_count: Option<u32>,
}

/// How old the word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Freshness {
    /// Young enough to act on.
    Fresh,
    /// Older than `stale_after_ms`.
    Stale,
    /// So old that the worker may be gone.
    Lost,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerView {
    /// Its name.
    pub worker: String,
    /// What it does.
    pub state: WorkerState,
    /// Since when.
    pub since: Option<String>,
    /// Its last word.
    pub last_seen_at: String,
    /// How long ago that was, in milliseconds.
    pub age_ms: u64,
    /// The same in a word.
    pub freshness: Freshness,
    /// How many partitions it holds.
    pub partitions_held: Option<u32>,
    /// How many jobs it runs.
    pub jobs_in_flight: Option<u64>,
    /// How long its membership lasts without further word.
    pub session: WorkerSession,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// It has not joined yet.
    Starting,
    /// It takes part.
    Running,
    /// It was asked to stop.
    Draining,
    /// It stopped in order.
    Stopped,
    /// Nobody knows.
    Unknown,
}

/// A worker's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerSession {
    /// Its length in milliseconds.
    pub timeout_ms: Option<u64>,
    /// What is left of it.
    pub remaining_ms: Option<u64>,
    /// What that is known from: `heartbeat`, `lease` or `none`.
    #[serde(deserialize_with = "basis")]
    pub basis: Word,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionView {
    /// Its number.
    pub partition: u32,
    /// What it is.
    pub state: PartitionState,
    /// Who holds it; only for `held`, `draining` and `expired`.
    pub worker: Option<String>,
    /// Two who both say that they hold it; only for `contested`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claimants: Vec<String>,
    /// Who held it last, if that is known and nobody does now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_known_worker: Option<String>,
    /// Since when it is in this state.
    pub since: Option<String>,
    /// What is left of the holder's session, in milliseconds.
    pub session_remaining_ms: Option<u64>,
    /// Jobs not finished.
    pub lag: Lag,
    /// When a job was last finished.
    pub last_completed_at: Option<String>,
    /// Jobs that run now.
    pub jobs_in_flight: Option<u64>,
    /// How old the word about it is, in milliseconds.
    pub age_ms: Option<u64>,
    /// Whether the holder has a claim in the store; `None`: not known.
    pub token_present: Option<bool>,
    /// Keys that are parked; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_parked: Option<u64>,
    /// Parked keys, then hot ones, at most [`MOST_KEYS`]: none unless its worker was told to show them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyView>,
}

/// A key that is parked, or that many jobs have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyView {
    /// Its text, cut; or `#` and a part of its hash.
    pub shown: String,
    /// Whether it is parked.
    pub parked: bool,
    /// Its jobs that wait; `None`: not known.
    pub waiting: Option<u64>,
}

/// Of one partition.
pub const MOST_KEYS: usize = 20;
/// Of all partitions together: a snapshot stays below the largest answer that is read.
pub const MOST_KEYS_OF_ALL: usize = 1_000;
/// In characters.
pub const LONGEST_KEY: usize = 80;

/// Leaves out what is too much: of each partition as many as all can have, then of the first ones.
pub fn bound_keys(partitions: &mut [PartitionView]) {
    let with = |each: usize| partitions.iter().map(|p| p.keys.len().min(each)).sum::<usize>();
    let each = (1..=MOST_KEYS).rev().find(|&each| with(each) <= MOST_KEYS_OF_ALL).unwrap_or(1);
    let mut left = MOST_KEYS_OF_ALL;
    for partition in partitions {
        partition.keys.truncate(each.min(left));
        left -= partition.keys.len();
    }
}

/// What a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionState {
    /// One worker holds it.
    Held,
    /// Its worker finishes what runs and gives it back.
    Draining,
    /// Its worker let the session run out.
    Expired,
    /// Nobody holds it.
    Absent,
    /// Nobody can say.
    Unknown,
    /// Two say that they hold it.
    Contested,
}

impl PartitionState {
    /// The word that is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Draining => "draining",
            Self::Expired => "expired",
            Self::Absent => "absent",
            Self::Unknown => "unknown",
            Self::Contested => "contested",
        }
    }
}

/// Jobs not finished, or why that is not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lag {
    /// How many.
    pub jobs: Option<u64>,
    /// When that was counted.
    pub as_of: Option<String>,
    /// Why it is not known.
    pub why_unknown: Option<WhyUnknown>,
}

/// Why lag is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyUnknown {
    /// The group has finished nothing of the partition yet.
    NoCommitYet,
    /// The partition has no leader.
    NoLeader,
    /// The observer may not ask.
    NotPermitted,
    /// Its worker did not say.
    NotReported,
}

/// Counts over all partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Partitions in that state.
    pub held: u32,
    /// Partitions in that state.
    pub draining: u32,
    /// Partitions in that state.
    pub expired: u32,
    /// Partitions in that state.
    pub absent: u32,
    /// Partitions in that state.
    pub unknown: u32,
    /// Partitions in that state.
    pub contested: u32,
    /// Over the partitions whose lag is known; `None` if none is.
    pub lag_jobs: Option<u64>,
    /// How many those are.
    pub lag_partitions_known: u32,
}

impl Totals {
    /// Counts.
    pub fn of(partitions: &[PartitionView]) -> Self {
        let mut totals = Self::default();
        for partition in partitions {
            *match partition.state {
                PartitionState::Held => &mut totals.held,
                PartitionState::Draining => &mut totals.draining,
                PartitionState::Expired => &mut totals.expired,
                PartitionState::Absent => &mut totals.absent,
                PartitionState::Unknown => &mut totals.unknown,
                PartitionState::Contested => &mut totals.contested,
            } += 1;
            if let Some(jobs) = partition.lag.jobs {
                totals.lag_jobs = Some(totals.lag_jobs.unwrap_or(0) + jobs);
                totals.lag_partitions_known += 1;
            }
        }
        totals
    }
}

/// A sentence for people, with a code for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notice {
    /// Lower-case letters, digits and underscores.
    pub code: String,
    /// At most 400 characters; made from enums, names and numbers only.
    pub text: String,
}

/// Whether the contract allows it as a name.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'/' | b':' | b'-');
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

/// Whether the contract allows it as a key: nothing that could act on a terminal or turn a line around.
pub(crate) fn is_key(shown: &str) -> bool {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
            || matches!(c, '\u{e0000}'..='\u{e007f}')
    };
    (1..=LONGEST_KEY).contains(&shown.chars().count()) && !shown.chars().any(acts)
}

fn schema<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    one_of(from, &[SCHEMA])
}

fn basis<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    one_of(from, &["heartbeat", "lease", "none"])
}

fn one_of<'de, D: Deserializer<'de>>(from: D, words: &[Word]) -> Result<Word, D::Error> {
    let said = String::deserialize(from)?;
    let known = words.iter().find(|&&word| word == said);
    known.copied().ok_or_else(|| D::Error::custom("a word that the contract does not know"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::testing::{AT, View};

    fn with(keys: &[usize]) -> Vec<PartitionView> {
        let mut partitions = View::at(AT).held(&vec!["w"; keys.len()]).snapshot().partitions;
        let key = KeyView { shown: "k".into(), parked: true, waiting: None };
        partitions.iter_mut().zip(keys).for_each(|(partition, &count)| partition.keys = vec![key.clone(); count]);
        bound_keys(&mut partitions);
        partitions
    }

    fn left(keys: &[usize]) -> Vec<usize> {
        with(keys).iter().map(|partition| partition.keys.len()).collect()
    }

    #[test]
    fn keys_are_bounded_for_each_partition_and_for_all() {
        assert_eq!(left(&[0, 3, 20, 25]), [0, 3, 20, 20]);
        let many = left(&[20; 100]);
        assert_eq!(many, [10; 100], "as many of each");
        let one_full = left(&[&[20; 1][..], &[2; 499]].concat());
        assert_eq!((one_full[0], one_full[499]), (2, 2));
        let thousands = left(&[1; 4_096]);
        assert_eq!((thousands.iter().sum::<usize>(), thousands[999], thousands[1_000]), (MOST_KEYS_OF_ALL, 1, 0));
    }

    #[test]
    fn a_snapshot_with_as_many_keys_as_it_may_have_is_read_in_one_answer() {
        let mut partitions = with(&[1; 4_096]);
        for key in partitions.iter_mut().flat_map(|partition| &mut partition.keys) {
            // As long in JSON as 80 characters can be that are let through.
            key.shown = "\u{10ffff}".repeat(LONGEST_KEY);
        }
        let snapshot = Snapshot { partitions, ..View::at(AT).snapshot() };
        let text = serde_json::to_vec(&snapshot).unwrap();
        assert!(text.len() < crate::intake::LARGEST_ANSWER, "{}", text.len());
        assert_eq!(crate::intake::read(&text), Ok(snapshot));
    }
}
