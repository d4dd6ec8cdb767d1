//! What the owner of a partition tells people of it while something of it waits: which keys wait for another try, which keys take
//! its hands, and why it stands still if it does. Written every few seconds, under the fence, and only while there is something to
//! tell; gone with its claim. Nothing decides by it.

use keylane_producer::Timestamp;
use serde::{Deserialize, Serialize};

/// Lists in a note have at most so many rows.
pub const MAX_NOTED: usize = 50;

/// The note of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// It has work, and nothing of it was done for as long as the owner's settings allow.
    pub stall: Option<NotedStall>,
    /// Keys whose first job failed and waits, those with the most tries first.
    pub retrying: Vec<NotedRetry>,
    /// Keys with the most jobs waiting, then those that took the most time, without repetition.
    pub hot: Vec<HotKey>,
}

/// Since when a partition stands still, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedStall {
    /// Milliseconds since 1970 UTC.
    pub since: i64,
    /// Jobs that are not done.
    pub waiting: u64,
    /// As far as its owner knows.
    pub cause: String,
}

/// A key that waits for another try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotedRetry {
    /// Text, or `hex:` and the bytes.
    pub key: String,
    /// Which of its jobs failed.
    pub offset: u64,
    /// Tries so far, under this owner.
    pub attempts: u32,
    /// When the next one begins; milliseconds since 1970 UTC.
    pub next_try: i64,
    /// The handler's words.
    pub reason: String,
}

/// A key that many jobs have, or that takes much time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotKey {
    /// Text, or `hex:` and the bytes.
    pub key: String,
    /// Its jobs that the owner knows of and that are not done.
    pub waiting: u64,
    /// What its handler runs took of late, estimated; milliseconds. Halved each five minutes.
    pub spent_ms: u64,
}

/// A note as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteRead {
    /// When it was written.
    pub at: Timestamp,
    /// What it says.
    pub note: Note,
}

impl Note {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.stall.is_none() && self.retrying.is_empty() && self.hot.is_empty()
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A note of another version that cannot be read is none: it is for people only.
    pub(super) fn read(at: i64, text: &str) -> Option<NoteRead> {
        serde_json::from_str(text).ok().map(|note| NoteRead { at: Timestamp(at), note })
    }
}
