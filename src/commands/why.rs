//! `keylane why`: why is this key not moving? From the store (is it parked), the group (who has its partition) and the log
//! (which of its jobs wait, and what lies before them). It looks and touches nothing.
//!
//! - [`backlog`]: the key's jobs on the log
//! - [`sentences`]: the answer in words

mod backlog;
mod sentences;

use keylane_consumer::store::StoppedKey;
use keylane_producer::{Partition, partition_of};
use keylane_sidecar::{PartitionState, PartitionView};
use serde::Serialize;

use self::backlog::{Backlog, Place};
use super::{parked::Shown, status::picture::Eye};
use crate::{
    cli::{Global, WhyArgs},
    exit::{Code, Failure},
    output::Output,
};

/// Why it moves or does not, the weightiest reason first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// A person must act: replay or drop.
    Parked,
    /// Nobody has the partition, or the worker that had it let its session run out.
    NoOwner,
    /// A person had the line run, and it is not through.
    Replaying,
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
    /// Its jobs on the log that are not done.
    #[serde(flatten)]
    backlog: &'a Backlog,
    /// Of `--offset`.
    place: Option<Place>,
}

/// What is known of the key.
struct Found<'a> {
    key: String,
    partition: Partition,
    view: &'a PartitionView,
    line: Option<&'a StoppedKey>,
    backlog: &'a Backlog,
}

impl Found<'_> {
    fn state(&self) -> State {
        let has_owner = matches!(self.view.state, PartitionState::Held | PartitionState::Draining);
        match self.line {
            Some(line) if !line.released => State::Parked,
            None if self.backlog.jobs == Some(0) => State::Done,
            _ if !has_owner => State::NoOwner,
            Some(_) => State::Replaying,
            None => State::Working,
        }
    }
}

pub(crate) fn run(args: &WhyArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut eye = Eye::open(global)?;
    let picture = eye.look()?;
    let line = picture.stopped.iter().find(|(_, line)| line.key == args.key);
    let place = || partition_of(args.key.as_bytes(), eye.queue.partitions);
    let partition = line.map_or_else(place, |(partition, _)| *partition);
    let backlog = backlog::of(&mut eye, partition, &args.key)?;
    let view = picture.snapshot.partitions.iter().find(|view| view.partition == partition.0);
    let view = view.ok_or_else(|| Failure::new(Code::Bug, format!("partition {partition} is in no picture")))?;
    let found =
        Found { key: args.key.to_string(), partition, view, line: line.map(|(_, line)| line), backlog: &backlog };
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
        owner: view.worker.as_deref(),
        owner_since: view.since.as_deref(),
        parked: found.line.map(|line| Shown::of(partition, line)),
        backlog: &backlog,
        place,
    })?;
    Ok(Code::Done)
}
