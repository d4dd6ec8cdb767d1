//! The sidecar as a process: what it serves, what it gave up, and that a worker cannot be touched through it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

use process::{Place, pause, sidecar::Sidecar, wait_until, worker::Worker};
use rustix::process::Pid;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::Value;

const FILE: &str = "snapshot.json";

fn place() -> Place {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "3"]).expect(0);
    place
}

fn worker(place: &Place, flags: &[&str]) -> Worker {
    let flags = [&["--snapshot-file", FILE], flags].concat();
    Worker::start(place, "w", &flags, r#"echo '{"outcome":"done","result":1}'"#)
}

fn serves_held(sidecar: &Sidecar) -> bool {
    let answer = sidecar.get("/v1/snapshot?require=fresh");
    answer.status == 200 && answer.json()["totals"]["held"] == 3
}

#[test]
fn a_sidecar_serves_what_its_worker_holds_and_that_it_stopped() {
    let place = place();
    let sidecar = Sidecar::start(&place, FILE);
    assert_eq!(sidecar.get("/v1/snapshot").status, 503, "nothing was written yet");
    for health in ["/livez", "/readyz", "/healthz"] {
        assert_eq!(sidecar.get(health).status, 200, "the age of data is not health");
    }
    let worker = worker(&place, &[]);
    wait_until("it is served as held", || serves_held(&sidecar));
    let answer = sidecar.get("/v1/snapshot");
    for header in ["cache-control: no-store", "keylane-age-ms: ", "x-content-type-options: nosniff"] {
        assert!(answer.head.contains(header), "{header}: {}", answer.head);
    }
    assert_eq!(answer.json()["notices"], serde_json::json!([]), "it is confined");

    let mut stream = sidecar.connect();
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("data: ") && line.contains("partition.acquired")));
    assert!(lines.any(|line| line == "event: snapshot"), "and all of it, as it is now");
    worker.end();
    assert!(lines.any(|line| line.starts_with("data: ") && line.contains("worker.stopped")), "as it happens");
    wait_until("it is served as stopped", || sidecar.snapshot()["workers"][0]["state"] == "stopped");
    let events = sidecar.get("/v1/events.ndjson").body;
    let last = events.lines().last().unwrap();
    assert_eq!(serde_json::from_str::<Value>(last).unwrap()["type"], "worker.stopped");
    assert_eq!(sidecar.end().0, Some(0), "also while a stream is open");
}

#[test]
fn a_reader_that_comes_back_gets_the_events_that_it_missed_and_no_other() {
    let place = place();
    let sidecar = Sidecar::start(&place, FILE);
    let worker = worker(&place, &[]);
    wait_until("it is served as held", || serves_held(&sidecar));
    let ids = |text: &str| -> Vec<String> {
        text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["id"].as_str().unwrap().to_owned()).collect()
    };
    let seen = ids(&sidecar.get("/v1/events.ndjson").body);
    worker.end();
    wait_until("there are more", || ids(&sidecar.get("/v1/events.ndjson").body).len() > seen.len());
    let mut stream = sidecar.connect();
    let last = seen.last().unwrap();
    write!(stream, "GET /v1/events HTTP/1.1\r\nhost: x\r\nlast-event-id: {last}\r\n\r\n").unwrap();
    let missed = ids(&sidecar.get("/v1/events.ndjson").body);
    let first =
        BufReader::new(stream).lines().map(Result::unwrap).find_map(|l| l.strip_prefix("id: ").map(str::to_owned));
    assert_eq!(first.as_ref(), missed.get(seen.len()));
}

#[test]
fn a_worker_that_was_killed_is_unknown_and_never_shown_as_the_owner() {
    let place = place();
    let sidecar = Sidecar::start(&place, FILE);
    let worker = worker(&place, &["--session-timeout", "10m"]);
    wait_until("it is served as held", || serves_held(&sidecar));
    drop(worker);
    wait_until("it is silent", || sidecar.get("/v1/snapshot?require=fresh").status == 503);
    let seen = sidecar.snapshot();
    assert_ne!(seen["freshness"], "fresh");
    assert_eq!(seen["workers"][0]["state"], "unknown");
    for partition in seen["partitions"].as_array().unwrap() {
        assert_eq!((&partition["state"], &partition["worker"]), (&"unknown".into(), &Value::Null));
        assert_eq!((&partition["last_known_worker"], &partition["lag"]["jobs"]), (&"w".into(), &Value::Null));
        assert_eq!(partition["since"], seen["workers"][0]["last_seen_at"], "unknown since");
    }
    let metrics = sidecar.get("/metrics").body;
    assert!(metrics.contains("keylane_partitions{topic=\"jobs\",state=\"unknown\"} 3\n"), "{metrics}");
    assert!(metrics.contains("keylane_lag_unknown_partitions{topic=\"jobs\"} 3\n"));
    assert!(!metrics.contains("keylane_partition_lag_jobs{") && !metrics.contains("session_expiry_timestamp_seconds{"));
}

#[test]
fn no_route_changes_anything_and_none_leads_elsewhere() {
    let place = place();
    fs::write(place.path().join("secret"), "918273645").unwrap();
    let sidecar = Sidecar::start(&place, FILE);
    for path in ["/", "/../secret", "/v1/../../secret", "/secret", "/v1/snapshot/%2e%2e/secret", "//secret"] {
        assert_eq!(sidecar.get(path).status, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let asked =
            format!("{method} /v1/snapshot HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(sidecar.say(&asked).status, 405, "{method}");
    }
}

/// What the kernel says of each thread of a process.
fn of_each_thread(pid: Pid, field: &str) -> BTreeSet<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let status = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("status")).unwrap();
    let of = |text: String| text.lines().find_map(|l| l.strip_prefix(field).map(|v| v.trim().to_owned())).unwrap();
    threads.map(|thread| of(status(thread.unwrap()))).collect()
}

/// What a process can still do then: `sidecar/tests/confinement.rs`.
#[test]
fn every_thread_of_a_sidecar_is_confined_before_it_answers() {
    let place = place();
    let sidecar = Sidecar::start(&place, FILE);
    assert_eq!(sidecar.get("/livez").status, 200);
    let threads = fs::read_dir(format!("/proc/{}/task", sidecar.pid())).unwrap().count();
    assert!(threads >= 2, "also those that it made since");
    assert_eq!(of_each_thread(sidecar.pid(), "Seccomp:"), BTreeSet::from(["2".to_owned()]));
    assert_eq!(of_each_thread(sidecar.pid(), "NoNewPrivs:"), BTreeSet::from(["1".to_owned()]));
}

const BECOMES: &str = "KEYLANE_TEST_BECOMES";
const WITHOUT: &str = "KEYLANE_TEST_WITHOUT";

/// Not a test by itself: the process that takes seccomp or Landlock away from itself and then becomes the program.
#[test]
fn becomes_the_program_where_the_kernel_has_less() {
    let Ok(args) = std::env::var(BECOMES) else { return };
    let (call, errno) = match std::env::var(WITHOUT).unwrap().as_str() {
        "seccomp" => (libc::SYS_seccomp, rustix::io::Errno::PERM),
        _ => (libc::SYS_landlock_create_ruleset, rustix::io::Errno::NOSYS),
    };
    let refuse = SeccompAction::Errno(errno.raw_os_error().cast_unsigned());
    let rules = BTreeMap::from([(call, Vec::new())]);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
    let error = Command::new(env!("CARGO_BIN_EXE_keylane")).args(args.split(' ')).exec();
    panic!("{error}");
}

fn where_no_filter_is_taken(place: &Place, args: &str) -> Command {
    without("seccomp", place, args)
}

fn without(what: &str, place: &Place, args: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "becomes_the_program_where_the_kernel_has_less", "--nocapture", "-q"]);
    command.env_clear().env(BECOMES, args).env(WITHOUT, what).current_dir(place.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_sidecar_that_cannot_be_confined_does_not_start_unless_it_is_told_to_and_then_says_so() {
    let place = place();
    let args = format!("sidecar --snapshot-file {FILE} --listen 127.0.0.1:0 -ojson");
    let ended = process::Ended::of(where_no_filter_is_taken(&place, &args).spawn().unwrap());
    let ended = ended.expect(4).says(&["cannot start without confinement", "--allow-unconfined"]);
    assert!(!ended.stdout.contains("http://"), "it answered nobody: {}", ended.stdout);

    let mut told = where_no_filter_is_taken(&place, &format!("{args} --allow-unconfined"));
    let mut process = told.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find(|line| line.starts_with('{')).unwrap();
    let address = said.split('"').find_map(|part| part.strip_prefix("http://").map(str::to_owned)).unwrap();
    let _sidecar = Ending(process);
    let worker = worker(&place, &[]);
    wait_until("it says so", || {
        let answer = process::sidecar::get(&address, "/v1/snapshot");
        answer.status == 200 && answer.json()["notices"][0]["code"] == "sidecar_unconfined"
    });
    worker.end();
}

/// Files of its user stay readable then, and it says so; all else is refused by seccomp alone.
#[test]
fn a_sidecar_without_landlock_starts_says_so_and_is_confined_by_seccomp() {
    let place = place();
    let args = format!("sidecar --snapshot-file {FILE} --listen 127.0.0.1:0 -ojson -v");
    let mut process = without("landlock", &place, &args).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said: Value = serde_json::from_str(&lines.find(|line| line.starts_with('{')).unwrap()).unwrap();
    let sidecar = Ending(process);
    assert_eq!(said["landlock"], false);
    let address = said["sidecar"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let worker = worker(&place, &[]);
    wait_until("it serves", || {
        let answer = process::sidecar::get(&address, "/v1/snapshot");
        answer.status == 200
            && answer.json()["totals"]["held"] == 3
            && answer.json()["notices"] == serde_json::json!([])
    });
    assert_eq!(of_each_thread(Pid::from_child(&sidecar.0), "Seccomp:"), BTreeSet::from(["2".to_owned()]));
    worker.end();
}

struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Killed at once, while it is asked and jobs run: no job notices.
#[test]
fn a_sidecar_that_is_killed_costs_its_worker_nothing() {
    let place = place();
    let jobs = |from: u32| -> String { (from..from + 300).map(|n| format!("{{\"k\":\"{}\"}}\n", n % 40)).collect() };
    let enqueue = |from| {
        let args = ["enqueue", "-", "--key", "/k", "--source", &format!("s{from}")];
        place.run_with_input(&args, jobs(from)).expect(0);
    };
    let done = || place.run(&["results"]).expect(0).stdout.lines().count();
    let worker = worker(&place, &[]);
    let sidecar = Sidecar::start(&place, FILE);
    wait_until("it is served as held", || serves_held(&sidecar));
    enqueue(0);
    wait_until("jobs run while it is asked", || {
        assert_eq!(sidecar.get("/v1/snapshot").status, 200);
        done() > 0
    });
    drop(sidecar);
    enqueue(300);
    wait_until("all are done", || done() == 600);
    worker.end();
    let snapshot: Value = serde_json::from_slice(&fs::read(place.path().join(FILE)).unwrap()).unwrap();
    assert_eq!(snapshot["snapshot"]["workers"][0]["state"], "stopped", "and it goes on writing");
}

/// The sockets of this process on which somebody could reach it.
fn listening(pid: Pid) -> Vec<String> {
    let own: BTreeSet<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|fd| fs::read_link(fd.unwrap().path()).ok())
        .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    // Of a connection it is the state, of datagrams being bound; of a path the flag of who accepts.
    let tables = [
        ("tcp", 3, "0A", 9),
        ("tcp6", 3, "0A", 9),
        ("udp", 3, "07", 9),
        ("udp6", 3, "07", 9),
        ("unix", 3, "00010000", 6),
    ];
    let mut found = Vec::new();
    for (table, state_at, state, inode_at) in tables {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.get(state_at) == Some(&state) && words.get(inode_at).is_some_and(|inode| own.contains(*inode)) {
                found.push(format!("{table} {line}"));
            }
        }
    }
    found
}

/// Nobody can call a worker, so nobody can renew or extend anything from outside. The same look finds a sidecar's port.
#[test]
fn nothing_listens_in_a_running_worker() {
    let place = place();
    let sidecar = Sidecar::start(&place, FILE);
    let worker = worker(&place, &[]);
    place.run(&["enqueue", "--one", "k", "--body", "1"]).expect(0);
    wait_until("it holds all, and has run a job", || {
        serves_held(&sidecar) && !place.run(&["results"]).expect(0).stdout.is_empty()
    });
    for _ in 0..20 {
        assert_eq!(listening(worker.pid()), Vec::<String>::new());
        pause(std::time::Duration::from_millis(20));
    }
    let found = listening(sidecar.pid());
    assert!(found.len() == 1 && found[0].starts_with("tcp "), "the look finds what is there: {found:?}");
}

#[test]
fn what_waits_in_the_folder_is_not_what_is_served() {
    let place = place();
    let sidecar = Sidecar::start(&place, FILE);
    let mut stream = sidecar.connect();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("keylane_snapshot_reads_total{outcome=\"missing\"}"), "{text}");
    assert!(!text.contains("keylane_partitions{"), "what is not known has no series");
}
