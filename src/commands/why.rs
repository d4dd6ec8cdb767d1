//! `keylane why`: why is this key not moving? From the store (is it parked), the group (who has its partition) and the log
//! (which of its jobs wait, and what lies before them). It looks and touches nothing.
//!
//! - [`backlog`]: the key's jobs on the log
//! - [`sentences`]: the answer in words

pub(super) mod backlog;
mod sentences;

use keylane_consumer::store::{NotedRetry, StopRule, StoppedKey};
use keylane_producer::{JobKey, Partition, Timestamp, partition_of};
use keylane_sidecar::{PartitionState, PartitionView};
use serde::Serialize;

use self::backlog::{Backlog, Place};
use super::{
    parked::Shown,
    status::picture::{Eye, Picture},
};
use crate::{
    cli::{Global, WhyArgs},
    exit::{Code, Failure},
    output::Output,
    time,
};

/// Why it moves or does not, the weightiest reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// A person must act: replay or drop.
    Parked,
    /// A person has it stand still, until a person lets it go on.
    Paused,
    /// Nobody has the partition, or the worker that had it let its session run out.
    NoOwner,
    /// A person had the line run, and it is not through.
    Replaying,
    /// Its first job failed, and waits for another try.
    Retrying,
    /// Jobs of it wait or run.
    Working,
    /// There is none left.
    Done,
}

/// The answer, as `-o json` shows it.
#[derive(Serialize)]
struct Answer<'a> {
    key: String,
    partition: u32,
    state: State,
    sentences: Vec<String>,
    /// Who has the partition, and since when.
    owner: Option<&'a str>,
    owner_since: Option<&'a str>,
    /// Its line, if it has one.
    parked: Option<Shown<'a>>,
    /// The next try of its first job, if its owner tells of one.
    retry: Option<Retry<'a>>,
    /// Its jobs on the log that are not done.
    #[serde(flatten)]
    backlog: &'a Backlog,
    /// Of `--offset`.
    place: Option<Place>,
}

/// A job that failed and waits.
#[derive(Serialize)]
struct Retry<'a> {
    offset: u64,
    attempts: u32,
    next_try: String,
    reason: &'a str,
}

/// What is known of the key.
pub(super) struct Found<'a> {
    key: String,
    partition: Partition,
    view: &'a PartitionView,
    pub(super) line: Option<&'a StoppedKey>,
    /// As its owner tells.
    retry: Option<&'a NotedRetry>,
    backlog: &'a Backlog,
}

impl Found<'_> {
    fn state(&self) -> State {
        let has_owner = matches!(self.view.state, PartitionState::Held | PartitionState::Draining);
        match self.line {
            Some(line) if !line.released && line.reason.rule == StopRule::Paused => State::Paused,
            Some(line) if !line.released => State::Parked,
            None if self.backlog.jobs == Some(0) => State::Done,
            _ if !has_owner => State::NoOwner,
            Some(_) => State::Replaying,
            None if self.retry.is_some() => State::Retrying,
            None => State::Working,
        }
    }
}

/// Where the key's jobs are: where its line is, or else where they go now.
pub(super) fn partition_in(picture: &Picture, key: &JobKey, eye: &Eye) -> Partition {
    let line = picture.stopped.iter().find(|(_, line)| line.key == *key);
    line.map_or_else(|| partition_of(key.as_bytes(), eye.queue.partitions), |(partition, _)| *partition)
}

pub(super) fn found<'a>(
    picture: &'a Picture,
    key: &JobKey,
    partition: Partition,
    backlog: &'a Backlog,
) -> Result<Found<'a>, Failure> {
    let view = picture.snapshot.partitions.iter().find(|view| view.partition == partition.0);
    let view = view.ok_or_else(|| Failure::new(Code::Bug, format!("partition {partition} is in no picture")))?;
    let line = picture.stopped.iter().find(|(_, line)| line.key == *key).map(|(_, line)| line);
    let name = key.to_string();
    let mut retries = picture.notes.iter().filter(|(of, _)| *of == partition).flat_map(|(_, read)| &read.note.retrying);
    let retry = retries.find(|retry| retry.key == name);
    Ok(Found { key: name, partition, view, line, retry, backlog })
}

pub(crate) fn run(args: &WhyArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut eye = Eye::open(global)?;
    let picture = eye.look()?;
    let partition = partition_in(&picture, &args.key, &eye);
    let backlog = backlog::of(&mut eye, partition, &args.key)?;
    let found = found(&picture, &args.key, partition, &backlog)?;
    let place = match args.offset {
        Some(offset) => Some(backlog::place(&mut eye, &found, &args.key, offset, global)?),
        None => None,
    };
    let sentences = sentences::of(&found, place.as_ref());
    if !output.is_json() {
        sentences.iter().try_for_each(|sentence| output.line(sentence))?;
        return Ok(Code::Done);
    }
    output.json(&Answer {
        key: found.key.clone(),
        partition: partition.0,
        state: found.state(),
        sentences,
        owner: found.view.worker.as_deref(),
        owner_since: found.view.since.as_deref(),
        parked: found.line.map(|line| Shown::of(partition, line)),
        retry: found.retry.map(|retry| Retry {
            offset: retry.offset,
            attempts: retry.attempts,
            next_try: time::rfc3339(Timestamp(retry.next_try)),
            reason: &retry.reason,
        }),
        backlog: &backlog,
        place,
    })?;
    Ok(Code::Done)
}
