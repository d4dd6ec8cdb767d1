//! The user's part: run one job, say how it ended.
//!
//! A handler works with no transaction open. What must happen exactly once it returns as an effect (a function that gets
//! the fenced transaction) or as a result (JSON that is stored under the fence); whatever else it does happens at least
//! once. Adapters: any `Handler` in Rust; [`child`], a process that speaks JSON lines; in the program, a server
//! on this machine.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use keylane_producer::{Attempt, Job, Offset, Partition};
use tokio_util::sync::CancellationToken;

use crate::{
    fence::{JobPass, Pass},
    store::{Effect, EffectError, FencedStore},
};

pub mod child;

/// Runs jobs, many at once, one at a time for each key.
pub trait Handler<S: FencedStore>: Send + Sync + 'static {
    /// Runs one job. The future is dropped if the partition is lost or the time limit passes; code that does not await
    /// can ask [`JobContext::is_cancelled`]. A panic is an attempt that failed.
    fn run(&self, job: JobContext) -> impl Future<Output = Outcome<S>> + Send;
}

impl<S, F, R> Handler<S> for F
where
    S: FencedStore,
    F: Fn(JobContext) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome<S>> + Send,
{
    fn run(&self, job: JobContext) -> impl Future<Output = Outcome<S>> + Send {
        self(job)
    }
}

/// A job and what is known about this run of it.
#[derive(Debug)]
pub struct JobContext {
    /// What was enqueued.
    pub job: Arc<Job>,
    /// Where it lies.
    pub partition: Partition,
    /// Its place there.
    pub offset: Offset,
    /// Which try at running it this is.
    pub attempt: Attempt,
    pub(crate) pass: Option<Pass>,
    pub(crate) cancel: CancellationToken,
}

impl JobContext {
    /// Whether the result is not wanted any more: the partition is lost, or the time limit passed.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// What a handler's own transaction shows to `keylane.admit`, if the store gives it out. For a handler that asked for it, on this
    /// machine.
    pub fn sensitive_fence(&self) -> Option<JobPass> {
        self.pass.as_ref().map(|pass| pass.of_job(self.offset))
    }

    /// Waits until the result is not wanted any more.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }
}

/// How a job ended.
pub enum Outcome<S: FencedStore> {
    /// It is done.
    Done(Done<S>),
    /// Try again, in its place: only its key waits.
    Retry(Retry),
    /// It cannot be done, however often it is tried.
    Reject(String),
}

/// What a done job leaves behind.
pub enum Done<S: FencedStore> {
    /// Nothing but the fact.
    Nothing,
    /// Rows of the user's own.
    Effect(Effect<S>),
    /// JSON text for the results table.
    Result(Bytes),
}

/// Why to try again, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// For people; cut to [`crate::store::MAX_REASON_BYTES`].
    pub reason: String,
    /// Not before this; `None`: as the retry policy says.
    pub after: Option<Duration>,
}

impl<S: FencedStore> Outcome<S> {
    /// Done, nothing to write.
    pub fn done() -> Self {
        Self::Done(Done::Nothing)
    }

    /// Done, once this function has written its rows in the fenced transaction.
    pub fn effect(effect: impl for<'t> FnMut(&mut S::Tx<'t>) -> Result<(), EffectError> + Send + 'static) -> Self {
        Self::Done(Done::Effect(Effect::new(effect)))
    }

    /// Done, with JSON text for the results table.
    pub fn result(json: impl Into<Bytes>) -> Self {
        Self::Done(Done::Result(json.into()))
    }

    /// Try again when the policy says.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry(Retry { reason: reason.into(), after: None })
    }

    /// Try again, not before this long; the policy's longest wait bounds it.
    pub fn retry_after(reason: impl Into<String>, after: Duration) -> Self {
        Self::Retry(Retry { reason: reason.into(), after: Some(after) })
    }

    /// Give up on this job.
    pub fn reject(reason: impl Into<String>) -> Self {
        Self::Reject(reason.into())
    }
}
