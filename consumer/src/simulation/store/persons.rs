//! What persons do in the store: a key stands still or goes on, a line is dropped, a job is skipped, a dead letter comes back.

use std::collections::BTreeSet;

use keylane_producer::Partition;

use super::{Key, Stopped, Store, Tables};

impl Store {
    /// `false`: it stands still, or is about to go on.
    pub(in crate::simulation) fn pause(&mut self, place: (Partition, Key)) -> bool {
        let version = self.tables.next_version();
        let new = !self.tables.stopped.contains_key(&place);
        self.tables.stopped.entry(place).or_insert(Stopped { released: false, paused: true, version });
        new
    }

    /// Lets a key that stands still go on. What was released is its owner's.
    pub(in crate::simulation) fn replay(&mut self, place: (Partition, Key)) -> bool {
        let version = self.tables.next_version();
        let Some(row) = self.tables.stopped.get_mut(&place).filter(|row| !row.released) else { return false };
        (row.released, row.version) = (true, version);
        true
    }

    /// Forgets the line of a key that stands still.
    pub(in crate::simulation) fn drop_line(&mut self, place: (Partition, Key)) -> bool {
        if !self.replay(place) {
            return false;
        }
        let line = self.tables.lines.remove(&place).unwrap_or_default();
        let line: Vec<_> = line.into_iter().map(|offset| (place.0, offset)).collect();
        self.tables.dropped.extend(&line);
        self.tables.left.extend(line);
        true
    }

    /// Has a job left out, unless it is done.
    pub(in crate::simulation) fn skip(&mut self, partition: Partition, offset: u64) -> bool {
        let Some(key) = self.log.get(&partition).and_then(|log| log.get(&offset)).copied() else { return false };
        let version = self.tables.next_version();
        let Tables { done, lines, stopped, dead, left, skips, .. } = &mut self.tables;
        let line = lines.entry((partition, key)).or_default();
        let row = stopped.get_mut(&(partition, key)).filter(|row| !row.released);
        if let Some(row) = row.filter(|_| line.remove(&offset)) {
            dead.insert((partition, offset));
            left.insert((partition, offset));
            (row.version, row.released) = (version, !row.paused && line.is_empty());
            return true;
        }
        let is_done = done.get(&partition).is_some_and(|done| done.contains(&offset));
        (line.contains(&offset) || !is_done) && skips.insert((partition, offset))
    }

    /// Which jobs of the partition are to be left out: not those that are done.
    pub(in crate::simulation) fn skips(&self, partition: Partition) -> BTreeSet<u64> {
        let waits = |offset: &u64| {
            let is_done = self.tables.done.get(&partition).is_some_and(|done| done.contains(offset));
            let key = self.log[&partition][offset];
            !is_done || self.tables.lines.get(&(partition, key)).is_some_and(|line| line.contains(offset))
        };
        let of_it = self.tables.skips.iter().filter(|(of, _)| *of == partition);
        of_it.map(|(_, offset)| *offset).filter(waits).collect()
    }

    /// Puts a dead letter back into its key's line, by its old place.
    pub(in crate::simulation) fn replay_dead(&mut self, partition: Partition, offset: u64) -> bool {
        if !self.tables.dead.remove(&(partition, offset)) {
            return false;
        }
        let key = self.log[&partition][&offset];
        let version = self.tables.next_version();
        let row = Stopped { released: true, paused: false, version };
        self.tables.stopped.entry((partition, key)).or_insert(row).version = version;
        self.tables.lines.entry((partition, key)).or_default().insert(offset);
        true
    }
}

impl Tables {
    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }
}
