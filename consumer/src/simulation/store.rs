//! The store: rows, markers, parked keys and their lines; and the oracle that sees every write.

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
    /// Marked: applied, or in a line.
    pub(super) done: BTreeMap<Partition, BTreeSet<u64>>,
    pub(super) applied: BTreeMap<Partition, BTreeSet<u64>>,
    pub(super) lines: BTreeMap<(Partition, Key), BTreeSet<u64>>,
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
    Park,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Written {
    Applied,
    Stopped,
    Parked,
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
        let stopped = self.stopped.keys().filter(|(p, _)| *p == partition);
        Ok(Claimed { token, done, stopped: stopped.map(|(_, key)| *key).collect() })
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
        let applied = self.applied.entry(partition).or_default();
        let line = self.lines.entry((partition, key)).or_default();
        let in_line = line.contains(&offset.0);
        if done.contains(&offset.0) && (!in_line || what == What::Park) {
            if without == Without::Markers && what == What::Effect && applied.contains(&offset.0) {
                return Err(format!("partition {partition}, offset {offset} is applied twice"));
            }
            return Ok(Written::Applied);
        }
        match what {
            What::Effect => {
                let earlier = self.log[&partition].range(..offset.0).filter(|(_, of)| **of == key);
                if let Some((skipped, _)) = earlier.into_iter().find(|(earlier, _)| !applied.contains(earlier)) {
                    return Err(format!("partition {partition}, key {key}: {offset} overtakes {skipped}"));
                }
                done.insert(offset.0);
                if !applied.insert(offset.0) {
                    return Err(format!("partition {partition}, offset {offset} is applied twice"));
                }
                if line.remove(&offset.0) && line.is_empty() {
                    self.stopped.remove(&(partition, key));
                }
                Ok(Written::Applied)
            }
            What::Stop => {
                done.insert(offset.0);
                line.insert(offset.0);
                self.stopped.insert((partition, key), Stopped { released: false });
                Ok(Written::Stopped)
            }
            What::Park => {
                if !self.stopped.contains_key(&(partition, key)) {
                    return Err(format!("partition {partition}, key {key}: {offset} is parked in no line"));
                }
                done.insert(offset.0);
                if without != Without::OneTransaction {
                    line.insert(offset.0);
                }
                Ok(Written::Parked)
            }
        }
    }

    /// The line as its owner reads it back; without a job in it the key's row goes, unless the owner is not the newest.
    pub(super) fn read_line(&mut self, partition: Partition, key: Key, newest: bool) -> Vec<u64> {
        let line: Vec<u64> = self.lines.get(&(partition, key)).into_iter().flatten().copied().collect();
        if line.is_empty() && newest {
            self.stopped.remove(&(partition, key));
        }
        line
    }

    /// The lowest offset of the log that is not marked.
    pub(super) fn lowest_open(&self, partition: Partition) -> Option<u64> {
        let done = self.done.get(&partition);
        let mut log = self.log.get(&partition)?.keys().copied();
        log.find(|offset| !done.is_some_and(|done| done.contains(offset)))
    }
}
