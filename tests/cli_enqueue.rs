//! `keylane enqueue` as a real process: what is sent, what is refused, and that nothing is sent twice.

#![allow(clippy::unwrap_used, reason = "a test may")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io::Write as _,
    process::{Child, Stdio},
    time::Duration,
};

use process::{Ended, Place, pause, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// `count` lines with keys out of 97, each with its own number.
fn lines(count: usize) -> String {
    let mut text = String::new();
    for n in 0..count {
        writeln!(text, r#"{{"key":"key-{}","n":"{n:06}"}}"#, n % 97).unwrap();
    }
    text
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_file_is_sent_byte_for_byte_in_the_order_of_each_key() {
    let place = Place::with_queue();
    let text = lines(2_500);
    place.write("jobs.ndjson", &text);
    let summary = place.run(&["enqueue", "jobs.ndjson", "-o", "json"]).expect(0).json();
    assert_eq!(
        (&summary["jobs"], &summary["lines"], &summary["partitions"]),
        (&2_500.into(), &2_500.into(), &12.into())
    );
    assert_eq!(place.payloads(), sorted(&text));
    for key in 0..97 {
        let key = format!("key-{key}").into_bytes();
        let sent: Vec<_> = place.records("jobs").into_iter().filter(|r| r.key == key).map(|r| r.value).collect();
        let partitions: BTreeSet<_> =
            place.records("jobs").into_iter().filter(|r| r.key == key).map(|r| r.partition).collect();
        assert!(sent.is_sorted() && partitions.len() == 1);
    }
}

#[test]
fn layouts_of_lines_do_not_change_what_is_sent() {
    let place = Place::with_queue();
    place.write("crlf.ndjson", "\u{feff}{\"key\":\"a\"}\r\n\r\n  \n{\"key\" : \"b\"} \r\n{\"key\":\"c\"}");
    place.run(&["enqueue", "crlf.ndjson"]).expect(0);
    assert_eq!(place.payloads(), ["{\"key\" : \"b\"} ", "{\"key\":\"a\"}", "{\"key\":\"c\"}"]);
}

#[test]
fn nothing_is_sent_if_any_line_of_a_file_is_bad_and_each_is_named() {
    let place = Place::with_queue();
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let bad: [(&str, &str); 8] = [
        ("{}", "key-missing"),
        (r#"{"key":null}"#, "key-null"),
        (r#"{"key":""}"#, "key-empty"),
        (r#"{"key":7}"#, "key-number"),
        (r#"{"key":[1]}"#, "key-not-text"),
        (r#"{"key":"a","key":"b"}"#, "field-twice"),
        ("{", "not-json"),
        (&format!(r#"{{"key":{deep}}}"#), "key-not-text"),
    ];
    let mut text = format!("{{\"key\":\"good\",\"deep\":{deep}}}\n").into_bytes();
    for (line, _) in bad {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    text.extend_from_slice(b"{\"key\":\"\xff\"}\n");
    place.write("bad.ndjson", &text);
    let ended = place.run(&["enqueue", "bad.ndjson"]).expect(3).says(&["9 of 10 lines", "nothing was sent", "try:"]);
    for (at, (_, rule)) in bad.iter().enumerate() {
        let line = ended.stderr.lines().find(|l| l.contains(&format!("line {}:", at + 2))).unwrap();
        assert!(line.contains(rule), "{line}");
    }
    assert!(ended.stderr.contains("line 10: not UTF-8 at byte 9"), "{}", ended.stderr);
    assert_eq!(place.count(), 0);

    let ended =
        place.run(&["enqueue", "bad.ndjson", "--skip-invalid", "--rejects", "rejects.ndjson", "-o", "json"]).expect(1);
    assert_eq!((&ended.json()["jobs"], &ended.json()["skipped"]), (&1.into(), &9.into()));
    let rejects = std::fs::read_to_string(place.path().join("rejects.ndjson")).unwrap();
    let rejects: Vec<Value> = rejects.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(rejects.len(), 9);
    assert_eq!(
        (&rejects[0]["line"], &rejects[0]["rule"], &rejects[0]["text"]),
        (&2.into(), &"key-missing".into(), &"{}".into())
    );
    assert!(rejects[8]["base64"].is_string());
    assert_eq!(place.count(), 1);
}

#[test]
fn only_the_first_bad_lines_are_shown_and_all_are_counted() {
    let place = Place::with_queue();
    place.write("bad.ndjson", "{\"key\":\"a\"}\n".to_owned() + &"{\"key\":1}\n".repeat(400));
    let ended = place.run(&["enqueue", "bad.ndjson"]).expect(3).says(&["400 of 401 lines", "and 380 more lines"]);
    assert_eq!(ended.stderr.matches("[key-number]").count(), 20);
}

#[test]
fn a_wrong_pointer_is_told_from_wrong_lines() {
    let place = Place::with_queue();
    place.write("jobs.ndjson", "{\"id\":\"1\",\"name\":\"x\"}\n{\"id\":\"2\"}\n");
    place.run(&["enqueue", "jobs.ndjson"]).expect(3).says(&["none of 2 lines", "--key", "id, name"]);
    place.run(&["enqueue", "jobs.ndjson", "--key", "id"]).expect(2).says(&["'/id'"]);
    place.run(&["enqueue", "jobs.ndjson", "--key", "/id"]).expect(0);
}

#[test]
fn keys_ids_headers_and_payloads_come_from_where_the_flags_say() {
    let place = Place::with_queue();
    let line = r#"{"k":9007199254740993,"b":{ "x" : 1.0 },"id":"order-7","h":{"a":"1"}}"#;
    place.write("jobs.ndjson", line);
    let flags =
        ["--key", "/k", "--numeric-keys", "--payload", "/b", "--id", "/id", "--headers", "/h", "--header", "from=test"];
    place.run(&[&["enqueue", "jobs.ndjson"], &flags[..]].concat()).expect(0);
    let record = place.records("jobs").pop().unwrap();
    assert_eq!(record.key, b"9007199254740993");
    assert_eq!(record.value.unwrap(), br#"{ "x" : 1.0 }"#);
    let header = |n: &str, v: &str| (n.to_owned(), Some(v.to_owned()));
    assert_eq!(record.headers, [header("keylane-id", "order-7"), header("from", "test"), header("a", "1")]);
}

#[test]
fn csv_rows_become_objects_and_binary_keys_are_decoded() {
    let place = Place::with_queue();
    place.write("people.csv", "name,id\r\n\"Ada, \"\"the\"\" first\r\none\",00ff\r\nBob,0102\r\n");
    place.run(&["enqueue", "people.csv", "--key", "id", "--key-encoding", "hex"]).expect(0);
    let mut records = place.records("jobs");
    records.sort_by_key(|r| r.key.clone());
    assert_eq!(records[0].key, [0, 0xff]);
    assert_eq!(records[0].value.as_deref().unwrap(), br#"{"name":"Ada, \"the\" first\r\none","id":"00ff"}"#);
    assert_eq!(records[1].key, [1, 2]);
    place.run(&["enqueue", "people.csv", "--key", "email", "--again"]).expect(3).says(&["columns are name, id"]);
    place.write("short.csv", "key,a\nk\n");
    place.run(&["enqueue", "short.csv"]).expect(3).says(&["line 2", "wrong-field-count"]);
}

#[test]
fn one_job_comes_from_the_command_line() {
    let place = Place::with_queue();
    place.write("body.bin", [0, 1, 2]);
    let receipt = place.run(&["enqueue", "--one", "hex:00ff", "--body", "@body.bin", "-o", "json"]).expect(0).json();
    assert_eq!(receipt["key"], "hex:00ff");
    place.run(&["enqueue", "--one", "none"]).expect(0);
    place.run(&["enqueue", "--one", "empty", "--body", ""]).expect(0);
    place.run_with_input(&["enqueue", "--one", "stdin", "--body", "-"], "text").expect(0);
    let value = |key: &[u8]| place.records("jobs").into_iter().find(|r| r.key == key).unwrap().value;
    assert_eq!(value(&[0, 0xff]), Some(vec![0, 1, 2]));
    assert_eq!(value(b"none"), None, "no body is not an empty one");
    assert_eq!(value(b"empty"), Some(vec![]));
    assert_eq!(value(b"stdin"), Some(b"text".to_vec()));
    place.run(&["enqueue", "--one", ""]).expect(2).says(&["1 to 1024 bytes"]);
    place.run_with_input(&["enqueue", "--one", "k", "--body", "-"], "x".repeat(1_000_000)).expect(3).says(&["limit"]);
}

#[test]
fn standard_input_stops_at_the_first_bad_line_and_says_what_was_sent() {
    let place = Place::with_queue();
    place
        .run_with_input(&["enqueue"], "{\"key\":\"a\"}\n{\"key\":\"b\"}\n\n{\"key\":1}\n{\"key\":\"c\"}\n")
        .expect(3)
        .says(&["lines 1 to 2 are on queue 'jobs'", "line 4 of standard input", "from line 3 on"]);
    assert_eq!(place.count(), 2);
}

#[test]
fn lines_of_a_stream_do_not_wait_for_more() {
    let place = Place::with_queue();
    let mut child = place.command(&["enqueue", "-", "-q"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for n in 1..=3 {
        stdin.write_all(b"{\"key\":\"a\"}\n{\"key\":").unwrap();
        wait_until("the whole lines are on the log", || place.count() == n * 2 - 1);
        stdin.write_all(b"\"b\"}\n").unwrap();
        wait_until("the rest is on the log", || place.count() == n * 2);
    }
    drop(stdin);
    Ended::of(child).expect(0);
}

#[test]
fn an_import_that_is_killed_at_any_point_is_resumed_without_a_loss_or_a_repetition() {
    let place = Place::with_queue();
    let text = lines(30_000);
    place.write("jobs.ndjson", &text);
    let mut kills = 0;
    for round in 0_u64.. {
        let before = place.count();
        let mut child = place.command(&["enqueue", "jobs.ndjson", "--resume", "-q"]).spawn().unwrap();
        // Early rounds are killed while the file is checked, later ones after a batch or in the middle of one.
        let target = before + (round % 3) * 1_000;
        wait_until("the import moves", || place.count() >= target || child.try_wait().unwrap().is_some());
        pause(Duration::from_micros(round * 7_919 % 20_000));
        let _ = child.kill();
        let ended = Ended::of(child);
        kills += u32::from(ended.code.is_none());
        if ended.code == Some(0) {
            break;
        }
        assert_eq!(ended.code, None, "{}", ended.stderr);
        assert_eq!(place.count() % 1_000, 0, "a batch is on the log as a whole");
        assert!(round < 200, "the import never ends");
    }
    assert!(kills >= 5, "only {kills} imports were killed");
    assert_eq!(place.payloads(), sorted(&text));
}

#[test]
fn without_resume_an_import_that_was_cut_off_is_refused_and_restart_sends_twice() {
    let place = Place::with_queue();
    let text = lines(20_000);
    place.write("jobs.ndjson", &text);
    let mut child = place.command(&["enqueue", "jobs.ndjson"]).spawn().unwrap();
    wait_until("a batch is on the log", || place.count() > 0);
    child.kill().unwrap();
    Ended::of(child);
    let there = place.count();
    assert!(there < 20_000, "the import was faster than the kill");
    place.run(&["enqueue", "jobs.ndjson"]).expect(3).says(&["was cut off", "--resume", "--restart"]);
    assert_eq!(place.count(), there);
    place.run(&["enqueue", "jobs.ndjson", "--restart"]).expect(0);
    assert_eq!(place.count(), there + 20_000, "what --resume prevents");
}

#[test]
fn a_whole_import_is_not_sent_again_by_accident() {
    let place = Place::with_queue();
    let file = place.write("jobs.ndjson", lines(10));
    place.run(&["enqueue", "jobs.ndjson", "--resume"]).expect(0);
    place.run(&["enqueue", "jobs.ndjson"]).expect(3).says(&["was sent before", "--resume", "--restart"]);
    place.run(&["enqueue", "jobs.ndjson", "--resume"]).expect(0);
    assert_eq!(place.count(), 10);

    std::fs::write(&file, lines(12)).unwrap();
    place.run(&["enqueue", "jobs.ndjson"]).expect(3);
    let summary = place.run(&["enqueue", "jobs.ndjson", "--resume", "-o", "json"]).expect(0).json();
    assert_eq!((&summary["jobs"], &summary["resumed_after"]), (&2.into(), &10.into()), "only what was added");

    std::fs::write(&file, lines(12).replace("000003", "999999")).unwrap();
    place.run(&["enqueue", "jobs.ndjson", "--resume"]).expect(3).says(&["changed", "--restart"]);
    assert_eq!(place.count(), 12);
    place.run(&["enqueue", "jobs.ndjson"]).expect(0);
    assert_eq!(place.count(), 24, "another file under the same name is another import");
    place.run(&["enqueue", "jobs.ndjson", "--again"]).expect(0);
    assert_eq!(place.count(), 36);
}

#[test]
fn a_file_that_changed_before_the_checkpoint_is_not_resumed() {
    let place = Place::with_queue();
    let file = place.write("jobs.ndjson", lines(20_000));
    let mut child = place.command(&["enqueue", "jobs.ndjson"]).spawn().unwrap();
    wait_until("a batch is on the log", || place.count() > 0);
    child.kill().unwrap();
    Ended::of(child);
    let there = place.count();
    std::fs::write(&file, lines(20_000).replace("000007", "999999")).unwrap();
    place.run(&["enqueue", "jobs.ndjson", "--resume"]).expect(3).says(&["changed"]);
    place.run(&["enqueue", "jobs.ndjson"]).expect(3).says(&["changed since", "--restart"]);
    assert_eq!(place.count(), there);
}

#[test]
fn an_interrupted_import_says_how_to_go_on() {
    for (name, asked) in [("SIGINT", Signal::INT), ("SIGTERM", Signal::TERM)] {
        let place = Place::with_queue();
        let text = lines(60_000);
        place.write("jobs.ndjson", &text);
        let child = place.command(&["enqueue", "jobs.ndjson"]).spawn().unwrap();
        wait_until("a batch is on the log", || place.count() > 0);
        signal(&child, asked);
        Ended::of(child).expect(130).says(&["interrupted", "keylane enqueue jobs.ndjson --resume"]);
        assert!(place.count() < 60_000, "{name}: the import was faster than the signal");
        place.run(&["enqueue", "jobs.ndjson", "--resume"]).expect(0);
        assert_eq!(place.payloads(), sorted(&text), "{name}");
    }
}

#[test]
fn a_named_stream_that_was_interrupted_while_it_waits_is_resumed() {
    let place = Place::with_queue();
    let args = ["enqueue", "-", "--source", "nightly"];
    let mut child = place.command(&args).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines(3).as_bytes()).unwrap();
    wait_until("the lines are on the log", || place.count() == 3);
    signal(&child, Signal::INT);
    Ended::of(child).expect(130).says(&["lines 1 to 3 are on queue 'jobs'", "--resume"]);
    place.run_with_input(&args, lines(5)).expect(3).says(&["was cut off"]);
    place.run_with_input(&[&args[..], &["--resume"]].concat(), lines(5)).expect(0);
    assert_eq!(place.payloads(), sorted(&lines(5)));
    let other = lines(5).replace("000001", "999999");
    place.run_with_input(&[&args[..], &["--resume"]].concat(), other).expect(3).says(&["changed"]);
    place.run_with_input(&["enqueue", "-", "--resume"], lines(5)).expect(2).says(&["--source"]);
}

#[test]
fn a_missing_queue_is_made_only_when_asked_for() {
    let place = Place::new();
    place.write("jobs.ndjson", lines(3));
    place.run(&["enqueue", "jobs.ndjson"]).expect(5).says(&["keylane queue create jobs"]);
    place.write("bad.ndjson", "{}\n");
    place.run(&["enqueue", "bad.ndjson", "--create", "4"]).expect(3);
    assert!(!place.path().join("keylane.db").exists(), "no queue for a file that is not sent");
    place.run(&["enqueue", "jobs.ndjson", "--create", "4"]).expect(0);
    let shown = place.run(&["queue", "describe", "-o", "json"]).expect(0).json();
    assert_eq!(shown["partition_count"], 4);
    place.run(&["enqueue", "--one", "k", "--queue", "other"]).expect(5).says(&["queue create other", "jobs"]);
}

#[test]
fn receipts_name_each_job_s_place() {
    let place = Place::with_queue();
    place.write("jobs.ndjson", lines(1_200));
    let ended = place.run(&["enqueue", "jobs.ndjson", "--receipts"]).expect(0).says(&["sent 1,200 jobs"]);
    let receipts: Vec<Value> = ended.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(receipts.len(), 1_200);
    for record in place.records("jobs") {
        let receipt =
            receipts.iter().find(|r| r["partition"] == record.partition && r["offset"] == record.offset).unwrap();
        assert_eq!(receipt["key"].as_str().unwrap().as_bytes(), record.key);
        assert_eq!(receipt["id"].as_str(), record.headers[0].1.as_deref());
    }
}

#[test]
fn a_reader_of_receipts_that_leaves_does_not_stop_the_import() {
    let place = Place::with_queue();
    place.write("jobs.ndjson", lines(5_000));
    let mut child = place.command(&["enqueue", "jobs.ndjson", "--receipts", "-q"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(Ended::of(child).expect(0).stderr, "");
    assert_eq!(place.count(), 5_000);
}

#[test]
fn files_that_cannot_be_read_have_a_code_each() {
    let place = Place::with_queue();
    place.run(&["enqueue", "nothing.ndjson"]).expect(5).says(&["cannot read 'nothing.ndjson'"]);
    place.run(&["enqueue", "."]).expect(3).says(&["is a folder"]);
    place.write("wide.ndjson", b"\xff\xfe{\0}\0");
    place.run(&["enqueue", "wide.ndjson"]).expect(3).says(&["UTF-16"]);
    place.write("jobs.ndjson", lines(3));
    place.write("keylane.db", "this is no database".repeat(500));
    place.run(&["enqueue", "jobs.ndjson"]).expect(9).says(&["try:"]);
}

#[test]
fn a_disk_that_takes_no_more_loses_nothing_and_the_import_goes_on_later() {
    let place = Place::with_queue();
    let text = lines(40_000);
    place.write("jobs.ndjson", &text);
    let script = format!("trap '' XFSZ; ulimit -f 3000; exec '{}' enqueue jobs.ndjson", env!("CARGO_BIN_EXE_keylane"));
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]).current_dir(place.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = Ended::of(shell.spawn().unwrap()).expect(7).says(&["are on queue 'jobs'", "--resume", "try:"]);
    let there = place.count();
    assert!(there > 0 && there < 40_000 && there.is_multiple_of(1_000), "{there}: {}", ended.stderr);
    place.run(&["enqueue", "jobs.ndjson", "--resume"]).expect(0);
    assert_eq!(place.payloads(), sorted(&text));
}

#[test]
fn two_imports_of_one_file_cannot_run_at_once() {
    let place = Place::with_queue();
    let path = place.write("jobs.ndjson", lines(3));
    let held = std::fs::File::open(&path).unwrap();
    held.lock().unwrap();
    place.run(&["enqueue", "jobs.ndjson"]).expect(7).says(&["another process is sending"]);
    drop(held);
    place.run(&["enqueue", "jobs.ndjson"]).expect(0);
}

#[test]
fn text_from_outside_cannot_act_on_a_terminal() {
    let place = Place::with_queue();
    let name = "evil\u{1b}[2J\u{202e}.ndjson";
    place.write(name, "{\"\u{1b}]0;x\":1}\n");
    let stderr = String::from_utf8(place.command(&["enqueue", name]).output().unwrap().stderr).unwrap();
    assert!(stderr.contains("\\u{1b}[2J\\u{202e}"), "{stderr}");
    assert!(!stderr.chars().any(|c| c.is_control() && c != '\n'), "{stderr:?}");
    let receipt = place.run(&["enqueue", "--one", "a\u{1b}[31m", "--receipts"]).expect(0).stdout;
    assert!(receipt.contains("hex:611b5b33316d"), "{receipt}");
}
