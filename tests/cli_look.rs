//! `keylane why` and `peek` as a real process: each reason for which a key does not move, where a job stands, and what waits.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use process::{Place, wait_until, worker::Worker};
use serde_json::{Value, json};

/// Not UTF-8, and begins with a zero byte.
const BINARY: &str = "hex:0000000007c328";

/// Rejects keys that are no text; a key that begins with "slow" waits until there is a file `go`.
const ANSWER: &str = r#"case "$line" in
    *key_base64*) [ -f ok ] || { echo '{"outcome":"reject","reason":"no such customer"}'; continue; } ;;
    *'"key":"slow'*) while [ ! -f go ]; do sleep 0.05; done ;;
    esac; echo '{"outcome":"done"}'"#;

fn enqueue(place: &Place, keys: &[&str]) {
    for key in keys {
        place.run(&["enqueue", "--one", key, "--body", "1"]).expect(0);
    }
}

fn why(place: &Place, key: &str) -> Value {
    place.run(&["why", key, "-o", "json"]).expect(0).json()
}

fn place_of(place: &Place, key: &str, offset: &str) -> Value {
    place.run(&["why", key, "--offset", offset, "-o", "json"]).expect(0).json()["place"].clone()
}

#[test]
fn each_reason_for_which_a_key_does_not_move_is_said() {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "1"]).expect(0);
    let nothing = why(&place, "nobody");
    assert_eq!((&nothing["state"], &nothing["jobs"], &nothing["first"]), (&json!("done"), &json!(0), &Value::Null));

    // Offsets 0 to 5.
    enqueue(&place, &["other", BINARY, "slow", BINARY, "slow", "other"]);
    let alone = why(&place, "slow");
    assert_eq!((&alone["state"], &alone["jobs"], &alone["before"]), (&json!("no_owner"), &json!(2), &json!(2)));
    assert_eq!(alone["first"]["offset"], 2);
    let said = place.run(&["why", "slow"]).expect(0).stdout;
    for words in ["slow stands still: nobody works on its partition 0", "keylane work", "2 jobs", "at offset 2"] {
        assert!(said.contains(words), "{words}: {said}");
    }

    let worker = Worker::start(&place, "worker-1", &[], ANSWER);
    wait_until("the binary key is parked, the other one done, the slow one begun", || {
        let (parked, other) = (why(&place, BINARY), why(&place, "other"));
        parked["parked"]["jobs"] == 2 && parked["jobs"] == 0 && other["state"] == "done"
    });
    let parked = place.run(&["why", BINARY]).expect(0).stdout;
    for words in
        ["stands still: it is parked", "no such customer", "1 job is behind it", "parked replay", "worker-1 holds"]
    {
        assert!(parked.contains(words), "{words}: {parked}");
    }
    let works = why(&place, "slow");
    assert_eq!((&works["state"], &works["owner"], &works["jobs"]), (&json!("working"), &json!("worker-1"), &json!(2)));
    assert_eq!((&works["before"], &works["first"]["offset"]), (&json!(0), &json!(2)));

    assert_eq!(place_of(&place, BINARY, "3"), json!({"is": "parked", "offset": 3, "position": 2}));
    assert_eq!(place_of(&place, "slow", "4"), json!({"is": "waiting", "offset": 4, "position": 2}));
    assert_eq!(place_of(&place, "other", "5"), json!({"is": "done", "offset": 5}));
    place.run(&["why", "slow", "--offset", "5"]).expect(5).says(&["offset 5", "no job of key 'slow'"]);
    place.run(&["why", "slow", "--offset", "99"]).expect(5).says(&["offset 99"]);

    place.write("ok", "");
    place.write("go", "");
    place.run(&["parked", "replay", BINARY, "--why", "opened", "--execute"]).expect(0);
    wait_until("all is done", || why(&place, BINARY)["state"] == "done" && why(&place, "slow")["state"] == "done");
    worker.end();
}

#[test]
fn what_waits_is_shown_as_it_is_and_nothing_is_taken() {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "2"]).expect(0);
    assert_eq!(place.run(&["peek"]).expect(0).stdout, "nothing waits\n");
    enqueue(&place, &["a", BINARY, "slow", BINARY, "slow", "a"]);
    let seen = |args: &[&str]| -> Vec<Value> {
        let shown = place.run(&[&["peek", "-o", "json"], args].concat()).expect(0).stdout;
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let before = seen(&[]);
    assert_eq!(before.len(), 6);
    assert_eq!(seen(&[]), before, "nothing was taken");
    assert_eq!(before.iter().filter(|job| job["payload"] == "1" && job["job"].is_string()).count(), 6);
    assert_eq!(seen(&[BINARY]).iter().map(|job| job["key"].clone()).collect::<Vec<_>>(), [BINARY, BINARY]);
    assert_eq!((seen(&["a", "--limit", "1"]), seen(&["--limit", "0"]).len()), (vec![seen(&["a"])[0].clone()], 0));
    let by_partition = ["0", "1"].map(|partition| seen(&["--partition", partition]).len());
    assert_eq!(by_partition.iter().sum::<usize>(), 6);
    place.run(&["peek", "--partition", "2"]).expect(5).says(&["no partition 2", "it has 2"]);
    assert!(place.run(&["peek"]).expect(0).stdout.contains(BINARY));

    // Done and parked jobs are not among them, also those behind one that runs.
    let worker = Worker::start(&place, "worker-1", &[], ANSWER);
    wait_until("only the slow ones wait", || seen(&[]).iter().all(|job| job["key"] == "slow") && seen(&[]).len() == 2);
    place.write("go", "");
    wait_until("nothing waits", || seen(&[]).is_empty());
    worker.end();
}
