//! Dead letters: jobs that left their queue alone because they could not be done, or because a person had them skipped. Each is
//! kept as it was in the log, with why it left; a person replays or drops it.

use keylane_producer::{Attempt, JobId, JobKey, Offset, Partition, Record, Timestamp};

use super::StopReason;

/// A dead letter, without what was in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Names it in the store; never given a second time.
    pub number: u64,
    /// Where it was.
    pub partition: Partition,
    /// Its place in the log.
    pub offset: Offset,
    /// Its key.
    pub key: JobKey,
    /// Its id.
    pub id: JobId,
    /// How often it was tried.
    pub attempts: Attempt,
    /// Why it left.
    pub reason: StopReason,
    /// When.
    pub at: Timestamp,
    /// Bytes of key, payload and headers.
    pub size: u64,
    /// It is of an earlier making of the queue: its place is another job's now.
    pub outlived: bool,
}

/// What a person wants done with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadOrder {
    /// Which.
    pub number: u64,
    /// What to do.
    pub act: DeadAct,
    /// The person or program.
    pub who: String,
    /// The reason.
    pub why: String,
}

/// The two ways out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadAct {
    /// It goes into its key's line by its old place, and that runs before anything newer of the key.
    Replay,
    /// It is forgotten.
    Drop,
}

impl DeadAct {
    /// As it is written down.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "dead replay",
            Self::Drop => "dead drop",
        }
    }
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadActed {
    /// Done as asked.
    Done,
    /// It is in its key's line, and runs when that is replayed: the key stands still for another reason.
    InLine,
    /// There is no such dead letter any more.
    Gone,
    /// It cannot be replayed: the queue was made anew since, and its place is another job's.
    Outlived,
}

/// A dead letter with the record that it was, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadJob {
    /// All else.
    pub letter: DeadLetter,
    /// The record.
    pub record: Record,
}

impl DeadLetter {
    pub(super) fn detail(&self) -> String {
        let (number, id, offset) = (self.number, self.id.as_str(), self.offset);
        format!("dead letter {number}: job {id}, key {} of partition {}, offset {offset}", self.key, self.partition)
    }
}
