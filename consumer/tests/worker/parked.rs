//! Keys whose job cannot be done: they stand in the store, in their order, until a person has them run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use keylane_consumer::{JobContext, store::StopRule};

use crate::{
    Answer,
    rig::{Rig, tell},
};

#[test]
fn a_rejected_job_stops_its_key_and_no_other_until_a_person_releases_it() {
    let rig = Rig::new(2);
    rig.enqueue(1..=4, |_| "bad".into());
    rig.enqueue(5..=14, |n| format!("good-{n}"));
    let summary = rig.run_until_empty("w", |job: JobContext| async move {
        if job.job.payload.as_deref() == Some(b"1") { Answer::reject("will never work") } else { tell(&job) }
    });
    assert_eq!((summary.applied, summary.stopped, summary.keys_left), (10, 1, 1));
    assert!(!rig.told().iter().any(|t| t.key == "bad"));
    // It stands for the next owner as well.
    let summary = rig.run_until_empty("v", |job: JobContext| async move { tell(&job) });
    assert_eq!((summary.applied, summary.keys_left), (0, 1));
    // Released while a worker runs.
    let worker = rig.spawn("x", |job: JobContext| async move { tell(&job) });
    rig.wait_for("x owns both", || worker.owned() == 2);
    assert!(rig.release("bad"));
    rig.wait_for("all told", || rig.told().len() == 14);
    assert!(worker.end().clean);
    rig.assert_once_in_order(14);
    let summary = rig.run_until_empty("y", |_: JobContext| async { Answer::done() });
    assert_eq!((summary.applied, summary.keys_left), (0, 0), "the row is gone");
}

/// Its followers are no longer held in memory, and the log behind it is free.
#[test]
fn a_parked_key_leaves_its_partition_and_its_newer_jobs_join_its_line() {
    let rig = Rig::new(1);
    rig.enqueue(1..=200, |n| if n % 2 == 0 { "bad".into() } else { format!("good-{n}") });
    let reject = |job: JobContext| async move {
        if job.job.key.as_bytes() == b"bad" { Answer::reject("no such account") } else { tell(&job) }
    };
    let summary = rig.run_until_empty("w", reject);
    assert_eq!((summary.applied, summary.stopped, summary.parked, summary.keys_left), (100, 1, 99, 1));
    assert_eq!(rig.line("bad"), ((0..200).filter(|n| n % 2 == 1).collect(), 200));
    // Another owner puts what comes behind them.
    rig.enqueue(201..=210, |_| "bad".into());
    let summary = rig.run_until_empty("v", |job: JobContext| async move { tell(&job) });
    assert_eq!((summary.applied, summary.parked), (0, 10));
    assert_eq!((rig.line("bad").0.len(), rig.line("bad").1), (110, 210));
    assert!(rig.release("bad"));
    let summary = rig.run_until_empty("x", |job: JobContext| async move { tell(&job) });
    assert_eq!((summary.applied, summary.keys_left), (110, 0));
    rig.assert_once_in_order(210);
}

#[test]
fn a_line_is_replayed_before_newer_jobs_also_when_its_owner_changes_in_the_middle() {
    let rig = Rig::new(1);
    rig.enqueue(1..=100, |_| "bad".into());
    let summary = rig.run_until_empty("w", |_: JobContext| async { Answer::reject("not yet") });
    assert_eq!((summary.stopped, summary.parked), (1, 99));
    let slow = |job: JobContext| async move {
        tokio::time::sleep(Duration::from_millis(2)).await;
        tell(&job)
    };
    let first = rig.spawn("first", slow);
    rig.wait_for("it owns it", || first.owned() == 1);
    assert!(rig.release("bad"));
    rig.wait_for("some of the line", || rig.told().len() > 10);
    rig.enqueue(101..=120, |_| "bad".into());
    first.end();
    assert!(rig.told().len() < 120, "it ended in the middle");
    let second = rig.spawn("second", slow);
    rig.wait_for("all of it", || rig.told().len() == 120);
    assert!(second.end().clean);
    rig.assert_once_in_order(120);
    assert_eq!(rig.line("bad").0, Vec::<u64>::new());
}

#[test]
fn a_partition_whose_lines_are_full_holds_back_and_goes_on_when_there_is_room() {
    let rig = Rig::with(1, |settings| settings.line_room = 3);
    rig.enqueue(1..=10, |_| "bad".into());
    rig.enqueue(11..=20, |n| format!("good-{n}"));
    let open = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&open);
    let handler = move |job: JobContext| {
        let rejects = job.job.key.as_bytes() == b"bad" && !gate.load(Ordering::SeqCst);
        async move { if rejects { Answer::reject("not yet") } else { tell(&job) } }
    };
    let worker = rig.spawn("w", handler.clone());
    rig.wait_for("the line is full", || rig.line("bad").0.len() == 3);
    rig.wait_for("the others go on", || rig.told().len() == 10);
    // One that comes after it finds the same, and ends in order.
    assert!(worker.end().clean);
    assert_eq!(rig.line("bad").0, [0, 1, 2]);
    let worker = rig.spawn("v", handler);
    rig.wait_for("v owns it", || worker.owned() == 1);
    open.store(true, Ordering::SeqCst);
    assert!(rig.release("bad"));
    rig.wait_for("all told", || rig.told().len() == 20);
    assert!(worker.end().clean);
    rig.assert_once_in_order(20);
}

#[test]
fn a_job_that_fails_for_longer_than_it_may_is_parked_whatever_its_tries() {
    let rig = Rig::with(1, |settings| {
        settings.retry.attempts = u32::MAX;
        settings.retry.give_up_after = Some(Duration::from_millis(200));
    });
    rig.enqueue(1..=3, |_| "bad".into());
    rig.enqueue(4..=9, |n| format!("good-{n}"));
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let summary = rig.run_until_empty("w", move |job: JobContext| {
        let fails = job.job.key.as_bytes() == b"bad";
        counted.fetch_add(u32::from(fails), Ordering::SeqCst);
        async move { if fails { Answer::retry("not yet") } else { tell(&job) } }
    });
    assert_eq!((summary.applied, summary.stopped, summary.parked, summary.keys_left), (6, 1, 2, 1));
    assert!(tries.load(Ordering::SeqCst) > 1, "it was tried again before");
    assert_eq!(rig.stop_rule("bad"), StopRule::OutOfTime);
}
