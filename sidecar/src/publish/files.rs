//! The worker's files, read with a bound and held to the contract.
//!
//! 1. Whatever lies there is not waited for: a pipe, a device or a link is no file of a worker's.
//! 2. No more is read than a worker can write.
//! 3. What is refused is refused whole, and nothing of it is kept.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::error::Category;

use super::event_line;
use crate::{
    intake::{self, LARGEST_ANSWER},
    metrics::counted::{self, Counted},
    spool::{self, Spooled, events_beside, metrics_beside},
    words::EventType,
};

/// 256 events, each of at most 4,096 partitions.
const LARGEST_EVENTS: usize = 8 << 20;
/// As many as a worker keeps.
const MOST_EVENTS: usize = 256;

/// Where they are.
#[derive(Clone, Debug)]
pub(super) struct Files {
    snapshot: PathBuf,
    metrics: PathBuf,
    events: PathBuf,
}

/// What one look at them found.
#[derive(Debug)]
pub(super) struct Look {
    /// The snapshot and its size, or what is wrong with it.
    pub(super) snapshot: Result<(Box<Spooled>, usize), Fault>,
    /// What the worker counts, or what is wrong with it.
    pub(super) metrics: Result<Counted, Fault>,
    /// Events that keep the contract, oldest first; `None`: the file could not be read.
    pub(super) events: Option<Vec<Line>>,
}

/// One event as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) id: String,
    pub(super) kind: EventType,
    pub(super) text: String,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not there, or cannot be read.
    Missing,
    /// It is no JSON: half of a file, or something else.
    Torn,
    /// It is a file of another version.
    Version,
    /// It holds what it may not hold.
    BreaksTheContract,
}

impl Files {
    pub(super) fn new(snapshot: &Path) -> Self {
        let (metrics, events) = (metrics_beside(snapshot), events_beside(snapshot));
        Self { snapshot: snapshot.to_owned(), metrics, events }
    }

    /// Blocks as long as the disk does.
    pub(super) fn look(&self) -> Look {
        let metrics = bounded_read(&self.metrics, LARGEST_ANSWER).map_err(|_| Fault::Missing);
        let events = bounded_read(&self.events, LARGEST_EVENTS).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        Look {
            snapshot: snapshot(&self.snapshot),
            metrics: metrics.and_then(|bytes| in_contract(&bytes, counted::SCHEMA, Counted::keeps_the_catalogue)),
            events: events.map(|text| lines(&text)),
        }
    }
}

/// A worker's snapshot and its size, or what is wrong with it.
pub(crate) fn snapshot(path: &Path) -> Result<(Box<Spooled>, usize), Fault> {
    let bytes = bounded_read(path, LARGEST_ANSWER).map_err(|_| Fault::Missing)?;
    let keeps = |spooled: &Spooled| intake::is_of_worker(&spooled.snapshot);
    Ok((Box::new(in_contract(&bytes, spool::SCHEMA, keeps)?), bytes.len()))
}

fn in_contract<T: DeserializeOwned>(bytes: &[u8], schema: &str, keeps: impl Fn(&T) -> bool) -> Result<T, Fault> {
    let file: T = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        Category::Io | Category::Syntax | Category::Eof => Fault::Torn,
        Category::Data if serde_json::from_slice::<IgnoredAny>(bytes).is_err() => Fault::Torn,
        Category::Data if is_of_another_version(bytes, schema) => Fault::Version,
        Category::Data => Fault::BreaksTheContract,
    })?;
    if keeps(&file) { Ok(file) } else { Err(Fault::BreaksTheContract) }
}

fn is_of_another_version(bytes: &[u8], schema: &str) -> bool {
    #[derive(Deserialize)]
    struct Named {
        schema: String,
    }
    let family = schema.trim_end_matches(|c: char| c.is_ascii_digit());
    serde_json::from_slice::<Named>(bytes).is_ok_and(|file| {
        file.schema != schema
            && file.schema.strip_prefix(family).is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    })
}

fn lines(text: &str) -> Vec<Line> {
    let all: Vec<&str> = text.lines().collect();
    let latest = &all[all.len().saturating_sub(MOST_EVENTS)..];
    latest.iter().filter_map(|line| event_line::read(line)).collect()
}

fn bounded_read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    let read = file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if read > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}
