//! Which partitions are read, how far, and what was read and not yet told. Pure.

use std::{collections::BTreeMap, mem};

use keylane_producer::{Offset, Partition, StoredRecord};

/// Records up to this size, on the average, can be held: of larger ones a few are more than a client should keep, and each of
/// them keeps the whole answer in memory that it came in.
const SMALL: usize = 1 << 10;

/// The partitions that were resumed.
pub(super) struct Reads {
    places: BTreeMap<Partition, Place>,
    limits: (usize, usize),
    /// What is read and can be told.
    to_tell: Amount,
}

struct Place {
    /// Where it was begun: from there on all was told in order.
    begun: Offset,
    /// Where what is not told begins.
    from: Offset,
    /// What comes next.
    next: Offset,
    records: Vec<StoredRecord>,
    bytes: usize,
    /// The size of its records, the latest ones weighing most.
    mean: usize,
    /// There was nothing above `next` when the client last looked.
    at_end: bool,
    /// Nothing is told until it may go on. What the client had on its way is kept here.
    held: bool,
}

#[derive(Default)]
struct Amount {
    records: usize,
    bytes: usize,
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
        Self { places: BTreeMap::new(), limits: (records, bytes), to_tell: Amount::default() }
    }

    /// Reads a partition from here on; what was read of it before and not told is forgotten.
    pub(super) fn begin(&mut self, partition: Partition, from: Offset) {
        self.stop(partition);
        let place =
            Place { begun: from, from, next: from, records: Vec::new(), bytes: 0, mean: 0, at_end: false, held: false };
        self.places.insert(partition, place);
    }

    /// Nothing more of it is told. Whether it was held.
    pub(super) fn stop(&mut self, partition: Partition) -> bool {
        let Some(place) = self.places.remove(&partition) else { return false };
        if !place.held {
            self.to_tell.less(&place);
        }
        place.held
    }

    /// Nothing more of any is told. Returns those that were held.
    pub(super) fn stop_all(&mut self) -> impl Iterator<Item = Partition> {
        self.to_tell = Amount::default();
        mem::take(&mut self.places).into_iter().filter(|(_, place)| place.held).map(|(partition, _)| partition)
    }

    /// Tells nothing of it for now, and forgets nothing. `false` if it is not read, has large records, or nobody knows how large
    /// its records are.
    pub(super) fn hold(&mut self, partition: Partition) -> bool {
        let small = |place: &&mut Place| (1..=SMALL).contains(&place.mean);
        let Some(place) = self.places.get_mut(&partition).filter(small) else { return false };
        if !mem::replace(&mut place.held, true) {
            self.to_tell.less(place);
        }
        true
    }

    /// Tells it again, what was held first. `false` if it was not held, or is wanted from elsewhere than where that begins: then
    /// only another beginning will do.
    pub(super) fn resume(&mut self, partition: Partition, from: Offset) -> bool {
        self.let_on(partition, |place| place.from == from)
    }

    /// The same for whoever has taken in all that was told of it below `from`, and has what is above on its way. To begin anew
    /// for what is on its way would fetch all again that the client has; and if that comes with each pause, nearly nothing else
    /// is done.
    pub(super) fn go_on(&mut self, partition: Partition, from: Offset) -> bool {
        self.let_on(partition, |place| (place.begun..=place.from).contains(&from))
    }

    fn let_on(&mut self, partition: Partition, fits: impl Fn(&Place) -> bool) -> bool {
        let Some(place) = self.places.get_mut(&partition).filter(|place| place.held && fits(place)) else {
            return false;
        };
        place.held = false;
        self.to_tell.records += place.records.len();
        self.to_tell.bytes += place.bytes;
        true
    }

    /// What comes next of each.
    pub(super) fn positions(&self) -> impl Iterator<Item = (Partition, Offset)> + '_ {
        self.places.iter().map(|(&partition, place)| (partition, place.next))
    }

    /// A record came. One that nobody waits for was under way when its partition was stopped or begun elsewhere.
    pub(super) fn record(&mut self, partition: Partition, record: StoredRecord) {
        let Some(place) = self.places.get_mut(&partition).filter(|place| record.offset >= place.next) else { return };
        let bytes = record.record.size();
        place.next = record.offset.next();
        place.at_end = false;
        place.bytes += bytes;
        place.mean = if place.mean == 0 { bytes } else { (place.mean * 7 + bytes) / 8 };
        if !place.held {
            self.to_tell.records += 1;
            self.to_tell.bytes += bytes;
        }
        place.records.push(record);
    }

    /// Below this offset there is nothing more than what came, and nothing above it yet. So markers of transactions, what
    /// compaction took and a head that has expired are passed over.
    pub(super) fn end(&mut self, partition: Partition, end: Offset) {
        let Some(place) = self.places.get_mut(&partition) else { return };
        place.at_end = true;
        place.next = place.next.max(end);
    }

    pub(super) fn have_pages(&self) -> bool {
        self.places.values().any(Place::has_page)
    }

    pub(super) fn are_full(&self) -> bool {
        self.to_tell.records >= self.limits.0 || self.to_tell.bytes >= self.limits.1
    }

    /// What was read since the last time, partition by partition.
    pub(super) fn take(&mut self) -> Vec<Page> {
        self.to_tell = Amount::default();
        let told = |(&partition, place): (&Partition, &mut Place)| {
            place.has_page().then(|| {
                place.bytes = 0;
                Page {
                    partition,
                    from: mem::replace(&mut place.from, place.next),
                    records: mem::take(&mut place.records),
                    position: place.next,
                    at_end: place.at_end,
                }
            })
        };
        self.places.iter_mut().filter_map(told).collect()
    }
}

impl Place {
    /// Whether there is something to tell.
    fn has_page(&self) -> bool {
        !self.held && self.next > self.from
    }
}

impl Amount {
    /// What was read of this place is not to be told.
    fn less(&mut self, place: &Place) {
        self.records -= place.records.len();
        self.bytes -= place.bytes;
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

    #[test]
    fn what_is_held_is_told_later_and_fills_nothing_meanwhile() {
        let mut reads = Reads::new(2, 1_000);
        reads.begin(P, Offset(5));
        assert!(!reads.go_on(P, Offset(5)), "it is not held");
        reads.record(P, at(5));
        assert!(reads.hold(P) && reads.hold(P), "twice is once");
        reads.record(P, at(6));
        reads.end(P, Offset(8));
        assert!(!reads.are_full() && !reads.have_pages());
        assert_eq!(told(&mut reads), []);
        assert!(reads.go_on(P, Offset(5)));
        assert!(reads.are_full() && reads.have_pages());
        assert_eq!(told(&mut reads), [(5, vec![5, 6], 8, true)]);
        assert!(!reads.are_full() && !reads.have_pages());
    }

    #[test]
    fn what_is_held_goes_on_where_it_stands_and_nowhere_else() {
        let mut reads = Reads::new(2, 1_000);
        assert!(!reads.hold(P), "it is not read");
        reads.begin(P, Offset(5));
        reads.record(P, at(5));
        assert_eq!(told(&mut reads), [(5, vec![5], 6, false)]);
        assert!(reads.hold(P));
        reads.record(P, at(6));
        assert!(!reads.resume(P, Offset(5)) && !reads.resume(P, Offset(7)) && !reads.go_on(P, Offset(7)));
        reads.begin(P, Offset(5));
        assert!(!reads.hold(P), "its next records may be large");
        assert!(!reads.go_on(P, Offset(5)), "begun anew, it is not held");
        reads.record(P, at(5));
        assert_eq!(told(&mut reads), [(5, vec![5], 6, false)]);
        assert!(!reads.stop(P));
        let begin_and_hold = |reads: &mut Reads| {
            reads.begin(P, Offset(6));
            reads.record(P, at(6));
            assert!(reads.hold(P));
        };
        begin_and_hold(&mut reads);
        assert!(reads.stop(P), "who stops it must know");
        begin_and_hold(&mut reads);
        assert_eq!(reads.stop_all().collect::<Vec<_>>(), [P]);
    }

    #[test]
    fn what_is_on_its_way_to_who_lets_it_go_on_is_not_told_again() {
        let mut reads = Reads::new(2, 1_000);
        reads.begin(P, Offset(5));
        (5..9).for_each(|offset| reads.record(P, at(offset)));
        assert_eq!(told(&mut reads), [(5, vec![5, 6, 7, 8], 9, false)]);
        reads.record(P, at(9));
        for from in [5, 8, 9] {
            assert!(reads.hold(P) && reads.go_on(P, Offset(from)), "from {from}");
        }
        assert!(reads.hold(P) && !reads.go_on(P, Offset(4)), "that was not told since it was begun");
        assert!(!reads.resume(P, Offset(8)), "who resumes may have thrown away what is on its way");
        assert!(reads.resume(P, Offset(9)));
        assert_eq!(told(&mut reads), [(9, vec![9], 10, false)]);
    }

    #[test]
    fn large_records_are_not_held() {
        let mut reads = Reads::new(10, 1 << 20);
        reads.begin(P, Offset(0));
        let large = |offset| {
            let mut record = at(offset);
            record.record.value = Some(vec![0; SMALL].into());
            record
        };
        reads.record(P, large(0));
        assert!(!reads.hold(P));
        (1..20).for_each(|offset| reads.record(P, at(offset)));
        assert!(reads.hold(P), "small ones came since");
    }
}
