//! The group port: membership, assignment, generation, fetch, commit. Adapters: [`local`], the
//! embedded engine's group; [`kafka`], a consumer group.
//!
//! One OS thread polls and runs nothing else; everything else speaks to the group through its [`GroupControl`], from
//! other threads. Every adapter passes `group::conformance`. What the port promises:
//!
//! 1. Of two owners of a partition, the one whose [`Assignment`] carries the higher generation is the newer.
//! 2. Assigned partitions are paused: no record comes before [`GroupControl::resume`].
//! 3. A commit with a member or generation that is not current is refused and changes nothing.
//! 4. A commit that succeeds proves membership at its generation and restarts the session's time.
//! 5. Records of a partition come in offset order from where it was resumed; after `Lost`, or after the release that
//!    answers `Revoking`, none come.

use std::{collections::BTreeMap, time::Duration};

use keylane_producer::{Offset, Partition, StoredRecord, log::Bounds};

use crate::{
    error::Error,
    fence::{Generation, MemberId},
};

pub mod kafka;
pub mod local;

mod command;

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

/// The polling side. Lives on one thread.
pub trait Group: Send {
    /// Takes part in the group for up to `limit`: joins if it is not a member, keeps the session, takes the assignment,
    /// fetches. What happens goes to `sink` in order. Returns early when there is something to tell.
    ///
    /// # Errors
    /// [`Error::Unavailable`] is worth another poll; anything else ends the worker.
    fn poll(&mut self, limit: Duration, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error>;

    /// What other threads use.
    fn control(&self) -> std::sync::Arc<dyn GroupControl>;
}

/// What the rest of the worker asks of the group, from other threads than the polling one. Only `commit` and
/// `committed` wait for an answer; the others are carried out at the next turn of the poll, in order.
pub trait GroupControl: Send + Sync {
    /// Fetch this partition from here on; `from` decides, whatever was told before.
    fn resume(&self, partition: Partition, from: Offset);

    /// Fetch it again after a pause. All that was told since it was resumed is taken in below `from`, or on its way and follows
    /// on it: none of that need be told once more, but may be.
    fn go_on(&self, partition: Partition, from: Offset);

    /// Fetch nothing more of this partition until it is resumed. Records under way may still come.
    fn pause(&self, partition: Partition);

    /// The answer to [`GroupEvent::Revoking`]: these are drained, others may have them. Of what was not asked for,
    /// nothing is given up.
    fn release(&self, partitions: &[Partition]);

    /// Leave the group and join it anew, keeping nothing: after a claim was refused.
    fn rejoin(&self);

    /// Leave the group, giving up what is left at once. Polls after it do nothing.
    fn leave(&self);

    /// Commits offsets and waits for the group's answer, up to `limit`. May carry no offsets: then it is a proof only.
    ///
    /// # Errors
    /// [`CommitError`]; none of them is a reason to crash.
    fn commit(&self, commit: &Commit, limit: Duration) -> Result<(), CommitError>;

    /// The committed offsets of these partitions; `None` where there is none yet.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, Option<Offset>>, Error>;
}

/// Looking at a group without touching it: nothing of it changes, nobody is expelled, no session is restarted.
pub trait GroupWatch: Send {
    /// What the group looks like now.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the queue is gone; [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    fn overview(&mut self) -> Result<Overview, Error>;
}

/// A group as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// In the order of joining, if the group tells it.
    pub members: Vec<MemberOverview>,
    /// For each partition of the queue: the next offset that its owner must look at; `None` before the first commit.
    pub committed: BTreeMap<Partition, Option<Offset>>,
}

impl Overview {
    /// Whether nothing is left to do, given what the log says and was asked after the group: every partition is committed
    /// up to its end. For `--until-empty`.
    pub fn is_finished(&self, mut bounds: impl FnMut(Partition) -> Option<Bounds>) -> bool {
        self.committed.iter().all(|(&partition, committed)| {
            bounds(partition).is_some_and(|bounds| committed.unwrap_or(bounds.start).max(bounds.start) >= bounds.end)
        })
    }
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberOverview {
    /// Its display name.
    pub worker: Box<str>,
    /// How long it has been a member; `None`: not known (it joined before the machine was started, or Kafka).
    pub member_for: Option<Duration>,
    /// Its session ran out, and the next poll of any member expels it. A Kafka group expels by itself, so never there.
    pub expired: bool,
    /// How long until its session runs out if it gives no sign of life; `None`: it has, or is not told.
    pub session_left: Option<Duration>,
    /// How long its session is without a sign of life; `None`: not told.
    pub session: Option<Duration>,
    /// Since the group last knew it alive; at least that long if it was in an earlier boot of the machine.
    pub silent_for: Duration,
    /// What it owns, ascending.
    pub partitions: Vec<Partition>,
    /// Which of them it was asked to release, if the group tells.
    pub revoking: Vec<Partition>,
}

/// What a poll can tell.
#[derive(Debug)]
pub enum GroupEvent {
    /// Partitions that are this member's from now on.
    Assigned(Assignment),
    /// The group's number moved on under partitions that stay. Their fences stay good: claims are bound to the
    /// generation they were made in.
    MovedOn {
        /// This member's id.
        member: MemberId,
        /// The group's number now.
        generation: Generation,
    },
    /// The group wants these back: drain them, then [`GroupControl::release`], within the bound of the group. No more
    /// records of them come.
    Revoking(Vec<Partition>),
    /// These are gone without asking; others may own them already.
    Lost(Vec<Partition>),
    /// Records of one partition, ascending.
    Records {
        /// Whose.
        partition: Partition,
        /// Where this page begins: everything from here to `position` was delivered or does not exist. A desk that stands
        /// elsewhere (a resume that was overtaken by a new assignment) can tell, and takes nothing for a hole.
        from: Offset,
        /// Perhaps empty, if only the position moved (offsets may have gaps).
        records: Vec<StoredRecord>,
        /// Everything below it was delivered or does not exist.
        position: Offset,
        /// The end of the partition's log when this was fetched: what lag is counted from.
        end: Offset,
    },
    /// [`GroupControl::leave`] was carried out.
    Left,
}

/// A change of what this member owns.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// This member's id, never empty.
    pub member: MemberId,
    /// The number that orders owners, as it was when these partitions were assigned.
    pub generation: Generation,
    /// What comes, paused until resumed. Empty if the member joined and there is nothing for it yet.
    pub partitions: Vec<Partition>,
    /// An eager assignment: what is owned and not in `partitions` is lost.
    pub replaces_all: bool,
}

/// Offsets to commit, as the member and in the generation that they were earned in.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Who commits.
    pub member: MemberId,
    /// In which generation.
    pub generation: Generation,
    /// The next offset that each partition's owner must look at.
    pub offsets: Vec<(Partition, Offset)>,
}

/// Why a commit changed nothing, or may not have.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The group's number moved on. During a rebalance that is no loss: learn the new one, prove again.
    #[error("the group's generation moved on")]
    GenerationMovedOn,
    /// The group does not know this member (any more): everything it owned is lost.
    #[error("the group does not know this member")]
    UnknownMember,
    /// A partition in the commit is another member's.
    #[error("partition {0} belongs to another member")]
    NotOwner(Partition),
    /// The group did not answer in time: the outcome is unknown, read again.
    #[error("the group did not answer")]
    Unavailable(#[source] Error),
    /// Anything else; the worker ends.
    #[error("the commit failed for good")]
    Fatal(#[source] Error),
}
