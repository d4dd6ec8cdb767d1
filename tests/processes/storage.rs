//! R34: a store that is busy, full or broken.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};

use crate::{
    fleet::{Fleet, Worker},
    journal,
    process::{Ended, pause, wait_until},
};

/// Nobody was blamed: no try failed and no key stopped.
fn nobody_was_blamed(fleet: &Fleet, worker: &Worker) {
    assert_eq!(worker.told("will_retry") + worker.told("key_stopped"), 0, "{}", fleet.report());
    assert_eq!(fleet.number("SELECT count(*) FROM keylane_stopped"), 0);
}

#[test]
fn a_store_that_another_process_locks_again_and_again_is_waited_for() {
    let fleet = Fleet::new(4, &["--concurrency", "64", "--session-timeout", "5s"]);
    let mut worker = fleet.start("w", journal::HANDLER);
    wait_until("it holds all", || worker.told("took_over") == 4);
    let over = AtomicBool::new(false);
    let mut all = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let hog = fleet.store();
            hog.execute_batch("CREATE TABLE hog (n INTEGER)").unwrap();
            while !over.load(Ordering::SeqCst) {
                hog.execute_batch("BEGIN IMMEDIATE; INSERT INTO hog VALUES (1)").unwrap();
                pause(Duration::from_secs(3));
                hog.execute_batch("COMMIT").unwrap();
                pause(Duration::from_secs(2));
            }
        });
        for _ in 0..10 {
            fleet.enqueue((0..200).map(|n| format!("k{}", n % 100)));
            all += 200;
            pause(Duration::from_millis(800));
        }
        wait_until("all is done", || fleet.count() == all);
        over.store(true, Ordering::SeqCst);
    });
    nobody_was_blamed(&fleet, &worker);
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait_end(Duration::from_secs(30)), 0, "{}", fleet.report());
    fleet.judge().unwrap_or_else(|broken| panic!("{broken}\n{}", fleet.report()));
}

/// Answers with two kilobytes, so that the store grows.
const WORDY: &str = r#"
pad=................................................................
pad=$pad$pad$pad$pad$pad$pad$pad$pad; pad=$pad$pad$pad$pad
while IFS= read -r line; do
    key=${line#*\"key\":\"}; key=${key%%\"*}
    echo "begin $key 0 $1" >> journal
    echo "{\"outcome\":\"done\",\"result\":{\"worker\":\"$1\",\"pad\":\"$pad\"}}"
done"#;

/// A limit on the size of its files stands for a full disk: it is the same answer from the system at the same call.
#[test]
fn a_full_disk_stops_the_intake_and_work_goes_on_by_itself_when_there_is_room() {
    let fleet = Fleet::new(1, &["--buffer-jobs", "50"]);
    let mut worker = fleet.start_ignoring_size_limit("w", WORDY);
    wait_until("it holds the partition", || worker.told("took_over") == 1);
    let no_limit = getrlimit(Resource::Fsize);
    let size = std::fs::metadata(fleet.file("store.db-wal")).unwrap().len();
    let limit = Rlimit { current: Some(size + 150_000), maximum: no_limit.maximum };
    prlimit(Some(worker.pid()), Resource::Fsize, limit).unwrap();

    fleet.enqueue((0..4_000).map(|n| format!("k{n}")));
    wait_until("it says that the store is away", || worker.told("away") > 0);
    let journal = fleet.file("journal");
    let mut begun = 0;
    wait_until("nothing new begins", || {
        let before = std::mem::replace(&mut begun, journal::begun(&journal, "w"));
        pause(Duration::from_secs(1));
        before == begun
    });
    assert!(begun < 2_500, "{begun} jobs began: {}", fleet.report());
    assert!(fleet.count() < 1_000);
    assert_eq!(worker.ended(), None, "{}", fleet.report());

    prlimit(Some(worker.pid()), Resource::Fsize, no_limit).unwrap();
    wait_until("all is done", || fleet.count() == 4_000);
    assert!(worker.told("back") > 0);
    nobody_was_blamed(&fleet, &worker);
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait_end(Duration::from_secs(30)), 0, "{}", fleet.report());
    fleet.judge().unwrap_or_else(|broken| panic!("{broken}\n{}", fleet.report()));
}

/// One line, of whatever kind, that names the file.
fn one_clear_line(errors: &str, file: &str) {
    assert_eq!(errors.lines().count(), 1, "{errors}");
    let error: serde_json::Value = serde_json::from_str(errors).unwrap();
    assert_eq!(error["error"]["code"], 9, "{errors}");
    assert!(errors.contains(file) || errors.contains("store"), "{errors}");
    assert!(error["error"]["remedy"].is_string(), "{errors}");
}

#[test]
fn a_damaged_store_is_one_clear_line_and_exit_code_nine() {
    for keep in [60, 5_000, 30_000] {
        let fleet = Fleet::new(2, &[]);
        cut_to(&fleet, keep);
        let mut worker = fleet.start("w", journal::HANDLER);
        assert_eq!(worker.wait_end(Duration::from_secs(30)), 9, "cut to {keep}: {}", fleet.report());
        one_clear_line(&worker.errors(), "store.db");
    }
}

#[test]
fn a_store_that_is_damaged_under_a_worker_ends_it_the_same_way() {
    let fleet = Fleet::new(2, &[]);
    fleet.enqueue((0..50).map(|n| format!("k{n}")));
    let mut worker = fleet.start("w", journal::HANDLER);
    wait_until("it works", || fleet.count() == 50);
    cut_to(&fleet, 5_000);
    // Its cache still holds what it read; sooner or later it has to read again.
    let mut more = 0;
    wait_until("it ends", || {
        more += 1;
        if more % 200 == 1 {
            fleet.enqueue((0..50).map(|n| format!("more{more}-{n}")));
        }
        worker.ended().is_some()
    });
    assert_eq!(worker.ended(), Some(9), "{}", fleet.report());
    one_clear_line(&worker.errors(), "store.db");
}

#[test]
fn a_queue_file_that_is_none_is_one_clear_line_and_exit_code_nine() {
    let fleet = Fleet::new(2, &[]);
    for name in ["keylane.db-wal", "keylane.db-shm"] {
        let _ = std::fs::remove_file(fleet.file(name));
    }
    fleet.place.write("keylane.db", "no database at all, and long enough to be read as one".repeat(40));
    let ended = Ended::of(fleet.place.command(&["work", "--builtin", "discard", "-o", "json"]).spawn().unwrap());
    one_clear_line(&ended.expect(9).stderr, "keylane.db");
}

/// Everything into the file itself, and then only its first bytes.
fn cut_to(fleet: &Fleet, keep: u64) {
    let store = fleet.store();
    store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    std::fs::File::options().write(true).open(fleet.file("store.db")).unwrap().set_len(keep).unwrap();
}
