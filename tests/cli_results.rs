//! `keylane results` as a real process.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use process::{Ended, Place, wait_until, worker::Worker};
use serde_json::Value;

const DONE: &str = r#"echo '{"outcome":"done","result":{"n": 1.0, "n":10000000000000000000000}}'"#;

fn lines(place: &Place, args: &[&str]) -> Vec<Value> {
    let ended = place.run(&[&["results"], args].concat()).expect(0);
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Three jobs of two keys, one of them no text, all finished by a worker that goes on.
fn finished() -> (Place, Worker) {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "4"]).expect(0);
    for key in ["a", "hex:00ff", "a"] {
        place.run(&["enqueue", "--one", key, "--body", "x"]).expect(0);
    }
    let worker = Worker::start(&place, "worker-1", &[], DONE);
    wait_until("all is finished", || lines(&place, &[]).len() == 3);
    (place, worker)
}

#[test]
fn results_are_read_while_a_worker_runs_exactly_as_they_were_given() {
    let (place, _worker) = finished();
    let text = place.run(&["results", "--key", "hex:00ff"]).expect(0).stdout;
    assert!(text.ends_with("\"result\":{\"n\": 1.0, \"n\":10000000000000000000000}}\n"), "{text}");
    assert!(text.starts_with("{\"key\":\"hex:00ff\",\"job\":\""), "{text}");
    assert_eq!(place.run(&["results", "--key", "hex:00ff", "-o", "json"]).expect(0).stdout, text, "it is data");
    let of_a = lines(&place, &["--key", "a"]);
    assert_eq!(of_a.len(), 2);
    assert!(of_a[0]["offset"].as_u64() < of_a[1]["offset"].as_u64());
    let partition = of_a[0]["partition"].to_string();
    assert!(lines(&place, &["--partition", &partition]).iter().all(|r| r["partition"] == of_a[0]["partition"]));
    assert_eq!(lines(&place, &["--job", of_a[1]["job"].as_str().unwrap()]), of_a[1..]);
}

#[test]
fn no_result_is_no_error_unless_one_job_was_named() {
    let place = Place::with_queue();
    assert_eq!(place.run(&["results"]).expect(0).stdout, "", "no worker was ever there");
    place.run(&["results", "--job", "nope"]).expect(5).says(&["no result of a job 'nope'", "keylane status"]);
    place.run(&["results", "--queue", "nope"]).expect(5).says(&["no queue 'nope'"]);
    place.run(&["results", "--job", "a", "--key", "b"]).expect(2);
    let (place, _worker) = finished();
    assert_eq!(lines(&place, &["--key", "b"]), Vec::<Value>::new());
    assert_eq!(lines(&place, &["--group", "others"]), Vec::<Value>::new(), "another group's are not this one's");
    place.run(&["results", "--job", "nope"]).expect(5);
}

#[test]
fn a_result_over_several_lines_comes_on_one_and_a_reader_that_leaves_ends_it_quietly() {
    let (place, worker) = finished();
    worker.end();
    let store = rusqlite::Connection::open(place.path().join("keylane.db")).unwrap();
    store
        .execute("UPDATE keylane_result SET result = ?1 WHERE key = ?2", ("{\n  \"a\": 1\r\n}", b"a".as_slice()))
        .unwrap();
    store
        .execute_batch(
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000)
             INSERT INTO keylane_result
             SELECT 'jobs', 'workers', 0, 100 + n, x'61', 'j-' || n, 1, '{\"a\":[1]}', 0 FROM c",
        )
        .unwrap();
    assert_eq!(lines(&place, &[]).len(), 20_003, "one line each");
    let mut child = place.command(&["results"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(Ended::of(child).expect(0).stderr, "");
}
