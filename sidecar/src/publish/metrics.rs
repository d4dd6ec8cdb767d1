//! `/metrics` of a sidecar: its worker's ownership as it may be told now, what the worker counts, and itself.

use super::{
    reading::{Counts, Reading},
    routes::Sidecar,
};
use crate::{
    clock::Now,
    metrics::{self, Metric, Page, catalogue, ownership},
    snapshot::{Freshness, Snapshot},
    words::EventType,
};

pub(super) fn page(sidecar: &Sidecar) -> String {
    let mut page = Page::default();
    metrics::build(&mut page);
    told(&mut page, &sidecar.reading(), Now::read());
    sidecar.traffic.add_to(&mut page);
    sidecar.process.add_to(&mut page);
    page.into_text()
}

fn told(page: &mut Page, reading: &Reading, now: Now) {
    if let Some((snapshot, age_ms)) = reading.served(now) {
        ownership(page, &snapshot, now.wall_ms);
        counted(page, reading, &snapshot, now);
        let spoke = now.wall_ms.saturating_sub_unsigned(age_ms) as f64 / 1_000.0;
        page.add(&catalogue::KEYLANE_SNAPSHOT_TIMESTAMP_SECONDS, &[], spoke);
    }
    if let Some(bytes) = reading.bytes() {
        page.add(&catalogue::KEYLANE_SNAPSHOT_BYTES, &[], bytes as f64);
    }
    let (snapshots, counts) = (reading.counts(), reading.counted_counts());
    looks(page, &catalogue::KEYLANE_SNAPSHOT_READS_TOTAL, snapshots);
    looks(page, &catalogue::KEYLANE_METRICS_READS_TOTAL, counts);
    let refused = snapshots.redaction_failures + counts.redaction_failures;
    page.add(&catalogue::KEYLANE_REDACTION_FAILURES_TOTAL, &[], refused as f64);
    for (kind, count) in EventType::ALL.into_iter().zip(reading.events_seen()) {
        page.add(&catalogue::KEYLANE_EVENTS_TOTAL, &[kind.as_str()], count as f64);
    }
}

/// What a worker counts is gone with the worker, and of a partition with that: it is shown beside a snapshot that stands, if it
/// speaks of the same queue and group, and of what that says the worker has.
fn counted(page: &mut Page, reading: &Reading, snapshot: &Snapshot, now: Now) {
    let Some(counted) = reading.counted(now, snapshot.stale_after_ms) else { return };
    if snapshot.freshness != Freshness::Fresh {
        return;
    }
    let numbers: Vec<String> = snapshot.partitions.iter().map(|p| p.partition.to_string()).collect();
    page.add_counted(counted, |metric, values| {
        metric.labels.iter().zip(values).all(|(&label, &value)| match label {
            "topic" => value == snapshot.queue.topic,
            "group" => value == snapshot.queue.group,
            "partition" => numbers.iter().any(|number| number == value),
            _ => true,
        })
    });
}

fn looks(page: &mut Page, metric: &Metric, counts: Counts) {
    let outcomes =
        [("ok", counts.ok), ("missing", counts.missing), ("invalid", counts.invalid), ("version", counts.version)];
    for (outcome, count) in outcomes {
        page.add(metric, &[outcome], count as f64);
    }
}

#[cfg(test)]
mod tests;
