//! `/v1/events`: server-sent events. `ownership` for each event of the worker, by its id; `snapshot` with the whole of it at
//! first and whenever what is held changes, or what is known of it.
//!
//! A reader that falls behind misses snapshots, and events that the worker no longer keeps; nothing waits for it or is kept
//! for it. One that comes back with the last id that it saw gets what came after it.

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
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{files::Line, gist::Gist, routes::Sidecar};
use crate::{clock::Now, snapshot::Snapshot};

/// A comment in between keeps proxies from closing a quiet stream, and finds a reader that is gone.
const COMMENT_EVERY: Duration = Duration::from_secs(15);
const COME_BACK_AFTER: Duration = Duration::from_secs(3);

struct Reader {
    sidecar: Sidecar,
    looked: watch::Receiver<Now>,
    waiting: VecDeque<Sent>,
    /// The last event that it was sent.
    last: Option<String>,
    shown: Option<Gist>,
    _place: OwnedSemaphorePermit,
}

pub(super) async fn events(State(sidecar): State<Sidecar>, headers: HeaderMap) -> Response {
    let Ok(place) = Arc::clone(&sidecar.streams).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")]).into_response();
    };
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let mut looked = sidecar.looked.clone();
    looked.mark_changed();
    let waiting = VecDeque::from([Sent::default().retry(COME_BACK_AFTER).comment("keylane sidecar")]);
    let reader = Reader { sidecar, looked, waiting, last, shown: None, _place: place };
    let events = stream::unfold(reader, |mut reader| async move {
        while reader.waiting.is_empty() {
            reader.looked.changed().await.ok()?;
            reader.gather();
        }
        let event = reader.waiting.pop_front()?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(COMMENT_EVERY)).into_response()
}

impl Reader {
    fn gather(&mut self) {
        let reading = self.sidecar.reading();
        let events = reading.events();
        // An id that is not kept any more is older than all that are.
        let after = self.last.as_ref().and_then(|last| events.iter().position(|line| line.id == *last));
        self.waiting.extend(events[after.map_or(0, |at| at + 1)..].iter().map(told));
        if let Some(line) = events.last() {
            self.last = Some(line.id.clone());
        }
        let Some((snapshot, _)) = reading.served(Now::read()) else { return };
        let gist = Gist::of(&snapshot);
        if self.shown.as_ref() != Some(&gist) {
            self.waiting.push_back(shown(&snapshot));
            self.shown = Some(gist);
        }
    }
}

fn told(line: &Line) -> Sent {
    Sent::default().event("ownership").id(&line.id).data(&line.text)
}

fn shown(snapshot: &Snapshot) -> Sent {
    Sent::default().event("snapshot").json_data(snapshot).expect("plain data without a line break")
}
