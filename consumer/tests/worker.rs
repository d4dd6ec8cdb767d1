//! The whole worker on the embedded engine, in one process: records in, fenced effects out.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "worker/between.rs"]
mod between;
#[path = "worker/parked.rs"]
mod parked;
#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "worker/rig.rs"]
mod rig;
#[path = "worker/secrets.rs"]
mod secrets;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use keylane_consumer::{JobContext, Notice, Outcome, notice::StallCause, store::sqlite::SqliteStore};
use keylane_producer::{Offset, Partition};
use rig::{Rig, Told, tell};

type Answer = Outcome<SqliteStore>;

#[test]
fn every_job_is_applied_once_and_in_order_per_key() {
    let rig = Rig::new(4);
    rig.enqueue(1..=40, |n| format!("key-{}", n % 7));
    let summary = rig.run_until_empty("w", |job: JobContext| async move { tell(&job) });
    assert!(summary.clean);
    assert_eq!(summary.applied, 40);
    rig.assert_once_in_order(40);
    // A second worker finds nothing to do.
    let summary = rig.run_until_empty("v", |_: JobContext| async { Answer::done() });
    assert_eq!((summary.applied, summary.clean), (0, true));
}

#[test]
fn workers_that_come_and_go_lose_nothing_and_repeat_nothing() {
    let rig = Rig::new(6);
    rig.enqueue(1..=600, |n| format!("key-{}", n % 31));
    let slow = |job: JobContext| async move {
        tokio::time::sleep(Duration::from_millis(2)).await;
        tell(&job)
    };
    let first = rig.spawn("first", slow);
    rig.wait_for("some progress", || rig.told().len() > 20);
    let second = rig.spawn("second", slow);
    rig.wait_for("the second owns something", || second.owned() > 0);
    let summary = first.end();
    assert!(summary.clean, "{summary:?}");
    let third = rig.spawn("third", slow);
    rig.wait_for("all jobs told", || rig.told().len() >= 600);
    assert!(second.end().clean);
    assert!(third.end().clean);
    rig.assert_once_in_order(600);
}

/// R19: a retried first job is not overtaken by its followers; other keys go on.
#[test]
fn a_failing_job_is_tried_again_in_its_place() {
    let rig = Rig::new(1);
    rig.enqueue(1..=5, |_| "k".into());
    rig.enqueue(6..=25, |n| format!("other-{n}"));
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let summary = rig.run_until_empty("w", move |job: JobContext| {
        let fails = job.offset == Offset(0) && counted.fetch_add(1, Ordering::SeqCst) < 2;
        async move { if fails { Answer::retry("not yet") } else { tell(&job) } }
    });
    assert_eq!((summary.applied, summary.retried, tries.load(Ordering::SeqCst)), (25, 2, 3));
    rig.assert_once_in_order(25);
}

/// A fail-over or a backup from before the first job. What the group has committed says nothing about this store.
#[test]
fn what_an_older_copy_of_the_store_does_not_know_runs_again() {
    let rig = Rig::new(2);
    let first = rig.spawn("first", |_: JobContext| async { Answer::done() });
    rig.wait_for("both are claimed", || first.owned() == 2);
    assert!(first.end().clean);
    let copy = rig.copy_of_store();
    rig.enqueue(1..=20, |n| format!("key-{n}"));
    assert_eq!(rig.run_until_empty("w", |job: JobContext| async move { tell(&job) }).applied, 20);
    rig.restore_store(&copy);
    assert_eq!(rig.told().len(), 0);
    assert_eq!(rig.run_until_empty("v", |job: JobContext| async move { tell(&job) }).applied, 20);
    rig.assert_once_in_order(20);
}

#[test]
fn a_job_that_panics_or_takes_too_long_is_a_failed_try() {
    let rig = Rig::new(1);
    rig.enqueue(1..=3, |n| format!("k{n}"));
    let summary = rig.run_until_empty("w", |job: JobContext| async move {
        match (job.job.payload.as_deref(), job.attempt.0) {
            (Some(b"1"), 1) => panic!("a bug of the user's"),
            (Some(b"2"), 1) => std::future::pending().await,
            _ => tell(&job),
        }
    });
    assert_eq!((summary.applied, summary.retried), (3, 2));
    rig.assert_once_in_order(3);
}

#[test]
fn an_effect_that_fails_fails_its_own_job_only() {
    let rig = Rig::new(1);
    rig.enqueue(1..=20, |n| format!("k{n}"));
    let summary = rig.run_until_empty("w", |job: JobContext| async move {
        if job.job.payload.as_deref() == Some(b"7") {
            return Answer::effect(|tx: &mut rusqlite::Savepoint<'_>| {
                tx.execute("INSERT INTO nowhere VALUES (1)", [])?;
                Ok(())
            });
        }
        tell(&job)
    });
    assert_eq!((summary.applied, summary.stopped, summary.keys_left), (19, 1, 1));
}

/// R11: its owner lives, its poll goes on, and yet nothing is done. One that has nothing to do does not stand still.
#[test]
fn a_partition_that_stands_still_is_told_with_its_cause_and_so_is_its_end() {
    let rig = Rig::with(2, |settings| settings.stall_after = Duration::from_millis(100));
    let (gate, told) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (handler_gate, notices) = (Arc::clone(&gate), Arc::clone(&told));
    let worker = rig.spawn_with(
        "w",
        Duration::from_secs(60),
        move |job: JobContext| {
            let gate = Arc::clone(&handler_gate);
            async move {
                let _pass = gate.acquire().await.expect("open");
                tell(&job)
            }
        },
        move |notice| notices.lock().unwrap().push(notice.clone()),
    );
    rig.wait_for("it owns both", || worker.owned() == 2);
    let key = rig.key_of_partition(1);
    rig.enqueue(1..=3, move |_| key.clone());
    let stalls = || {
        let told = told.lock().unwrap();
        let stalled = |n: &Notice| match n {
            Notice::Stalled { partition, waiting, cause, .. } => Some((*partition, *waiting, cause.clone())),
            _ => None,
        };
        told.iter().filter_map(stalled).collect::<Vec<_>>()
    };
    rig.wait_for("it is told", || !stalls().is_empty());
    gate.add_permits(3);
    rig.wait_for("all told", || rig.told().len() == 3);
    let again = |n: &Notice| matches!(n, Notice::MovesAgain { partition: Partition(1), .. });
    rig.wait_for("it moves again", || told.lock().unwrap().iter().any(again));
    assert!(worker.end().clean);
    let stalls = stalls();
    assert!(stalls.iter().all(|(partition, ..)| *partition == Partition(1)), "{stalls:?}");
    assert!(stalls[0].1 >= 1 && matches!(stalls[0].2, StallCause::Runs { .. }), "{stalls:?}");
}

/// R22: one hot key neither stops the others nor fills the memory.
#[test]
fn a_hot_key_does_not_starve_the_others() {
    let rig = Rig::with(1, |settings| {
        settings.lanes.running = 8;
        settings.lanes.held_jobs = 100;
        settings.lanes.lane_jobs = 8;
    });
    rig.enqueue(1..=1_000, |n| if n % 10 == 0 { format!("cold-{n}") } else { "hot".into() });
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let handler_gate = Arc::clone(&gate);
    let worker = rig.spawn("w", move |job: JobContext| {
        let gate = Arc::clone(&handler_gate);
        async move {
            if job.job.key.as_bytes() == b"hot" {
                let _pass = gate.acquire().await.expect("open");
            }
            tell(&job)
        }
    });
    rig.wait_for("all cold keys", || rig.told().iter().filter(|t| t.key != "hot").count() == 100);
    assert!(rig.told().iter().all(|t| t.key != "hot"), "the hot key is still at its first job");
    gate.add_permits(1_000_000);
    rig.wait_for("all jobs", || rig.told().len() == 1_000);
    assert!(worker.end().clean);
    rig.assert_once_in_order(1_000);
}

/// R22 with the shape of real streams: 82 of 100 records are one key's, 79 of them in a row. In the order of starts, no other
/// key waits for the hot one's turn.
#[test]
fn cold_keys_start_ahead_of_a_hot_backlog() {
    let rig = Rig::with(1, |settings| {
        settings.lanes.running = 8;
        settings.lanes.held_jobs = 100;
        settings.lanes.lane_jobs = 8;
    });
    let is_hot = |n: u32| (10..89).contains(&(n % 100)) || n % 100 > 96;
    rig.enqueue(1..=800, move |n| if is_hot(n) { "hot".into() } else { format!("cold-{}", n % 100) });
    let starts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&starts);
    let summary = rig.run_until_empty("w", move |job: JobContext| {
        seen.lock().unwrap().push((job.job.key.as_bytes() == b"hot", job.offset.0));
        async move {
            if job.job.key.as_bytes() == b"hot" {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tell(&job)
        }
    });
    assert_eq!(summary.applied, 800);
    rig.assert_once_in_order(800);
    let starts = starts.lock().unwrap();
    let all_hot = starts.iter().filter(|(hot, _)| *hot).count();
    let mut hot_before = 0;
    let mut late = 0;
    for &(hot, offset) in starts.iter() {
        // As many hot jobs lie before it on the log.
        let ahead = (1..=offset as u32).filter(|&n| is_hot(n)).count();
        hot_before += usize::from(hot);
        late += usize::from(!hot && hot_before > ahead + 8);
    }
    assert!(late * 100 <= starts.len() - all_hot, "{late} cold jobs started behind hot ones that came after them");
    let last_cold = starts.iter().rposition(|(hot, _)| !hot).unwrap();
    let hot_by_then = starts[..last_cold].iter().filter(|(hot, _)| *hot).count();
    assert!(hot_by_then * 2 < all_hot, "the last cold job came after {hot_by_then} of {all_hot} hot ones");
}

/// R05: handlers that burn every thread delay no poll and no proof.
#[test]
fn handlers_that_never_await_do_not_cost_the_partition() {
    let session = Duration::from_secs(3);
    let rig = Rig::with(4, move |settings| {
        settings.handler_threads = 2;
        settings.ownership.session = session;
    });
    rig.enqueue(1..=4, |n| format!("k{n}"));
    let lost = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lost);
    let worker = rig.spawn_with(
        "w",
        Duration::from_secs(60),
        move |job: JobContext| async move {
            let until = std::time::SystemTime::now() + session * 2;
            while std::time::SystemTime::now() < until {
                std::hint::spin_loop();
            }
            tell(&job)
        },
        move |notice| {
            // A short halt is the machine's: this test burns all of it.
            if matches!(notice, Notice::Lost(_)) {
                seen.lock().unwrap().push(notice.clone());
            }
        },
    );
    rig.wait_for("all four", || rig.told().len() == 4);
    assert!(worker.end().clean);
    assert_eq!(*lost.lock().unwrap(), []);
    rig.assert_once_in_order(4);
}

/// R12: nothing queued starts once the partition was asked back.
#[test]
fn nothing_queued_starts_after_the_revoke() {
    let rig = Rig::with(1, |settings| settings.lanes.running = 1);
    rig.enqueue(1..=3, |n| format!("k{n}"));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let begun = Arc::new(AtomicU32::new(0));
    let (handler_gate, count) = (Arc::clone(&gate), Arc::clone(&begun));
    let worker = rig.spawn("w", move |job: JobContext| {
        let gate = Arc::clone(&handler_gate);
        count.fetch_add(1, Ordering::SeqCst);
        async move {
            gate.acquire().await.expect("open").forget();
            tell(&job)
        }
    });
    rig.wait_for("one begun", || begun.load(Ordering::SeqCst) == 1);
    worker.ask_to_end();
    rig.wait_for("it is ending", || worker.is_ending());
    gate.add_permits(3);
    let summary = worker.join();
    assert_eq!((begun.load(Ordering::SeqCst), summary.applied, summary.clean), (1, 1, true));
    assert_eq!(rig.told().len(), 1);
    let _ = rig.run_until_empty("v", |job: JobContext| async move { tell(&job) });
    rig.assert_once_in_order(3);
}

/// R12 with a second worker that joins: nothing queued of what was asked back starts, and the other partition goes on.
#[test]
fn nothing_queued_starts_after_another_worker_was_promised_the_partition() {
    let rig = Rig::with(2, |settings| settings.lanes.running = 1);
    rig.enqueue(1..=40, |n| format!("k{n}"));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let log = Arc::new(Mutex::new(Vec::new()));
    let (handler_gate, begun, told) = (Arc::clone(&gate), Arc::clone(&log), Arc::clone(&log));
    let first = rig.spawn_with(
        "first",
        Duration::from_secs(60),
        move |job: JobContext| {
            let gate = Arc::clone(&handler_gate);
            begun.lock().unwrap().push(Step::Began(job.partition));
            async move {
                gate.acquire().await.expect("open").forget();
                tell(&job)
            }
        },
        move |notice| {
            if let Notice::Draining(partitions) = notice {
                told.lock().unwrap().extend(partitions.iter().map(|&p| Step::AskedBack(p)));
            }
        },
    );
    rig.wait_for("one runs", || log.lock().unwrap().len() == 1);
    let second = rig.spawn("second", |job: JobContext| async move { tell(&job) });
    let asked = || {
        log.lock().unwrap().iter().find_map(|step| match step {
            Step::AskedBack(partition) => Some(*partition),
            Step::Began(_) => None,
        })
    };
    rig.wait_for("one is asked back", || asked().is_some());
    gate.add_permits(1_000);
    rig.wait_for("all jobs", || rig.told().len() == 40);
    let partition = asked().unwrap();
    let steps = log.lock().unwrap();
    let after: Vec<_> = steps.iter().skip_while(|step| !matches!(step, Step::AskedBack(_))).collect();
    assert!(!after.contains(&&Step::Began(partition)), "{after:?}");
    assert!(after.iter().any(|step| matches!(step, Step::Began(_))), "the other partition went on: {after:?}");
    drop(steps);
    assert!(first.end().clean && second.end().clean);
    rig.assert_once_in_order(40);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Began(Partition),
    AskedBack(Partition),
}

#[test]
fn records_of_other_producers_without_a_fitting_key_are_put_aside() {
    let rig = Rig::new(2);
    rig.append_raw(0, None);
    rig.append_raw(0, Some(rig.key_of_partition(1)));
    rig.enqueue(1..=3, |n| format!("k{n}"));
    let summary = rig.run_until_empty("w", |job: JobContext| async move { tell(&job) });
    assert_eq!((summary.applied, rig.quarantined()), (3, 2));
    let told: Vec<Told> = rig.told();
    assert_eq!(told.len(), 3);
}

/// R23, R24: a lane is a key's bytes, whatever they are; no body is not an empty one; a key that is empty, missing or too long is
/// put aside and holds up nobody.
#[test]
fn keys_are_bytes_and_odd_ones_hold_up_nobody() {
    let rig = Rig::new(2);
    let keys: [&[u8]; 6] = [&[0], &[0, 0, 0, 0, 7, 0xc3, 0x28], &[0xff], &[0xfe], b"hex:00", &[b'k'; 1_024]];
    for key in keys {
        rig.append_bytes(key, None);
        rig.append_bytes(key, Some(b""));
    }
    rig.append_bytes(b"", Some(b"x"));
    rig.append_bytes(&[b'k'; 1_025], Some(b"x"));
    rig.append_raw(0, None);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let summary = rig.run_until_empty("w", move |job: JobContext| {
        sees.lock().unwrap().push((job.job.key.as_bytes().to_vec(), job.job.payload.clone()));
        async { Outcome::<SqliteStore>::done() }
    });
    assert_eq!((summary.applied, rig.quarantined()), (12, 3));
    let seen = seen.lock().unwrap();
    for key in keys {
        let bodies: Vec<_> = seen.iter().filter(|(of, _)| of == key).map(|(_, body)| body.as_deref()).collect();
        assert_eq!(bodies, [None, Some(&b""[..])], "in order, and apart");
    }
}
