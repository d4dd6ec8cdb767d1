//! What persons ask for, by rows that the owner of a partition looks at: a key that is to stand still, one job that is to be left
//! out. And what they do with dead letters. Each act is conditional, and is written down with who did it and why.

use keylane_producer::{JobKey, Offset, Partition};

use super::{DeadActed, DeadJob, DeadLetter, DeadOrder, StoppedKey};
use crate::error::Error;

/// What the owner of partitions is to heed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Keys that a person let go on, or wants to stand still.
    pub keys: Vec<(Partition, StoppedKey)>,
    /// Jobs to leave out, all that there are.
    pub skips: Vec<(Partition, Skip)>,
}

/// A job that is to be left out when its turn comes, with a person's reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Which.
    pub offset: Offset,
    /// Who said so, and why.
    pub text: Box<str>,
}

/// A key, or one job of it, that a person means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteerOrder {
    /// Whose.
    pub partition: Partition,
    /// Which key.
    pub key: JobKey,
    /// The person or program.
    pub who: String,
    /// The reason.
    pub why: String,
}

/// What became of a job that a person wants left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipping {
    /// Its owner leaves it out when its turn comes, unless it is done by then.
    Ordered,
    /// Somebody asked for that before.
    OrderedBefore,
    /// It was in the line of a key that stands still, and is a dead letter now.
    Buried,
    /// It is dealt with: done, or gone by a person's act. Nothing was changed.
    Done,
}

impl SteerOrder {
    pub(super) fn skipping(&self, offset: Offset) -> String {
        format!("key {} of partition {}: the job at offset {offset}", self.key, self.partition)
    }

    pub(super) fn pausing(&self) -> String {
        format!("key {} of partition {}", self.key, self.partition)
    }

    /// The reason that a dead letter gets of it.
    pub(super) fn words(&self) -> Box<str> {
        super::cut(&format!("{}: {}", self.who, self.why))
    }
}

/// What only persons ask of a store.
pub trait Steer {
    /// Has a key stand still: what waits and what comes goes to its line, until that is replayed. `false`: it stands still already.
    ///
    /// # Errors
    /// As [`StoreSession::write`](super::StoreSession::write).
    fn pause(&mut self, order: &SteerOrder) -> Result<bool, Error>;

    /// Has one job of a key left out: it becomes a dead letter.
    ///
    /// # Errors
    /// As [`StoreSession::write`](super::StoreSession::write).
    fn skip(&mut self, order: &SteerOrder, offset: Offset) -> Result<Skipping, Error>;

    /// Up to `limit` dead letters with a number above `after`, in the order in which they came.
    ///
    /// # Errors
    /// As [`StoreSession::write`](super::StoreSession::write).
    fn dead_letters(&mut self, after: u64, limit: usize) -> Result<Vec<DeadLetter>, Error>;

    /// One of them, with what was in it.
    ///
    /// # Errors
    /// As [`StoreSession::write`](super::StoreSession::write).
    fn dead_job(&mut self, number: u64) -> Result<Option<DeadJob>, Error>;

    /// Replays or drops one.
    ///
    /// # Errors
    /// As [`StoreSession::write`](super::StoreSession::write).
    fn act_on_dead(&mut self, order: &DeadOrder) -> Result<DeadActed, Error>;
}
