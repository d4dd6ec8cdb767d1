//! `keylane demo` as real processes: it holds, its twin without the fence breaks, and nothing is left of either.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use process::{Ended, Place, wait_until};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn every_event_is_applied_once_and_in_order_although_a_worker_was_frozen_and_one_killed() {
    let place = Place::new();
    let ended = Ended::of(demo(&place, &["-o", "json"]).spawn().unwrap()).expect(0);
    let events = events(&ended);
    let verdict = events.last().unwrap();
    assert_eq!(verdict["verdict"], "held");
    assert_eq!(verdict["fence"], true);
    assert_eq!((&verdict["jobs"], &verdict["applied_once"]), (&4_327.into(), &4_327.into()));
    assert_eq!(verdict["aircraft"], 1_730);
    for none in ["lost", "applied_twice", "out_of_order", "unknown", "wrong_totals", "stale_landed"] {
        assert_eq!(verdict[none], 0, "{none}");
    }
    assert!(verdict["stale_refused"].as_u64().unwrap() > 0, "{verdict}");

    assert_in_order(&events, &["enqueued", "started", "owners", "frozen", "killed", "thawed", "refused", "finished"]);
    let frozen = find(&events, "frozen");
    for refused in events.iter().filter(|event| event["event"] == "refused") {
        assert_eq!(refused["worker"], frozen["worker"]);
    }
    assert_nothing_is_left(&place, &pids(&events));
}

/// Without a terminal it is gone with the demo.
#[test]
fn the_page_shows_the_three_workers_while_they_play_and_is_gone_at_the_end() {
    let place = Place::new();
    let (child, pids) = demo_until_frozen(&place);
    let address = page(child.id());
    let snapshot = || process::sidecar::get(&address, "/v1/snapshot").json();
    wait_until("the page knows all three", || snapshot()["workers"].as_array().unwrap().len() == 3);
    assert!(process::sidecar::get(&address, "/").body.contains("worker-2"));
    signal(child.id(), Signal::INT);
    assert_eq!(Ended::of(child).code, Some(130));
    assert!(std::net::TcpStream::connect(&address).is_err(), "nobody is there any more");
    assert_nothing_is_left(&place, &pids);

    let ended = Ended::of(demo(&place, &["--no-page", "-o", "json"]).spawn().unwrap()).expect(0);
    assert!(events(&ended).iter().all(|event| event["event"] != "page"));
}

/// Where the only socket of the demo's own process listens.
fn page(demo: u32) -> String {
    let own: Vec<String> = std::fs::read_dir(format!("/proc/{demo}/fd"))
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()?.to_str().map(str::to_owned))
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{demo}/net/tcp")).unwrap();
    let port = table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_ours = words[3] == "0A" && own.contains(&format!("socket:[{}]", words[9]));
        is_ours.then(|| u16::from_str_radix(words[1].rsplit(':').next().unwrap(), 16).unwrap())
    });
    format!("127.0.0.1:{}", port.expect("the page listens"))
}

/// The twin: the very same without the store's check.
#[test]
fn without_the_fence_stale_writes_land_and_the_demo_says_so() {
    let place = Place::new();
    let ended = Ended::of(demo(&place, &["--no-fence", "-o", "json"]).spawn().unwrap()).expect(1);
    let events = events(&ended);
    let verdict = events.last().unwrap();
    assert_eq!((&verdict["verdict"], &verdict["fence"]), (&"broken".into(), &false.into()));
    assert!(verdict["stale_landed"].as_u64().unwrap() > 0, "{verdict}");
    assert_eq!(verdict["stale_refused"], 0);
    assert_in_order(&events, &["frozen", "killed", "thawed", "landed", "finished"]);
    assert_nothing_is_left(&place, &pids(&events));
}

#[test]
fn a_quiet_demo_says_only_the_verdict_and_keeps_its_folder_if_asked() {
    let place = Place::new();
    // The variables of a real queue are not the demo's.
    let mut command = demo(&place, &["-q", "--keep"]);
    command.env("KEYLANE_BROKER", "sqlite:mine.db").env("KEYLANE_STORE", "sqlite:mine.db");
    command.env("KEYLANE_QUEUE", "mine").env("KEYLANE_GROUP", "mine");
    let text = Ended::of(command.spawn().unwrap()).expect(0).stdout;
    assert!(text.trim_start().starts_with("VERDICT: held"), "{text}");
    assert!(text.contains("4,327  of 4,327 events applied exactly once"), "{text}");
    assert!(!text.contains('\x1b'), "no colour off a terminal: {text}");
    let folder = PathBuf::from(text.lines().last().unwrap().trim());
    assert_eq!(folders(&place), std::slice::from_ref(&folder));
    assert!(!place.path().join("mine.db").exists());
    let ledger = Connection::open(folder.join("ledger.db")).unwrap();
    let rows: u64 = ledger.query_row("SELECT count(*) FROM journal", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 4_327);
}

#[test]
fn ctrl_c_leaves_no_process_and_no_folder() {
    let place = Place::new();
    let (child, pids) = demo_until_frozen(&place);
    signal(child.id(), Signal::INT);
    let ended = Ended::of(child);
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert!(ended.stderr.contains("interrupted"), "{}", ended.stderr);
    assert_nothing_is_left(&place, &pids);
}

/// A folder stays, as nobody is there to remove it; a frozen process must not.
#[cfg(target_os = "linux")]
#[test]
fn a_demo_that_is_killed_leaves_no_process() {
    let place = Place::new();
    let (mut child, pids) = demo_until_frozen(&place);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the workers are gone", || pids.iter().all(|&pid| !is_alive(pid)));
}

#[test]
fn a_demo_without_a_place_for_its_folder_says_what_to_do() {
    let place = Place::new();
    let child = demo(&place, &[]).env("TMPDIR", "/nowhere").spawn().unwrap();
    Ended::of(child).expect(4).says(&["/nowhere", "TMPDIR"]);
}

/// A demo whose temporary folder is made in the place.
fn demo(place: &Place, args: &[&str]) -> Command {
    let mut command = place.command(&["demo"]);
    command.args(args).env("TMPDIR", place.path());
    command
}

/// A demo at the moment when one of its workers is frozen, and the workers' process numbers.
fn demo_until_frozen(place: &Place) -> (Child, Vec<u32>) {
    let mut child = demo(place, &["-o", "json"]).spawn().unwrap();
    let mut seen = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    while seen.last().is_none_or(|event: &Value| event["event"] != "frozen") {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the demo ended: {seen:?}");
        seen.push(serde_json::from_str(&line).unwrap());
    }
    child.stdout = Some(lines.into_inner());
    let pids = pids(&seen);
    assert_eq!(pids.iter().filter(|&&pid| is_alive(pid)).count(), 3);
    (child, pids)
}

fn events(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn find<'e>(events: &'e [Value], name: &str) -> &'e Value {
    events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("'{name}' is missing: {events:?}"))
}

/// The first of each of these came in this order.
#[track_caller]
fn assert_in_order(events: &[Value], names: &[&str]) {
    let at = |name: &&str| find(events, name)["at_ms"].as_u64().unwrap();
    let times: Vec<u64> = names.iter().map(at).collect();
    assert!(times.is_sorted(), "{names:?}: {times:?}");
}

fn pids(events: &[Value]) -> Vec<u32> {
    let workers = find(events, "started")["workers"].as_object().unwrap();
    workers.values().map(|pid| pid.as_u64().unwrap().try_into().unwrap()).collect()
}

#[track_caller]
fn assert_nothing_is_left(place: &Place, pids: &[u32]) {
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|&pid| !is_alive(pid)), "of {pids:?} some are left");
    assert_eq!(folders(place), [] as [&Path; 0]);
}

fn folders(place: &Place) -> Vec<PathBuf> {
    std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Whether it runs or stands still; one that ended and whose end nobody asked for has gone.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let has_ended = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
    rustix::process::test_kill_process(number(pid)).is_ok() && !has_ended
}

fn signal(pid: u32, signal: Signal) {
    kill_process(number(pid), signal).unwrap();
}

fn number(pid: u32) -> Pid {
    Pid::from_raw(pid.try_into().unwrap()).unwrap()
}
