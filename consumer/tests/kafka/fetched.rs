//! Counts the bytes of brokers' answers to fetches: a client whose property `debug` has `protocol` says the size of each answer
//! as it came, before anything of it is dropped.

use std::{
    fmt,
    sync::{
        Once,
        atomic::{AtomicU64, Ordering},
    },
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

static BYTES: AtomicU64 = AtomicU64::new(0);

/// What was fetched so far by all clients of this process that say it. They say it from the first call on.
pub(crate) fn bytes() -> u64 {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| tracing::subscriber::set_global_default(Listener).unwrap());
    BYTES.load(Ordering::SeqCst)
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "keylane::kafka"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Line);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line;

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message"
            && let Some(size) = size(&format!("{value:?}"))
        {
            BYTES.fetch_add(size, Ordering::SeqCst);
        }
    }
}

/// Of `... Received FetchResponse (v16, 1234 bytes, CorrId 5, rtt 1.23ms)`.
fn size(line: &str) -> Option<u64> {
    let (_, answer) = line.split_once("Received FetchResponse (")?;
    answer.split_once(" bytes")?.0.rsplit(' ').next()?.parse().ok()
}
