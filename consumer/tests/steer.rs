//! When jobs fail, and what persons do then: dead letters, keys that are paused, jobs that are left out. Whole workers on the
//! embedded engine.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "worker/rig.rs"]
mod rig;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use keylane_consumer::{
    JobContext, Notice, Outcome, WorkerSettings,
    store::{DeadAct, DeadActed, DeadOrder, Skipping, Steer, StopRule, StoreSession, sqlite::SqliteStore},
};
use keylane_producer::Offset;
use rig::{Rig, Told, tell};
use tokio::sync::Semaphore;

type Answer = Outcome<SqliteStore>;

fn leaves(settings: &mut WorkerSettings) {
    settings.dead_letter = vec![StopRule::Rejected, StopRule::OutOfAttempts];
}

fn order(number: u64, act: DeadAct) -> DeadOrder {
    DeadOrder { number, act, who: "a person".into(), why: "a reason".into() }
}

/// The offsets that were told for a key, in order.
fn offsets(told: &[Told], key: &str) -> Vec<u64> {
    told.iter().filter(|told| told.key == key).map(|told| told.offset).collect()
}

/// R27: one job leaves, with one write; and it is the job as it was.
#[test]
fn a_dead_letter_leaves_alone_and_its_followers_go_on() {
    let rig = Rig::with(1, leaves);
    rig.enqueue(1..=50, |n| if n % 2 == 0 { "bad".into() } else { format!("good-{n}") });
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let summary = rig.run_until_empty("w", move |job: JobContext| {
        let fails = job.job.payload.as_deref() == Some(b"10");
        counted.fetch_add(u32::from(fails), Ordering::SeqCst);
        async move { if fails { Answer::retry("no such account") } else { tell(&job) } }
    });
    assert_eq!((summary.applied, summary.buried, summary.stopped, summary.keys_left), (49, 1, 0, 0));
    assert_eq!(tries.load(Ordering::SeqCst), 5, "after all its tries");
    assert_eq!(offsets(&rig.told(), "bad").len(), 24);
    let mut person = rig.person();
    let dead = person.dead_letters(0, 10).unwrap();
    assert_eq!((dead.len(), dead[0].offset, dead[0].attempts.0), (1, Offset(9), 5));
    assert_eq!((dead[0].reason.rule, &*dead[0].reason.text), (StopRule::OutOfAttempts, "no such account"));
    let whole = person.dead_job(dead[0].number).unwrap().unwrap();
    assert_eq!(whole.record.value.as_deref(), Some(&b"10"[..]));
}

#[test]
fn a_dead_letter_is_replayed_before_newer_jobs_of_its_key_and_once() {
    let rig = Rig::with(1, leaves);
    rig.enqueue(1..=3, |_| "k".into());
    let summary = rig.run_until_empty("w", |job: JobContext| async move {
        if job.offset == Offset(1) { Answer::reject("not yet") } else { tell(&job) }
    });
    assert_eq!((summary.applied, summary.buried), (2, 1));
    // While it is replayed the key is busy with a job that came later, and more follow.
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let told = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&told);
    let handler = move |job: JobContext| {
        let open = Arc::clone(&open);
        async move {
            if job.offset == Offset(3) {
                open.acquire().await.unwrap().forget();
            }
            tell(&job)
        }
    };
    let worker = rig.spawn_with("v", Duration::from_secs(60), handler, move |notice| {
        if matches!(notice, Notice::KeyReleased { .. }) {
            tells.store(true, Ordering::SeqCst);
        }
    });
    rig.wait_for("v owns it", || worker.owned() == 1);
    rig.enqueue(4..=20, |_| "k".into());
    let mut person = rig.person();
    let letter = person.dead_letters(0, 10).unwrap().remove(0);
    assert_eq!(person.act_on_dead(&order(letter.number, DeadAct::Replay)).unwrap(), DeadActed::Done);
    // What follows the job that runs goes to the line with it as soon as the owner has looked.
    rig.wait_for("the owner looked", || told.load(Ordering::SeqCst));
    gate.add_permits(1);
    rig.wait_for("all told", || rig.told().len() == 20);
    assert!(worker.end().clean);
    assert_eq!(offsets(&rig.told(), "k")[..5], [0, 2, 3, 1, 4], "after what ran, before what waited");
    assert_eq!(rig.line("k").0, Vec::<u64>::new());
    let summary = rig.run_until_empty("x", |_: JobContext| async { Answer::done() });
    assert_eq!((summary.applied, summary.keys_left), (0, 0), "the row is gone");
}

#[test]
fn a_paused_key_waits_in_its_line_and_others_flow() {
    let rig = Rig::new(1);
    let worker = rig.spawn("w", |job: JobContext| async move { tell(&job) });
    rig.wait_for("w owns it", || worker.owned() == 1);
    assert!(rig.person().pause(&rig.steer("k")).unwrap());
    let sent = std::cell::Cell::new(0);
    let send = |jobs: u32| {
        rig.enqueue(1..=jobs, |_| "k".into());
        sent.set(sent.get() + jobs as usize);
    };
    rig.wait_for("the pause is seen", || {
        send(1);
        !rig.line("k").0.is_empty()
    });
    let in_line = || offsets(&rig.told(), "k").len() + rig.line("k").0.len() == sent.get();
    rig.wait_for("what runs has ended", in_line);
    let before = offsets(&rig.told(), "k").len();
    send(10);
    rig.enqueue(1..=10, |n| format!("other-{n}"));
    rig.wait_for("the others flow", || rig.told().len() == before + 10);
    rig.wait_for("it waits in its line", in_line);
    assert!(worker.end().clean);
    // The next owner holds to it.
    let worker = rig.spawn("v", |job: JobContext| async move { tell(&job) });
    rig.wait_for("v owns it", || worker.owned() == 1);
    send(1);
    rig.wait_for("it is in the line", in_line);
    assert_eq!((offsets(&rig.told(), "k").len(), rig.stop_rule("k")), (before, StopRule::Paused), "nothing of it ran");
    assert!(rig.release("k"));
    rig.wait_for("all of it", || offsets(&rig.told(), "k").len() == sent.get());
    assert!(worker.end().clean);
    rig.assert_once_in_order(sent.get() + 10);
}

/// What waits for another try stands still too, and keeps its place.
#[test]
fn a_key_that_is_paused_while_its_first_job_fails_goes_on_with_it() {
    let rig = Rig::with(1, |settings| settings.retry.attempts = u32::MAX);
    rig.enqueue(1..=5, |_| "k".into());
    let heals = Arc::new(AtomicBool::new(false));
    let healed = Arc::clone(&heals);
    let worker = rig.spawn("w", move |job: JobContext| {
        let fails = job.offset == Offset(0) && !healed.load(Ordering::SeqCst);
        async move { if fails { Answer::retry("not yet") } else { tell(&job) } }
    });
    rig.wait_for("w owns it", || worker.owned() == 1);
    assert!(rig.person().pause(&rig.steer("k")).unwrap());
    rig.wait_for("all are in the line", || rig.line("k").0 == [0, 1, 2, 3, 4]);
    heals.store(true, Ordering::SeqCst);
    assert!(rig.release("k"));
    rig.wait_for("all told", || rig.told().len() == 5);
    assert!(worker.end().clean);
    rig.assert_once_in_order(5);
}

#[test]
fn a_job_that_waits_for_another_try_is_left_out_by_name() {
    let rig = Rig::with(1, |settings| {
        settings.retry.attempts = u32::MAX;
        settings.retry.longest = Duration::from_secs(600);
    });
    rig.enqueue(1..=5, |_| "k".into());
    let failed = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&failed);
    let worker = rig.spawn("w", move |job: JobContext| {
        let fails = job.offset == Offset(1);
        counted.fetch_add(u32::from(fails), Ordering::SeqCst);
        async move { if fails { Answer::retry_after("not yet", Duration::from_secs(300)) } else { tell(&job) } }
    });
    rig.wait_for("it failed", || failed.load(Ordering::SeqCst) == 1);
    let mut person = rig.person();
    assert_eq!(person.skip(&rig.steer("k"), Offset(1)).unwrap(), Skipping::Ordered);
    rig.wait_for("the others go on", || rig.told().len() == 4);
    assert_eq!(worker.end().buried, 1);
    assert_eq!(offsets(&rig.told(), "k"), [0, 2, 3, 4]);
    let dead = person.dead_letters(0, 10).unwrap();
    assert_eq!(
        (dead.len(), dead[0].offset, dead[0].reason.rule, dead[0].attempts.0),
        (1, Offset(1), StopRule::Skipped, 1)
    );
    assert_eq!(&*dead[0].reason.text, "a person: a reason");
    assert_eq!(person.skip(&rig.steer("k"), Offset(1)).unwrap(), Skipping::Done);
}

/// Before it was ever started, and by an owner that came after the order.
#[test]
fn a_job_that_was_named_before_its_turn_never_runs() {
    let rig = Rig::new(1);
    rig.enqueue(1..=5, |_| "k".into());
    // The first owner pins the queue.
    let first = rig.spawn("first", |_: JobContext| async { std::future::pending::<Answer>().await });
    rig.wait_for("it owns it", || first.owned() == 1);
    assert_eq!(rig.person().skip(&rig.steer("k"), Offset(2)).unwrap(), Skipping::Ordered);
    first.force();
    let ran = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ran);
    let summary = rig.run_until_empty("w", move |job: JobContext| {
        counted.fetch_add(u32::from(job.offset == Offset(2)), Ordering::SeqCst);
        async move { tell(&job) }
    });
    assert_eq!((summary.applied, summary.buried, ran.load(Ordering::SeqCst)), (4, 1, 0));
    let mut person = rig.person();
    let dead = person.dead_letters(0, 10).unwrap();
    assert_eq!(dead[0].attempts.0, 0, "it was never tried");
    assert!(person.steering(&[rig.steer("k").partition]).unwrap().skips.is_empty());
}

#[test]
fn a_job_of_a_line_that_is_replayed_is_left_out() {
    let rig = Rig::new(1);
    rig.enqueue(1..=4, |_| "k".into());
    let summary = rig.run_until_empty("w", |_: JobContext| async { Answer::reject("not yet") });
    assert_eq!((summary.stopped, summary.parked), (1, 3));
    assert!(rig.release("k"));
    assert_eq!(rig.person().skip(&rig.steer("k"), Offset(2)).unwrap(), Skipping::Ordered);
    let summary = rig.run_until_empty("v", |job: JobContext| async move { tell(&job) });
    assert_eq!((summary.applied, summary.buried, summary.keys_left), (3, 1, 0));
    assert_eq!(offsets(&rig.told(), "k"), [0, 1, 3]);
}

/// R29 and its kind: no place for dead letters. The job keeps its place, others go on, and it leaves by itself, once, when there is room.
#[test]
fn a_dead_letter_without_room_keeps_its_place_and_leaves_when_there_is_some() {
    let rig = Rig::with(1, |settings| {
        leaves(settings);
        settings.line_room = 2;
    });
    rig.enqueue(1..=9, |n| format!("bad-{}", n % 3));
    rig.enqueue(10..=20, |n| format!("good-{n}"));
    let worker = rig.spawn("w", |job: JobContext| async move {
        let rejects = job.job.key.as_bytes().starts_with(b"bad") && job.offset < Offset(3);
        if rejects { Answer::reject("no") } else { tell(&job) }
    });
    rig.wait_for("the others go on", || rig.told().len() == 11 + 4);
    let mut person = rig.person();
    assert_eq!(person.dead_letters(0, 10).unwrap().len(), 2);
    let first = person.dead_letters(0, 1).unwrap().remove(0);
    assert_eq!(person.act_on_dead(&order(first.number, DeadAct::Drop)).unwrap(), DeadActed::Done);
    rig.wait_for("its followers go on", || rig.told().len() == 11 + 6);
    assert_eq!(worker.end().buried, 3);
    assert_eq!(person.dead_letters(0, 10).unwrap().len(), 2, "and there is one of it");
}

/// R30 with this policy: the killer leaves alone, and is not tried beyond its attempts.
#[test]
fn what_is_left_out_is_in_nobodys_way_after_a_hand_over() {
    let rig = Rig::with(1, leaves);
    rig.enqueue(1..=6, |_| "k".into());
    let summary = rig.run_until_empty("w", |job: JobContext| async move {
        if job.offset.0.is_multiple_of(2) { Answer::reject("no") } else { tell(&job) }
    });
    assert_eq!((summary.applied, summary.buried), (3, 3));
    let summary = rig.run_until_empty("v", |_: JobContext| async { Answer::done() });
    assert_eq!((summary.applied, summary.buried, summary.already_done), (0, 0, 0), "nothing of it runs again");
}

#[test]
fn people_are_told_which_keys_wait_and_why_their_partition_stands_still() {
    let rig = Rig::with(1, |settings| {
        settings.stall_after = Duration::from_millis(300);
        settings.retry.longest = Duration::from_secs(600);
    });
    rig.enqueue(1..=30, |_| "k".into());
    let worker =
        rig.spawn("w", |_: JobContext| async { Answer::retry_after("the bank is closed", Duration::from_secs(500)) });
    let note = || rig.person().overview().unwrap().swap_remove(0).note.map(|read| read.note);
    rig.wait_for("it is told", || note().is_some_and(|note| note.stall.is_some()));
    let note = note().unwrap();
    assert_eq!(note.stall.unwrap().cause, "key k waits for its next try");
    let [retry] = &note.retrying[..] else { panic!("{:?}", note.retrying) };
    assert_eq!((&*retry.key, retry.offset, retry.attempts, &*retry.reason), ("k", 0, 1, "the bank is closed"));
    assert!(retry.next_try > keylane_producer::Timestamp::now().0 + 400_000);
    assert_eq!((&*note.hot[0].key, note.hot[0].waiting), ("k", 30));
    assert!(worker.end().clean);
    // The next owner begins with an empty page, and has nothing to tell.
    let second = rig.spawn("v", |job: JobContext| async move { tell(&job) });
    rig.wait_for("all told", || rig.told().len() == 30);
    assert!(rig.person().overview().unwrap()[0].note.is_none());
    assert!(second.end().clean);
}

/// R13: what is done above a job that does not end needs no room in a commit, and none of it is run again.
#[test]
fn any_number_is_done_above_a_job_that_hangs_and_nothing_but_that_is_run_again() {
    const JOBS: u32 = 20_000;
    let rig = Rig::new(1);
    rig.enqueue(1..=JOBS, |n| format!("key-{n}"));
    let worker = rig.spawn("w", |job: JobContext| async move {
        match job.offset.0 {
            0 => std::future::pending().await,
            offset if offset % 2 == 1 && job.attempt.0 == 1 => Answer::retry("busy"),
            _ => tell(&job),
        }
    });
    rig.wait_for("all others are done", || rig.told().len() + 1 == JOBS as usize);
    let markers = "SELECT count(*) FROM keylane_marker";
    let rows = || rig.store_file().query_row(markers, [], |row| row.get::<_, i64>(0)).unwrap();
    rig.wait_for("they are two ranges at most", || rows() <= 2);
    worker.force();
    let ran = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&ran);
    let summary = rig.run_until_empty("v", move |job: JobContext| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { tell(&job) }
    });
    assert_eq!((ran.load(Ordering::SeqCst), summary.applied), (1, 1));
    assert_eq!(rig.told().len(), JOBS as usize);
}
