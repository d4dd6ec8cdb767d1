//! Which partitions are read, how far, and what was read and not yet told. Pure.

use std::{collections::BTreeMap, mem};

use keylane_producer::{Offset, Partition, StoredRecord};

/// The partitions that were resumed.
pub(super) struct Reads {
    places: BTreeMap<Partition, Place>,
    limits: (usize, usize),
    records: usize,
    bytes: usize,
    pages: bool,
}

struct Place {
    /// Where what is not told begins.
    from: Offset,
    /// What comes next.
    next: Offset,
    records: Vec<StoredRecord>,
    /// There was nothing above `next` when the client last looked.
    at_end: bool,
}

/// What was read of one partition.
pub(super) struct Page {
    pub(super) partition: Partition,
    pub(super) from: Offset,
    pub(super) records: Vec<StoredRecord>,
    pub(super) position: Offset,
    pub(super) at_end: bool,
}

impl Reads {
    /// Full at so many records or bytes.
    pub(super) fn new(records: usize, bytes: usize) -> Self {
        Self { places: BTreeMap::new(), limits: (records, bytes), records: 0, bytes: 0, pages: false }
    }

    /// Reads a partition from here on; what was read of it before and not told is forgotten.
    pub(super) fn begin(&mut self, partition: Partition, from: Offset) {
        self.places.insert(partition, Place { from, next: from, records: Vec::new(), at_end: false });
    }

    /// Nothing more of it is told.
    pub(super) fn stop(&mut self, partition: Partition) {
        self.places.remove(&partition);
    }

    pub(super) fn stop_all(&mut self) {
        self.places.clear();
    }

    /// What comes next of each.
    pub(super) fn positions(&self) -> impl Iterator<Item = (Partition, Offset)> + '_ {
        self.places.iter().map(|(&partition, place)| (partition, place.next))
    }

    /// A record came. One that nobody waits for was under way when its partition was stopped or begun elsewhere.
    pub(super) fn record(&mut self, partition: Partition, record: StoredRecord) {
        let Some(place) = self.places.get_mut(&partition).filter(|place| record.offset >= place.next) else { return };
        place.next = record.offset.next();
        place.at_end = false;
        self.records += 1;
        self.bytes += record.record.size();
        self.pages = true;
        place.records.push(record);
    }

    /// Below this offset there is nothing more than what came, and nothing above it yet. So markers of transactions, what
    /// compaction took and a head that has expired are passed over.
    pub(super) fn end(&mut self, partition: Partition, end: Offset) {
        let Some(place) = self.places.get_mut(&partition) else { return };
        place.at_end = true;
        if end > place.next {
            place.next = end;
            self.pages = true;
        }
    }

    pub(super) fn have_pages(&self) -> bool {
        self.pages
    }

    pub(super) fn are_full(&self) -> bool {
        self.records >= self.limits.0 || self.bytes >= self.limits.1
    }

    /// What was read since the last time, partition by partition.
    pub(super) fn take(&mut self) -> Vec<Page> {
        (self.records, self.bytes, self.pages) = (0, 0, false);
        let told = |(&partition, place): (&Partition, &mut Place)| {
            (place.next > place.from).then(|| Page {
                partition,
                from: mem::replace(&mut place.from, place.next),
                records: mem::take(&mut place.records),
                position: place.next,
                at_end: place.at_end,
            })
        };
        self.places.iter_mut().filter_map(told).collect()
    }
}

#[cfg(test)]
mod tests {
    use keylane_producer::{Record, Timestamp};

    use super::*;

    const P: Partition = Partition(3);

    fn at(offset: u64) -> StoredRecord {
        let record =
            Record { key: Some("k".into()), value: Some("vv".into()), headers: Vec::new(), timestamp: Timestamp(1) };
        StoredRecord { offset: Offset(offset), record }
    }

    fn told(reads: &mut Reads) -> Vec<(u64, Vec<u64>, u64, bool)> {
        let offsets = |page: &Page| page.records.iter().map(|r| r.offset.0).collect();
        reads.take().iter().map(|page| (page.from.0, offsets(page), page.position.0, page.at_end)).collect()
    }

    #[test]
    fn pages_follow_on_each_other_over_gaps() {
        let mut reads = Reads::new(10, 1_000);
        reads.begin(P, Offset(5));
        reads.record(P, at(7));
        reads.record(P, at(8));
        assert_eq!(told(&mut reads), [(5, vec![7, 8], 9, false)]);
        reads.end(P, Offset(9));
        assert!(!reads.have_pages());
        assert_eq!(told(&mut reads), [], "an end that moves nothing is no news");
        reads.end(P, Offset(12));
        assert_eq!(told(&mut reads), [(9, vec![], 12, true)]);
    }

    #[test]
    fn what_nobody_waits_for_is_not_told() {
        let mut reads = Reads::new(10, 1_000);
        reads.record(P, at(1));
        reads.end(P, Offset(4));
        reads.begin(P, Offset(5));
        reads.record(P, at(4));
        assert_eq!(told(&mut reads), []);
        reads.record(P, at(5));
        reads.begin(P, Offset(2));
        assert_eq!(told(&mut reads), [], "begun anew elsewhere");
        reads.record(P, at(2));
        reads.stop(P);
        assert_eq!(told(&mut reads), []);
    }

    #[test]
    fn full_by_records_or_by_bytes_until_told() {
        let mut reads = Reads::new(2, 1_000);
        reads.begin(P, Offset(0));
        reads.record(P, at(0));
        assert!(!reads.are_full());
        reads.record(P, at(1));
        assert!(reads.are_full());
        reads.take();
        assert!(!reads.are_full());
        let mut reads = Reads::new(10, 3);
        reads.begin(P, Offset(0));
        reads.record(P, at(0));
        assert!(reads.are_full());
    }
}
