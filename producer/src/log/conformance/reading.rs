//! Claims about reading.

use bytes::Bytes;

use super::{Bench, Broker, WIDE, eventually, record, value_of};
use crate::{
    log::ReadLimit,
    partition::{Offset, Partition},
    record::Record,
};

const HERE: Partition = Partition(0);

/// A queue of one partition with so many records, all of them readable.
fn filled(broker: &dyn Broker, records: usize) -> Bench {
    let mut bench = Bench::new(broker, 1);
    bench.append((0..records).map(|at| (HERE, record("k", &format!("{at:04}")))).collect());
    bench.read_all(HERE, records);
    bench
}

/// By records, and after the record that reaches the bytes; one record comes however large it is.
pub fn a_read_stops_at_its_limits(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 1);
    let sized = |bytes: usize| Record { value: Some(Bytes::from(vec![b'x'; bytes])), ..record("k", "") };
    bench.append([99, 99, 99, 5_000, 99].map(|bytes| (HERE, sized(bytes))).to_vec());
    let all = bench.read_all(HERE, 5);
    let mut lengths = |from: usize, records, bytes| {
        let page = bench.log.read(&bench.queue, HERE, all[from].offset, ReadLimit { records, bytes });
        page.expect("a read succeeds").records.len()
    };
    assert_eq!(lengths(0, 2, usize::MAX), 2, "by records");
    assert_eq!(lengths(0, 10, 150), 2, "by bytes: the record that reaches them is the last");
    assert_eq!(lengths(0, 10, 200), 2, "by bytes, reached exactly");
    assert_eq!(lengths(0, 10, 201), 3, "by bytes, missed by one");
    assert_eq!(lengths(3, 10, 1), 1, "one record comes however large it is");
    assert_eq!(lengths(0, 0, 0), 1, "one record comes however small the limit is");
}

/// Page by page, nothing twice and nothing left out.
pub fn a_read_goes_on_where_the_last_one_stopped(broker: &dyn Broker) {
    let mut bench = filled(broker, 100);
    for records in [1, 7, 100, 1_000] {
        let mut from = Offset(0);
        let mut found = Vec::new();
        while found.len() < 100 {
            let limit = ReadLimit { records, bytes: usize::MAX };
            let page = bench.log.read(&bench.queue, HERE, from, limit).expect("a read succeeds");
            assert!(page.next > from || page.records.is_empty(), "a page with records leads on");
            assert!(page.records.iter().all(|r| from <= r.offset && r.offset < page.next), "a page is what it covers");
            from = page.next;
            found.extend(page.records.iter().map(value_of));
        }
        let expected: Vec<String> = (0..100).map(|at| format!("{at:04}")).collect();
        assert_eq!(found, expected, "pages of {records}");
    }
}

/// An empty page leads to the end and stays there; what comes later is found from there.
pub fn a_read_at_the_end_says_so(broker: &dyn Broker) {
    let mut bench = filled(broker, 3);
    let end = bench.log.bounds(&bench.queue, HERE).expect("asking succeeds").end;
    let page = bench.log.read(&bench.queue, HERE, end, WIDE).expect("a read at the end succeeds");
    assert!(page.records.is_empty(), "{page:?}");
    assert_eq!(page.next, end);
    bench.append(vec![(HERE, record("k", "later"))]);
    let found = eventually("the later record", || {
        bench.log.read(&bench.queue, HERE, end, WIDE).expect("a read succeeds").records.pop()
    });
    assert_eq!(value_of(&found), "later");
}

/// Exactly the ones asked for, ascending.
pub fn reading_at_offsets_leaves_out_what_is_missing(broker: &dyn Broker) {
    let mut bench = filled(broker, 10);
    let all = bench.read_all(HERE, 10);
    let end = bench.log.bounds(&bench.queue, HERE).expect("asking succeeds").end;
    let asked = [all[0].offset, all[4].offset, all[9].offset, end, Offset(end.0 + 1_000), Offset(1 << 62)];
    let found = bench.log.read_at(&bench.queue, HERE, &asked).expect("a read succeeds");
    assert_eq!(found, [all[0].clone(), all[4].clone(), all[9].clone()]);
    assert_eq!(bench.log.read_at(&bench.queue, HERE, &[]).expect("a read succeeds"), []);
}

/// Empty at first; then every record lies between them.
pub fn bounds_hold_all_that_is_there(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 1);
    let before = bench.log.bounds(&bench.queue, HERE).expect("asking succeeds");
    assert_eq!(before.start, before.end, "an empty partition starts at its end");
    let receipts = bench.append((0..3).map(|_| (HERE, record("k", "v"))).collect());
    bench.read_all(HERE, 3);
    let after = bench.log.bounds(&bench.queue, HERE).expect("asking succeeds");
    assert!(after.start <= receipts[0].offset && receipts[2].offset < after.end, "{after:?} holds {receipts:?}");
    assert!(before.end <= receipts[0].offset, "records come at the end: {before:?}, {receipts:?}");
}
