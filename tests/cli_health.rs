//! The probes of a worker's container, through a worker's whole life: they know its file and nothing else.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::fs;

use process::{Place, wait_until, worker::Worker};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

const FILE: &str = "snapshot.json";
/// A job with `slow` in it ends when there is a file `go`.
const ANSWER: &str = r#"case "$line" in *slow*) while [ ! -e go ]; do sleep 0.02; done;; esac
echo '{"outcome":"done","result":1}'"#;

fn place() -> Place {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "4"]).expect(0);
    place
}

/// Its code and its words.
fn health(place: &Place, probe: &str, within: &str) -> (i32, String) {
    let ended = place.run(&["health", probe, "--snapshot-file", FILE, "--within", within, "-v"]);
    (ended.code.unwrap(), ended.stdout)
}

/// The codes of live, ready and startup.
fn codes(place: &Place) -> [i32; 3] {
    ["live", "ready", "startup"].map(|probe| health(place, probe, "30s").0)
}

fn held(place: &Place, file: &str) -> u64 {
    let text = fs::read(place.path().join(file)).unwrap_or_default();
    serde_json::from_slice::<Value>(&text).map_or(0, |file| file["snapshot"]["totals"]["held"].as_u64().unwrap())
}

#[test]
fn the_probes_follow_a_worker_from_its_start_over_a_rebalance_and_a_drain_to_its_end() {
    let place = place();
    assert_eq!(codes(&place), [1; 3], "there is no word yet");
    let worker = Worker::start(&place, "w", &["--snapshot-file", FILE], ANSWER);
    wait_until("it is ready", || codes(&place) == [0; 3]);
    wait_until("it holds all", || held(&place, FILE) == 4);

    let other = Worker::start(&place, "v", &["--snapshot-file", "other.json"], ANSWER);
    wait_until("the other has its share", || {
        assert_eq!(codes(&place), [0; 3], "a rebalance is no reason for anything");
        held(&place, "other.json") == 2
    });
    other.end();
    wait_until("it holds all again", || held(&place, FILE) == 4);

    place.run(&["enqueue", "--one", "k", "--body", "slow"]).expect(0);
    wait_until("the job runs", || {
        let text = fs::read_to_string(place.path().join(FILE)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["snapshot"]["workers"][0]["jobs_in_flight"] == 1
    });
    kill_process(worker.pid(), Signal::TERM).unwrap();
    wait_until("it says that it drains", || {
        health(&place, "ready", "30s").1.contains("[-]drain in progress: 1 jobs left")
    });
    assert_eq!(codes(&place), [0, 1, 0]);
    place.write("go", "");
    wait_until("it has ended", || codes(&place) == [1; 3]);
    assert!(health(&place, "live", "30s").1.contains("[-]worker has stopped"));
}

#[test]
fn a_worker_that_stands_still_is_not_live_and_is_again_when_it_goes_on() {
    let place = place();
    let worker = Worker::start(&place, "w", &["--snapshot-file", FILE, "--session-timeout", "10m"], ANSWER);
    wait_until("it is ready", || codes(&place) == [0; 3]);
    worker.freeze();
    wait_until("its loop is known to stand", || {
        let (code, words) = health(&place, "live", "1s");
        code == 1 && words.contains("[-]loop stands still")
    });
    assert_eq!(health(&place, "ready", "1s").0, 1);
    worker.thaw();
    wait_until("it is live again", || ["live", "ready"].iter().all(|probe| health(&place, probe, "30s").0 == 0));
    worker.end();
}

/// R50: what would not be cured by a new process is no reason for one.
#[test]
fn a_worker_whose_broker_or_store_is_held_by_another_stays_live_for_as_long_as_that_lasts() {
    let place = place();
    let flags = ["--snapshot-file", FILE, "--store", "sqlite:store.db", "--session-timeout", "1s"];
    let worker = Worker::start(&place, "w", &flags, ANSWER);
    wait_until("it holds all", || held(&place, FILE) == 4);
    for file in ["store.db", "keylane.db"] {
        let other = rusqlite::Connection::open(place.path().join(file)).unwrap();
        other.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
        if file == "store.db" {
            place.run(&["enqueue", "--one", "k", "--body", "1"]).expect(0);
        }
        other.execute_batch("BEGIN EXCLUSIVE").unwrap();
        let from = turned(&place);
        wait_until("its loop went on for three sessions and more", || {
            let (code, words) = health(&place, "live", "2s");
            assert_eq!(code, 0, "{file} is held: {words}");
            turned(&place) > from + 4_000
        });
        other.execute_batch("COMMIT").unwrap();
        wait_until("it works again by itself", || held(&place, FILE) == 4 && codes(&place) == [0; 3]);
    }
    worker.end();
}

/// When its loop last turned, in ms.
fn turned(place: &Place) -> u64 {
    let text = fs::read(place.path().join(FILE)).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["health"]["turned_boot_ms"].as_u64().unwrap()
}

#[test]
fn what_an_earlier_process_said_is_not_taken_for_a_new_ones_word() {
    let place = place();
    let worker = Worker::start(&place, "w", &["--snapshot-file", FILE], ANSWER);
    wait_until("it is ready", || codes(&place) == [0; 3]);
    drop(worker);
    assert_eq!(codes(&place), [0; 3], "its word is young");
    // One that gets no further than its broker.
    let ended =
        place.run(&["work", "--broker", "sqlite:elsewhere.db", "--builtin", "discard", "--snapshot-file", FILE]);
    assert_ne!(ended.code, Some(0));
    assert_eq!(codes(&place), [1; 3]);
}

#[test]
fn the_answer_in_json_names_each_check() {
    let place = place();
    let ended = place.run(&["health", "live", "--snapshot-file", FILE, "-o", "json"]).expect(1);
    let answer = ended.json();
    assert_eq!((&answer["ok"], &answer["checks"][0]["check"]), (&false.into(), &"file".into()));
    assert_eq!(place.run(&["health", "live", "--snapshot-file", FILE]).expect(1).stdout.lines().count(), 1);
}
