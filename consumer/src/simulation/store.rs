//! The store: rows, markers, parked keys and their lines, dead letters; and the oracle that sees every write.

mod persons;

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
    pub(super) tables: Tables,
    /// Rises at each fail-over.
    timeline: u64,
    minted: u64,
    /// Claims up to this one were made before the last fail-over.
    pub(super) minted_before: u64,
    pub(super) log: BTreeMap<Partition, BTreeMap<u64, Key>>,
    /// Marked at some time, whatever was lost since.
    marked: BTreeMap<Partition, BTreeSet<u64>>,
    pub(super) refused_writes: u64,
}

/// What a fail-over can bring back as it was before.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub(super) epoch: u64,
    rows: BTreeMap<Partition, Row>,
    /// Marked: applied, or in a line.
    done: BTreeMap<Partition, BTreeSet<u64>>,
    pub(super) applied: BTreeMap<Partition, BTreeSet<u64>>,
    pub(super) lines: BTreeMap<(Partition, Key), BTreeSet<u64>>,
    pub(super) stopped: BTreeMap<(Partition, Key), Stopped>,
    /// Dead letters.
    pub(super) dead: BTreeSet<(Partition, u64)>,
    dropped: BTreeSet<(Partition, u64)>,
    /// Left the order of their keys at some time, as dead letters or dropped: later jobs did not wait for them.
    pub(super) left: BTreeSet<(Partition, u64)>,
    /// To be left out when their turn comes.
    pub(super) skips: BTreeSet<(Partition, u64)>,
    versions: u64,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    generation: Option<Generation>,
    owner: u64,
    claim: u64,
    timeline: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stopped {
    pub(super) released: bool,
    /// By a person, and no job of it failed.
    pub(super) paused: bool,
    pub(super) version: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Claimed {
    pub(super) token: FenceToken,
    /// Everything below it is done.
    pub(super) floor: u64,
    pub(super) done: BTreeSet<u64>,
    pub(super) stopped: Vec<Key>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Effect,
    Stop,
    Park,
    Bury,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Written {
    Applied,
    Stopped,
    Parked,
    Buried,
}

impl Store {
    pub(super) fn claim(
        &mut self,
        partition: Partition,
        epoch: u64,
        generation: Generation,
        owner: u64,
    ) -> Result<Claimed, ClaimRefused> {
        let (minted, timeline, tables) = (self.minted + 1, self.timeline, &mut self.tables);
        if tables.epoch != epoch {
            return Err(ClaimRefused::OtherEpoch);
        }
        let row = tables.rows.entry(partition).or_insert(Row { generation: None, owner: 0, claim: 0, timeline });
        let mine = row.generation == Some(generation) && row.owner == owner;
        if row.generation > Some(generation) {
            return Err(ClaimRefused::RowAhead);
        }
        if row.generation == Some(generation) && !mine {
            return Err(ClaimRefused::EqualGeneration);
        }
        // Said again it is another claim too: what is read with it is newer.
        self.minted = minted;
        *row = Row { generation: Some(generation), owner, claim: minted, timeline };
        let token = FenceToken::minted(epoch, generation, minted);
        let done = tables.done.get(&partition).cloned().unwrap_or_default();
        let stopped = tables.stopped.keys().filter(|(p, _)| *p == partition).map(|(_, key)| *key).collect();
        let end = self.log.get(&partition).and_then(|log| log.last_key_value()).map_or(0, |(last, _)| last + 1);
        let floor = self.lowest_open(partition).unwrap_or(end);
        Ok(Claimed { token, floor, done, stopped })
    }

    /// Whether this token is the newest of its partition.
    pub(super) fn is_newest(&self, partition: Partition, token: FenceToken, without: Without) -> bool {
        self.tables.rows.get(&partition).is_some_and(|row| {
            (self.tables.epoch, row.claim) == (token.epoch, token.claim)
                && row.generation == Some(token.generation)
                && (row.timeline == self.timeline || without == Without::Timeline)
        })
    }

    /// Whether the newest claim is this owner's.
    pub(super) fn is_owner(&self, partition: Partition, owner: u64) -> bool {
        self.tables.rows.get(&partition).is_some_and(|row| row.owner == owner)
    }

    /// Goes on from what a standby had. How many claims and jobs are lost.
    pub(super) fn fail_over(&mut self, copy: Tables) -> (u64, u64) {
        let lost = std::mem::replace(&mut self.tables, copy);
        // A reset is made on every copy.
        while self.tables.epoch < lost.epoch {
            self.reset();
        }
        self.timeline += 1;
        self.minted_before = self.minted;
        let claim = |tables: &Tables, p| tables.rows.get(p).map(|row| row.claim);
        let claims = lost.rows.keys().filter(|p| claim(&lost, p) != claim(&self.tables, p)).count();
        let count = |tables: &Tables| tables.done.values().map(BTreeSet::len).sum::<usize>();
        (claims as u64, count(&lost).saturating_sub(count(&self.tables)) as u64)
    }

    /// What an operator does when a group began anew below its rows.
    pub(super) fn reset(&mut self) {
        self.tables.epoch += 1;
        self.tables.rows.values_mut().for_each(|row| row.generation = None);
    }

    /// `Ok(None)`: fenced.
    pub(super) fn write(
        &mut self,
        partition: Partition,
        token: FenceToken,
        jobs: &[(Offset, Key, What)],
        resumed: &[(Key, u64)],
        without: Without,
    ) -> Result<Option<Vec<Written>>, String> {
        if !self.is_newest(partition, token, without) {
            if without != Without::Row {
                self.refused_writes += 1;
                return Ok(None);
            }
            return Err(format!("stale write: partition {partition} has a newer claim"));
        }
        self.resume(partition, resumed, without);
        let written: Result<Vec<_>, _> = jobs.iter().map(|job| self.write_job(partition, *job, without)).collect();
        written.map(Some)
    }

    fn write_job(
        &mut self,
        partition: Partition,
        (offset, key, what): (Offset, Key, What),
        without: Without,
    ) -> Result<Written, String> {
        let tables = &mut self.tables;
        let done = tables.done.entry(partition).or_default();
        let applied = tables.applied.entry(partition).or_default();
        let line = tables.lines.entry((partition, key)).or_default();
        let marked = self.marked.entry(partition).or_default();
        let in_line = line.contains(&offset.0);
        if done.contains(&offset.0) && (!in_line || what == What::Park) {
            if without == Without::Markers && what == What::Effect && applied.contains(&offset.0) {
                return Err(format!("partition {partition}, offset {offset} is applied twice"));
            }
            return Ok(Written::Applied);
        }
        let left = &mut tables.left;
        if matches!(what, What::Effect | What::Bury) {
            let mut earlier = self.log[&partition].range(..offset.0).filter(|(_, of)| **of == key);
            let waits = |earlier: &u64| !applied.contains(earlier) && !left.contains(&(partition, *earlier));
            if let Some((skipped, _)) = earlier.find(|(earlier, _)| waits(earlier)) {
                return Err(format!("partition {partition}, key {key}: {offset} overtakes {skipped}"));
            }
        }
        match what {
            What::Effect => {
                done.insert(offset.0);
                marked.insert(offset.0);
                if !applied.insert(offset.0) {
                    return Err(format!("partition {partition}, offset {offset} is applied twice"));
                }
                self.take_from_line(partition, offset, key);
                Ok(Written::Applied)
            }
            What::Bury => {
                done.insert(offset.0);
                marked.insert(offset.0);
                left.insert((partition, offset.0));
                if without != Without::LetterInOneTransaction {
                    tables.dead.insert((partition, offset.0));
                }
                self.take_from_line(partition, offset, key);
                Ok(Written::Buried)
            }
            What::Stop => {
                done.insert(offset.0);
                marked.insert(offset.0);
                line.insert(offset.0);
                tables.versions += 1;
                let stopped = Stopped { released: false, paused: false, version: tables.versions };
                tables.stopped.insert((partition, key), stopped);
                Ok(Written::Stopped)
            }
            What::Park => {
                if !tables.stopped.contains_key(&(partition, key)) {
                    return Err(format!("partition {partition}, key {key}: {offset} is parked in no line"));
                }
                done.insert(offset.0);
                marked.insert(offset.0);
                if without != Without::OneTransaction {
                    line.insert(offset.0);
                }
                Ok(Written::Parked)
            }
        }
    }

    /// A job that is done goes out of its line, and the key's row with the last of a line that was released.
    fn take_from_line(&mut self, partition: Partition, offset: Offset, key: Key) {
        let Tables { lines, stopped, .. } = &mut self.tables;
        let Some(line) = lines.get_mut(&(partition, key)) else { return };
        if line.remove(&offset.0) && line.is_empty() && stopped.get(&(partition, key)).is_some_and(|row| row.released) {
            stopped.remove(&(partition, key));
        }
    }

    /// The line as its owner reads it back, with the version of the key's row.
    pub(super) fn read_line(&self, partition: Partition, key: Key) -> (u64, Vec<u64>) {
        let row = self.tables.stopped.get(&(partition, key));
        let line = self.tables.lines.get(&(partition, key)).into_iter().flatten().copied().collect();
        (row.map_or(0, |row| row.version), line)
    }

    /// Rows of lines that were read and held nothing.
    fn resume(&mut self, partition: Partition, resumed: &[(Key, u64)], without: Without) {
        let Tables { lines, stopped, .. } = &mut self.tables;
        for (key, version) in resumed {
            let place = (partition, *key);
            let is_empty = lines.get(&place).is_none_or(BTreeSet::is_empty);
            let as_read = is_empty && stopped.get(&place).is_some_and(|row| row.version == *version);
            if as_read || without == Without::RowAsRead {
                stopped.remove(&place);
            }
        }
    }

    /// It is a dead letter, or was dropped by a person.
    pub(super) fn has_left(&self, partition: Partition, offset: u64) -> bool {
        let place = (partition, offset);
        self.tables.dead.contains(&place) || self.tables.dropped.contains(&place)
    }

    /// The lowest offset of the log that is not marked.
    pub(super) fn lowest_open(&self, partition: Partition) -> Option<u64> {
        self.lowest(partition, &self.tables.done)
    }

    /// The lowest offset of the log that never was marked.
    pub(super) fn lowest_never_marked(&self, partition: Partition) -> Option<u64> {
        self.lowest(partition, &self.marked)
    }

    fn lowest(&self, partition: Partition, marked: &BTreeMap<Partition, BTreeSet<u64>>) -> Option<u64> {
        let marked = marked.get(&partition);
        let mut log = self.log.get(&partition)?.keys().copied();
        log.find(|offset| !marked.is_some_and(|marked| marked.contains(offset)))
    }
}
