//! The runner: runs handlers on a runtime of their own, with a time limit, and catches what they throw.

use std::{any::Any, future::Future, panic::AssertUnwindSafe, sync::Arc, task::Poll, time::Duration};

use crossbeam_channel::{Receiver, Sender, bounded};
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::{
    clock::Clock,
    error::{Detail, Error},
    fence::Fence,
    handler::{Handler, JobContext, Outcome},
    lanes::Ticket,
    store::FencedStore,
    worker::WorkerSettings,
};

/// How a run ended.
pub(crate) enum Ended<S: FencedStore> {
    /// The handler answered.
    With(Outcome<S>),
    /// It panicked, with this text.
    Panicked(String),
    /// It took longer than the limit.
    TooLong(Duration),
    /// Its partition is gone, or the worker ends: the future was dropped.
    Cancelled,
    /// It did not start: the fence said no.
    Refused,
}

/// Runs jobs; each one's end comes once.
pub(crate) struct Runner<S: FencedStore, H> {
    // Handlers' threads outlive a forced end: a runtime that is dropped would wait for code that does not return.
    runtime: Option<tokio::runtime::Runtime>,
    handler: Arc<H>,
    clock: Clock,
    limit: Duration,
    ended: Sender<(Ticket, Ended<S>)>,
    pub(crate) ends: Receiver<(Ticket, Ended<S>)>,
}

impl<S: FencedStore, H: Handler<S>> Runner<S, H> {
    pub(crate) fn new(settings: &WorkerSettings, handler: H, clock: Clock) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.handler_threads.max(1))
            .thread_name("keylane-handler")
            .enable_all()
            .build()
            .map_err(|e| Error::Unavailable(Detail::new("cannot start the threads for handlers").because(e)))?;
        // As many as can run: a job's end is one message, so no handler thread ever waits for the desk.
        let (ended, ends) = bounded(settings.lanes.running);
        let handler = Arc::new(handler);
        Ok(Self { runtime: Some(runtime), handler, clock, limit: settings.job_limit, ended, ends })
    }

    /// Starts a job. The fence is checked where it starts, not where it was chosen.
    pub(crate) fn start(&self, ticket: Ticket, job: JobContext, fence: Arc<Fence>) {
        let (handler, clock, ended, limit) =
            (Arc::clone(&self.handler), self.clock.clone(), self.ended.clone(), self.limit);
        let run = async move {
            let cancel = job.cancel.clone();
            let end = match fence.check() {
                // The last acts of a tenure are done under its fence: no start is one of them.
                Ok(_permit) if !cancel.is_cancelled() => {
                    let begun = clock.now();
                    let work = AssertUnwindSafe(async move { handler.run(job).await }).catch_unwind();
                    match bounded_run(work, limit, &cancel).await {
                        Some(_) if clock.now().since(begun) > limit => Ended::TooLong(clock.now().since(begun)),
                        Some(Ok(outcome)) => Ended::With(outcome),
                        Some(Err(panic)) => Ended::Panicked(words(&*panic)),
                        None if cancel.is_cancelled() => Ended::Cancelled,
                        None => Ended::TooLong(limit),
                    }
                }
                _ => Ended::Refused,
            };
            let _ = ended.send((ticket, end)); // nobody listens: the worker ended by force
        };
        self.runtime.as_ref().expect("it is taken only on drop").spawn(run);
    }
}

impl<S: FencedStore, H> Drop for Runner<S, H> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The work's answer, or `None` if it was cancelled or took too long. Work that answers at once costs no timer.
async fn bounded_run<T>(work: impl Future<Output = T>, limit: Duration, cancel: &CancellationToken) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let at_once = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    if let Poll::Ready(answer) = at_once {
        return Some(answer);
    }
    tokio::select! {
        answer = tokio::time::timeout(limit, work) => answer.ok(),
        () = cancel.cancelled() => None,
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without words").to_owned()
}
