//! R35: a worker that is asked to end does, whatever hangs.

use std::time::Duration;

use rustix::process::Signal;

use crate::{
    fleet::{Fleet, Worker},
    journal,
    process::wait_until,
};

const OPTIONS: [&str; 6] = ["--session-timeout", "3s", "--drain-timeout", "1s", "--concurrency", "4"];
/// The drain, the last acts after it, and a generous share for a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);

/// Ignores whatever can be ignored, and does not end.
const STUBBORN: &str = r#"
trap '' TERM INT HUP
while IFS= read -r line; do
    key=${line#*\"key\":\"}; key=${key%%\"*}
    id=${line#*\"id\":\"}; id=${id%%\"*}
    echo "$id" > "id-$key"
    while [ ! -e never ]; do /bin/sleep 0.1; done
done"#;

fn at_work() -> (Fleet, Worker) {
    let fleet = Fleet::new(2, &OPTIONS);
    fleet.enqueue((0..3).map(|n| format!("k{n}")));
    let worker = fleet.start("w", STUBBORN);
    wait_until("its jobs run", || (0..3).all(|n| fleet.file(&format!("id-k{n}")).exists()));
    (fleet, worker)
}

/// Ended with jobs cut short: exit code 1, and its last words name them.
fn names_what_it_left(fleet: &Fleet, worker: &mut Worker) {
    assert_eq!(worker.wait_end(LIMIT), 1, "{}", fleet.report());
    let mut ids: Vec<String> =
        (0..3).map(|n| std::fs::read_to_string(fleet.file(&format!("id-k{n}"))).unwrap().trim().to_owned()).collect();
    ids.sort();
    let summary = worker.summary();
    let mut named: Vec<&str> = summary["cut_short"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, ids, "{}", fleet.report());
    assert_eq!(summary["clean"], false);
    let last = worker.events().pop().unwrap();
    assert_eq!(last["event"], "ended");
}

#[test]
fn a_handler_that_ignores_its_end_is_left_when_the_drain_is_over() {
    let (fleet, mut worker) = at_work();
    worker.signal(Signal::TERM);
    names_what_it_left(&fleet, &mut worker);
}

#[test]
fn the_second_request_ends_it_at_once() {
    let fleet = Fleet::new(2, &["--session-timeout", "3s", "--drain-timeout", "10m"]);
    fleet.enqueue((0..3).map(|n| format!("k{n}")));
    let mut worker = fleet.start("w", STUBBORN);
    wait_until("its jobs run", || (0..3).all(|n| fleet.file(&format!("id-k{n}")).exists()));
    worker.signal(Signal::TERM);
    wait_until("it drains", || worker.told("ending") == 1);
    worker.signal(Signal::TERM);
    names_what_it_left(&fleet, &mut worker);
}

#[test]
fn asked_right_after_a_write_it_ends_clean_and_the_next_one_goes_on() {
    let fleet = Fleet::new(2, &OPTIONS);
    let mut all = 0;
    for round in 0..6 {
        fleet.enqueue((0..120).map(|n| format!("k{}", n % 20)));
        all += 120;
        let before = fleet.count();
        let mut worker = fleet.start(&format!("w{round}"), journal::HANDLER);
        wait_until("something is written", || fleet.count() > before);
        worker.signal(Signal::TERM);
        assert_eq!(worker.wait_end(LIMIT), 0, "{}", fleet.report());
        assert_eq!(worker.summary()["clean"], true);
    }
    let _worker = fleet.start("last", journal::HANDLER);
    wait_until("all is done", || fleet.count() == all);
    fleet.judge().unwrap_or_else(|broken| panic!("{broken}\n{}", fleet.report()));
}

/// Its thread hangs in SQLite while the process ends all the same; what was finished and not written is named.
#[test]
fn with_the_store_locked_it_ends_and_names_what_is_not_written() {
    let fleet = Fleet::new(2, &OPTIONS);
    let mut worker =
        fleet.start("w", &journal::HANDLER.replace("echo \"end", "echo \"$line\" > \"line-$key\"; echo \"end"));
    wait_until("it holds both", || worker.told("took_over") == 2);
    let store = fleet.store();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    fleet.enqueue(["k".to_owned()]);
    wait_until("the job has run", || fleet.file("line-k").exists());
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait_end(LIMIT), 1, "{}", fleet.report());
    let line = std::fs::read_to_string(fleet.file("line-k")).unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(worker.summary()["cut_short"], serde_json::json!([line["id"]]), "{}", fleet.report());
    store.execute_batch("ROLLBACK").unwrap();
    drop(store);
    let _next = fleet.start("next", journal::HANDLER);
    wait_until("the next one has done it", || fleet.count() == 1);
}

#[test]
fn with_the_queue_file_locked_it_ends() {
    let fleet = Fleet::new(2, &OPTIONS);
    fleet.enqueue((0..20).map(|n| format!("k{n}")));
    let mut worker = fleet.start("w", journal::HANDLER);
    wait_until("it works", || fleet.count() == 20);
    let queue = crate::fleet::open(&fleet.file("keylane.db"));
    queue.execute_batch("BEGIN IMMEDIATE").unwrap();
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait_end(LIMIT), 1, "it could not leave: {}", fleet.report());
    queue.execute_batch("ROLLBACK").unwrap();
}

#[test]
fn with_the_queue_file_gone_it_ends() {
    let (fleet, mut worker) = at_work();
    for name in ["keylane.db", "keylane.db-wal", "keylane.db-shm"] {
        let _ = std::fs::remove_file(fleet.file(name));
    }
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait_end(LIMIT), 1, "{}", fleet.report());
}
