//! `keylane board`, `timeline` and `narrate` as real processes.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
};

use process::{Place, wait_until};
use serde_json::{Value, json};

/// A sidecar that answers this to everybody, until the test ends.
fn sidecar(answer: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 1_024];
            let _ = stream.read(&mut asked);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// What worker-1 would say of itself.
fn said() -> Value {
    json!({
        "schema": "keylane.ownership-snapshot/v1", "scope": "worker", "observed_at": "2026-12-01T14:02:31.412Z",
        "observer": {"name": "worker-1", "version": "0.1.0"},
        "queue": {"cluster": "here", "topic": "jobs", "group": "workers", "partition_count": 1},
        "freshness": "fresh", "stale_after_ms": 10_000,
        "workers": [{"worker": "worker-1", "state": "running", "since": null, "last_seen_at": "2026-12-01T14:02:31.006Z",
            "age_ms": 6, "freshness": "fresh", "partitions_held": 1, "jobs_in_flight": 0,
            "session": {"timeout_ms": 45_000, "remaining_ms": 43_000, "basis": "heartbeat"}}],
        "partitions": [{"partition": 0, "state": "held", "worker": "worker-1", "since": null, "session_remaining_ms": 43_000,
            "lag": {"jobs": 0, "as_of": "2026-12-01T14:02:31.006Z", "why_unknown": null}, "last_completed_at": null,
            "jobs_in_flight": 0, "age_ms": 6, "token_present": true}],
        "totals": {"held": 1, "draining": 0, "expired": 0, "absent": 0, "unknown": 0, "contested": 0, "lag_jobs": 0,
            "lag_partitions_known": 1},
        "notices": [],
    })
}

struct Board {
    process: Child,
    url: String,
}

impl Board {
    fn start(place: &Place, sidecars: &str) -> Self {
        let mut command =
            place.command(&["board", "--sidecar", sidecars, "--listen", "127.0.0.1:0", "--every", "200ms"]);
        let mut process = command.arg("-ojson").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = serde_json::from_str::<Value>(&line).unwrap()["board"].as_str().unwrap().to_owned();
        Self { process, url }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_board_shows_what_its_sidecars_say_and_ends_when_it_is_asked_to() {
    let place = Place::new();
    let mut board = Board::start(&place, &sidecar(&said().to_string()));
    wait_until("the worker is heard", || {
        place
            .run(&["narrate", "--board", &board.url])
            .expect(0)
            .stdout
            .contains("The only partition is held; nothing is waiting.")
    });
    let narrated = place.run(&["narrate", "--board", &board.url]).expect(0);
    assert!(narrated.stdout.contains("The reports do not contradict each other."), "{}", narrated.stdout);
    let told = place.run(&["timeline", "--board", &board.url, "--partition", "0"]).expect(0);
    assert!(told.stdout.contains("worker-1 took partition 0. It is the first owner"), "{}", told.stdout);
    let event = place.run(&["timeline", "--board", &board.url, "-o", "json"]).expect(0).json();
    assert_eq!(event["type"], "partition.acquired");

    let mut page = TcpStream::connect(board.url.trim_start_matches("http://")).unwrap();
    page.write_all(b"GET / HTTP/1.1\r\nhost: board\r\nconnection: close\r\n\r\n").unwrap();
    let mut html = String::new();
    page.read_to_string(&mut html).unwrap();
    assert!(html.contains("The only partition is held; nothing is waiting."), "{html}");

    let pid = rustix::process::Pid::from_child(&board.process);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(board.process.wait().unwrap().code(), Some(0), "asked to end, also while a stream may be open");
}

#[test]
fn a_snapshot_is_told_with_what_contradicts_what() {
    let place = Place::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/snapshot.example.json");
    let told = place.run(&["narrate", example]).expect(0);
    assert_eq!(
        told.stdout.lines().collect::<Vec<_>>(),
        [
            "jobs / billing on prod-eu, seen 2026-12-01T14:02:31.412Z",
            "3 of 6 partitions have a working owner. 1 is contested, 1 is expired, 1 is unknown. keylane-worker-2 and \
             keylane-worker-3 are silent. At least 323 jobs are waiting.",
            "keylane-worker-2 went silent 51 s ago and its 45 s session has run out. Partition 3 is waiting for a new owner.",
            "keylane-worker-3 has not reported for 20 s. Its session may still be good, so partition 4 is shown as unknown.",
            "One contradiction:",
            "  keylane-worker-0 and keylane-worker-1 both say they hold partition 5.",
        ]
    );
    let snapshot: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(example).unwrap()).unwrap();
    let health = serde_json::json!({
        "turned_boot_ms": 5, "rebalancing_since_boot_ms": null, "stuck_since_boot_ms": null,
    });
    let spooled = serde_json::json!({
        "schema": "keylane.snapshot-file/v1", "written_boot_ms": 5, "health": health, "snapshot": snapshot,
    });
    let of_a_worker = place.run_with_input(&["narrate", "-"], spooled.to_string()).expect(0);
    assert_eq!(of_a_worker.stdout, told.stdout, "the file that a worker writes holds one");
    let with_token = said().to_string().replacen('{', "{\"generation\":918273645,", 1);
    let refused = place.run_with_input(&["narrate", "-"], with_token).expect(3);
    assert!(!refused.stderr.contains("918273645"), "{}", refused.stderr);
    place.run(&["narrate", "no-such-file"]).expect(5);
}

#[test]
fn without_a_board_it_says_where_one_was_looked_for() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = Place::new();
    let gone = format!("http://{free}");
    let ended = place.run(&["timeline", "--board", &gone]).expect(7);
    assert!(ended.stderr.contains(&format!("no board answers at {gone}")), "{}", ended.stderr);
    let usage = place.run(&["board", "--sidecar", "here:1", "--lost-after", "5s"]).expect(2);
    assert!(usage.stderr.contains("--lost-after is shorter"), "{}", usage.stderr);
}
