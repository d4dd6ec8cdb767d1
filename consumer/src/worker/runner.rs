//! The runner: runs handlers on a runtime of their own, with a time limit, and catches what they throw.
//!
//! Jobs stand in a line, and drivers take one after another. To spawn a task for each job costs more than a short job does.
//!
//! 1. While a job stands in line and a thread is free, a driver is on its way to it: each turn of the desk sends for them,
//!    and a driver whose job awaits something sends for another before it waits.
//! 2. A handler that blocks its thread holds up no job but its own: no driver has more than one.

use std::{
    any::Any,
    collections::VecDeque,
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded};
use futures_util::FutureExt;
use tokio::runtime::Handle;
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
    shared: Arc<Shared<S, H>>,
    /// Started in this turn of the desk.
    starting: Vec<Starting>,
    pub(crate) ends: Receiver<End<S>>,
}

/// The end of one run.
pub(crate) struct End<S: FencedStore> {
    pub(crate) ticket: Ticket,
    pub(crate) how: Ended<S>,
    /// How long the handler had it; nothing if it did not begin or was cancelled.
    pub(crate) took: Duration,
}

/// What drivers share.
struct Shared<S: FencedStore, H> {
    handler: H,
    clock: Clock,
    limit: Duration,
    threads: usize,
    line: Mutex<Line>,
    ended: Sender<End<S>>,
}

struct Line {
    jobs: VecDeque<Starting>,
    /// Drivers that are not in a job: they look at the line before they end.
    free: usize,
}

struct Starting {
    ticket: Ticket,
    job: JobContext,
    fence: Arc<Fence>,
}

/// Jobs that a driver runs before others of its thread have a turn.
const JOBS_A_TURN: u32 = 32;

impl<S: FencedStore, H: Handler<S>> Runner<S, H> {
    pub(crate) fn new(settings: &WorkerSettings, handler: H, clock: Clock) -> Result<Self, Error> {
        let threads = settings.handler_threads.max(1);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("keylane-handler")
            .enable_all()
            .build()
            .map_err(|e| Error::Unavailable(Detail::new("cannot start the threads for handlers").because(e)))?;
        // As many as can run: a job's end is one message, so no handler thread ever waits for the desk.
        let (ended, ends) = bounded(settings.lanes.running);
        let line = Mutex::new(Line { jobs: VecDeque::new(), free: 0 });
        let shared = Arc::new(Shared { handler, clock, limit: settings.job_limit, threads, line, ended });
        Ok(Self { runtime: Some(runtime), shared, starting: Vec::new(), ends })
    }

    /// Starts a job, at the next [`Runner::set_off`].
    pub(crate) fn start(&mut self, ticket: Ticket, job: JobContext, fence: Arc<Fence>) {
        self.starting.push(Starting { ticket, job, fence });
    }

    /// Puts what was started in line, and sends for drivers.
    pub(crate) fn set_off(&mut self) {
        if self.starting.is_empty() {
            return;
        }
        let runtime = self.runtime.as_ref().expect("it is taken only on drop").handle();
        let mut line = self.shared.line();
        line.jobs.extend(self.starting.drain(..));
        let wanted = line.jobs.len().min(self.shared.threads).saturating_sub(line.free);
        line.free += wanted;
        drop(line);
        (0..wanted).for_each(|_| send_driver(runtime, &self.shared));
    }
}

/// One that is counted as free already.
fn send_driver<S: FencedStore, H: Handler<S>>(runtime: &Handle, shared: &Arc<Shared<S, H>>) {
    runtime.spawn(drive(Arc::clone(shared)));
}

/// Takes jobs from the line until it is empty.
async fn drive<S: FencedStore, H: Handler<S>>(shared: Arc<Shared<S, H>>) {
    let mut ran = 0;
    let mut next = shared.take(Driver::Free);
    while let Some(Starting { ticket, job, fence }) = next {
        let (how, took) = shared.run(job, &fence).await;
        let _ = shared.ended.send(End { ticket, how, took }); // nobody listens: the worker ended by force
        ran = (ran + 1) % JOBS_A_TURN;
        if ran == 0 {
            shared.line().free += 1;
            tokio::task::yield_now().await;
            next = shared.take(Driver::Free);
        } else {
            next = shared.take(Driver::FromJob);
        }
    }
}

/// Who asks for a job.
#[derive(Clone, Copy, PartialEq)]
enum Driver {
    /// It is counted as free.
    Free,
    /// It has just ended one, and was never counted as free since.
    FromJob,
}

impl<S: FencedStore, H: Handler<S>> Shared<S, H> {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job. The caller is in a job then, or has ended: not free any more.
    fn take(self: &Arc<Self>, driver: Driver) -> Option<Starting> {
        let mut line = self.line();
        line.free -= usize::from(driver == Driver::Free);
        let next = line.jobs.pop_front();
        // The job may give its thread away (`block_in_place`): then another driver goes on.
        let send = line.free == 0 && !line.jobs.is_empty();
        line.free += usize::from(send);
        drop(line);
        if send {
            send_driver(&Handle::current(), self);
        }
        next
    }

    /// The job of the calling driver awaits something: its thread goes on with the line.
    fn awaits(self: &Arc<Self>) {
        let mut line = self.line();
        let send = !line.jobs.is_empty() && line.free < self.threads;
        line.free += usize::from(send);
        drop(line);
        if send {
            send_driver(&Handle::current(), self);
        }
    }

    /// The fence is checked where a job starts, not where it was chosen.
    async fn run(self: &Arc<Self>, job: JobContext, fence: &Fence) -> (Ended<S>, Duration) {
        let (limit, cancel) = (self.limit, job.cancel.clone());
        // The last acts of a tenure are done under its fence: no start is one of them.
        let begun = self.clock.now();
        if fence.check_at(begun).is_err() || cancel.is_cancelled() {
            return (Ended::Refused, Duration::ZERO);
        }
        let work = AssertUnwindSafe(async { self.handler.run(job).await }).catch_unwind();
        let end = match bounded_run(work, limit, &cancel, || self.awaits()).await {
            Some(Ok(outcome)) => Ended::With(outcome),
            Some(Err(panic)) => Ended::Panicked(words(&*panic)),
            None if cancel.is_cancelled() => return (Ended::Cancelled, Duration::ZERO),
            None => Ended::TooLong(limit),
        };
        let took = self.clock.now().since(begun);
        (if took > limit { Ended::TooLong(took) } else { end }, took)
    }
}

impl<S: FencedStore, H> Drop for Runner<S, H> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The work's answer, or `None` if it was cancelled or took too long. Work that answers at once costs no timer; `awaits` is
/// called if it does not.
async fn bounded_run<T>(
    work: impl Future<Output = T>,
    limit: Duration,
    cancel: &CancellationToken,
    awaits: impl FnOnce(),
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let at_once = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
    if let Poll::Ready(answer) = at_once {
        return Some(answer);
    }
    awaits();
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

#[cfg(test)]
mod tests;
