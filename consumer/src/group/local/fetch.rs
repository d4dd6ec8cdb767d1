//! Which partitions are read, from where, and in which turn. Reads only.
//!
//! 1. A partition is read from where it was resumed, in order, and not at all unless it is resumed.
//! 2. Each poll goes on where the last one stopped, so a long partition does not starve the others.
//! 3. A partition that was read to its end is not read again until the file has changed.

use std::collections::BTreeMap;

use keylane_producer::{
    Offset, Partition, QueueIdentity, StoredRecord,
    log::{Log, Page, ReadLimit, local::LocalLog},
};
use rusqlite::Connection;

use super::{schema::Place, settings::LocalGroupSettings};
use crate::{error::Error, group::GroupEvent};

pub(super) struct Fetch {
    log: LocalLog,
    queue: QueueIdentity,
    place: Place,
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
    /// The end of the log when it was last looked at.
    end: Offset,
}

impl Fetch {
    pub(super) fn new(log: LocalLog, queue: QueueIdentity, place: Place, settings: &LocalGroupSettings) -> Self {
        let limits = Limits {
            poll: ReadLimit { records: settings.poll_records, bytes: settings.poll_bytes },
            partition: ReadLimit { records: settings.partition_records, bytes: settings.partition_bytes },
        };
        Self { log, queue, place, limits, resumed: BTreeMap::new(), turn: Partition(0) }
    }

    /// Reads this partition from here on. The first read finds its end.
    pub(super) fn resume(&mut self, partition: Partition, from: Offset) {
        self.resumed.insert(partition, Position { next: from, end: Offset(u64::MAX) });
    }

    /// Reads nothing more of this partition: it is paused, released or lost.
    pub(super) fn stop(&mut self, partition: Partition) {
        self.resumed.remove(&partition);
    }

    /// Somebody wrote to the file: one question tells which partitions have grown.
    pub(super) fn look_again(&mut self) -> Result<(), Error> {
        if self.resumed.is_empty() {
            return Ok(());
        }
        let ends = ends(self.log.connection(), self.place.queue_id).map_err(self.place.failed("look at the log of"))?;
        for (partition, end) in ends {
            if let Some(position) = self.resumed.get_mut(&partition) {
                position.end = end;
            }
        }
        Ok(())
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
            let Some((from, page, end)) = self.read(partition, limit)? else { continue };
            left.records -= page.records.len().min(left.records);
            left.bytes = left.bytes.saturating_sub(page.records.iter().map(size).sum());
            self.turn = Partition(partition.0 + 1);
            sink(GroupEvent::Records { partition, from, records: page.records, position: page.next, end });
        }
        Ok(())
    }

    /// Those with something to read, beginning with the one whose turn it is.
    fn in_turn(&self) -> Vec<Partition> {
        let behind =
            |(&partition, position): (&Partition, &Position)| (position.next < position.end).then_some(partition);
        let (from, before) = (self.resumed.range(self.turn..), self.resumed.range(..self.turn));
        from.chain(before).filter_map(behind).collect()
    }

    fn read(&mut self, partition: Partition, limit: ReadLimit) -> Result<Option<(Offset, Page, Offset)>, Error> {
        let Some(position) = self.resumed.get_mut(&partition) else { return Ok(None) };
        if position.end == Offset(u64::MAX) {
            position.end = self.log.bounds(&self.queue, partition)?.end;
        }
        let page = self.log.read(&self.queue, partition, position.next, limit)?;
        if page.next <= position.next {
            position.end = position.next;
            return Ok(None);
        }
        let from = std::mem::replace(&mut position.next, page.next);
        position.end = position.end.max(page.next);
        Ok(Some((from, page, position.end)))
    }
}

fn ends(connection: &Connection, queue_id: i64) -> rusqlite::Result<Vec<(Partition, Offset)>> {
    connection
        .prepare_cached("SELECT part, next_offset FROM keylane_partition WHERE queue_id = ?1")?
        .query_map([queue_id], |row| {
            let end: i64 = row.get(1)?;
            let end = u64::try_from(end).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(1, end))?;
            Ok((Partition(row.get(0)?), Offset(end)))
        })?
        .collect()
}

fn size(stored: &StoredRecord) -> usize {
    stored.record.size()
}
