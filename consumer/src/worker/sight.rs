//! What the desk lets others see, and the thread that publishes it.
//!
//! 1. The desk puts a [`Glance`] down and goes on: it waits for no lock, and never for whoever writes or reads.
//! 2. Everything slow (making the snapshot, writing it) is on a thread of its own. One that hangs for ever holds up nothing:
//!    at the end the worker waits [`LAST_WORD`] for it and then goes without.
//! 3. A glance has no number of the group or the store. The claim is left behind where it is made.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{Arc, Condvar, Mutex, PoisonError, TryLockError},
    time::Duration,
};

use crossbeam_channel::{Receiver, bounded};
use keylane_producer::{Partition, Timestamp};
use keylane_sidecar::{
    PartitionState, Snapshot, WorkerState,
    spool::{Edition, Health, SCHEMA, Spooled},
    words::{Event, Happening, change::changes, event::fresh_id},
};

use crate::{
    clock::{BootTime, Clock},
    error::{Detail, Error},
    lanes::Tenure,
    view::{
        counted,
        own::{self, Speaker},
    },
    worker::{
        Summary,
        counts::Counts,
        glance::{Finished, Glance},
    },
};

/// The desk looks this often at what it lets others see.
const LOOK: Duration = Duration::from_millis(200);
/// The longest between two editions; a quarter of a session that is so short that it would run out between two.
const WRITE_EVERY: Duration = Duration::from_secs(2);
/// At the end: so long for the last edition.
const LAST_WORD: Duration = Duration::from_secs(1);
/// Events that are kept for whoever reads late.
const EVENTS: usize = 256;

/// The desk's side.
pub(crate) struct Sight {
    shown: Arc<Shown>,
    done: Receiver<()>,
    next: BootTime,
    worker: (WorkerState, BootTime),
    unsettled: Option<BootTime>,
    held: BTreeMap<Partition, (Tenure, PartitionState, BootTime)>,
    read: BTreeMap<Partition, (Tenure, BootTime)>,
    completed: BTreeMap<Partition, (Tenure, BootTime)>,
}

/// Between the desk and the thread.
struct Shown {
    latest: Mutex<Latest>,
    bell: Condvar,
}

struct Latest {
    glance: Glance,
    changed: bool,
    last: bool,
}

/// Where editions go.
pub(crate) type Sink = Box<dyn FnMut(&Edition) -> io::Result<()> + Send>;

impl Sight {
    /// Starts the thread.
    pub(crate) fn begin(speaker: Speaker, clock: Clock, sink: Sink) -> Result<Self, Error> {
        let now = clock.now();
        let glance = Glance::alone(now, WorkerState::Starting);
        let shown =
            Arc::new(Shown { latest: Mutex::new(Latest { glance, changed: true, last: false }), bell: Condvar::new() });
        let (finished, done) = bounded(1);
        let theirs = Arc::clone(&shown);
        let mut press = Press { speaker, clock, sink, before: None, events: VecDeque::new(), failing: false };
        std::thread::Builder::new()
            .name("keylane-view".into())
            .spawn(move || {
                press.run(&theirs);
                let _ = finished.send(()); // nobody waits any more
            })
            .map_err(|e| Error::Unavailable(Detail::new("cannot start the thread that shows ownership").because(e)))?;
        Ok(Self {
            shown,
            done,
            next: now,
            worker: (WorkerState::Starting, now),
            unsettled: None,
            held: BTreeMap::new(),
            read: BTreeMap::new(),
            completed: BTreeMap::new(),
        })
    }

    /// When the desk should look.
    pub(crate) fn next(&self) -> BootTime {
        self.next
    }

    pub(crate) fn was_read(&mut self, partition: Partition, tenure: Tenure, at: BootTime) {
        self.read.insert(partition, (tenure, at));
    }

    pub(crate) fn was_completed(&mut self, partition: Partition, tenure: Tenure, at: BootTime) {
        self.completed.insert(partition, (tenure, at));
    }

    /// When the end of the partition's log was last known, in this tenure.
    pub(crate) fn read_at(&self, partition: Partition, tenure: Tenure) -> Option<BootTime> {
        self.read.get(&partition).filter(|(of, _)| *of == tenure).map(|&(_, at)| at)
    }

    /// When a job of it was last finished, in this tenure.
    pub(crate) fn completed_at(&self, partition: Partition, tenure: Tenure) -> Option<BootTime> {
        self.completed.get(&partition).filter(|(of, _)| *of == tenure).map(|&(_, at)| at)
    }

    /// Since when the worker is in this state.
    pub(crate) fn worker_since(&mut self, state: WorkerState, now: BootTime) -> BootTime {
        if self.worker.0 != state {
            self.worker = (state, now);
        }
        self.worker.1
    }

    /// Since when something comes or goes.
    pub(crate) fn unsettled_since(&mut self, is_unsettled: bool, now: BootTime) -> Option<BootTime> {
        self.unsettled = is_unsettled.then(|| self.unsettled.unwrap_or(now));
        self.unsettled
    }

    /// Since when the partition is in this state.
    pub(crate) fn held_since(
        &mut self,
        partition: Partition,
        tenure: Tenure,
        state: PartitionState,
        now: BootTime,
    ) -> BootTime {
        let known = self.held.entry(partition).or_insert((tenure, state, now));
        if (known.0, known.1) != (tenure, state) {
            *known = (tenure, state, now);
        }
        known.2
    }

    /// Puts it down. If the thread is just picking up the last one, the next look brings a newer one.
    pub(crate) fn show(&mut self, glance: Glance) {
        self.next = glance.at.plus(LOOK);
        let here = |partition: &Partition| glance.held.iter().any(|held| held.partition == *partition);
        self.held.retain(|partition, _| here(partition));
        self.read.retain(|partition, _| here(partition));
        self.completed.retain(|partition, _| here(partition));
        let mut latest = match self.shown.latest.try_lock() {
            Ok(latest) => latest,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        latest.changed |= glance.differs(&latest.glance);
        latest.glance = glance;
        if latest.changed {
            self.shown.bell.notify_one();
        }
    }

    /// The worker has ended: one last edition, if it can be had in time.
    pub(crate) fn end(self, now: BootTime, state: WorkerState, summary: &Summary, counts: Counts) {
        {
            let mut latest = self.shown.latest.lock().unwrap_or_else(PoisonError::into_inner);
            let (in_flight, finished) = (summary.cut_short.len() as u64, Finished::of(summary));
            let glance = Glance { in_flight, finished, counts, ..Glance::alone(now, state) };
            *latest = Latest { glance, changed: true, last: true };
        }
        self.shown.bell.notify_one();
        let _ = self.done.recv_timeout(LAST_WORD); // it hangs: the file grows old, and whoever reads it can tell
    }
}

/// The thread's side.
struct Press {
    speaker: Speaker,
    clock: Clock,
    sink: Sink,
    before: Option<Snapshot>,
    events: VecDeque<Event>,
    failing: bool,
}

impl Press {
    fn run(&mut self, shown: &Shown) {
        let every = WRITE_EVERY.min(self.speaker.session / 4);
        loop {
            let (glance, last) = next(shown, every);
            let edition = self.edition(&glance);
            match (self.sink)(&edition) {
                Ok(()) => self.failing = false,
                Err(error) if !self.failing => {
                    self.failing = true;
                    tracing::warn!(%error, "cannot write the snapshot; work goes on, and whoever watches sees old word");
                }
                Err(_) => {}
            }
            if last {
                return;
            }
        }
    }

    fn edition(&mut self, glance: &Glance) -> Edition {
        let (now, wall) = (self.clock.now(), Timestamp::now());
        let snapshot = own::of_worker(&self.speaker, glance, now, wall);
        let new = self.happened(&snapshot, wall);
        let told = !new.is_empty() || self.before.is_none();
        let episode = fresh_id(wall.0);
        let observer = &snapshot.observer.name;
        self.events.extend(new.into_iter().map(|(at, what)| Event::new(observer, episode, at, wall.0, what)));
        while self.events.len() > EVENTS {
            self.events.pop_front();
        }
        self.before = Some(snapshot.clone());
        let health = Health {
            turned_boot_ms: glance.at.millis(),
            rebalancing_since_boot_ms: glance.rebalancing_since.map(BootTime::millis),
            stuck_since_boot_ms: glance.stuck_since.map(BootTime::millis),
        };
        let spooled = Spooled { schema: SCHEMA, written_boot_ms: now.millis(), health, snapshot };
        let counted = counted::of_worker(&self.speaker, glance, now, wall);
        let mut lines = Vec::new();
        for event in &self.events {
            serde_json::to_writer(&mut lines, event).expect("an event is plain data");
            lines.push(b'\n');
        }
        let snapshot = serde_json::to_vec(&spooled).expect("a snapshot is plain data");
        let metrics = serde_json::to_vec(&counted).expect("counts are plain data");
        Edition { snapshot, metrics, events: told.then_some(lines) }
    }

    fn happened(&self, snapshot: &Snapshot, wall: Timestamp) -> Vec<(i64, Happening)> {
        let mut happened = changes(self.before.as_ref(), snapshot);
        let joined = |s: &Snapshot| s.workers.iter().any(|w| w.state == WorkerState::Running);
        if joined(snapshot)
            && !self.before.as_ref().is_some_and(|before| {
                before.workers.iter().any(|w| matches!(w.state, WorkerState::Running | WorkerState::Draining))
            })
        {
            let (worker, group) = (snapshot.observer.name.clone(), snapshot.queue.group.clone());
            happened.insert(0, (wall.0, Happening::WorkerStarted { worker, group }));
        }
        happened
    }
}

/// Waits for a change, or for the time to say the same again.
fn next(shown: &Shown, every: Duration) -> (Glance, bool) {
    let latest = shown.latest.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = shown.bell.wait_timeout_while(latest, every, |latest| !latest.changed);
    let (mut latest, _) = waited.unwrap_or_else(PoisonError::into_inner);
    latest.changed = false;
    (latest.glance.clone(), latest.last)
}
