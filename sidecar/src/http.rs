//! HTTP for strangers: whoever asks costs a bounded amount.
//!
//! 1. So many connections at once; a further one is closed at once.
//! 2. A request's head must come in time and be short; a connection on which nothing is asked ends by the same limit.
//! 3. An answer of which nothing is taken for a while ends its connection.
//! 4. No connection is for ever; a reader of a stream comes back.

pub(crate) mod answer;

use std::{sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

/// Of a request's head, in bytes; hyper reads no less at once.
const HEAD_BYTES: usize = 16 << 10;
/// A listener that cannot accept (no descriptor is free) is asked again after this long.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What one who asks may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once.
    pub(crate) connections: usize,
    /// For a request's head, and between requests.
    pub(crate) head_within: Duration,
    /// Without the reader taking anything of an answer.
    pub(crate) stalled_for: Duration,
    /// For all of a connection.
    pub(crate) in_all: Duration,
}

/// Serves until the future is dropped.
pub(crate) async fn serve(listener: TcpListener, routes: Router, limits: Limits) {
    let free = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let Ok(place) = Arc::clone(&free).try_acquire_owned() else { continue };
        let routes = routes.clone();
        tokio::spawn(async move {
            let _ = timeout(limits.in_all, converse(stream, routes, limits)).await;
            drop(place);
        });
    }
}

/// Whoever spoke no HTTP, or went away, is told nothing and missed by nobody.
async fn converse(stream: TcpStream, routes: Router, limits: Limits) {
    // The kernel counts it also while the reader's window is shut.
    let _ = set_tcp_user_timeout(&stream, u32::try_from(limits.stalled_for.as_millis()).unwrap_or(u32::MAX));
    let mut connection = http1::Builder::new();
    connection.timer(TokioTimer::new()).header_read_timeout(limits.head_within).max_buf_size(HEAD_BYTES);
    let _ = connection.serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes)).await;
}

#[cfg(test)]
mod tests;
