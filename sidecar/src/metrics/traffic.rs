//! Requests answered, by route.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::{
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};

use super::{Page, catalogue};
use crate::clock;

const BOUNDS: &[f64] = catalogue::KEYLANE_HTTP_REQUEST_DURATION_SECONDS.buckets;
const CODES: [&str; 3] = ["2xx", "4xx", "5xx"];
/// The route of a request that has none of ours.
const OTHER: &str = "other";

/// Counts requests of a fixed set of routes.
#[derive(Clone, Debug)]
pub(crate) struct Traffic(Arc<[Route]>);

#[derive(Debug)]
struct Route {
    path: &'static str,
    codes: [AtomicU64; CODES.len()],
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Traffic {
    pub(crate) fn of(routes: &[&'static str]) -> Self {
        let route = |path| Route {
            path,
            codes: Default::default(),
            buckets: Default::default(),
            count: AtomicU64::new(0),
            micros: AtomicU64::new(0),
        };
        Self(routes.iter().copied().chain([OTHER]).map(route).collect())
    }

    /// To be laid around all routes.
    pub(crate) async fn counted(State(traffic): State<Self>, request: Request, next: Next) -> Response {
        let path = request.extensions().get::<MatchedPath>().map_or(OTHER, MatchedPath::as_str);
        let at = traffic.0.iter().position(|route| route.path == path).unwrap_or(traffic.0.len() - 1);
        let began = clock::running();
        let answer = next.run(request).await;
        traffic.0[at].count(answer.status().as_u16(), clock::running().saturating_sub(began));
        answer
    }

    pub(crate) fn add_to(&self, page: &mut Page) {
        for route in self.0.iter() {
            for (code, count) in CODES.iter().zip(&route.codes) {
                page.add(&catalogue::KEYLANE_HTTP_REQUESTS_TOTAL, &[route.path, code], count.load(Relaxed) as f64);
            }
        }
        for route in self.0.iter() {
            let buckets: Vec<u64> = route.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
            let sum = Duration::from_micros(route.micros.load(Relaxed)).as_secs_f64();
            let metric = &catalogue::KEYLANE_HTTP_REQUEST_DURATION_SECONDS;
            page.add_histogram(metric, &[route.path], &buckets, route.count.load(Relaxed), sum);
        }
    }
}

impl Route {
    fn count(&self, status: u16, took: Duration) {
        let code = match status {
            500.. => 2,
            400.. => 1,
            _ => 0,
        };
        self.codes[code].fetch_add(1, Relaxed);
        if let Some(at) = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound) {
            self.buckets[at].fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }
}
