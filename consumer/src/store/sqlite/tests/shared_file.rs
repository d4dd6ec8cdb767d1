//! Several connections at one file: opening at once, busy, full, and zombies that hammer while a claim comes.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use keylane_producer::{JobId, sqlite::Patience};

use super::{File, FileRig, endless, tell};
use crate::{
    Error,
    fence::{Fence, Fenced},
    store::{
        FencedStore, ResultsOf, StoreSession, Write,
        conformance::{P0, P1, Place, candidate, group, job, key, letters, queue},
        sqlite::SqliteStore,
    },
};

#[test]
fn many_that_open_at_once_all_succeed() {
    for _ in 0..5 {
        let folder = tempfile::TempDir::new().unwrap();
        let start = Arc::new(Barrier::new(8));
        let openers: Vec<_> = (0..8)
            .map(|_| {
                let (start, store) = (start.clone(), SqliteStore::new(folder.path().join("new.db")));
                thread::spawn(move || {
                    start.wait();
                    store.open(&queue(), &group()).map(drop)
                })
            })
            .collect();
        openers.into_iter().for_each(|opener| opener.join().unwrap().unwrap());
    }
}

#[test]
fn a_store_of_a_newer_version_is_left_alone() {
    let rig = FileRig::new();
    drop(rig.session());
    rig.place.sql().execute("UPDATE keylane_schema SET version = 99", []).unwrap();
    let error = rig.place.store().open(&queue(), &group()).err().unwrap();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
}

/// A writer that is stopped inside its transaction holds the file's write lock. Others say so, and go on after it.
#[test]
fn a_held_write_lock_is_unavailable_and_the_batch_stays_whole() {
    let rig = FileRig::at(File::fresh().with(|store| store.with_patience(Patience::Brisk)));
    let mut a = rig.claim("a", 1, P0);
    let mut batch = [a.part(vec![rig.job("k", 0)])];
    let holder = rig.place.sql();
    holder.execute_batch("BEGIN IMMEDIATE; INSERT INTO told (line) VALUES ('lost with its transaction')").unwrap();
    let error = a.session.write(&mut batch).unwrap_err();
    assert!(error.is_transient() && error.detail().remedy_text().is_some(), "{error:?}");
    let answer = rig.try_claim(&candidate("b", 2, P0));
    assert!(matches!(answer, Err(crate::store::ClaimError::Failed(Error::Unavailable(_)))));
    assert!(a.session.overview().is_ok(), "who only looks does not wait");
    holder.execute_batch("ROLLBACK").unwrap();
    let answers = a.session.write(&mut batch).unwrap();
    assert_eq!(letters(answers[0].jobs.as_ref().unwrap()), "a");
    assert_eq!(rig.place.told(), ["k:0"]);
}

#[test]
fn a_write_waits_for_another_writer() {
    let rig = FileRig::new();
    let mut a = rig.claim("a", 1, P0);
    let other = rig.place.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (tell_end, end) = mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        let _ = end.recv_timeout(Duration::from_secs(3));
        other.execute_batch("COMMIT").unwrap();
    });
    assert_eq!(letters(&a.write(vec![rig.job("k", 0)]).unwrap()), "a");
    drop(tell_end);
    holder.join().unwrap();
}

#[test]
fn a_full_disk_is_unavailable_and_the_same_batch_succeeds_when_there_is_space() {
    let rig = FileRig::new();
    let mut a = rig.claim("a", 1, P0);
    let also = rig.claim("a", 1, P1);
    let large = || Write::Result(Bytes::from(format!("\"{}\"", "x".repeat(200_000))));
    let text = "y".repeat(200_000);
    let effect = || Write::Effect(tell(&text));
    let wrapped = || {
        let text = text.clone();
        Write::Effect(crate::store::Effect::new(move |tx: &mut rusqlite::Savepoint<'_>| {
            tx.execute("INSERT INTO told (line) VALUES (?1)", [&text]).map_err(|e| format!("my own words: {e}"))?;
            Ok(())
        }))
    };
    for (at, write) in
        [large as fn() -> Write<SqliteStore>].iter().map(|f| f()).chain([effect(), wrapped()]).enumerate()
    {
        let offset = u64::try_from(at).unwrap();
        let mut batch = [
            a.part(vec![rig.job("k", offset * 2), job("l", offset * 2 + 1, write)]),
            also.part(vec![rig.job("m", offset)]),
        ];
        let pages: i64 = a.session.connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        a.session.connection.pragma_update(None, "max_page_count", pages).unwrap();
        for _ in 0..2 {
            let error = a.session.write(&mut batch).unwrap_err();
            assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        }
        a.session.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
        let answers = a.session.write(&mut batch).unwrap();
        assert_eq!(letters(answers[0].jobs.as_ref().unwrap()), "aa");
        assert_eq!(letters(answers[1].jobs.as_ref().unwrap()), "a");
    }
}

/// Sixteen writers with an old token, back to back, while a claim comes: it is granted, and none of them lands after it.
#[test]
fn a_claim_is_granted_under_hammering_zombies_and_none_writes_after_it() {
    let rig = FileRig::new();
    let fence = Fence::raise(P0, rig.claim("old", 1, P0).claimed.token, endless());
    let (running, landed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let zombies: Vec<_> = (0..16_u64)
        .map(|zombie| {
            let (fence, running, landed, mut session) = (fence.clone(), running.clone(), landed.clone(), rig.session());
            thread::spawn(move || {
                let mut refused = 0_u64;
                for turn in 0.. {
                    if refused > 0 && !running.load(Ordering::Relaxed) {
                        return refused;
                    }
                    let write = job("k", zombie * 1_000_000 + turn, Write::Effect(tell("zombie")));
                    let part = crate::store::PartitionWrite {
                        fence: fence.clone(),
                        jobs: vec![write],
                        quarantined: vec![],
                        watermark: keylane_producer::Offset(0),
                        resumed: vec![],
                        line_room: 100,
                    };
                    match session.write(&mut [part]) {
                        Ok(answers) if answers[0].jobs.is_ok() => {
                            landed.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(answers) => {
                            assert_eq!(*answers[0].jobs.as_ref().unwrap_err(), Fenced::NewerClaim);
                            refused += 1;
                        }
                        Err(error) => assert!(error.is_transient(), "{error:?}"),
                    }
                }
                unreachable!("the loop has no end")
            })
        })
        .collect();
    until(|| landed.load(Ordering::Relaxed) > 50);
    let mut new = rig.claim("new", 2, P0);
    // What this transaction sees is all that ever lands of theirs.
    assert_eq!(letters(&new.write(vec![job("n", 77, Write::Effect(tell("new")))]).unwrap()), "a");
    running.store(false, Ordering::Relaxed);
    let refused: u64 = zombies.into_iter().map(|zombie| zombie.join().unwrap()).sum();
    assert!(refused >= 16);
    let told = rig.place.told();
    assert_eq!(told.last().map(String::as_str), Some("new"), "no zombie after the claim");
    assert_eq!(u64::try_from(told.len()).unwrap(), landed.load(Ordering::Relaxed) + 1);
    let counted = &new.session.overview().unwrap()[0].refused[0];
    assert_eq!((&*counted.worker, counted.writes <= refused, counted.writes > 0), ("old", true, true));
}

#[test]
fn results_are_read_by_key_and_by_job_in_order() {
    let rig = FileRig::new();
    assert!(read(&rig.place.store, &ResultsOf::Everything).is_empty(), "no store yet, no results");
    let (mut a, mut b) = (rig.claim("a", 1, P0), rig.claim("a", 1, P1));
    let result = |key: &str, offset: u64| job(key, offset, Write::Result(Bytes::from(offset.to_string())));
    b.write(vec![result("k", 0)]).unwrap();
    let named = result("l", 9);
    let id = named.job.id.clone();
    a.write(vec![named, result("k", 3), result("k", 12)]).unwrap();
    let store = &rig.place.store;
    assert_eq!(read(store, &ResultsOf::Everything), [(0, 3), (0, 9), (0, 12), (1, 0)]);
    assert_eq!(read(store, &ResultsOf::Key(key("k"))), [(0, 3), (0, 12), (1, 0)]);
    assert_eq!(read(store, &ResultsOf::Job(id)), [(0, 9)]);
    assert!(read(store, &ResultsOf::Job(JobId::fresh())).is_empty());
    let mut seen = 0;
    let stop_at_once = &mut |_| {
        seen += 1;
        ControlFlow::Break(())
    };
    store.results(&ResultsOf::Everything, stop_at_once).unwrap();
    assert_eq!(seen, 1);
}

fn read(store: &SqliteStore, which: &ResultsOf) -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    store
        .results(which, &mut |row| {
            found.push((row.partition.0, row.offset.0));
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

/// Waits for a condition, up to half a minute.
pub(super) fn until(mut condition: impl FnMut() -> bool) {
    let (_never, wait) = mpsc::channel::<()>();
    for _ in 0..3_000 {
        if condition() {
            return;
        }
        let _ = wait.recv_timeout(Duration::from_millis(10));
    }
    panic!("the condition did not come true in 30 s");
}
