//! The routes. All of them read; none of them changes anything, and none reaches the worker.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::{Query, State},
    http::{StatusCode, header},
    middleware::{from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    time::MissedTickBehavior,
};

use super::{files::Files, metrics, reading::Reading, stream};
use crate::{
    clock::Now,
    http::{
        self, Limits,
        answer::{json, metrics as as_metrics, plain, secured},
    },
    metrics::{OwnProcess, Traffic},
    snapshot::{Freshness, Notice},
};

const ROUTES: [&str; 7] =
    ["/v1/snapshot", "/v1/events", "/v1/events.ndjson", "/metrics", "/livez", "/healthz", "/readyz"];
/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// The loop that looks should never stand still for so long.
const LOOP_DUE: Duration = Duration::from_secs(30);
/// Streams at once; above it a reader is asked to come back.
const MOST_STREAMS: usize = 32;
/// A board, a scraper and a few people ask.
const LIMITS: Limits = Limits {
    connections: 64,
    head_within: Duration::from_secs(5),
    stalled_for: Duration::from_secs(10),
    in_all: Duration::from_secs(3_600),
};

/// What is served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The worker's snapshot.
    pub file: PathBuf,
    /// Goes with every answer.
    pub notice: Option<Notice>,
}

/// What the routes share.
#[derive(Clone, Debug)]
pub(super) struct Sidecar {
    reading: Arc<Mutex<Reading>>,
    pub(super) looked: watch::Receiver<Now>,
    pub(super) streams: Arc<Semaphore>,
    pub(super) traffic: Traffic,
    pub(super) process: OwnProcess,
}

/// Serves until the future is dropped.
pub async fn serve(listener: TcpListener, settings: Settings) {
    let (look, looked) = watch::channel(Now::read());
    let reading = Arc::new(Mutex::new(Reading::new(settings.notice)));
    let sidecar = Sidecar {
        reading,
        looked,
        streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        traffic: Traffic::of(&ROUTES),
        process: OwnProcess::new(),
    };
    tokio::select! {
        () = watch_files(Files::new(&settings.file), &sidecar, &look) => {}
        () = http::serve(listener, routes(sidecar.clone()), LIMITS) => {}
    }
}

/// A disk that hangs holds up this loop, and no answer: word grows old meanwhile.
async fn watch_files(files: Files, sidecar: &Sidecar, looked: &watch::Sender<Now>) {
    let mut due = tokio::time::interval(LOOK);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let files = files.clone();
        let Ok(look) = tokio::task::spawn_blocking(move || files.look()).await else { continue };
        sidecar.reading().take(look);
        looked.send_replace(Now::read());
    }
}

fn routes(sidecar: Sidecar) -> Router {
    let [whole, sse, ndjson, metrics, livez, healthz, readyz] = ROUTES;
    let counted = from_fn_with_state(sidecar.traffic.clone(), Traffic::counted);
    let routes = Router::new()
        .route(whole, get(snapshot))
        .route(sse, get(stream::events))
        .route(ndjson, get(lines))
        .route(metrics, get(scraped))
        .route(livez, get(alive))
        .route(healthz, get(alive))
        .route(readyz, get(|| async { plain(StatusCode::OK, "[+]listening\n".to_owned()) }));
    routes.layer(from_fn(secured)).layer(counted).with_state(sidecar)
}

impl Sidecar {
    pub(super) fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Deserialize)]
struct Require {
    require: Option<String>,
}

async fn snapshot(State(sidecar): State<Sidecar>, Query(asked): Query<Require>) -> Response {
    let served = sidecar.reading().served(Now::read());
    let Some((snapshot, age_ms)) = served else {
        let come_back = [(header::RETRY_AFTER, "1")];
        return (come_back, plain(StatusCode::SERVICE_UNAVAILABLE, "no snapshot yet\n".to_owned())).into_response();
    };
    let status = match (asked.require.as_deref(), snapshot.freshness) {
        (Some("fresh"), Freshness::Stale | Freshness::Lost) => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let mut answer = (status, json(&snapshot)).into_response();
    answer.headers_mut().insert("keylane-age-ms", age_ms.into());
    answer
}

async fn lines(State(sidecar): State<Sidecar>) -> Response {
    let text: String = sidecar.reading().events().iter().flat_map(|line| [line.text.as_str(), "\n"]).collect();
    ([(header::CONTENT_TYPE, "application/x-ndjson")], text).into_response()
}

async fn scraped(State(sidecar): State<Sidecar>) -> Response {
    as_metrics(metrics::page(&sidecar))
}

/// The age of what is shown is data, not health.
async fn alive(State(sidecar): State<Sidecar>) -> Response {
    let idle = Now::read().since(sidecar.looked.borrow().boot_ms);
    if u128::from(idle) < LOOP_DUE.as_millis() {
        plain(StatusCode::OK, format!("[+]loop ok, last look {idle} ms ago\n"))
    } else {
        plain(StatusCode::SERVICE_UNAVAILABLE, format!("[-]loop stands still, last look {idle} ms ago\n"))
    }
}
