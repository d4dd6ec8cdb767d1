//! `keylane dead`, `pause`, `resume`, `skip`, `hot` and what `status` and `why` tell of them, as real processes.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use process::{Place, wait_until, worker::Worker};
use serde_json::{Value, json};

/// Rejects jobs of keys that begin with "bad" or are no text, has keys with "slow" wait for long, as long as there is no file `ok`.
const ANSWER: &str = r#"if [ ! -f ok ]; then case "$line" in
    *'"key":"bad'*|*key_base64*) echo '{"outcome":"reject","reason":"no such customer"}'; continue ;;
    *'"key":"slow'*) echo '{"outcome":"retry","reason":"the bank is closed","after_ms":250000}'; continue ;;
    esac; fi; printf '%s\n' "$line" | sed 's/.*"payload":\("[^"]*"\).*/{"outcome":"done","result":\1}/'"#;

/// R24: not UTF-8, and begins with a zero byte.
const BINARY: &str = "hex:0000000007c328";

fn place() -> Place {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "1"]).expect(0);
    place
}

fn enqueue(place: &Place, keys: &[&str]) {
    for (n, key) in keys.iter().enumerate() {
        place.run(&["enqueue", "--one", key, "--body", &n.to_string()]).expect(0);
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn dead(place: &Place) -> Vec<Value> {
    lines(&place.run(&["dead", "list", "-o", "json"]).expect(0).stdout)
}

fn results(place: &Place, key: &str) -> Vec<String> {
    let read = lines(&place.run(&["results", "--key", key]).expect(0).stdout);
    read.iter().map(|result| result["result"].as_str().unwrap().to_owned()).collect()
}

fn why(place: &Place, key: &str) -> Value {
    place.run(&["why", key, "-o", "json"]).expect(0).json()
}

#[test]
fn dead_letters_are_listed_shown_replayed_and_dropped() {
    let place = place();
    assert_eq!(place.run(&["dead", "list"]).expect(0).stdout, "queue 'jobs' has no dead letters\n");
    place.run(&["dead", "show", "1"]).expect(5).says(&["no dead letter 1"]);
    enqueue(&place, &["bad-1", "good", "bad-1", BINARY]);
    let worker = Worker::start(&place, "w", &["--dead-letter", "rejected,worker_died"], ANSWER);
    wait_until("three left", || dead(&place).len() == 3);
    wait_until("nothing waits", || results(&place, "good") == ["1"]);
    let letters = dead(&place);
    let number = |key: &str| letters.iter().find(|l| l["key"] == key).unwrap()["number"].to_string();
    let shown = place.run(&["dead", "show", &number(BINARY), "-o", "json"]).expect(0).json();
    assert_eq!((&shown["payload"], &shown["reason"]), (&json!("3"), &json!("no such customer")));
    assert_eq!(lines(&place.run(&["dead", "list", "--key", BINARY, "-o", "json"]).expect(0).stdout).len(), 1);
    assert_eq!(lines(&place.run(&["dead", "list", "--prefix", "bad", "-o", "json"]).expect(0).stdout).len(), 2);
    assert!(place.run(&["dead", "list", "--reason", "skipped"]).expect(0).stdout.contains("no dead letter fits"));
    assert!(place.run(&["status"]).expect(0).stdout.contains("3 dead letters: keylane dead"));

    let dry = place.run(&["dead", "drop", &number(BINARY), "--why", "test data"]).expect(0).stdout;
    assert!(dry.contains("would drop") && dry.contains("--execute"), "{dry}");
    place.run(&["dead", "drop", &number(BINARY), "--why", "test data", "--who", "ann", "--execute"]).expect(0);
    place.run(&["dead", "drop", &number(BINARY), "--why", "test data", "--execute"]).expect(5);
    assert_eq!(dead(&place).len(), 2);
    place.write("ok", "");
    place
        .run(&["dead", "replay", "--prefix", "bad", "--pace", "50", "--why", "account was opened", "--execute"])
        .expect(0);
    wait_until("they ran, in order", || results(&place, "bad-1") == ["0", "2"]);
    wait_until("the key's row is gone", || why(&place, "bad-1")["state"] == "done");
    assert!(dead(&place).is_empty());
    let acts = lines(&place.run(&["fence", "log", "-o", "json"]).expect(0).stdout);
    let said: Vec<_> = acts.iter().map(|act| (act["act"].as_str().unwrap(), act["why"].as_str().unwrap())).collect();
    assert_eq!(said[0], ("dead drop", "test data"));
    assert_eq!(said[1..], [("dead replay", "account was opened"); 2]);
    assert_eq!(acts[0]["who"], "ann");
    worker.end();
    for words in
        [&["dead", "replay", "--why", "x"][..], &["dead", "drop", "1"], &["dead", "drop", "1", "--all", "--why", "x"]]
    {
        place.run(words).expect(2);
    }
}

#[test]
fn a_person_sees_what_waits_and_has_one_job_left_out() {
    let place = place();
    enqueue(&place, &["slow", "slow", "slow"]);
    let worker = Worker::start(&place, "w", &[], ANSWER);
    wait_until("its worker tells", || why(&place, "slow")["state"] == "retrying");
    let told = why(&place, "slow");
    assert_eq!((&told["retry"]["attempts"], &told["retry"]["reason"]), (&json!(1), &json!("the bank is closed")));
    assert!(
        place.run(&["why", "slow"]).expect(0).stdout.contains("failed at try 1: the bank is closed. The next try: ")
    );
    let status = place.run(&["status", "-o", "json"]).expect(0).json();
    assert_eq!(status["retrying"][0]["key"], "slow");
    assert!(place.run(&["status"]).expect(0).stdout.contains("1 key waits for another try"));
    assert!(place.run(&["hot"]).expect(0).stdout.contains("no key is hot"), "three jobs are not many");

    let dry = place.run(&["skip", "slow", "--why", "cannot be done", "-o", "json"]).expect(0).json();
    assert_eq!((&dry["offset"], &dry["outcome"]), (&json!(0), &json!("would_be_skipped")));
    let job = dry["job"].as_str().unwrap();
    place.run(&["skip", "slow", "--why", "x", "--execute"]).expect(2).says(&["--execute without a job"]);
    place.run(&["skip", "slow", "--offset", "7", "--why", "x", "--execute"]).expect(5);
    place.run(&["skip", "slow", "--job", "nobody", "--why", "x", "--execute"]).expect(5);
    place.run(&["skip", "slow", "--job", job, "--why", "cannot be done", "--who", "ann", "--execute"]).expect(0);
    wait_until("it left", || dead(&place).len() == 1);
    let letter = dead(&place).remove(0);
    assert_eq!(
        (&letter["job"], &letter["rule"], &letter["reason"]),
        (&json!(job), &json!("skipped"), &json!("ann: cannot be done"))
    );
    let again = place.run(&["skip", "slow", "--offset", "0", "--why", "x", "--execute"]).expect(1).stdout;
    assert!(again.contains("was dealt with before"), "{again}");
    worker.end();
}

#[test]
fn a_key_is_paused_and_resumed_and_others_flow() {
    let place = place();
    let worker = Worker::start(&place, "w", &[], ANSWER);
    place.run(&["pause", "k", BINARY, "--why", "audit", "--who", "ann"]).expect(0);
    let again = place.run(&["pause", "k", "--why", "audit"]).expect(0).stdout;
    assert!(again.contains("paused already"), "{again}");
    wait_until("its worker holds to it", || {
        enqueue(&place, &["k", "other"]);
        why(&place, "k")["parked"]["jobs"].as_u64() > Some(0)
    });
    let ran = results(&place, "k").len();
    let before = results(&place, "other").len();
    enqueue(&place, &["k", "other"]);
    wait_until("the other flows", || results(&place, "other").len() > before);
    assert_eq!(results(&place, "k").len(), ran);
    assert_eq!(why(&place, "k")["state"], "paused");
    let said = place.run(&["why", "k"]).expect(0).stdout;
    assert!(said.contains("by ann: audit") && said.contains("keylane resume k"), "{said}");
    assert!(place.run(&["status"]).expect(0).stdout.contains("paused by a person: ann: audit"));
    assert!(place.run(&["resume", "nobody", "--why", "x"]).expect(1).stdout.contains("it is not paused"));
    place.run(&["resume", "k", BINARY, "--why", "audit is over"]).expect(0);
    wait_until("all of it ran", || why(&place, "k")["state"] == "done" && results(&place, "k").len() > ran);

    // A key that stands for another reason is not a pause's matter.
    enqueue(&place, &["bad"]);
    wait_until("it is parked", || why(&place, "bad")["state"] == "parked");
    for what in ["pause", "resume"] {
        assert!(place.run(&[what, "bad", "--why", "x"]).expect(1).stdout.contains("keylane parked replay bad"));
    }
    worker.end();
}

#[test]
fn the_keys_with_the_most_jobs_waiting_are_told() {
    let place = place();
    enqueue(&place, &["slow"; 12]);
    let worker = Worker::start(&place, "w", &[], ANSWER);
    let hot = || lines(&place.run(&["hot", "-o", "json"]).expect(0).stdout);
    wait_until("it is told", || !hot().is_empty());
    assert_eq!((&hot()[0]["key"], &hot()[0]["waiting"]), (&json!("slow"), &json!(12)));
    assert!(place.run(&["hot", "--by", "time", "--limit", "1"]).expect(0).stdout.contains("slow"));
    worker.end();
}
