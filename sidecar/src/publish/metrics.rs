//! `/metrics` of a sidecar: its worker's ownership as it may be told now, and itself.

use super::{reading::Reading, routes::Sidecar};
use crate::{
    clock::Now,
    metrics::{self, Page, catalogue, ownership},
    words::EventType,
};

pub(super) fn page(sidecar: &Sidecar) -> String {
    let mut page = Page::default();
    metrics::build(&mut page);
    told(&mut page, &sidecar.reading());
    sidecar.traffic.add_to(&mut page);
    sidecar.process.add_to(&mut page);
    page.into_text()
}

fn told(page: &mut Page, reading: &Reading) {
    let now = Now::read();
    if let Some((snapshot, age_ms)) = reading.served(now) {
        ownership(page, &snapshot, now.wall_ms);
        let spoke = now.wall_ms.saturating_sub_unsigned(age_ms) as f64 / 1_000.0;
        page.add(&catalogue::KEYLANE_SNAPSHOT_TIMESTAMP_SECONDS, &[], spoke);
    }
    if let Some(bytes) = reading.bytes() {
        page.add(&catalogue::KEYLANE_SNAPSHOT_BYTES, &[], bytes as f64);
    }
    let counts = reading.counts();
    let reads =
        [("ok", counts.ok), ("missing", counts.missing), ("invalid", counts.invalid), ("version", counts.version)];
    for (outcome, count) in reads {
        page.add(&catalogue::KEYLANE_SNAPSHOT_READS_TOTAL, &[outcome], count as f64);
    }
    page.add(&catalogue::KEYLANE_REDACTION_FAILURES_TOTAL, &[], counts.redaction_failures as f64);
    for (kind, count) in EventType::ALL.into_iter().zip(reading.events_seen()) {
        page.add(&catalogue::KEYLANE_EVENTS_TOTAL, &[kind.as_str()], count as f64);
    }
}
