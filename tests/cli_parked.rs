//! `keylane parked` as a real process: a line is listed, shown, replayed and dropped, each as it was seen.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use process::{Place, wait_until, worker::Worker};
use serde_json::{Value, json};

/// Rejects jobs whose keys begin with "bad", or with bytes that are no text, as long as there is no file `ok`.
const ANSWER: &str = r#"case "$line" in
    *'"key":"bad'*|*key_base64*) [ -f ok ] || { echo '{"outcome":"reject","reason":"no such customer"}'; continue; } ;;
    esac; printf '%s\n' "$line" | sed 's/.*"payload":\("[^"]*"\).*/{"outcome":"done","result":\1}/'"#;

/// Not UTF-8, and begins with a zero byte.
const BINARY: &str = "hex:0000000007c328";

fn enqueue(place: &Place, keys: &[&str]) {
    for (n, key) in keys.iter().enumerate() {
        place.run(&["enqueue", "--one", key, "--body", &n.to_string()]).expect(0);
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The parked keys, by `key`.
fn parked(place: &Place, key: &str) -> Option<Value> {
    let listed = lines(&place.run(&["parked", "list", "-o", "json"]).expect(0).stdout);
    listed.into_iter().find(|shown| shown["key"] == key)
}

fn jobs(place: &Place, key: &str) -> Value {
    parked(place, key).map_or(Value::Null, |shown| shown["jobs"].clone())
}

fn results(place: &Place, key: &str) -> Vec<String> {
    let read = lines(&place.run(&["results", "--key", key]).expect(0).stdout);
    read.iter().map(|result| result["result"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_line_is_listed_shown_replayed_and_dropped_as_it_was_seen() {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "1"]).expect(0);
    enqueue(&place, &["bad-1", "good", "bad-1", BINARY, BINARY]);
    let worker = Worker::start(&place, "worker-1", &[], ANSWER);
    wait_until("both keys are parked with all their jobs", || {
        jobs(&place, "bad-1") == 2 && jobs(&place, BINARY) == 2 && results(&place, "good") == ["1"]
    });
    assert!(place.run(&["parked", "list"]).expect(0).stdout.contains(BINARY));
    assert_eq!(
        lines(&place.run(&["parked", "list", "--reason", "worker_died", "-o", "json"]).expect(0).stdout).len(),
        0
    );
    let shown = place.run(&["parked", "show", BINARY, "-o", "json"]).expect(0).json();
    let payloads: Vec<_> = shown["line"].as_array().unwrap().iter().map(|job| job["payload"].clone()).collect();
    assert_eq!((payloads, &shown["reason"]), (vec![json!("3"), json!("4")], &json!("no such customer")));
    place.run(&["parked", "show", "nobody"]).expect(5).says(&["'nobody' is not parked"]);

    // A dry run does nothing, and an etag from before another job came is of another line.
    let dry = place.run(&["parked", "drop", BINARY, "--why", "test data"]).expect(0).stdout;
    assert!(dry.contains("would drop") && dry.contains("--execute"), "{dry}");
    let etag = parked(&place, BINARY).unwrap()["etag"].as_str().unwrap().to_owned();
    enqueue(&place, &[BINARY]);
    wait_until("it joined the line", || jobs(&place, BINARY) == 3);
    let act = |what, etag: &str| {
        ["parked", what, BINARY, "--etag", etag, "--why", "test data", "--who", "ann", "--execute"].map(str::to_owned)
    };
    let run = |words: &[String]| place.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let refused = run(&act("drop", &etag)).expect(1).stdout;
    assert!(refused.contains("its line changed"), "{refused}");
    assert_eq!(jobs(&place, BINARY), 3);
    let etag = parked(&place, BINARY).unwrap()["etag"].as_str().unwrap().to_owned();
    let dropped = run(&act("drop", &etag)).expect(0).stdout;
    assert!(dropped.contains("dropped hex:0000000007c328: 3 jobs"), "{dropped}");
    wait_until("the key goes on", || parked(&place, BINARY).is_none());

    place.write("ok", "");
    place.run(&["parked", "replay", "--reason", "rejected", "--why", "account was opened", "--execute"]).expect(0);
    wait_until("the line is through", || results(&place, "bad-1") == ["0", "2"] && parked(&place, "bad-1").is_none());
    enqueue(&place, &[BINARY]);
    wait_until("what comes after a drop runs", || results(&place, BINARY) == ["0"]);
    let acts = lines(&place.run(&["fence", "log", "-o", "json"]).expect(0).stdout);
    let said: Vec<_> = acts.iter().map(|act| (act["act"].as_str().unwrap(), act["why"].as_str().unwrap())).collect();
    assert_eq!(said, [("parked drop", "test data"), ("parked replay", "account was opened")]);
    assert_eq!(acts[0]["who"], "ann");
    assert!(acts[0]["detail"].as_str().unwrap().contains("key hex:0000000007c328"), "{acts:?}");
    worker.end();
}

#[test]
fn an_act_names_its_lines_and_its_reason() {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "1"]).expect(0);
    assert_eq!(place.run(&["parked", "list"]).expect(0).stdout, "no key of queue 'jobs' is parked\n");
    place.run(&["parked", "replay", "k"]).expect(2);
    place.run(&["parked", "drop", "--why", "x"]).expect(2);
    place.run(&["parked", "drop", "k", "l", "--etag", "1.2", "--why", "x"]).expect(2);
    place.run(&["parked", "drop", "k", "--etag", "one", "--why", "x"]).expect(2);
    place.run(&["parked", "drop", "k", "--why", "x", "--execute"]).expect(5).says(&["'k' is not parked"]);
}
