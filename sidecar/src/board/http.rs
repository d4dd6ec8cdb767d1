//! The routes. All of them read; none of them changes anything.

mod assets;
mod metrics;
mod stream;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};

use super::{
    Now,
    ask::{Target, locked, watch_sidecars},
    autoscale::autoscale,
    merge::Settings,
    page,
    record::Record,
};
use assets::typed;

use crate::{
    http::{
        Limits,
        answer::{self, json, plain, secured},
    },
    metrics::{OwnProcess, Traffic},
    snapshot::{Freshness, Snapshot},
    words::{self, phrase},
};

/// Streams at once; above it a reader is asked to come back.
const MOST_STREAMS: usize = 200;
/// A page's reader asks on one or a few connections, and stays on one of them.
const LIMITS: Limits = Limits {
    connections: 2 * MOST_STREAMS,
    head_within: Duration::from_secs(15),
    stalled_for: Duration::from_secs(30),
    in_all: Duration::from_secs(24 * 3_600),
};
/// Routes whose requests are counted each by itself.
const COUNTED: [&str; 9] = [
    "/",
    "/main",
    "/v1/snapshot",
    "/v1/autoscale",
    "/v1/timeline.txt",
    "/v1/events",
    "/v1/events.ndjson",
    "/metrics",
    "/livez",
];
/// The loop that looks should never stand still for so long.
const LOOP_DUE: Duration = Duration::from_secs(30);

/// The board's routes and what they read.
#[derive(Clone, Debug)]
pub struct Board {
    record: Arc<Mutex<Record>>,
    looked: watch::Receiver<u64>,
    streams: Arc<Semaphore>,
    started: Now,
    traffic: Traffic,
    process: OwnProcess,
}

impl Board {
    /// Shows what is kept in `record`; `looked` tells that somebody looked again.
    pub fn new(record: Arc<Mutex<Record>>, looked: watch::Receiver<u64>) -> Self {
        Self {
            record,
            looked,
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
            started: Now::read(),
            traffic: Traffic::of(&COUNTED),
            process: OwnProcess::new(),
        }
    }

    /// Serves on `listener` what `targets` say, asked every `every`, until the future is dropped.
    pub async fn serve(listener: TcpListener, targets: Vec<Target>, every: Duration, settings: Settings) {
        Self::serve_record(listener, targets, every, Arc::new(Mutex::new(Record::new(settings)))).await;
    }

    /// The same with a memory that others have a hand on too.
    pub async fn serve_record(
        listener: TcpListener,
        targets: Vec<Target>,
        every: Duration,
        record: Arc<Mutex<Record>>,
    ) {
        let (look, looked) = watch::channel(0);
        let routes = Self::new(Arc::clone(&record), looked).routes();
        tokio::select! {
            () = crate::http::serve(listener, routes, LIMITS) => {}
            () = watch_sidecars(targets, every, record, look) => {}
        }
    }

    /// All routes. Each of them only reads.
    pub fn routes(self) -> Router {
        let routes = Router::new()
            .route("/", get(whole_page))
            .route("/main", get(main_part))
            .route("/assets/board.css", get(|| async { typed("text/css; charset=utf-8", page::STYLE) }))
            .route("/assets/board.js", get(|| async { typed("text/javascript; charset=utf-8", page::SCRIPT) }))
            .route("/assets/icon.svg", get(|| async { typed("image/svg+xml", page::ICON) }))
            .route("/v1/snapshot", get(snapshot))
            .route("/v1/autoscale", get(scale))
            .route("/v1/timeline.txt", get(timeline))
            .route("/v1/events", get(stream::events))
            .route("/v1/events.ndjson", get(lines))
            .route("/metrics", get(scraped))
            .route("/livez", get(alive))
            .route("/healthz", get(alive))
            .route("/readyz", get(ready));
        let counted = from_fn_with_state(self.traffic.clone(), Traffic::counted);
        routes.layer(from_fn(secured)).layer(counted).with_state(self)
    }

    fn view(&self) -> Arc<Snapshot> {
        locked(&self.record).view(Now::read())
    }
}

async fn whole_page(State(board): State<Board>, Query(asked): Query<page::Asked>, headers: HeaderMap) -> Response {
    let html = board.render(page::document, &asked);
    assets::html(&headers, html)
}

async fn main_part(State(board): State<Board>, Query(asked): Query<page::Asked>, headers: HeaderMap) -> Response {
    let html = board.render(page::main, &asked);
    assets::html(&headers, html)
}

impl Board {
    fn render(&self, draw: impl FnOnce(&page::Scene<'_>) -> String, asked: &page::Asked) -> String {
        let now = Now::read();
        let mut record = locked(&self.record);
        let view = record.view(now);
        draw(&page::Scene {
            view: &view,
            history: record.history(),
            now_ms: now.wall_ms,
            age_ms: record.merge.age_ms(now),
            asked,
        })
    }
}

#[derive(Deserialize)]
struct Require {
    require: Option<String>,
}

async fn snapshot(State(board): State<Board>, Query(asked): Query<Require>) -> Response {
    let view = board.view();
    let age = locked(&board.record).merge.age_ms(Now::read());
    let status = match (asked.require.as_deref(), view.freshness) {
        (Some("fresh"), Freshness::Stale | Freshness::Lost) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let mut answer = (status, json(&*view)).into_response();
    if let Some(age) = age {
        answer.headers_mut().insert("keylane-age-ms", age.into());
    }
    answer
}

async fn scale(State(board): State<Board>) -> Response {
    json(&autoscale(&board.view())).into_response()
}

#[derive(Deserialize)]
struct Which {
    partition: Option<u32>,
}

/// Sentences, oldest first; those of one partition are told one by one.
async fn timeline(State(board): State<Board>, Query(asked): Query<Which>) -> Response {
    let view = board.view();
    let record = locked(&board.record);
    let mut text = format!("{}\n", words::headline(&view));
    match asked.partition {
        Some(partition) => {
            for event in record.history().events().filter(|e| e.partitions.contains(&partition)) {
                text.push_str(&format!("{} {}\n", event.severity.as_str(), event.text));
            }
        }
        None => {
            for folded in words::fold::fold(record.history().events()) {
                text.push_str(&format!("{} {}\n", folded.severity.as_str(), folded.text));
            }
        }
    }
    plain(StatusCode::OK, text)
}

async fn lines(State(board): State<Board>) -> Response {
    let record = locked(&board.record);
    let mut text = String::new();
    for event in record.history().events() {
        text.push_str(&serde_json::to_string(event).expect("an event is plain data"));
        text.push('\n');
    }
    ([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response()
}

async fn scraped(State(board): State<Board>) -> Response {
    answer::metrics(metrics::page(&board))
}

#[derive(Deserialize)]
struct Verbose {
    verbose: Option<String>,
}

async fn alive(State(board): State<Board>, Query(asked): Query<Verbose>) -> Response {
    let now = Now::read();
    // Not `Record::view`: that would look by itself, and a loop that stands still would not be seen.
    let since = locked(&board.record).looked().unwrap_or(board.started);
    let idle = Duration::from_millis(now.since(since.boot_ms));
    let status = if idle < LOOP_DUE { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mark = if status == StatusCode::OK { "[+]loop ok" } else { "[-]loop stands still" };
    let text = if asked.verbose.is_some() {
        format!("{mark}, last look {} ago\n", phrase::duration(idle))
    } else {
        format!("{mark}\n")
    };
    plain(status, text)
}

/// Ready after the first look; workers that are silent are data, not health.
async fn ready(State(board): State<Board>) -> Response {
    match locked(&board.record).looked() {
        Some(_) => plain(StatusCode::OK, "[+]first merge done\n".to_owned()),
        None => plain(StatusCode::SERVICE_UNAVAILABLE, "[-]no merge yet\n".to_owned()),
    }
}
