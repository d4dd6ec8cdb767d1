//! The store port: the claim, and the fenced transaction. Adapters: [`sqlite`], [`postgres`].
//!
//! The store decides. A worker claims a partition with (epoch, generation, owner) and the store answers with a claim
//! number that it mints itself; every write must match all three in the partition's row, in the transaction of the
//! write. Every adapter passes `store::conformance`. What the port promises:
//!
//! 1. **A claim** is granted only if `row.generation < mine`, or it is equal and the row's owner is me. Never `>=`: two
//!    claimants with an equal generation must not take the row from each other in turns.
//! 2. **No stale write lands**: after a claim was granted, no write with an older token commits for that partition, also
//!    for keys that the new owner has not touched.
//! 3. **Once**: the marker of a job and its effect commit together; a write for a job whose marker is there applies
//!    nothing and says [`Written::AlreadyDone`]. So a write whose outcome is unknown may be tried again.
//! 4. **One job's effect fails alone**: it runs in a savepoint of its own; the others of the transaction commit.
//! 5. **Markers stay small**: ranges of offsets, joined below the watermark.
//! 6. **A parked job is in one place**: its marker and its place in its key's line commit together, and so do its effect
//!    and its way out of the line.

use bytes::Bytes;
use keylane_producer::{
    Attempt, GroupName, Job, JobId, JobKey, Offset, Partition, PartitionCount, QueueIdentity, Timestamp,
};
use std::sync::Arc;

use crate::{
    error::Error,
    fence::{Fence, FenceToken, Fenced, Generation, Owner, Pass},
};

mod dead;
mod fence_rows;
mod identity;
mod line;
mod note;
mod plan;
pub mod postgres;
pub mod ranges;
mod refused;
mod reset;
mod results;
pub mod rule;
pub mod sqlite;
mod steer;

pub use dead::{DeadAct, DeadActed, DeadJob, DeadLetter, DeadOrder};
pub use fence_rows::{FenceRow, TokenNumbers};
pub use line::{Line, LineAct, LineOrder, ParkedJob};
pub use note::{HotKey, MAX_NOTED, Note, NoteRead, NotedRetry, NotedStall};
pub use reset::{Act, MovedKey, Reset, ResetOrder};
pub use results::{ResultRow, ResultsOf};
pub use steer::{Skip, Skipping, Steer, SteerOrder, Steering};

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;

/// A place where claims are held and effects are written. Cheap to clone and share; sessions do the work.
pub trait FencedStore: Clone + Send + Sync + 'static {
    /// What an effect writes with: the fenced transaction, in a savepoint of its own.
    type Tx<'t>;
    /// One connection.
    type Session: StoreSession<Self>;
    /// Over how many connections a worker writes if its settings do not say: 1 for a store that has one writer at a time.
    const CONNECTIONS: usize = 1;

    /// Opens a connection for one queue and group. The first one ever pins the queue's identity and makes a fence row
    /// for each partition; later ones compare.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the pinned identity differs: which fact, and what to do about it. [`Error::Unavailable`],
    /// [`Error::Refused`], [`Error::Corrupt`].
    fn open(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Self::Session, Error>;
}

/// One connection to the store, bound to a queue and group.
pub trait StoreSession<S: FencedStore>: Send {
    /// Partition counts that the queue had before an operator accepted more: jobs of that time lie where they say.
    fn former_counts(&self) -> Vec<PartitionCount> {
        Vec::new()
    }

    /// Raises the partition's row to this claimant and reads what is done. Safe to call again with the same candidate
    /// when the answer was lost.
    ///
    /// # Errors
    /// [`ClaimError::Refused`] changes nothing.
    fn claim(&mut self, candidate: &Candidate) -> Result<Claimed, ClaimError>;

    /// One transaction for all of it: checks each partition's row, applies what is not done yet, sets the markers.
    /// A partition that is fenced is left out and says so; the others commit. On an error nothing is known to have
    /// committed and `batch` is whole: it may be tried again as long as the fences permit.
    ///
    /// # Errors
    /// [`Error::Unavailable`] (busy, full, away) is worth another try; never the job's fault.
    fn write(&mut self, batch: &mut [PartitionWrite<S>]) -> Result<Vec<PartitionWritten>, Error>;

    /// Notes that this owner gives the partition up alive, so that the next one need not suspect any job of having killed
    /// it. Deaths that were counted before stay. Fenced like a write.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn hand_over(&mut self, fence: &Fence) -> Result<Result<(), Fenced>, Error>;

    /// Notes which jobs run from now on, these and no others, while a job that kills its worker is looked for: where an
    /// owner ended without handing over. If this owner dies too, the next claim finds those of them that are not done, with
    /// one death more. Fenced like a write.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn starting(&mut self, fence: &Fence, running: &[Offset]) -> Result<Result<(), Fenced>, Error>;

    /// Which of these claims the store does not know any more: the row is a newer claim's or was reset, or it went back to an
    /// older state with the store. A look without a lock. Claims that may not be used now are not looked at.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn unknown(&mut self, claims: &[Arc<Fence>]) -> Result<Vec<Arc<Fence>>, Error> {
        let _ = claims;
        Ok(Vec::new())
    }

    /// What persons want of these partitions: keys that were released and are not through their lines yet, keys that are to
    /// stand still, jobs to leave out.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn steering(&mut self, partitions: &[Partition]) -> Result<Steering, Error>;

    /// Tells people of the partition, in place of what was told before; `None`: there is nothing to tell. Fenced like a write.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn note(&mut self, fence: &Fence, note: Option<&Note>) -> Result<Result<(), Fenced>, Error>;

    /// Whether a key stopped or a person acted since the last call on this session: a cheap hint to look again.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn changed(&mut self) -> Result<bool, Error>;

    /// Rows for people: who holds what, what stopped. For `status` and `fence show`.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn overview(&mut self) -> Result<Vec<PartitionOverview>, Error>;

    /// The line of a stopped key: which jobs wait in it, in order. No row: an empty line.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn line(&mut self, partition: Partition, key: &JobKey) -> Result<Line, Error>;

    /// These jobs of a line, as they were in the log; those that are not in it any more are left out.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn parked(&mut self, partition: Partition, key: &JobKey, offsets: &[Offset]) -> Result<Vec<ParkedJob>, Error>;

    /// Replays or drops a line, if it still is what was read, and writes down who did it and why. `false`: it changed
    /// meanwhile, and nothing was done.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn act_on_line(&mut self, order: &LineOrder) -> Result<bool, Error>;

    /// Replays a line whose row says what was read, whatever was put at its end since.
    ///
    /// # Errors
    /// As [`StoreSession::write`].
    fn release_key(&mut self, partition: Partition, key: &JobKey, version: u64) -> Result<bool, Error> {
        self.act_on_line(&LineOrder::replay(partition, key.clone(), version))
    }
}

/// What a claim is asked with.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Which partition.
    pub partition: Partition,
    /// As read when the partition was assigned, bound to it; never "the current one".
    pub generation: Generation,
    /// Fresh for each claim.
    pub owner: Owner,
    /// For people only; decides nothing.
    pub worker: Box<str>,
    /// What the group has committed. It counts once, at the first claim of the partition that this store sees: then everything
    /// below it is written down as done. A store that was claimed in before and knows less was restored from an older copy,
    /// and what it lost runs again.
    pub begin: Option<Offset>,
}

impl Candidate {
    /// The last offset that a first claim writes down as done, if it writes down any: for an adapter of the port.
    pub(crate) fn begins_behind(&self, known: &ranges::Ranges, anew: bool) -> Option<u64> {
        let says = !anew && known.iter().next().is_none();
        self.begin.filter(|_| says).and_then(|begin| begin.0.checked_sub(1))
    }
}

/// A granted claim.
#[derive(Debug)]
pub struct Claimed {
    /// What every write must match.
    pub token: FenceToken,
    /// What handlers' own transactions show to the store, if it takes that from them.
    pub pass: Option<Pass>,
    /// What is done already: skip exactly this.
    pub done: Progress,
    /// Keys that stopped: those that a person released too, if they are not through their lines.
    pub stopped: Vec<StoppedKey>,
    /// Jobs that a person wants left out.
    pub skips: Vec<Skip>,
    /// Whether the last owner handed over; if not, a job of its may have killed it.
    pub clean: bool,
    /// Jobs that were running when an owner died, with how many deaths each.
    pub suspects: Vec<(Offset, u32)>,
}

/// Which offsets of a partition are done: all below `floor`, and the ranges above it (ascending, apart, inclusive).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Everything below it is done.
    pub floor: u64,
    /// First and last of each range above the floor.
    pub ranges: Vec<(u64, u64)>,
    /// Whether the fence was reset for another making of the queue: what the group has committed may be of the earlier one,
    /// also when it was committed since, and does not say where to begin.
    pub anew: bool,
}

/// Why a claim was not granted.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The row is not mine to take; nothing changed.
    #[error("the claim was refused: {0}")]
    Refused(ClaimRefused),
    /// The store did not answer.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// What the row said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ClaimRefused {
    /// The row has a higher generation: I am stale, or the group began anew at 1. A commit tells which.
    #[error("the row is ahead of this claim")]
    RowAhead,
    /// The row has my generation and another owner.
    #[error("another claimant of the same generation was first")]
    EqualGeneration,
    /// The row's epoch is another than the one this session was opened with: an operator reset the fence.
    #[error("the fence was reset")]
    OtherEpoch,
    /// The row is closed: an operator or a migration ended this partition.
    #[error("the partition is closed")]
    Closed,
}

/// What to write for one partition.
pub struct PartitionWrite<S: FencedStore> {
    /// The claim it is written under.
    pub fence: Arc<Fence>,
    /// In offset order for each key.
    pub jobs: Vec<JobWrite<S>>,
    /// Records that are no jobs of this partition: each gets its marker and a row in quarantine.
    pub quarantined: Vec<Quarantined>,
    /// Everything below it is finished: markers below are joined into one.
    pub watermark: Offset,
    /// Stopped keys that were released and whose lines are empty: their rows go, if the version still matches.
    pub resumed: Vec<(JobKey, u64)>,
    /// Jobs that all lines of the partition and its dead letters together may hold: beyond it whatever needs a place there is answered with
    /// [`Written::NoRoom`]. Default [`MAX_PARKED`].
    pub line_room: u64,
}

/// One finished job.
pub struct JobWrite<S: FencedStore> {
    /// Its place.
    pub offset: Offset,
    /// The job, for its id and key.
    pub job: Arc<Job>,
    /// Which try finished it.
    pub attempt: Attempt,
    /// What to write beside the marker.
    pub write: Write<S>,
}

/// A record that cannot be run: no key, a key of another partition, headers that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its place; the record itself stays in the log.
    pub offset: Offset,
    /// Its key, as it was.
    pub key: Option<Bytes>,
    /// Which rule it broke.
    pub reason: Box<str>,
}

/// What a finished job leaves in the store.
pub enum Write<S: FencedStore> {
    /// The marker alone.
    Nothing,
    /// A function of the handler's, run in a savepoint of the fenced transaction.
    Effect(Effect<S>),
    /// A row in the results table: JSON text.
    Result(Bytes),
    /// The job could not be done: its key stops here, and it is the first in the key's line.
    Stop(StopReason),
    /// Its key stands still: the job goes to the end of the key's line.
    Park,
    /// The job could not be done, or is not to be: it leaves alone, as a dead letter, and the next of its key may run.
    Bury(StopReason),
}

/// Writes a job's effect with the fenced transaction. It may be called again if the transaction had to begin anew (the
/// disk was full, the store went away), so it must not use things up. It must not end the transaction.
pub struct Effect<S: FencedStore>(pub(crate) Box<EffectFn<S>>);

type EffectFn<S> = dyn for<'t> FnMut(&mut <S as FencedStore>::Tx<'t>) -> Result<(), EffectError> + Send;

impl<S: FencedStore> Effect<S> {
    /// From a function.
    pub fn new(effect: impl for<'t> FnMut(&mut S::Tx<'t>) -> Result<(), EffectError> + Send + 'static) -> Self {
        Self(Box::new(effect))
    }
}

/// Whatever an effect failed with: a constraint, a missing table. It fails its own job only.
pub type EffectError = Box<dyn std::error::Error + Send + Sync>;

/// What is told of an effect that panicked.
fn panicked(panic: &(dyn std::any::Any + Send)) -> EffectError {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the effect panicked: {}", text.unwrap_or("no message")).into()
}

/// Why a key stopped, or a job left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopReason {
    /// The rule that stopped it.
    pub rule: StopRule,
    /// The handler's own words, cut to [`MAX_REASON_BYTES`].
    pub text: Box<str>,
}

/// Longest reason that is kept, in bytes; longer ones are cut with a mark.
pub const MAX_REASON_BYTES: usize = 4_096;

/// The text, or as much of it as fits [`MAX_REASON_BYTES`] with a mark where it was cut.
pub fn cut(text: &str) -> Box<str> {
    const MARK: &str = "… (cut)";
    if text.len() <= MAX_REASON_BYTES {
        return text.into();
    }
    let most = MAX_REASON_BYTES - MARK.len();
    let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}{MARK}", &text[..end]).into()
}

/// Which rule stopped a key, or made a job leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopRule {
    /// All tries were used up.
    OutOfAttempts,
    /// It failed for longer than it may.
    OutOfTime,
    /// The handler rejected the job.
    Rejected,
    /// Workers died while it ran.
    WorkerDied,
    /// A person wants the key to stand still.
    Paused,
    /// A person wanted the job left out.
    Skipped,
}

impl StopRule {
    /// The word that is stored and shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OutOfAttempts => "out_of_attempts",
            Self::OutOfTime => "out_of_time",
            Self::Rejected => "rejected",
            Self::WorkerDied => "worker_died",
            Self::Paused => "paused",
            Self::Skipped => "skipped",
        }
    }

    /// Reads that word back.
    pub fn parse(word: &str) -> Option<Self> {
        let all = [Self::OutOfAttempts, Self::OutOfTime, Self::Rejected, Self::WorkerDied, Self::Paused, Self::Skipped];
        all.into_iter().find(|rule| rule.as_str() == word)
    }
}

/// Jobs that the lines of one partition, and its dead letters, may hold together.
pub const MAX_PARKED: u64 = 100_000;

/// A key that stands still, with its jobs in a line in the store, until a person replays or drops it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedKey {
    /// The key.
    pub key: JobKey,
    /// Its job that could not be done; 0 if a person paused it.
    pub offset: Offset,
    /// That job's id, if there is one.
    pub id: Option<JobId>,
    /// How often it was tried.
    pub attempts: Attempt,
    /// Why it stopped.
    pub reason: StopReason,
    /// Since when.
    pub since: Timestamp,
    /// Raised at each change of the row; a release names the one it read.
    pub version: u64,
    /// A person let it go on: it is not through its line yet.
    pub released: bool,
    /// Jobs in its line, the one that could not be done among them.
    pub jobs: u64,
    /// The last of them.
    pub last: Offset,
}

/// What a write did in one partition.
#[derive(Debug)]
pub struct PartitionWritten {
    /// Which.
    pub partition: Partition,
    /// For each job in order, or why nothing of the partition was written.
    pub jobs: Result<Vec<Written>, Fenced>,
}

/// What a write did with one job.
#[derive(Debug)]
pub enum Written {
    /// Marker and effect are committed.
    Applied,
    /// The marker was there: an earlier write had done it.
    AlreadyDone,
    /// The effect failed and was rolled back, alone; there is no marker.
    EffectFailed(EffectError),
    /// The key is stopped, and the job is in its line.
    Stopped,
    /// The job is in its key's line.
    Parked,
    /// The job is a dead letter.
    Buried,
    /// The lines are full: nothing was written for the job.
    NoRoom,
}

/// A partition as the store knows it, for people. No token in it.
#[derive(Clone, Debug)]
pub struct PartitionOverview {
    /// Which.
    pub partition: Partition,
    /// Who claimed it last; `None`: nobody yet.
    pub worker: Option<Box<str>>,
    /// When.
    pub claimed_at: Option<Timestamp>,
    /// Whether the row is closed to claims.
    pub closed: bool,
    /// Whether that worker gave the partition back in order: then it claims it no more.
    pub handed_over: bool,
    /// What is done.
    pub done: Progress,
    /// Keys that stand still, also those released but not running yet.
    pub stopped: Vec<StoppedKey>,
    /// Writes of stale owners that the row refused.
    pub refused: Vec<RefusedWrites>,
    /// Records that could not be run, and why.
    pub quarantined: u64,
    /// Dead letters.
    pub dead: u64,
    /// What its owner tells people of it.
    pub note: Option<NoteRead>,
}

/// Writes that a stale worker tried and the row refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedWrites {
    /// The stale worker.
    pub worker: Box<str>,
    /// Transactions refused.
    pub writes: u64,
    /// Jobs in them.
    pub jobs: u64,
    /// The last one.
    pub last: Timestamp,
}
