//! A key's jobs on the log that are not done, and what lies before them.

use std::ops::ControlFlow;

use keylane_producer::{JobKey, Offset, Partition};
use serde::Serialize;

use super::Found;
use crate::{
    cli::Global,
    commands::status::picture::{Eye, Unfinished},
    exit::{Code, Failure},
    store::Store,
    time,
};

/// More records than this are not looked through: it would take minutes, and read what workers read.
const MOST: u64 = 2_000_000;

/// What is on the log.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Backlog {
    /// The key's jobs that are not done and not parked; null: not all were looked through.
    pub(super) jobs: Option<u64>,
    /// The first of them.
    pub(crate) first: Option<First>,
    /// Jobs of other keys before that one that are not done either.
    pub(super) before: u64,
    /// Records looked through.
    pub(super) looked_through: u64,
    #[serde(skip)]
    pub(crate) offsets: Vec<u64>,
}

/// The job that the others wait for.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct First {
    pub(crate) offset: u64,
    pub(crate) job: String,
    pub(super) enqueued_at: String,
}

pub(crate) fn of(eye: &mut Eye, partition: Partition, key: &JobKey) -> Result<Backlog, Failure> {
    let Unfinished { from, done, .. } = unfinished(eye, partition)?;
    let mut backlog = Backlog::default();
    let mut whole = true;
    eye.log.keys(&eye.queue, partition, from, &mut |offset, found| {
        if backlog.looked_through == MOST {
            whole = false;
            return ControlFlow::Break(());
        }
        backlog.looked_through += 1;
        match found {
            _ if done.contains(offset.0) => {}
            Some(found) if found == key.as_bytes() => backlog.offsets.push(offset.0),
            _ if backlog.offsets.is_empty() => backlog.before += 1,
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    backlog.jobs = whole.then_some(backlog.offsets.len() as u64);
    let Some(&first) = backlog.offsets.first() else {
        backlog.before = 0;
        return Ok(backlog);
    };
    let stored = eye.log.read_at(&eye.queue, partition, &[Offset(first)])?.pop();
    backlog.first = stored.map(|stored| First {
        offset: first,
        enqueued_at: time::rfc3339(stored.record.timestamp),
        job: stored.record.into_job(partition, Offset(first)).map(|job| job.id.to_string()).unwrap_or_default(),
    });
    Ok(backlog)
}

fn unfinished(eye: &mut Eye, partition: Partition) -> Result<Unfinished, Failure> {
    let none = || Failure::new(Code::Bug, format!("partition {partition} is not of this queue"));
    eye.unfinished(Some(partition))?.pop().ok_or_else(none)
}

/// Where one job stands.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Place {
    /// In the parked line, counted from 1.
    Parked { offset: u64, position: u64 },
    /// On the log, counted from 1 among the key's jobs that wait there.
    Waiting { offset: u64, position: u64 },
    /// Done, or gone from the line by a person's act.
    Done { offset: u64 },
}

pub(crate) fn place(
    eye: &mut Eye,
    found: &Found<'_>,
    key: &JobKey,
    offset: u64,
    global: &Global,
) -> Result<Place, Failure> {
    let position = |at: usize| at as u64 + 1;
    if found.line.is_some() {
        let line = Store::named(global)?.lines(&eye.queue, &global.group)?.line(found.partition, key)?;
        if let Some(at) = line.jobs.iter().position(|(waits, _)| waits.0 == offset) {
            return Ok(Place::Parked { offset, position: position(at) });
        }
    }
    if let Some(at) = found.backlog.offsets.iter().position(|&waits| waits == offset) {
        return Ok(Place::Waiting { offset, position: position(at) });
    }
    let partition = found.partition;
    let Unfinished { from, done, .. } = unfinished(eye, partition)?;
    let is_done = offset < from.0 || done.contains(offset);
    let other = eye.log.read_at(&eye.queue, partition, &[Offset(offset)])?.pop();
    let is_other = other.as_ref().is_some_and(|stored| stored.record.key.as_deref() != Some(key.as_bytes()));
    if is_other || !is_done {
        let what = format!("offset {offset} of partition {partition} is no job of key '{key}'");
        return Err(Failure::new(Code::NotFound, what).remedy("the receipt of 'keylane enqueue' names a job's offset"));
    }
    Ok(Place::Done { offset })
}
