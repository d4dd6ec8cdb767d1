//! A board and sidecars as servers: what is merged, what is refused, what is served, and that nothing can be changed.

#![cfg(feature = "board")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod stage;

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::State, routing::get};
use keylane_sidecar::{
    PartitionState,
    board::{Now, ask, http::Board},
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use PartitionState::{Draining, Held};

/// A sidecar whose answer a test writes.
#[derive(Clone)]
struct Stub(Arc<Mutex<Answer>>);

#[derive(Clone)]
enum Answer {
    /// A worker that holds these.
    Holds(&'static str, Vec<(u32, PartitionState)>),
    Raw(String),
    Never,
}

impl Stub {
    async fn start(answer: Answer) -> (Self, String) {
        let stub = Self(Arc::new(Mutex::new(answer)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let routes = Router::new().route("/v1/snapshot", get(Self::answer)).with_state(stub.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (stub, address)
    }

    async fn answer(State(stub): State<Self>) -> String {
        let answer = stub.0.lock().unwrap().clone();
        match answer {
            Answer::Holds(worker, holds) => {
                let now = Now::read();
                serde_json::to_string(&stage::report(worker, 4, &holds, now.wall_ms - 60_000, now)).unwrap()
            }
            Answer::Raw(text) => text,
            Answer::Never => std::future::pending().await,
        }
    }

    fn now(&self, answer: Answer) {
        *self.0.lock().unwrap() = answer;
    }
}

/// A board of these sidecars; answers its address.
async fn board(sidecars: &[String]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let targets = sidecars.iter().map(|s| s.parse().unwrap()).collect();
    let mut settings = stage::settings();
    (settings.stale_after_ms, settings.lost_after_ms) = (1_500, 3_000);
    tokio::spawn(Board::serve(listener, targets, Duration::from_millis(200), settings));
    address
}

async fn text(board: &str, path: &str) -> (u16, String) {
    let (status, body) = ask::get(board, path).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn view(board: &str) -> Value {
    serde_json::from_str(&text(board, "/v1/snapshot").await.1).unwrap()
}

fn states(view: &Value) -> Vec<&str> {
    view["partitions"].as_array().unwrap().iter().map(|p| p["state"].as_str().unwrap()).collect()
}

/// Looks until it is so.
async fn until<F: Future<Output = bool>>(what: &str, mut so: impl FnMut() -> F) {
    let looks = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(50));
        while !so().await {
            ticks.tick().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), looks).await.is_ok(), "never: {what}");
}

async fn until_states(board: &str, wanted: &[&str]) {
    until(&wanted.join(" "), || async { states(&view(board).await) == wanted }).await;
}

/// One request as it is written, and all of its answer.
async fn raw(board: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(board).await.unwrap();
    stream.write_all(format!("{request}\r\nhost: board\r\nconnection: close\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_board_merges_what_sidecars_say_and_follows_a_hand_over() {
    let (a, at_a) = Stub::start(Answer::Holds("a", vec![(0, Held), (1, Held)])).await;
    let (b, at_b) = Stub::start(Answer::Holds("b", vec![(2, Held), (3, Held)])).await;
    let board = board(&[at_a, at_b]).await;
    until_states(&board, &["held"; 4]).await;
    assert_eq!(view(&board).await["freshness"], "fresh");

    b.now(Answer::Holds("b", vec![(2, Draining), (3, Held)]));
    until_states(&board, &["held", "held", "draining", "held"]).await;
    b.now(Answer::Holds("b", vec![(3, Held)]));
    a.now(Answer::Holds("a", vec![(0, Held), (1, Held), (2, Held)]));
    until_states(&board, &["held"; 4]).await;
    until("told", || async {
        text(&board, "/v1/timeline.txt?partition=2").await.1.contains("a took over partition 2 from b")
    })
    .await;

    // b says nothing any more: nobody is shown as the owner of what it had, and its lag is not known.
    b.now(Answer::Never);
    until_states(&board, &["held", "held", "held", "unknown"]).await;
    let seen = view(&board).await;
    assert_eq!(seen["partitions"][3]["last_known_worker"], "b");
    assert_eq!(seen["partitions"][3]["lag"]["jobs"], Value::Null);
    assert_eq!(text(&board, "/v1/snapshot?require=fresh").await.0, 503);
    assert_eq!(text(&board, "/v1/snapshot").await.0, 200);
    assert_eq!(text(&board, "/readyz").await.0, 200, "a silent worker is data, not health");

    b.now(Answer::Holds("b", vec![(3, Held)]));
    until_states(&board, &["held"; 4]).await;
    until("told", || async { text(&board, "/v1/events.ndjson").await.1.contains("b is back after") }).await;
    let scale: Value = serde_json::from_str(&text(&board, "/v1/autoscale").await.1).unwrap();
    assert_eq!((&scale["workers"], &scale["most_useful_workers"]), (&2.into(), &4.into()));
}

/// A partition that moves while it is looked at: in no answer has it two owners, and never one that gave it up before it was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ownership_that_moves_while_it_is_looked_at_has_at_most_one_owner() {
    let (a, at_a) = Stub::start(Answer::Holds("a", vec![(0, Held)])).await;
    let (b, at_b) = Stub::start(Answer::Holds("b", vec![])).await;
    let board = board(&[at_a, at_b]).await;
    until("held", || async { view(&board).await["partitions"][0]["state"] == "held" }).await;
    for round in 0..40 {
        let (from, to) = if round % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let (was, is) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        from.now(Answer::Holds(was, vec![]));
        to.now(Answer::Holds(is, vec![(0, Held)]));
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        for _ in 0..3 {
            ticks.tick().await;
            let seen = view(&board).await;
            let partition = &seen["partitions"][0];
            let owner = partition["worker"].as_str();
            let is_owned = matches!(partition["state"].as_str(), Some("held" | "draining" | "expired"));
            assert_eq!(owner.is_some(), is_owned, "one owner or none: {partition}");
            assert_eq!(seen["partitions"].as_array().unwrap().iter().filter(|p| p["partition"] == 0).count(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_hostile_sidecar_reaches_a_reader() {
    let now = Now::read();
    let good = stage::report("a", 4, &[(0, Held)], now.wall_ms, now);
    let hostile = serde_json::to_string(&good).unwrap().replace("\"a\"", "\"<script>alert(1)</script>\"");
    let sentinel = serde_json::to_string(&good).unwrap().replacen('{', "{\"generation\":918273645,", 1);
    let (_, good) = Stub::start(Answer::Holds("b", vec![(1, Held)])).await;
    let (_, endless) = Stub::start(Answer::Raw("x".repeat(5 << 20))).await;
    let (_, hostile) = Stub::start(Answer::Raw(hostile)).await;
    let (_, telling) = Stub::start(Answer::Raw(sentinel)).await;
    let (_, hanging) = Stub::start(Answer::Never).await;
    let board = board(&[good, endless, hostile, telling, hanging]).await;
    until("the one that keeps the contract is heard", || async {
        view(&board).await["partitions"][1]["state"] == "held"
    })
    .await;
    until("and the others are told", || async {
        let seen = view(&board).await;
        let codes: Vec<_> = seen["notices"].as_array().unwrap().iter().map(|n| n["code"].clone()).collect();
        codes.contains(&"sidecar_unreadable".into()) && codes.contains(&"sidecar_away".into())
    })
    .await;
    for path in ["/", "/main", "/v1/snapshot", "/v1/timeline.txt", "/v1/events.ndjson", "/v1/autoscale"] {
        let (status, text) = text(&board, path).await;
        assert_eq!(status, 200);
        for word in ["alert(1)", "918273645", "xxxx"] {
            assert!(!text.contains(word), "'{word}' in {path}");
        }
    }
}

const ROUTES: [&str; 13] = [
    "/",
    "/main",
    "/assets/board.css",
    "/assets/board.js",
    "/assets/icon.svg",
    "/v1/snapshot",
    "/v1/autoscale",
    "/v1/timeline.txt",
    "/v1/events",
    "/v1/events.ndjson",
    "/livez",
    "/healthz",
    "/readyz",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_changes_anything() {
    let (_, at_a) = Stub::start(Answer::Holds("a", vec![(0, Held)])).await;
    let board = board(&[at_a]).await;
    until("ready", || async { text(&board, "/readyz").await.0 == 200 }).await;
    for route in ROUTES {
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let answer = raw(&board, &format!("{method} {route} HTTP/1.1\r\ncontent-length: 0")).await;
            assert!(answer.starts_with("HTTP/1.1 405"), "{method} {route}: {answer}");
        }
    }
    assert_eq!(text(&board, "/v1/pause").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_says_what_a_browser_may_not_do_with_it() {
    let (_, at_a) = Stub::start(Answer::Holds("a", vec![(0, Held)])).await;
    let board = board(&[at_a]).await;
    until("ready", || async { text(&board, "/readyz").await.0 == 200 }).await;
    for route in ROUTES.into_iter().filter(|&route| route != "/v1/events") {
        let answer = raw(&board, &format!("GET {route} HTTP/1.1")).await.to_lowercase();
        for part in
            ["default-src 'none'", "frame-ancestors 'none'", "nosniff", "no-referrer", "cache-control: no-store"]
        {
            assert!(answer.contains(part), "{part} is missing at {route}");
        }
        assert!(!answer.contains("etag"), "nothing is derived from what is shown");
    }
    let packed = raw(&board, "GET / HTTP/1.1\r\naccept-encoding: gzip").await;
    assert!(packed.to_lowercase().contains("content-encoding: gzip"));
}

/// Reads a stream until it has the words.
async fn stream_until(board: &str, last: Option<&str>, words: &[&str]) -> String {
    let mut stream = TcpStream::connect(board).await.unwrap();
    let last = last.map_or_else(String::new, |id| format!("last-event-id: {id}\r\n"));
    stream.write_all(format!("GET /v1/events HTTP/1.1\r\nhost: board\r\n{last}\r\n").as_bytes()).await.unwrap();
    let mut heard = String::new();
    let reading = async {
        let mut buffer = [0; 4_096];
        while !words.iter().all(|word| heard.contains(word)) {
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the stream ended after: {heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), reading).await.is_ok(), "never {words:?} in: {heard}");
    heard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_comes_back_gets_what_it_missed_or_is_told_to_begin_again() {
    let (a, at_a) = Stub::start(Answer::Holds("a", vec![(0, Held)])).await;
    let board = board(&[at_a]).await;
    until("told", || async { text(&board, "/v1/events.ndjson").await.1.contains("first owner") }).await;
    let lines = text(&board, "/v1/events.ndjson").await.1;
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let id = first["id"].as_str().unwrap();

    let fresh = stream_until(&board, None, &["event: view", "retry: 3000"]).await;
    assert!(!fresh.contains("event: reset") && !fresh.contains(id), "who comes new begins now: {fresh}");
    a.now(Answer::Holds("a", vec![(0, Held), (1, Held)]));
    until("told", || async { text(&board, "/v1/events.ndjson").await.1.lines().count() >= 2 }).await;
    let back = stream_until(&board, Some(id), &["a took partition 1", "event: ownership"]).await;
    assert!(!back.contains("event: reset"), "{back}");
    let lost =
        stream_until(&board, Some("01KBCZQ8R0M7X1V8J5T4W9Y2AB"), &["event: reset", "ownership-snapshot/v1"]).await;
    assert!(lost.find("event: reset") < lost.find("event: view"), "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_bounded_and_one_that_ends_makes_room() {
    let board = board(&["127.0.0.1:1".to_owned()]).await;
    until("ready", || async { text(&board, "/readyz").await.0 == 200 }).await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(&board).await.unwrap();
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: board\r\n\r\n").await.unwrap();
        let mut begin = [0; 15];
        stream.read_exact(&mut begin).await.unwrap();
        assert_eq!(&begin, b"HTTP/1.1 200 OK");
        streams.push(stream);
    }
    let refused = raw(&board, "GET /v1/events HTTP/1.1").await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("retry-after: 5"), "{refused}");
    drop(streams);
    until("room", || async {
        let mut stream = TcpStream::connect(&board).await.unwrap();
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: board\r\n\r\n").await.unwrap();
        let mut begin = [0; 15];
        stream.read_exact(&mut begin).await.unwrap();
        &begin == b"HTTP/1.1 200 OK"
    })
    .await;
}
