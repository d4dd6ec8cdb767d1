//! `keylane status` as a real process: what it shows in each situation, and that looking touches nothing.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::io::{BufRead, BufReader};

use process::{Ended, Place, wait_until, worker::Worker};
use serde_json::Value;

const DONE: &str = r#"echo '{"outcome":"done","result":{"n": 1.0}}'"#;

fn status(place: &Place) -> Value {
    place.run(&["status", "-o", "json"]).expect(0).json()
}

fn states(status: &Value) -> Vec<String> {
    let partitions = status["snapshot"]["partitions"].as_array().unwrap();
    partitions.iter().map(|p| p["state"].as_str().unwrap().to_owned()).collect()
}

fn all_are(status: &Value, state: &str) -> bool {
    states(status).iter().all(|found| found == state)
}

fn four_partitions() -> Place {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "4"]).expect(0);
    place
}

fn enqueue(place: &Place, key: &str, body: &str) {
    place.run(&["enqueue", &format!("--one={key}"), "--body", body]).expect(0);
}

/// Every row of every table, as text.
fn rows(place: &Place, file: &str) -> Vec<String> {
    let connection = rusqlite::Connection::open(place.path().join(file)).unwrap();
    let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    let mut all = Vec::new();
    for table in tables {
        let mut select = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = select.column_count();
        let mut found = select.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let values: Vec<_> = (0..columns).map(|c| format!("{:?}", row.get_ref(c).unwrap())).collect();
            all.push(format!("{table}: {}", values.join(", ")));
        }
    }
    all
}

const LOOKS: [&[&str]; 6] = [
    &["status"],
    &["status", "-o", "json"],
    &["results"],
    &["fence", "show"],
    &["fence", "show", "--show-token"],
    &["retry", "--all", "--dry-run"],
];

#[test]
fn a_queue_that_nobody_ever_worked_on_says_so_and_how_to_start() {
    let place = four_partitions();
    enqueue(&place, "k", "1");
    let seen = status(&place);
    assert!(all_are(&seen, "absent"));
    assert_eq!(seen["snapshot"]["totals"]["lag_jobs"], 1, "nothing was ever finished, so that is known");
    assert_eq!(seen["snapshot"]["partitions"][0]["token_present"], Value::Null);
    for empty in ["stopped_keys", "refused_writes", "quarantined"] {
        assert_eq!(seen[empty], serde_json::json!([]), "{empty}");
    }
    let text = place.run(&["status", "--group", "others"]).expect(0).stdout;
    assert!(
        text.contains("Nobody works on queue 'jobs': group 'others' has no worker. 1 job is not finished."),
        "{text}"
    );
    assert!(text.contains("PART\tSTATE\tWORKER\tSESSION\tLAG\tSTOPPED\tSINCE\n0\tabsent\t-\t-\t"), "{text}");
    assert!(text.contains("keylane work --group others --exec PROGRAM"), "{text}");
    place.run(&["status", "--queue", "nope"]).expect(5).says(&["no queue 'nope'", "keylane queue create nope"]);
}

#[test]
fn a_running_worker_s_partitions_are_held_with_its_claim() {
    let place = four_partitions();
    let worker = Worker::start(&place, "worker-1", &[], DONE);
    enqueue(&place, "k", "1");
    wait_until("the job is finished and all is claimed", || {
        let seen = status(&place);
        let claimed = seen["snapshot"]["partitions"].as_array().unwrap().iter().all(|p| p["token_present"] == true);
        claimed && all_are(&seen, "held") && seen["snapshot"]["totals"]["lag_jobs"] == 0
    });
    let text = place.run(&["status"]).expect(0).stdout;
    assert!(text.contains("All 4 partitions are held; nothing is waiting."), "{text}");
    assert!(text.contains("\nworker-1\trunning\t0-3\t"), "{text}");
    worker.end();
    let seen = status(&place);
    assert!(all_are(&seen, "absent"));
    assert_eq!(seen["snapshot"]["partitions"][0]["last_known_worker"], "worker-1");
}

#[test]
fn a_worker_frozen_past_its_session_is_expired_and_never_shown_as_owner() {
    let place = four_partitions();
    let worker = Worker::start(&place, "worker-1", &["--session-timeout", "1s"], DONE);
    wait_until("all is held", || all_are(&status(&place), "held"));
    worker.freeze();
    wait_until("its session ran out", || all_are(&status(&place), "expired"));
    let before = rows(&place, "keylane.db");
    for look in LOOKS {
        place.run(look).expect(0);
    }
    assert_eq!(rows(&place, "keylane.db"), before, "nobody was expelled, nothing changed");
    let seen = status(&place);
    let silent = &seen["snapshot"]["workers"][0];
    assert_eq!((&silent["state"], &silent["freshness"]), (&"unknown".into(), &"lost".into()));
    assert_eq!((&silent["partitions_held"], &silent["session"]["remaining_ms"]), (&0.into(), &0.into()));
    assert_eq!(seen["snapshot"]["notices"][0]["code"], "session_ran_out");
    let text = place.run(&["status"]).expect(0).stdout;
    assert!(text.contains("None of 4 partitions has a working owner. worker-1 let its session"), "{text}");
    assert!(text.contains("0\texpired\tworker-1\tran out\t0\t-\t"), "{text}");
    worker.thaw();
    wait_until("it is back", || all_are(&status(&place), "held"));
}

#[test]
fn looking_leaves_the_files_as_they_are_to_the_byte() {
    let place = four_partitions();
    let worker = Worker::start(&place, "worker-1", &[], DONE);
    enqueue(&place, "k", "1");
    wait_until("the job is finished", || place.run(&["results"]).expect(0).stdout.contains("\"k\""));
    worker.end();
    // The first to close the file after a worker moves the write-ahead log into it; that is SQLite's own tidying.
    rows(&place, "keylane.db");
    let foreign = rusqlite::Connection::open(place.path().join("mine.db")).unwrap();
    foreign.execute_batch("CREATE TABLE mine (a); INSERT INTO mine VALUES (1);").unwrap();
    drop(foreign);
    let read = |file: &str| std::fs::read(place.path().join(file)).unwrap();
    let before = (read("keylane.db"), read("mine.db"));
    for look in LOOKS {
        place.run(look).expect(0);
        place.run(&[look, &["--store", "sqlite:mine.db"]].concat()).expect(0);
        place.run(&[look, &["--store", "sqlite:none.db"]].concat()).expect(0);
    }
    assert!((read("keylane.db"), read("mine.db")) == before, "a look changed a file");
    assert!(!place.path().join("none.db").exists(), "a look made a store");
}

#[test]
fn a_writer_that_holds_the_file_does_not_hold_up_who_looks() {
    let place = four_partitions();
    let worker = Worker::start(&place, "worker-1", &[], DONE);
    wait_until("all is held", || all_are(&status(&place), "held"));
    let busy = rusqlite::Connection::open(place.path().join("keylane.db")).unwrap();
    busy.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    for look in LOOKS {
        place.run(look).expect(0);
    }
    drop(busy);
    worker.end();
}

#[test]
fn watching_appends_a_json_line_each_time_and_ends_with_its_reader() {
    let place = four_partitions();
    let mut child = place.command(&["status", "--watch", "100ms"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(line["snapshot"]["schema"], "keylane.ownership-snapshot/v1");
    }
    drop(lines);
    assert_eq!(Ended::of(child).expect(0).stderr, "");
    place.run(&["status", "--watch", "1ms"]).expect(2).says(&["at least 100ms"]);
}

#[test]
fn hostile_keys_and_reasons_are_text() {
    let place = four_partitions();
    enqueue(&place, "evil\u{1b}[31m\u{202e}\nkey", "1");
    enqueue(&place, "</script>'\"; $(touch owned) -x", "1");
    enqueue(&place, "-rf", "2");
    // A reason with an escape sequence, a line break and a mark of direction; and one of 5 MB.
    let answer = r#"case "$line" in
        *'"payload":"2"'*) printf '{"outcome":"reject","reason":"'; head -c 5000000 /dev/zero | tr '\000' x; echo '"}';;
        *) printf '%s\n' '{"outcome":"reject","reason":"\u001b[31mred\nline\u202e \u009b2J"}';; esac"#;
    let _worker = Worker::start(&place, "worker-1", &["--answer-limit", "8MiB"], answer);
    wait_until("all keys are stopped", || status(&place)["stopped_keys"].as_array().unwrap().len() == 3);
    let text = place.run(&["status"]).expect(0).stdout;
    let acts = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || matches!(c, '\u{202e}' | '\u{9b}');
    assert!(!text.contains(acts), "{text:?}");
    assert!(text.contains(r"rejected at try 1: \u{1b}[31mred\nline\u{202e} \u{9b}2J"), "{text}");
    assert!(text.contains("keylane retry hex:6576696c1b5b33316de280ae0a6b6579"), "{text}");
    assert!(text.contains("keylane retry -- -rf"), "{text}");
    assert!(text.contains("xxx… (all of it: -o json)"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() < 600), "{text}");
    let seen = status(&place);
    let reasons: Vec<&str> =
        seen["stopped_keys"].as_array().unwrap().iter().map(|k| k["reason"].as_str().unwrap()).collect();
    let longest = reasons.iter().max_by_key(|r| r.len()).unwrap();
    assert!(longest.len() <= 4_096 && longest.ends_with("… (cut)"), "cut with a mark");
    // What is printed to be typed is typed: a shell finds the very key.
    let line = text.lines().find_map(|l| l.trim().strip_prefix("replay it: keylane ").filter(|l| l.contains("touch")));
    let typed = format!("{} {} --dry-run", env!("CARGO_BIN_EXE_keylane"), line.unwrap());
    let shell = std::process::Command::new("sh").args(["-c", &typed]).current_dir(place.path()).output().unwrap();
    assert!(shell.status.success(), "{shell:?}");
    assert!(!place.path().join("owned").exists());
    place.run(&["retry", "--", "-rf"]).expect(0);
}
