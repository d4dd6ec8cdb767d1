//! Which partitions are read, from where, and in which turn. Reads only.
//!
//! 1. A partition is read from where it was resumed, in order, and not at all unless it is resumed.
//! 2. Each poll goes on where the last one stopped, so a long partition does not starve the others.
//! 3. A partition that was read to its end is not read again until the file has changed.

use std::collections::BTreeMap;

use keylane_producer::{
    Offset, Partition, QueueIdentity, StoredRecord,
    log::{Log, Page, ReadLimit},
};

use super::settings::LocalGroupSettings;
use crate::{error::Error, group::GroupEvent};

pub(super) struct Fetch {
    log: Box<dyn Log>,
    queue: QueueIdentity,
    limits: Limits,
    resumed: BTreeMap<Partition, Position>,
    /// The partition whose turn is next.
    turn: Partition,
}

struct Limits {
    poll: ReadLimit,
    partition: ReadLimit,
}

struct Position {
    next: Offset,
    /// There is something to read, or nobody looked yet.
    behind: bool,
}

impl Fetch {
    pub(super) fn new(log: Box<dyn Log>, queue: QueueIdentity, settings: &LocalGroupSettings) -> Self {
        let limits = Limits {
            poll: ReadLimit { records: settings.poll_records, bytes: settings.poll_bytes },
            partition: ReadLimit { records: settings.partition_records, bytes: settings.partition_bytes },
        };
        Self { log, queue, limits, resumed: BTreeMap::new(), turn: Partition(0) }
    }

    pub(super) fn resume(&mut self, partition: Partition, from: Offset) {
        self.resumed.insert(partition, Position { next: from, behind: true });
    }

    /// Reads nothing more of this partition: it is paused, released or lost.
    pub(super) fn stop(&mut self, partition: Partition) {
        self.resumed.remove(&partition);
    }

    /// Somebody wrote to the file.
    pub(super) fn look_again(&mut self) {
        for position in self.resumed.values_mut() {
            position.behind = true;
        }
    }

    /// Delivers what there is, up to the limits.
    pub(super) fn deliver(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        let mut left = self.limits.poll;
        for partition in self.in_turn() {
            if left.records == 0 || left.bytes == 0 {
                self.turn = partition;
                break;
            }
            let limit = ReadLimit {
                records: left.records.min(self.limits.partition.records),
                bytes: left.bytes.min(self.limits.partition.bytes),
            };
            let Some((page, end)) = self.read(partition, limit)? else { continue };
            left.records -= page.records.len().min(left.records);
            left.bytes = left.bytes.saturating_sub(page.records.iter().map(size).sum());
            self.turn = Partition(partition.0 + 1);
            sink(GroupEvent::Records { partition, records: page.records, position: page.next, end });
        }
        Ok(())
    }

    /// Those with something to read, beginning with the one whose turn it is.
    fn in_turn(&self) -> Vec<Partition> {
        let behind = |(&partition, position): (&Partition, &Position)| position.behind.then_some(partition);
        let (from, before) = (self.resumed.range(self.turn..), self.resumed.range(..self.turn));
        from.chain(before).filter_map(behind).collect()
    }

    fn read(&mut self, partition: Partition, limit: ReadLimit) -> Result<Option<(Page, Offset)>, Error> {
        let Some(position) = self.resumed.get_mut(&partition) else { return Ok(None) };
        let page = self.log.read(&self.queue, partition, position.next, limit)?;
        if page.records.is_empty() && page.next <= position.next {
            position.behind = false;
            return Ok(None);
        }
        let end = self.log.bounds(&self.queue, partition)?.end;
        position.next = page.next;
        position.behind = page.next < end;
        Ok(Some((page, end)))
    }
}

fn size(stored: &StoredRecord) -> usize {
    stored.record.size()
}
