//! A worker on a thread of its own, what it has noticed, and gates that its polling thread waits at.

use std::{
    collections::BTreeSet,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use bytes::Bytes;
use keylane_consumer::{
    Error, Handler, Notice, Summary, Worker, WorkerHandle,
    group::{Group, GroupControl, GroupEvent, kafka::KafkaGroup},
    store::sqlite::SqliteStore,
};
use keylane_producer::{Partition, Record};
use keylane_sidecar::{
    Snapshot,
    spool::{Edition, Spooled},
};

/// How a worker is run.
#[derive(Clone, Default)]
pub(crate) struct How {
    pub(crate) until_empty: bool,
    /// Shut: no poll begins.
    pub(crate) gate: Gate,
    /// Shut: a poll does not go on after it has told an assignment.
    pub(crate) assigned: Gate,
    pub(crate) shown: Shown,
    /// A twin's: full partitions are paused, and not held.
    pub(crate) pausing: bool,
    /// A twin's: each key lies in one piece of memory with the rest of its record.
    pub(crate) in_one_piece: bool,
}

/// What it shows of itself.
#[derive(Clone, Default)]
pub(crate) struct Shown(Arc<Mutex<Vec<Snapshot>>>);

impl Shown {
    pub(crate) fn sink(&self) -> impl FnMut(&Edition) -> io::Result<()> + Send + 'static + use<> {
        let shown = Arc::clone(&self.0);
        move |edition| {
            let spooled: Spooled = serde_json::from_slice(&edition.snapshot)?;
            shown.lock().unwrap().push(spooled.snapshot);
            Ok(())
        }
    }

    /// The jobs that wait in the whole queue as it said at each time when it knew, the latest last.
    pub(crate) fn lags(&self, partitions: usize) -> Vec<u64> {
        let shown = self.0.lock().unwrap();
        let whole = shown.iter().filter(|seen| seen.totals.lag_partitions_known as usize == partitions);
        whole.filter_map(|seen| seen.totals.lag_jobs).collect()
    }
}

impl How {
    pub(crate) fn gated(&self, group: KafkaGroup) -> impl Group + use<> {
        let group = if self.pausing { group.pausing() } else { group };
        Gated { group, gate: self.gate.clone(), assigned: self.assigned.clone(), in_one_piece: self.in_one_piece }
    }
}

/// What the polling thread waits at. While it is shut, the client's own threads go on: the member answers nothing and is
/// there. Open by default.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn shut_now() -> Self {
        let gate = Self::default();
        gate.shut();
        gate
    }

    pub(crate) fn shut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn open(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn pass(&self) {
        while self.0.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

struct Gated {
    group: KafkaGroup,
    gate: Gate,
    assigned: Gate,
    in_one_piece: bool,
}

impl Group for Gated {
    fn poll(&mut self, limit: Duration, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        self.gate.pass();
        self.group.poll(limit, &mut |mut event| {
            if let (true, GroupEvent::Records { records, .. }) = (self.in_one_piece, &mut event) {
                records.iter_mut().for_each(|stored| join(&mut stored.record));
            }
            let given = matches!(event, GroupEvent::Assigned(_));
            sink(event);
            if given {
                self.assigned.pass();
            }
        })
    }

    fn control(&self) -> Arc<dyn GroupControl> {
        self.group.control()
    }
}

fn join(record: &mut Record) {
    if let (Some(key), Some(value)) = (&mut record.key, &mut record.value) {
        let mut whole = Bytes::from([&key[..], &value[..]].concat());
        *key = whole.split_to(key.len());
        *value = whole;
    }
}

/// What a worker's notices say.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) owned: BTreeSet<Partition>,
    pub(crate) notices: Vec<Notice>,
}

impl Seen {
    fn note(&mut self, notice: &Notice) {
        match notice {
            Notice::TookOver { partition, .. } => drop(self.owned.insert(*partition)),
            Notice::Released { partition, .. } => drop(self.owned.remove(partition)),
            Notice::Lost(lost) => self.owned.retain(|p| !lost.contains(p)),
            _ => {}
        }
        self.notices.push(notice.clone());
    }
}

pub(crate) struct Running {
    handle: WorkerHandle,
    thread: JoinHandle<Result<Summary, Error>>,
    seen: Arc<Mutex<Seen>>,
}

impl Running {
    pub(crate) fn start<H: Handler<SqliteStore>>(
        name: &str,
        worker: Worker<SqliteStore, H>,
        mut listen: impl FnMut(&Notice) + Send + 'static,
    ) -> Self {
        let handle = worker.handle();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = Arc::clone(&seen);
        let name = name.to_owned();
        let thread = std::thread::spawn(move || {
            let tell = name.clone();
            let answer = worker.run(move |notice| {
                println!("{tell}: {notice:?}");
                noted.lock().unwrap_or_else(PoisonError::into_inner).note(&notice);
                listen(&notice);
            });
            println!("{name}: {answer:?}");
            answer
        });
        Self { handle, thread, seen }
    }

    pub(crate) fn look<T>(&self, at: impl FnOnce(&Seen) -> T) -> T {
        at(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn owned(&self) -> usize {
        self.look(|seen| seen.owned.len())
    }

    pub(crate) fn owns(&self) -> BTreeSet<Partition> {
        self.look(|seen| seen.owned.clone())
    }

    /// How many notices of a kind there were.
    pub(crate) fn noticed(&self, kind: impl Fn(&Notice) -> bool) -> usize {
        self.look(|seen| seen.notices.iter().filter(|notice| kind(notice)).count())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn ask_to_end(&self) {
        self.handle.end();
    }

    pub(crate) fn outcome(self) -> Result<Summary, Error> {
        self.thread.join().unwrap()
    }

    pub(crate) fn join(self) -> Summary {
        self.outcome().unwrap()
    }

    pub(crate) fn end(self) -> Summary {
        self.handle.end();
        self.join()
    }
}
