//! What the lanes ask for.

use keylane_producer::{JobKey, Offset, Partition};

#[cfg(doc)]
use super::Lanes;
use super::{Tenure, Ticket};

/// What the world outside has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneAction {
    /// The partition is full: fetch no more of it.
    Pause(Partition),
    /// There is room again.
    Resume(Partition),
    /// Read these records again and give them to [`Lanes::reread`].
    Reread {
        /// Whose.
        partition: Partition,
        /// For which tenure.
        tenure: Tenure,
        /// For which lane.
        key: JobKey,
        /// Ascending.
        offsets: Vec<Offset>,
        /// How many of them, from the first on, are in the key's line and not to be asked of the log.
        from_line: usize,
    },
    /// Read which jobs are in the key's line and give them to [`Lanes::line`].
    Return {
        /// Whose.
        partition: Partition,
        /// For which tenure.
        tenure: Tenure,
        /// Which.
        key: JobKey,
    },
}

impl LaneAction {
    pub(super) fn partition(&self) -> Partition {
        match self {
            Self::Pause(partition)
            | Self::Resume(partition)
            | Self::Reread { partition, .. }
            | Self::Return { partition, .. } => *partition,
        }
    }
}

/// A job to start now.
#[derive(Debug, PartialEq, Eq)]
pub struct Start<J> {
    /// Its name from here on.
    pub ticket: Ticket,
    /// Its lane.
    pub key: JobKey,
    /// The job.
    pub job: J,
}
