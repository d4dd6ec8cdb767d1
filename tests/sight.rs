//! Workers, their sidecars and a board as real processes: ownership that moves while it is scraped, and the token nowhere.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "sight/capture.rs"]
mod capture;
#[path = "sight/keys.rs"]
mod keys;
#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{collections::BTreeSet, fs};

use capture::Capture;
use process::{
    Place,
    board::Board,
    secrets::{found, number_forms, text_forms},
    sidecar::{Sidecar, get},
    stub::Stub,
    wait_until,
    worker::Worker,
};
use serde_json::Value;

const PARTITIONS: usize = 4;
const DONE: &str = r#"echo '{"outcome":"done","result":1}'"#;
/// And does the others.
const PARKS_BAD_KEYS: &str = r#"case "$line" in
    *'"key":"bad'*|*key_base64*) echo '{"outcome":"reject","reason":"no such customer"}' ;;
    *'"key":"slow'*) echo '{"outcome":"retry","reason":"the bank is closed","after_ms":250000}' ;;
    *) echo '{"outcome":"done","result":1}' ;;
    esac"#;

fn place() -> Place {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", &PARTITIONS.to_string()]).expect(0);
    place
}

fn worker(place: &Place, name: &str) -> Worker {
    Worker::start(place, name, &["--snapshot-file", &format!("{name}.json")], DONE)
}

/// Every partition once, each with one owner or none; answers the owners.
fn owners(seen: &Value) -> Vec<Option<String>> {
    let partitions = seen["partitions"].as_array().unwrap();
    let numbers: BTreeSet<u64> = partitions.iter().map(|p| p["partition"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), partitions.len(), "a partition stands twice: {seen}");
    let owner = |p: &Value| {
        let owned = matches!(p["state"].as_str(), Some("held" | "draining" | "expired"));
        assert_eq!(p["worker"].is_string(), owned, "one owner or none: {p}");
        p["worker"].as_str().map(str::to_owned)
    };
    partitions.iter().map(owner).collect()
}

#[test]
fn ownership_that_moves_between_workers_has_at_most_one_owner_at_any_scrape() {
    let place = place();
    let (a, b) = (Sidecar::start(&place, "a.json"), Sidecar::start(&place, "b.json"));
    let board = Board::start(&place, &[&a, &b]);
    let stays = worker(&place, "a");
    let mut moves = BTreeSet::new();
    let mut scrape = |wanted: &dyn Fn(&[Option<String>]) -> bool| {
        let seen = owners(&board.snapshot());
        moves.insert(seen.clone());
        for (name, sidecar) in [("a", &a), ("b", &b)] {
            let answer = sidecar.get("/v1/snapshot");
            if answer.status == 200 {
                let of_itself = owners(&answer.json()).into_iter().flatten().all(|owner| owner == name);
                assert!(of_itself, "a sidecar speaks for its own worker only: {}", answer.body);
            }
        }
        wanted(&seen)
    };
    let held_by = |name: &'static str, count: usize| {
        move |seen: &[Option<String>]| {
            seen.len() == PARTITIONS && seen.iter().flatten().filter(|owner| *owner == name).count() == count
        }
    };
    wait_until("a has all", || scrape(&held_by("a", PARTITIONS)));
    for _ in 0..3 {
        let comes = worker(&place, "b");
        wait_until("b has its share", || scrape(&held_by("b", PARTITIONS / 2)));
        comes.end();
        wait_until("a has all again", || scrape(&held_by("a", PARTITIONS)));
    }
    assert!(moves.len() >= 3, "they moved while they were looked at: {moves:?}");
    stays.end();
}

/// The numbers of the token and the names of members as they really are while it runs, in every way they could be written.
fn forms(place: &Place) -> Vec<Vec<u8>> {
    let rows = rusqlite::Connection::open(place.path().join("keylane.db")).unwrap();
    rows.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    let all = |sql: &str| -> Vec<String> {
        let mut rows = rows.prepare(sql).unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let numbers = all("SELECT CAST(gen AS TEXT) FROM keylane_fence UNION SELECT CAST(claim AS TEXT) FROM keylane_fence
        UNION SELECT CAST(epoch AS TEXT) FROM keylane_fence UNION SELECT CAST(generation AS TEXT) FROM keylane_group");
    let numbers: Vec<u64> = numbers.iter().map(|number| number.parse().unwrap()).collect();
    assert!(numbers.iter().all(|&number| number > 900_000_000), "none could stand there by chance: {numbers:?}");
    let names = all("SELECT member FROM keylane_member UNION SELECT owner FROM keylane_fence");
    let near = numbers.into_iter().flat_map(|number| [number - 1, number, number + 1]).flat_map(number_forms);
    near.chain(names.iter().flat_map(|name| text_forms(name))).collect()
}

#[test]
fn no_byte_that_leaves_towards_a_sidecar_a_board_a_push_host_or_a_reader_has_the_token() {
    let place = place();
    worker_that_ran_once(&place);
    let rows = rusqlite::Connection::open(place.path().join("keylane.db")).unwrap();
    rows.execute_batch(
        "UPDATE keylane_group SET generation = 918273645; UPDATE keylane_scope SET epoch = 7172635445;
         UPDATE keylane_fence SET epoch = 7172635445, gen = 918273645, claim = 8182736455;",
    )
    .unwrap();
    let capture = Capture::begin();
    let sidecar = Sidecar::start(&place, "w.json");
    let board = Board::start(&place, &[&sidecar]);
    let host = Stub::that_says(200, "", "");
    let push_to =
        ["push", "--snapshot-file", "w.json", "--to", &format!("http://{}/", host.address), "--every", "1s", "-vvv"];
    let places = ["--to-file", "pushed.json", "--to-note", "pushed.txt"];
    let push = place.command(&[&push_to[..], &places].concat()).spawn().unwrap();
    let worker = Worker::start(&place, "w", &["--snapshot-file", "w.json", "--show-keys", "text"], PARKS_BAD_KEYS);
    place.run(&["enqueue", "--one", "k", "--body", "1"]).expect(0);
    place.run(&["enqueue", "--one", "bad", "--body", "1"]).expect(0);
    wait_until("it holds all under those numbers, and shows a key", || {
        let all_held = |seen: &Value| {
            let mut partitions = seen["partitions"].as_array().unwrap().iter();
            seen["totals"]["held"] == PARTITIONS && partitions.any(|p| p["keys"][0]["shown"] == "bad")
        };
        let answer = sidecar.get("/v1/snapshot");
        answer.status == 200 && all_held(&answer.json()) && all_held(&board.snapshot())
    });
    let forms = forms(&place);
    let control = place.run(&["fence", "show", "--show-token"]).expect(0).stdout;
    assert!(!found(control.as_bytes(), &forms).is_empty(), "the search finds what is there");

    let mut captured = Vec::new();
    let sidecars = ["/v1/snapshot", "/v1/events.ndjson", "/metrics", "/livez", "/readyz", "/nothing"];
    let boards = ["/", "/main", "/v1/timeline.txt", "/v1/autoscale", "/v1/snapshot", "/v1/events.ndjson", "/metrics"];
    let asked = sidecars.map(|path| (sidecar.address.as_str(), path)).into_iter();
    for (address, path) in asked.chain(boards.map(|path| (board.address.as_str(), path))) {
        let answer = get(address, path);
        assert!(!answer.head.contains("etag"), "an id that follows from what is shown could be guessed: {path}");
        captured.push((path.to_owned(), [answer.head, answer.body].concat().into_bytes()));
    }
    for file in ["w.json", "w.metrics.json", "w.events.ndjson"] {
        captured.push((file.to_owned(), fs::read(place.path().join(file)).unwrap()));
    }
    worker.end();
    wait_until("the host is told of its end", || {
        host.requests().last().is_some_and(|r| r.body.contains("\"stopped\""))
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&push), rustix::process::Signal::TERM).unwrap();
    let pushed = process::Ended::of(push).expect(0);
    captured.push(("what the push says".to_owned(), [pushed.stdout, pushed.stderr].concat().into_bytes()));
    captured.extend(host.bytes().into_iter().map(|bytes| ("what the push host gets".to_owned(), bytes)));
    for file in ["pushed.json", "pushed.txt"] {
        captured.push((file.to_owned(), fs::read(place.path().join(file)).unwrap()));
    }
    captured.push(("its last word".to_owned(), fs::read(place.path().join("w.json")).unwrap()));
    if let Some(capture) = capture {
        let watchers = [&sidecar.address, &board.address, &host.address].map(|address| port(address));
        let told = tells_openly(&control);
        let mut on_the_wire = capture.end(&[&watchers[..], &[told]].concat());
        let openly = on_the_wire.remove(&told).unwrap().concat();
        assert!(!found(&openly, &forms).is_empty(), "what goes over the device is seen there");
        for (port, flows) in on_the_wire {
            assert!(flows.iter().map(Vec::len).sum::<usize>() > 500, "somebody spoke with {port}");
            captured.extend(flows.into_iter().map(|bytes| (format!("a connection of port {port}"), bytes)));
        }
    }
    captured.push(("what the sidecar logs".to_owned(), sidecar.end().1.into_bytes()));
    for (what, bytes) in &captured {
        assert_eq!(found(bytes, &forms), Vec::<String>::new(), "{what}: {}", String::from_utf8_lossy(bytes));
    }
}

fn port(address: &str) -> u16 {
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Sends it over a connection of this machine; answers the port.
fn tells_openly(text: &str) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut from = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    std::io::Write::write_all(&mut from, text.as_bytes()).unwrap();
    drop(from);
    let mut seen = String::new();
    std::io::Read::read_to_string(&mut listener.accept().unwrap().0, &mut seen).unwrap();
    assert_eq!(seen, text);
    listener.local_addr().unwrap().port()
}

fn worker_that_ran_once(place: &Place) {
    place.run(&["enqueue", "--one", "first", "--body", "1"]).expect(0);
    let ran = place.run(&["work", "--name", "w", "--builtin", "discard", "--until-empty"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
}
