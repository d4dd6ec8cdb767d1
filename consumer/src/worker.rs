//! The running whole: the loop that ties group, lanes, handlers and store.
//!
//! ```text
//! polling ──group events──▶ desk ──starts──▶ runner (handlers)
//!                            │ ◀──ended──────┘
//!                            ├──batches──▶ scribes (fenced writes)    ──written──▶ desk
//!                            ├──commits──▶ prover (commits, closes)   ──proved───▶ desk
//!                            └──orders───▶ clerk (claims, rereads)    ──answers──▶ desk
//! ```
//!
//! 1. The desk owns all state and decides with the pure machines; it never waits for broker, store or handler.
//! 2. The polling thread polls and runs nothing else. Commits run on the prover's thread, writes on the scribes'.
//! 3. Each scribe, and the prover, has at most one order in hand; what comes meanwhile waits at the desk and goes as one:
//!    that is the group commit.
//! 4. Handlers run on a runtime of their own; one that burns all its threads delays no poll, proof, or write.

mod clerk;
pub(crate) mod counts;
mod desk;
pub(crate) mod glance;
mod places;
mod polling;
mod prover;
mod runner;
mod scribe;
mod settings;
pub(crate) mod sight;
mod tenancy;

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use keylane_producer::{GroupName, JobId, Log, QueueIdentity};
use keylane_sidecar::spool::Edition;

pub use self::settings::{ShowKeys, WorkerSettings};
use self::sight::Sight;
use crate::{
    clock::Clock,
    error::{Detail, Error},
    fence::Lease,
    group::Group,
    handler::Handler,
    notice::Notice,
    store::{FencedStore, StoreSession},
    view::own::Speaker,
};

/// What a worker runs on.
pub struct Parts<S, H> {
    /// The queue, as its log describes it.
    pub queue: QueueIdentity,
    /// The consumer group.
    pub group_name: GroupName,
    /// Its membership.
    pub group: Box<dyn Group>,
    /// For reading records again.
    pub log: Box<dyn Log>,
    /// Where claims are held and effects written.
    pub store: S,
    /// The user's part.
    pub handler: H,
    /// What time it is.
    pub clock: Clock,
}

/// A worker that is ready to run.
pub struct Worker<S: FencedStore, H> {
    settings: WorkerSettings,
    parts: Parts<S, H>,
    requests: (Sender<Request>, Receiver<Request>),
    sink: Option<sight::Sink>,
}

/// What can be asked of a running worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    End,
    Force,
}

/// Asks a running worker to end, from any thread.
#[derive(Clone, Debug)]
pub struct WorkerHandle(Sender<Request>);

impl WorkerHandle {
    /// Take nothing new, let running jobs end inside the drain's bound, give everything back, leave.
    pub fn end(&self) {
        let _ = self.0.try_send(Request::End); // full: it was asked before
    }

    /// End now: what runs is cut short and runs again on the next owner.
    pub fn force(&self) {
        let _ = self.0.try_send(Request::Force);
    }
}

/// How a worker ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Jobs whose write was applied by this worker.
    pub applied: u64,
    /// Jobs that turned out to be applied before (an unknown outcome, tried again).
    pub already_done: u64,
    /// Tries that failed and were repeated.
    pub retried: u64,
    /// Keys that were parked.
    pub stopped: u64,
    /// Jobs that followed theirs to its line.
    pub parked: u64,
    /// Jobs that left alone, as dead letters.
    pub buried: u64,
    /// Finished jobs that the store refused, or that were dropped because their partition was lost.
    pub refused: u64,
    /// Jobs that were still running when a drain's bound was over or the worker ended; they run again on the next owner.
    pub cut_short: Vec<JobId>,
    /// With `until_empty`: keys of the queue that are parked, which only a person can have replayed.
    pub keys_left: u64,
    /// Whether everything was drained, committed and given back.
    pub clean: bool,
}

impl<S: FencedStore, H: Handler<S>> Worker<S, H> {
    /// Ties the parts.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the settings do not fit together; it names which and why.
    pub fn new(settings: WorkerSettings, parts: Parts<S, H>) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self { settings, parts, requests: bounded(4), sink: None })
    }

    /// Shows what the worker holds: `sink` gets an edition at each change and at least every 2 s, and a last one at the end.
    /// It is called on a thread of its own, which no job and no proof ever waits for.
    #[must_use]
    pub fn shown_to(mut self, sink: impl FnMut(&Edition) -> std::io::Result<()> + Send + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// To end it from elsewhere.
    pub fn handle(&self) -> WorkerHandle {
        WorkerHandle(self.requests.0.clone())
    }

    /// Runs until it is asked to end, or cannot go on. `notices` is called on the desk's thread: be quick.
    ///
    /// # Errors
    /// What ended it, other than a request: the identity differs from the pinned one, the broker or store refused for
    /// good, an invariant broke. Broker or store being away is no reason to end.
    pub fn run(self, notices: impl FnMut(Notice) + Send + 'static) -> Result<Summary, Error> {
        let Self { settings, parts, requests, sink } = self;
        let lease = Lease::with_guards(parts.clock.clone(), settings.poll_limit, settings.guards);
        let open = || parts.store.open(&parts.queue, &parts.group_name);
        let (claiming, closing) = (open()?, open()?);
        let writing = (0..settings.connections::<S>()).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
        let control = parts.group.control();
        let places =
            places::Places { count: parts.queue.partitions, former: StoreSession::<S>::former_counts(&claiming) };

        let speaker = Speaker {
            worker: settings.name.clone(),
            queue: parts.queue.clone(),
            group: parts.group_name.clone(),
            session: settings.ownership.session,
            show_keys: settings.show_keys,
        };
        let sight = sink.map(|sink| Sight::begin(speaker, parts.clock.clone(), sink)).transpose()?;
        let runner = runner::Runner::new(&settings, parts.handler, parts.clock.clone())?;
        let clerk = clerk::Clerk::<S>::new(
            parts.log,
            claiming,
            Arc::clone(&control),
            parts.queue.clone(),
            parts.clock.clone(),
            settings.guards,
        );
        let mail = desk::Mail {
            polled: polling::begin(parts.group, Arc::clone(&lease))?,
            clerk: thread("clerk", |orders, answers| clerk.serve(&orders, &answers))?,
            scribes: writing
                .into_iter()
                .map(|session| {
                    let clock = parts.clock.clone();
                    thread("scribe", move |orders, answers| scribe::serve::<S>(session, &clock, &orders, &answers))
                })
                .collect::<Result<_, _>>()?,
            prover: {
                let (control, clock) = (Arc::clone(&control), parts.clock.clone());
                thread("prover", move |orders, answers| {
                    prover::serve::<S>(&*control, closing, &clock, &orders, &answers);
                })?
            },
            requests: requests.1,
        };
        desk::Desk::new(settings, places, lease, control, runner, sight, Box::new(notices)).run(&mail)
    }
}

/// A thread that carries out orders one after another and answers each.
pub(crate) struct Office<O, A> {
    orders: Sender<O>,
    answers: Receiver<A>,
}

/// One order in hand and one on the table; the desk keeps further ones to itself, so its sends never wait.
const ORDERS: usize = 2;

fn thread<O: Send + 'static, A: Send + 'static>(
    name: &str,
    serve: impl FnOnce(Receiver<O>, Sender<A>) + Send + 'static,
) -> Result<Office<O, A>, Error> {
    let (orders, their_orders) = bounded(ORDERS);
    let (their_answers, answers) = bounded(ORDERS);
    std::thread::Builder::new()
        .name(format!("keylane-{name}"))
        .spawn(move || serve(their_orders, their_answers))
        .map_err(|e| Error::Unavailable(Detail::new(format!("cannot start the thread '{name}'")).because(e)))?;
    Ok(Office { orders, answers })
}
