//! The store: rows, markers, stopped keys; and the oracle that sees every write.

use std::collections::{BTreeMap, BTreeSet};

use keylane_producer::{Offset, Partition};

use super::Without;
use crate::{
    fence::{FenceToken, Generation},
    store::ClaimRefused,
};

/// A key, unique over all partitions.
pub(super) type Key = usize;

#[derive(Default)]
pub(super) struct Store {
    rows: BTreeMap<Partition, Row>,
    minted: u64,
    pub(super) log: BTreeMap<Partition, BTreeMap<u64, Key>>,
    pub(super) done: BTreeMap<Partition, BTreeSet<u64>>,
    pub(super) stopped: BTreeMap<(Partition, Key), Stopped>,
    pub(super) refused_writes: u64,
}

#[derive(Clone, Copy)]
struct Row {
    generation: Generation,
    owner: u64,
    claim: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stopped {
    pub(super) offset: u64,
    pub(super) released: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Claimed {
    pub(super) token: FenceToken,
    pub(super) done: BTreeSet<u64>,
    pub(super) stopped: Vec<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Effect,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Written {
    Applied,
    Stopped,
}

impl Store {
    pub(super) fn claim(
        &mut self,
        partition: Partition,
        generation: Generation,
        owner: u64,
    ) -> Result<Claimed, ClaimRefused> {
        let mine = |row: &Row| row.generation == generation && row.owner == owner;
        if let Some(row) = self.rows.get(&partition).filter(|row| !mine(row)) {
            if row.generation > generation {
                return Err(ClaimRefused::RowAhead);
            }
            if row.generation == generation {
                return Err(ClaimRefused::EqualGeneration);
            }
        }
        if !self.rows.get(&partition).is_some_and(mine) {
            self.minted += 1;
            self.rows.insert(partition, Row { generation, owner, claim: self.minted });
        }
        let token = FenceToken::minted(1, generation, self.rows[&partition].claim);
        let done = self.done.get(&partition).cloned().unwrap_or_default();
        let stopped = self.stopped.iter().filter(|((p, _), stopped)| *p == partition && !stopped.released);
        Ok(Claimed { token, done, stopped: stopped.map(|((_, key), _)| *key).collect() })
    }

    /// Whether this token is the newest of its partition.
    pub(super) fn is_newest(&self, partition: Partition, token: FenceToken) -> bool {
        self.rows.get(&partition).is_some_and(|row| row.claim == token.claim && row.generation == token.generation)
    }

    /// `Ok(None)`: fenced.
    pub(super) fn write(
        &mut self,
        partition: Partition,
        token: FenceToken,
        jobs: &[(Offset, Key, What)],
        without: Without,
    ) -> Result<Option<Vec<Written>>, String> {
        if !self.is_newest(partition, token) {
            if without != Without::Row {
                self.refused_writes += 1;
                return Ok(None);
            }
            return Err(format!("stale write: partition {partition} has a newer claim"));
        }
        let written: Result<Vec<_>, _> = jobs.iter().map(|job| self.write_job(partition, *job, without)).collect();
        written.map(Some)
    }

    fn write_job(
        &mut self,
        partition: Partition,
        (offset, key, what): (Offset, Key, What),
        without: Without,
    ) -> Result<Written, String> {
        let done = self.done.entry(partition).or_default();
        if done.contains(&offset.0) {
            if without == Without::Markers {
                return Err(format!("partition {partition}, offset {offset} is applied twice"));
            }
            return Ok(Written::Applied);
        }
        let earlier = self.log[&partition].range(..offset.0).filter(|(_, of)| **of == key);
        if let Some((skipped, _)) = earlier.into_iter().find(|(earlier, _)| !done.contains(earlier)) {
            return Err(format!("partition {partition}, key {key}: {offset} overtakes {skipped}"));
        }
        if self.stopped.get(&(partition, key)).is_some_and(|stopped| !stopped.released) {
            return Ok(Written::Stopped);
        }
        match what {
            What::Effect => {
                done.insert(offset.0);
                self.stopped.remove(&(partition, key));
                Ok(Written::Applied)
            }
            What::Stop => {
                self.stopped.insert((partition, key), Stopped { offset: offset.0, released: false });
                Ok(Written::Stopped)
            }
        }
    }

    /// The lowest offset of the log that is not done.
    pub(super) fn lowest_open(&self, partition: Partition) -> Option<u64> {
        let done = self.done.get(&partition);
        let mut log = self.log.get(&partition)?.keys().copied();
        log.find(|offset| !done.is_some_and(|done| done.contains(offset)))
    }
}
