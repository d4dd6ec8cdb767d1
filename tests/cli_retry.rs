//! `keylane retry` as a real process: a stopped key is named, released, and goes on in order.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use process::{Ended, Place, wait_until, worker::Worker};
use serde_json::{Value, json};

/// Rejects jobs of keys that begin with "bad" as long as there is no file `ok`; else hands the payload back.
const ANSWER: &str = r#"case "$line" in
    *'"key":"bad'*) [ -f ok ] || { echo '{"outcome":"reject","reason":"no such customer"}'; continue; } ;;
    esac; printf '%s\n' "$line" | sed 's/.*"payload":\("[^"]*"\).*/{"outcome":"done","result":\1}/'"#;

fn with_jobs(keys: &[&str]) -> Place {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "2"]).expect(0);
    for (n, key) in keys.iter().enumerate() {
        place.run(&["enqueue", "--one", key, "--body", &n.to_string()]).expect(0);
    }
    place
}

fn stopped(place: &Place) -> Vec<Value> {
    let seen = place.run(&["status", "-o", "json"]).expect(0).json();
    seen["stopped_keys"].as_array().unwrap().clone()
}

fn results(place: &Place, key: &str) -> Vec<String> {
    let lines = place.run(&["results", "--key", key]).expect(0).stdout;
    lines.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["result"].as_str().unwrap().to_owned()).collect()
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_stopped_key_is_named_released_and_finished_in_order() {
    let place = with_jobs(&["bad-1", "good", "bad-1", "bad-1", "good"]);
    let worker = Worker::start(&place, "worker-1", &[], ANSWER);
    wait_until("the key is stopped and the other one finished", || {
        let keys = stopped(&place);
        keys.len() == 1 && keys[0]["jobs_behind"] == 2 && results(&place, "good") == ["1", "4"]
    });
    let text = place.run(&["status"]).expect(0).stdout;
    for part in ["1 key stands still.", "bad-1", "2 jobs wait behind it", "no such customer", "keylane retry bad-1"] {
        assert!(text.contains(part), "'{part}' is missing in {text}");
    }
    let key = &stopped(&place)[0];
    assert_eq!((&key["key"], &key["rule"], &key["attempts"]), (&"bad-1".into(), &"rejected".into(), &1.into()));
    assert_eq!((&key["jobs_behind"], &key["released"]), (&2.into(), &false.into()));
    assert_eq!(results(&place, "bad-1"), Vec::<String>::new());

    place.write("ok", "");
    let said = place.run(&["retry", "bad-1"]).expect(0).stdout;
    assert!(said.starts_with("released bad-1: goes on with job "), "{said}");
    assert!(!said.contains("no worker"), "{said}");
    wait_until("the key is finished", || results(&place, "bad-1").len() == 3);
    assert_eq!(results(&place, "bad-1"), ["0", "2", "3"]);
    wait_until("its row is gone", || stopped(&place).is_empty());
    place.run(&["retry", "bad-1"]).expect(5).says(&["'bad-1' is not stopped", "keylane status"]);
    worker.end();
}

#[test]
fn a_release_without_a_worker_says_when_it_goes_on() {
    let place = with_jobs(&["bad-1"]);
    let worker = Worker::start(&place, "worker-1", &[], ANSWER);
    wait_until("the key is stopped", || stopped(&place).len() == 1);
    worker.end();
    place.write("ok", "");
    let said = place.run(&["retry", "--all"]).expect(0).stdout;
    assert!(said.ends_with("no worker has the partition now: 1 key goes on when one starts\n"), "{said}");
    assert_eq!(stopped(&place)[0]["released"], true);
    let text = place.run(&["status"]).expect(0).stdout;
    assert!(text.contains("released: it goes on when a worker starts"), "{text}");
    assert!(!text.contains("stands still"), "{text}");
    let again = place.run(&["retry", "bad-1", "-o", "json"]).expect(0);
    assert_eq!(lines(&again)[0]["outcome"], "released_before");
    let _worker = Worker::start(&place, "worker-2", &[], ANSWER);
    wait_until("it goes on", || results(&place, "bad-1") == ["0"]);
}

#[test]
fn what_is_asked_for_by_several_ways_is_done_once_and_told_apart() {
    let place = with_jobs(&["bad-1", "bad-2", "bad-\u{1b}"]);
    let _worker = Worker::start(&place, "worker-1", &[], ANSWER);
    wait_until("all are stopped", || stopped(&place).len() == 3);

    let dry = place.run(&["retry", "--all", "--dry-run", "-o", "json"]).expect(0);
    assert_eq!(lines(&dry).iter().filter(|l| l["outcome"] == "would_release").count(), 3);
    assert!(stopped(&place).iter().all(|key| key["released"] == false), "a dry run releases nothing");

    let none = place.run(&["retry", "--all", "--reason", "worker_died"]).expect(0);
    assert_eq!(none.stdout, "no key of queue 'jobs' is stopped by that rule\n");
    place.run(&["retry"]).expect(2);
    place.run(&["retry", "bad-1", "--all"]).expect(2);
    place.run(&["retry", "bad-1", "--reason", "rejected"]).expect(2);
    place.run(&["retry", "nope", "hex:ff"]).expect(5).says(&["'nope', 'hex:ff' are not stopped"]);

    place.write("ok", "");
    let partly = place.run(&["retry", "bad-1", "hex:6261642d1b", "nope", "bad-1", "-o", "json"]).expect(1);
    let told: Vec<_> = lines(&partly).iter().map(|l| (l["key"].clone(), l["outcome"].clone())).collect();
    let told_of = |key: &str, outcome: &str| (json!(key), json!(outcome));
    assert_eq!(
        told,
        [told_of("bad-1", "released"), told_of("hex:6261642d1b", "released"), told_of("nope", "not_stopped")]
    );
    let rest = place.run(&["retry", "--all", "--reason", "rejected"]).expect(0).stdout;
    assert!(rest.contains("bad-2"), "{rest}");
}

#[test]
fn a_key_that_changed_after_it_was_looked_at_is_left_alone() {
    let place = with_jobs(&["bad-1"]);
    let worker = Worker::start(&place, "worker-1", &[], ANSWER);
    wait_until("the key is stopped", || stopped(&place).len() == 1);
    worker.end();
    let other = rusqlite::Connection::open(place.path().join("keylane.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; UPDATE keylane_stopped SET version = version + 100;").unwrap();
    let mut child = place.command(&["retry", "bad-1", "-vv"]).stderr(Stdio::piped()).spawn().unwrap();
    // It has looked, and waits for the other one to write.
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("looked at the stopped keys") {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "it ended without a look");
    }
    other.execute_batch("COMMIT").unwrap();
    child.stderr = Some(log.into_inner());
    let ended = Ended::of(child).expect(1);
    assert!(ended.stdout.starts_with("left bad-1 alone: it changed since it was looked at"), "{}", ended.stdout);
    assert_eq!(stopped(&place)[0]["released"], false);
}
