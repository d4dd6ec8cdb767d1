//! The answer of `status -o json`: the snapshot by its own contract, and beside it what may name keys.

use serde::Serialize;

use keylane_producer::{JobId, Timestamp};
use keylane_sidecar::Snapshot;

use super::Report;
use crate::{exit::Failure, output::Output, time};

/// One object a look. `snapshot` keeps `docs/schemas/snapshot.schema.json`, which knows no keys; the rest is for people
/// who may see them.
#[derive(Serialize)]
struct Status<'a> {
    snapshot: &'a Snapshot,
    stopped_keys: Vec<StoppedKey<'a>>,
    refused_writes: Vec<RefusedWrites<'a>>,
    quarantined: Vec<Quarantined>,
    /// `keylane dead` has them.
    dead_letters: Vec<DeadLetters>,
    /// Partitions that have work and do not move, as their owners say.
    stalled: Vec<Stalled<'a>>,
    /// Keys whose first job failed and waits, as their owners say; up to 50 a partition.
    retrying: Vec<Retrying<'a>>,
    /// The database's clock against this machine's; null for a file. Nothing depends on it.
    store_clock_skew_ms: Option<i64>,
}

#[derive(Serialize)]
struct StoppedKey<'a> {
    /// As `keylane parked` takes it.
    key: String,
    partition: u32,
    job: Option<&'a str>,
    rule: &'static str,
    reason: &'a str,
    attempts: u32,
    since: String,
    /// Jobs that are parked behind that one.
    jobs_behind: u64,
    /// A person had it replayed, and its line is not through yet.
    released: bool,
}

#[derive(Serialize)]
struct RefusedWrites<'a> {
    worker: &'a str,
    partition: u32,
    writes: u64,
    jobs: u64,
    last: String,
}

#[derive(Serialize)]
struct Quarantined {
    partition: u32,
    records: u64,
}

#[derive(Serialize)]
struct DeadLetters {
    partition: u32,
    letters: u64,
}

#[derive(Serialize)]
struct Stalled<'a> {
    partition: u32,
    since: String,
    waiting: u64,
    cause: &'a str,
}

#[derive(Serialize)]
struct Retrying<'a> {
    key: &'a str,
    partition: u32,
    offset: u64,
    attempts: u32,
    next_try: String,
    reason: &'a str,
}

pub(super) fn print(report: &Report, output: &mut Output) -> Result<(), Failure> {
    let picture = &report.picture;
    let stopped = picture.stopped.iter().map(|(partition, key)| StoppedKey {
        key: key.key.to_string(),
        partition: partition.0,
        job: key.id.as_ref().map(JobId::as_str),
        rule: key.reason.rule.as_str(),
        reason: &key.reason.text,
        attempts: key.attempts.0,
        since: time::rfc3339(key.since),
        jobs_behind: key.jobs.saturating_sub(u64::from(key.id.is_some())),
        released: key.released,
    });
    let refused = picture.refused.iter().map(|(partition, refused)| RefusedWrites {
        worker: &refused.worker,
        partition: partition.0,
        writes: refused.writes,
        jobs: refused.jobs,
        last: time::rfc3339(refused.last),
    });
    let stalled = picture.notes.iter().filter_map(|(partition, read)| {
        let stall = read.note.stall.as_ref()?;
        let since = time::rfc3339(Timestamp(stall.since));
        Some(Stalled { partition: partition.0, since, waiting: stall.waiting, cause: &stall.cause })
    });
    let retrying = picture.notes.iter().flat_map(|(partition, read)| {
        read.note.retrying.iter().map(|retry| Retrying {
            key: &retry.key,
            partition: partition.0,
            offset: retry.offset,
            attempts: retry.attempts,
            next_try: time::rfc3339(Timestamp(retry.next_try)),
            reason: &retry.reason,
        })
    });
    let quarantined = picture.quarantined.iter();
    output.json(&Status {
        snapshot: &picture.snapshot,
        stopped_keys: stopped.collect(),
        refused_writes: refused.collect(),
        quarantined: quarantined.map(|&(p, records)| Quarantined { partition: p.0, records }).collect(),
        dead_letters: picture.dead.iter().map(|&(p, letters)| DeadLetters { partition: p.0, letters }).collect(),
        stalled: stalled.collect(),
        retrying: retrying.collect(),
        store_clock_skew_ms: picture.clock_skew_ms,
    })
}
