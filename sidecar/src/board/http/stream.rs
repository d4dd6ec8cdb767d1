//! `/v1/events`: server-sent events. Each ownership event by its name and id; after each look a `view` with the headline.
//!
//! A reader that comes back with the last id it saw gets what it missed. If that is gone it gets `reset` with the whole
//! view, and must not believe that it saw everything.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event as Sent, KeepAlive, Sse},
    },
};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::Board;
use crate::{
    board::{Now, ask::locked},
    snapshot::{Freshness, Snapshot},
    words::{Event, headline},
};

/// Looks come once a second or so; a reader gets no more than this.
const NOT_OFTENER_THAN: Duration = Duration::from_millis(250);
/// A comment in between keeps proxies from closing a quiet stream.
const COMMENT_EVERY: Duration = Duration::from_secs(15);

struct Reader {
    board: Board,
    looked: watch::Receiver<u64>,
    waiting: VecDeque<Sent>,
    next: u64,
    _place: OwnedSemaphorePermit,
}

#[derive(Serialize)]
struct Look<'a> {
    observed_at: &'a str,
    freshness: Freshness,
    stale_after_ms: u64,
    headline: String,
}

pub(super) async fn events(State(board): State<Board>, headers: HeaderMap) -> Response {
    let Ok(place) = Arc::clone(&board.streams).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")]).into_response();
    };
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let mut waiting = VecDeque::new();
    let next = {
        let mut record = locked(&board.record);
        let view = record.view(Now::read());
        let after = last.map(|id| record.history().after(id));
        if after == Some(None) {
            waiting.push_back(sent("reset", &*view));
        }
        waiting.push_back(look(&view).retry(Duration::from_secs(3)));
        after.flatten().unwrap_or_else(|| record.history().next())
    };
    let mut looked = board.looked.clone();
    looked.mark_changed();
    let reader = Reader { board, looked, waiting, next, _place: place };
    let events = stream::unfold(reader, |mut reader| async move {
        while reader.waiting.is_empty() {
            reader.wait().await?;
        }
        let event = reader.waiting.pop_front()?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(COMMENT_EVERY)).into_response()
}

impl Reader {
    /// Waits for the next look; `None` when the board ends.
    async fn wait(&mut self) -> Option<()> {
        self.looked.changed().await.ok()?;
        self.gather();
        tokio::time::sleep(NOT_OFTENER_THAN).await;
        Some(())
    }

    /// What happened since the last event that was sent.
    fn gather(&mut self) {
        let mut record = locked(&self.board.record);
        let view = record.view(Now::read());
        let history = record.history();
        self.waiting.extend(history.since(self.next).map(told));
        self.next = history.next();
        self.waiting.push_back(look(&view));
    }
}

fn told(event: &Event) -> Sent {
    sent("ownership", event).id(&event.id)
}

fn look(view: &Snapshot) -> Sent {
    let headline = headline(view);
    let (observed_at, freshness, stale_after_ms) = (&view.observed_at, view.freshness, view.stale_after_ms);
    sent("view", &Look { observed_at, freshness, stale_after_ms, headline })
}

fn sent(name: &str, data: &impl Serialize) -> Sent {
    Sent::default().event(name).json_data(data).expect("plain data without a line break")
}
