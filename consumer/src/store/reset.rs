//! An operator's reset of the fence: everything older than now is fenced, and the queue's identity is pinned anew.
//!
//! Always safe: the epoch rises for all partitions in one transaction, so no token from before it passes any more, and no
//! session that was opened before it can claim. What it costs is a restart of the workers.
//!
//! | what changed under the store | what a reset does besides |
//! |---|---|
//! | the group began anew (its numbers are lower) | nothing: markers and stopped keys stay |
//! | more partitions | makes rows for the new ones; jobs that were put where the old count says still run there; newer jobs of a key that stands still wait in a line of their own, in its new place, until the older one is through |
//! | a queue made anew, another cluster | forgets markers, stopped keys and suspects: its offsets begin again |

use std::collections::HashSet;

use keylane_producer::{GroupName, JobKey, Partition, QueueIdentity, Timestamp, partition_of};

use super::identity::{Facts, former_counts};
use crate::error::{Detail, Error};

/// Who resets, and why: it is written down.
#[derive(Clone, Debug)]
pub struct ResetOrder {
    /// The person or program.
    pub who: String,
    /// The reason.
    pub why: String,
    /// Only look what it would do.
    pub dry_run: bool,
}

/// What a reset does, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Partitions whose rows are fenced.
    pub partitions: u32,
    /// Partitions that get a row now.
    pub added: u32,
    /// Facts of the identity that are pinned anew: which, from, to.
    pub changed: Vec<(&'static str, String, String)>,
    /// Whether offsets begin again, so that what is known about them is forgotten.
    pub forgets_progress: bool,
    /// Stopped keys that are forgotten with it.
    pub stopped_forgotten: u64,
    /// Keys that stand still and whose newer jobs are put elsewhere now: these wait there.
    pub moved: Vec<MovedKey>,
}

/// A key that stands still, and its place by the new count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedKey {
    /// Which.
    pub key: JobKey,
    /// Where its line is.
    pub from: Partition,
    /// Where its newer jobs are put.
    pub to: Partition,
}

impl MovedKey {
    /// Why it stands still in its new place.
    pub(super) fn reason(&self) -> String {
        format!("its older jobs wait in partition {}: replay or drop these first", self.from)
    }
}

/// One act of an operator, as it was written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: Box<str>,
    /// What.
    pub act: Box<str>,
    /// Why.
    pub why: Box<str>,
    /// What came of it.
    pub detail: Box<str>,
}

impl Reset {
    /// What a reset to this queue does. `stopped` are the keys that stand still.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the queue has fewer partitions than before.
    pub(super) fn plan(pinned: &Facts, queue: &QueueIdentity, stopped: &[(u32, Vec<u8>)]) -> Result<Self, Error> {
        let now = queue.partitions.0.get();
        if now < pinned.partitions {
            return Err(Error::Invalid(
                Detail::new(format!(
                    "queue '{}' has {now} partitions, fewer than the {} it had",
                    queue.name, pinned.partitions
                ))
                .remedy("jobs of the partitions that are gone are gone too: use a store of its own, or another group"),
            ));
        }
        let facts = [
            ("cluster", pinned.cluster.clone(), queue.cluster.to_string()),
            ("incarnation", pinned.incarnation.clone(), queue.incarnation.0.to_string()),
            ("partition count", pinned.partitions.to_string(), now.to_string()),
            ("key hash", pinned.hash.clone(), queue.hash.as_str().to_owned()),
        ];
        let changed: Vec<_> = facts.into_iter().filter(|(_, was, is)| was != is).collect();
        let forgets_progress = changed.iter().any(|(fact, ..)| matches!(*fact, "cluster" | "incarnation"));
        let mut moved = Vec::new();
        for (from, key) in stopped.iter().filter(|_| !forgets_progress) {
            let (from, to) = (Partition(*from), partition_of(key, queue.partitions));
            if from != to {
                let corrupt = |e| Error::Corrupt(Detail::new("a stopped key in the store is no key").because(e));
                moved.push(MovedKey { key: JobKey::try_from(key.as_slice()).map_err(corrupt)?, from, to });
            }
        }
        Ok(Self {
            partitions: pinned.partitions,
            added: now - pinned.partitions,
            changed,
            forgets_progress,
            stopped_forgotten: if forgets_progress {
                stopped.iter().map(|(_, key)| key).collect::<HashSet<_>>().len() as u64
            } else {
                0
            },
            moved,
        })
    }

    /// The counts by which jobs were placed before, as they are kept: `3,6`.
    pub(super) fn former(&self, pinned: &Facts) -> String {
        let mut former = former_counts(&pinned.former);
        if self.forgets_progress {
            former.clear();
        } else if self.added > 0 {
            former.push(pinned.partitions);
        }
        former.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    /// One sentence of it, to be written down.
    pub(super) fn detail(&self) -> String {
        let changed: Vec<String> =
            self.changed.iter().map(|(fact, was, is)| format!("{fact}: {was} -> {is}")).collect();
        format!(
            "{} partitions fenced, {} added, {}; {}",
            self.partitions,
            self.added,
            if self.forgets_progress { "progress forgotten" } else { "progress kept" },
            if changed.is_empty() { "same queue".to_owned() } else { changed.join(", ") }
        )
    }
}

/// Why nothing can be reset.
pub(super) fn nothing_to_reset(queue: &QueueIdentity, group: &GroupName) -> Error {
    Error::NotFound(
        Detail::new(format!("the store has no fence for queue '{}' and group '{group}'", queue.name))
            .remedy("check --store, --queue and --group; the first worker makes the fence"),
    )
}
