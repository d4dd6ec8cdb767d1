//! What a snapshot says, as series: they are there as long as it says it.

use super::{Page, catalogue};
use crate::{
    snapshot::{PartitionState, PartitionView, Snapshot, Totals},
    words::event::unix_ms,
};

/// Above so many partitions only totals are shown: a scrape stays small.
const MOST_PARTITIONS: usize = 256;

const STATES: [PartitionState; 6] = [
    PartitionState::Held,
    PartitionState::Draining,
    PartitionState::Expired,
    PartitionState::Absent,
    PartitionState::Unknown,
    PartitionState::Contested,
];

/// Adds it, as of that moment of Unix time in milliseconds.
pub(crate) fn ownership(page: &mut Page, snapshot: &Snapshot, wall_ms: i64) {
    let topic = snapshot.queue.topic.as_str();
    if snapshot.partitions.len() <= MOST_PARTITIONS {
        each_partition(page, topic, &snapshot.partitions, wall_ms);
    }
    for state in STATES {
        let count = of_state(&snapshot.totals, state);
        page.add(&catalogue::KEYLANE_PARTITIONS, &[topic, state.as_str()], count.into());
    }
    if let Some(jobs) = snapshot.totals.lag_jobs {
        page.add(&catalogue::KEYLANE_LAG_JOBS, &[topic], jobs as f64);
    }
    let known = snapshot.totals.lag_partitions_known as usize;
    let unknown = snapshot.partitions.len() - known.min(snapshot.partitions.len());
    page.add(&catalogue::KEYLANE_LAG_UNKNOWN_PARTITIONS, &[topic], unknown as f64);
}

fn each_partition(page: &mut Page, topic: &str, partitions: &[PartitionView], wall_ms: i64) {
    let numbers: Vec<String> = partitions.iter().map(|p| p.partition.to_string()).collect();
    let each = || numbers.iter().map(String::as_str).zip(partitions);
    for (number, view) in each() {
        for state in STATES {
            let is = f64::from(u8::from(view.state == state));
            page.add(&catalogue::KEYLANE_PARTITION_STATE, &[topic, number, state.as_str()], is);
        }
    }
    for (number, view) in each() {
        if let Some(left) = view.session_remaining_ms {
            let ends = seconds(wall_ms.saturating_add_unsigned(left));
            page.add(&catalogue::KEYLANE_PARTITION_SESSION_EXPIRY_TIMESTAMP_SECONDS, &[topic, number], ends);
        }
    }
    for (number, view) in each() {
        if let Some(jobs) = view.lag.jobs {
            page.add(&catalogue::KEYLANE_PARTITION_LAG_JOBS, &[topic, number], jobs as f64);
        }
    }
    for (number, view) in each() {
        let taken_over = view.since.as_ref().filter(|_| view.state == PartitionState::Held);
        if let Some(at) = view.last_completed_at.as_ref().or(taken_over).and_then(|time| unix_ms(time)) {
            let metric = &catalogue::KEYLANE_PARTITION_LAST_COMPLETION_TIMESTAMP_SECONDS;
            page.add(metric, &[topic, number], seconds(at));
        }
    }
}

fn of_state(totals: &Totals, state: PartitionState) -> u32 {
    match state {
        PartitionState::Held => totals.held,
        PartitionState::Draining => totals.draining,
        PartitionState::Expired => totals.expired,
        PartitionState::Absent => totals.absent,
        PartitionState::Unknown => totals.unknown,
        PartitionState::Contested => totals.contested,
    }
}

pub(super) fn seconds(unix_ms: i64) -> f64 {
    unix_ms as f64 / 1_000.0
}
