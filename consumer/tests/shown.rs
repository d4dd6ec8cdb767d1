//! A worker that is watched: what it shows is true, follows the contract, and costs no job anything.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "worker/rig.rs"]
mod rig;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
        mpsc,
    },
    time::Duration,
};

use keylane_consumer::{JobContext, Notice, Outcome, store::sqlite::SqliteStore};
use keylane_sidecar::{
    PartitionState, Snapshot, WorkerState,
    metrics::{
        catalogue,
        counted::{Counted, Number},
    },
    spool::{Edition, Health, SnapshotFile, Spooled},
};
use rig::{Rig, tell};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

type Answer = Outcome<SqliteStore>;

/// Every edition that a worker put out.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Vec<Edition>>>);

impl Shelf {
    fn sink(&self) -> impl FnMut(&Edition) -> io::Result<()> + Send + 'static + use<> {
        let shelf = self.clone();
        move |edition| {
            shelf.0.lock().unwrap().push(edition.clone());
            Ok(())
        }
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        let read = |e: &Edition| serde_json::from_slice::<Spooled>(&e.snapshot).unwrap().snapshot;
        self.0.lock().unwrap().iter().map(read).collect()
    }

    fn counted(&self) -> Vec<Counted> {
        self.0.lock().unwrap().iter().map(|e| serde_json::from_slice(&e.metrics).unwrap()).collect()
    }

    fn health(&self) -> Health {
        let latest = self.0.lock().unwrap().last().unwrap().snapshot.clone();
        serde_json::from_slice::<Spooled>(&latest).unwrap().health
    }

    fn last(&self) -> Snapshot {
        self.snapshots().pop().unwrap()
    }

    fn events(&self) -> Vec<Value> {
        let shelf = self.0.lock().unwrap();
        let latest = shelf.iter().rev().find_map(|edition| edition.events.clone()).unwrap();
        String::from_utf8(latest).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The schemas of the contract, with what one takes from the other.
fn schema(name: &str) -> jsonschema::Validator {
    let read = |file: &str| -> Value {
        let path = format!("{}/../docs/schemas/{file}", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let snapshot = read("snapshot.schema.json");
    if name == "snapshot" {
        return jsonschema::validator_for(&snapshot).unwrap();
    }
    let mut event = read("event.schema.json");
    event["$defs"] = snapshot["$defs"].clone();
    let own: Value =
        serde_json::from_str(&event.to_string().replace("urn:keylane:ownership-snapshot:v1#", "#")).unwrap();
    jsonschema::validator_for(&own).unwrap()
}

#[test]
fn a_worker_shows_what_it_holds_and_its_end_and_all_of_it_keeps_the_contract() {
    let rig = Rig::new(3);
    rig.enqueue(1..=30, |n| rig.key_of_partition(n % 3));
    let shelf = Shelf::default();
    let running = rig.spawn_shown("w", |job: JobContext| async move { tell(&job) }, shelf.sink());
    rig.wait_for("it shows all held and done", || {
        let all_done =
            |s: &Snapshot| (s.totals.held, s.totals.lag_jobs, s.totals.lag_partitions_known) == (3, Some(0), 3);
        shelf.snapshots().last().is_some_and(all_done)
    });
    let held = shelf.last();
    assert!(held.partitions.iter().all(|p| p.token_present == Some(true) && p.worker.as_deref() == Some("w")));
    assert!(held.partitions.iter().all(|p| p.session_remaining_ms > Some(0) && p.last_completed_at.is_some()));
    assert_eq!(held.workers[0].state, WorkerState::Running);
    assert!(running.end().clean);
    let last = shelf.last();
    assert_eq!((last.workers[0].state, last.partitions.len()), (WorkerState::Stopped, 0));

    let contract = schema("snapshot");
    for snapshot in shelf.snapshots() {
        let value = serde_json::to_value(&snapshot).unwrap();
        assert!(contract.is_valid(&value), "{value}");
    }
    for counted in shelf.counted() {
        assert!(counted.keeps_the_catalogue(), "{counted:?}");
    }
    let last = shelf.counted().pop().unwrap();
    let told: Vec<_> = last.series().map(|(metric, _, _)| metric.name).collect();
    let of_a_worker = catalogue::ALL.iter().filter(|metric| metric.source.contains(&"worker"));
    // Nothing waits any more.
    let missing: Vec<_> = of_a_worker.map(|metric| metric.name).filter(|name| !told.contains(name)).collect();
    assert_eq!(missing, ["keylane_partition_oldest_waiting_timestamp_seconds"]);
    let completed = last
        .series()
        .find(|(metric, labels, _)| metric.name == "keylane_jobs_finished_total" && labels == &["jobs", "completed"]);
    assert_eq!(completed.unwrap().2, &Number::One(30.0));

    let contract = schema("event");
    let events = shelf.events();
    for event in &events {
        assert!(
            contract.is_valid(event),
            "{:?}: {event}",
            contract.iter_errors(event).map(|e| e.to_string()).collect::<Vec<_>>()
        );
    }
    let kinds: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    for kind in ["worker.started", "partition.acquired", "worker.stopped"] {
        assert!(kinds.contains(&kind), "{kind} is missing in {kinds:?}");
    }
    assert!(!contract.is_valid(&json!({"schema": "keylane.ownership-event/v1"})), "the check can fail");
}

#[test]
fn a_worker_says_the_same_again_though_nothing_changes() {
    let rig = Rig::new(1);
    let shelf = Shelf::default();
    let running = rig.spawn_shown("w", |_: JobContext| async { Answer::done() }, shelf.sink());
    rig.wait_for("it holds", || shelf.snapshots().last().is_some_and(|s| s.totals.held == 1));
    let so_far = shelf.snapshots().len();
    rig.wait_for("two more", || shelf.snapshots().len() >= so_far + 2);
    running.end();
    let states: Vec<_> = shelf.snapshots().iter().flat_map(|s| s.partitions.iter().map(|p| p.state)).collect();
    assert!(states.contains(&PartitionState::Held));
}

/// A sink that never comes back: a hanging disk, a network share that is gone.
fn stuck() -> (mpsc::Sender<()>, impl FnMut(&Edition) -> io::Result<()> + Send + 'static) {
    let (hold, held) = mpsc::channel::<()>();
    (hold, move |_: &Edition| {
        let _ = held.recv();
        Ok(())
    })
}

#[test]
fn a_disk_that_hangs_holds_up_no_job_and_no_end() {
    let rig = Rig::new(2);
    let (_hold, sink) = stuck();
    let running = rig.spawn_shown("w", |job: JobContext| async move { tell(&job) }, sink);
    rig.enqueue(1..=50, |n| format!("key-{}", n % 7));
    rig.wait_for("all jobs told", || rig.told().len() == 50);
    assert!(running.end().clean);
}

/// The twin: the same sink on the desk's own thread stops the work.
#[test]
fn twin_a_disk_that_hangs_stops_a_worker_that_writes_on_its_own_thread() {
    let rig = Rig::new(2);
    let (hold, mut sink) = stuck();
    let reached = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&reached);
    let edition = Edition { snapshot: Vec::new(), metrics: Vec::new(), events: None };
    let running = rig.spawn_with(
        "w",
        Duration::from_secs(60),
        |job: JobContext| async move { tell(&job) },
        move |_| {
            told.store(true, Ordering::SeqCst);
            sink(&edition).unwrap();
        },
    );
    rig.enqueue(1..=50, |n| format!("key-{}", n % 7));
    rig.wait_for("it writes", || reached.load(Ordering::SeqCst));
    // The time in which another worker does as many and ends.
    let other = Rig::new(2);
    other.enqueue(1..=50, |n| format!("key-{}", n % 7));
    assert!(other.run_until_empty("other", |job: JobContext| async move { tell(&job) }).clean);
    assert_eq!(rig.told().len(), 0, "the desk stands still");
    drop(hold);
    rig.wait_for("all jobs told", || rig.told().len() == 50);
    running.end();
}

#[test]
fn a_folder_that_vanishes_or_a_full_disk_costs_nothing_and_word_comes_back_with_it() {
    let rig = Rig::new(1);
    let folder = rig.folder().join("view");
    let path = folder.join("snapshot.json");
    let file = SnapshotFile::new(&path);
    let full = Arc::new(AtomicBool::new(false));
    let is_full = Arc::clone(&full);
    let running = rig.spawn_shown(
        "w",
        |job: JobContext| async move { tell(&job) },
        move |edition| {
            if is_full.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { file.put(edition) }
        },
    );
    rig.enqueue(1..=10, |n| format!("key-{n}"));
    rig.wait_for("the first jobs told", || rig.told().len() == 10);
    assert!(!path.exists());
    std::fs::create_dir(&folder).unwrap();
    rig.wait_for("it is shown", || path.exists());
    full.store(true, Ordering::SeqCst);
    std::fs::remove_dir_all(&folder).unwrap();
    rig.enqueue(11..=20, |n| format!("key-{n}"));
    rig.wait_for("all jobs told", || rig.told().len() == 20);
    assert!(running.end().clean);
}

/// Else a probe would end a worker whose handler works for long.
#[test]
fn work_that_a_handler_holds_up_is_told_and_counted_and_is_not_stuck() {
    let rig = Rig::with(1, |settings| settings.stall_after = Duration::from_millis(50));
    let (shelf, open) = (Shelf::default(), Arc::new(Semaphore::new(0)));
    let gate = Arc::clone(&open);
    let handler = move |job: JobContext| {
        let gate = Arc::clone(&gate);
        async move {
            let _pass = gate.acquire().await.expect("open");
            tell(&job)
        }
    };
    let running = rig.spawn_shown("w", handler, shelf.sink());
    rig.enqueue(1..=3, |n| format!("key-{n}"));
    let is = |counted: &Counted, name: &str| {
        counted.series().find(|(metric, _, _)| metric.name == name).map(|(_, _, number)| number.clone())
    };
    rig.wait_for("it is counted as standing still", || {
        shelf.counted().last().is_some_and(|c| is(c, "keylane_partitions_stalled") == Some(Number::One(1.0)))
    });
    let last = shelf.counted().pop().unwrap();
    assert!(
        matches!(is(&last, "keylane_partition_oldest_waiting_timestamp_seconds"), Some(Number::One(at)) if at > 0.0)
    );
    assert_eq!(shelf.health().stuck_since_boot_ms, None, "a new process would do no better");
    open.add_permits(3);
    rig.wait_for("it moves, and nothing waits", || {
        let moves = |c: &Counted| is(c, "keylane_partitions_stalled") == Some(Number::One(0.0));
        let last = shelf.counted().pop().unwrap();
        moves(&last) && is(&last, "keylane_partition_oldest_waiting_timestamp_seconds").is_none()
    });
    assert!(running.end().clean);
}

/// R34: what it ran now could not be written either.
#[test]
fn no_job_starts_while_finished_ones_wait_for_a_store_that_is_away() {
    let rig = Rig::with(1, |settings| settings.lanes.running = 1);
    let shelf = Shelf::default();
    let (away, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU32::new(0)));
    let (gate, count, word) = (Arc::clone(&away), Arc::clone(&begun), Arc::clone(&away));
    let handler = move |job: JobContext| {
        let (gate, nth) = (Arc::clone(&gate), count.fetch_add(1, Ordering::SeqCst));
        async move {
            if nth > 0 {
                let _pass = gate.acquire().await.expect("open");
            }
            tell(&job)
        }
    };
    let running = rig.spawn_shown_with("w", handler, shelf.sink(), move |notice| {
        if matches!(notice, Notice::Away { what: "the store", .. }) {
            word.add_permits(1);
        }
    });
    rig.wait_for("it holds", || running.owned() == 1);
    let lock = rig.store_file();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    rig.enqueue(1..=40, |n| format!("key-{n}"));
    // The first one ended and cannot be written; the second one began before the worker knew that, and ends as well.
    rig.wait_for("nothing runs, and much is left", || {
        let stands = |s: &Snapshot| s.workers[0].jobs_in_flight == Some(0) && s.totals.lag_jobs == Some(40);
        begun.load(Ordering::SeqCst) == 2 && shelf.snapshots().last().is_some_and(stands)
    });
    lock.execute_batch("ROLLBACK").unwrap();
    rig.wait_for("all jobs told", || rig.told().len() == 40);
    assert!(running.end().clean);
    assert_eq!(begun.load(Ordering::SeqCst), 40, "none ran twice");
    rig.assert_once_in_order(40);
}
