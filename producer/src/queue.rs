//! What a queue is: its name, and the facts that must not change under a running worker.

use std::{fmt, num::NonZeroU32, str::FromStr, time::Duration};

use crate::{
    error::{Detail, Error},
    partition::PartitionCount,
};

#[cfg(test)]
mod tests;

/// 1 to 200 letters, digits, `.`, `_` or `-`: what is also a Kafka topic's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Box<str>);

/// The consumer group's name, by the same rule as a queue's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Box<str>);

fn name(kind: &str, text: &str) -> Result<Box<str>, Error> {
    let fits = (1..=200).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && text != "."
        && text != "..";
    if fits {
        return Ok(text.into());
    }
    Err(Error::Invalid(
        Detail::new(format!("{kind} name {text:?} does not fit: 1 to 200 letters, digits, '.', '_' or '-'"))
            .remedy("choose a name like 'billing-jobs'"),
    ))
}

macro_rules! named {
    ($type:ident, $kind:literal) => {
        impl $type {
            /// The name's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $type {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                name($kind, text).map(Self)
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
named!(QueueName, "queue");
named!(GroupName, "group");

/// Which making of a queue this is: fresh at each creation, so a queue that was deleted and made again under the
/// same name is another queue. On Kafka it is the topic id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub Box<str>);

/// How keys become partitions. One so far; the name is pinned in the identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyHash {
    /// [`crate::partition_of`].
    Murmur2,
}

impl KeyHash {
    /// The name that is stored: `murmur2`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Murmur2 => "murmur2",
        }
    }
}

/// The facts that a store pins at first sight. If any of them differs later, the worker stops admitting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueIdentity {
    /// The broker that holds it: on the embedded engine the file's own random id, on Kafka the cluster id.
    pub cluster: Box<str>,
    /// The queue's name.
    pub name: QueueName,
    /// Which making of that name.
    pub incarnation: Incarnation,
    /// How many partitions keys are spread over.
    pub partitions: PartitionCount,
    /// How keys become partitions.
    pub hash: KeyHash,
}

/// What to make a queue with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// The queue's name.
    pub name: QueueName,
    /// How many partitions; more than the workers you will ever have, since it cannot change in place.
    pub partitions: PartitionCount,
    /// When finished records may go.
    pub retention: Retention,
    /// How many copies the brokers keep; `None`: what is safe. The embedded engine has one file, and takes none.
    pub replication: Option<Replication>,
}

impl QueueSpec {
    /// With the usual retention and what is safe.
    pub fn new(name: QueueName, partitions: PartitionCount) -> Self {
        Self { name, partitions, retention: Retention::default(), replication: None }
    }
}

/// Copies of a queue, each on another broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// How many.
    pub factor: u16,
    /// A receipt means that so many of them have the job; with fewer in sync nothing can be enqueued.
    pub min_in_sync: u16,
    /// Jobs may be lost when one disk dies: it was said so.
    pub unsafe_too: bool,
}

/// Most partitions a queue may have.
pub const MAX_PARTITIONS: u32 = 4_096;

impl FromStr for PartitionCount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let count = text.parse().ok().and_then(NonZeroU32::new).filter(|n| n.get() <= MAX_PARTITIONS);
        count.map(Self).ok_or_else(|| count_does_not_fit(text))
    }
}

impl PartitionCount {
    /// The rule for a count that did not come from text.
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.0.get() <= MAX_PARTITIONS { Ok(()) } else { Err(count_does_not_fit(&self.to_string())) }
    }
}

fn count_does_not_fit(text: &str) -> Error {
    Error::Invalid(
        Detail::new(format!("partition count {text:?} does not fit: 1 to {MAX_PARTITIONS}"))
            .remedy("choose more than the workers you will ever have; 12 is a good start"),
    )
}

/// Most names that an error lists.
const NAMES_IN_AN_ERROR: usize = 50;

/// The answer to a name that no queue has.
pub(crate) fn not_there(name: &QueueName, there: &[QueueName]) -> Error {
    let detail = Detail::new(format!("no queue '{name}'"));
    if there.is_empty() {
        return Error::NotFound(detail.remedy("there is no queue yet: make one with 'keylane queue create'"));
    }
    let mut names: Vec<&str> = there.iter().take(NAMES_IN_AN_ERROR).map(QueueName::as_str).collect();
    let more = format!("and {} more", there.len() - names.len());
    if there.len() > names.len() {
        names.push(&more);
    }
    Error::NotFound(detail.remedy(format!("there are: {}", names.join(", "))))
}

/// The answer to making a queue whose name is taken.
pub(crate) fn already_there(name: &QueueName, has: PartitionCount, asked: PartitionCount) -> Error {
    let detail = if has == asked {
        Detail::new(format!("queue '{name}' is there already, with {has} partitions"))
            .remedy("use it as it is, or choose another name")
    } else {
        Detail::new(format!("queue '{name}' is there already, with {has} partitions instead of {asked}"))
            .remedy("a count change is a migration: make a new queue, drain the old one, switch over")
    };
    Error::Invalid(detail)
}

/// When records may leave the log. Whatever it says, a record stays until every group that has started on the
/// queue has finished it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Keep finished records this long; `None`: for ever.
    pub age: Option<Duration>,
    /// Keep at most this many bytes of keys and payloads a partition, once finished; `None`: no limit.
    pub bytes: Option<u64>,
}

impl Default for Retention {
    /// Seven days, any size: what Kafka's topics have.
    fn default() -> Self {
        Self { age: Some(Duration::from_secs(7 * 24 * 3_600)), bytes: None }
    }
}
