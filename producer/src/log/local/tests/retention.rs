//! What expires, and what never does.

use super::*;
use crate::{Timestamp, log::local::Expired};

const NOW: Timestamp = Timestamp(1_700_000_000_000 + 8 * 24 * 3_600_000);

/// What the group adapter does at a commit.
fn finish(files: &Files, group: &str, next_offset: i64) {
    let put = "INSERT OR REPLACE INTO keylane_finished (queue_id, grp, part, next_offset, at) VALUES (1, ?1, 0, ?2, 0)";
    files.sqlite().execute(put, (group, next_offset)).unwrap();
}

fn setting(retention: Retention, records: usize) -> (Files, LocalLog, QueueIdentity) {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 2, retention);
    fill(&mut log, &queue, records);
    (files, log, queue)
}

fn first(log: &mut LocalLog, queue: &QueueIdentity) -> u64 {
    log.bounds(queue, Partition(0)).unwrap().start.0
}

#[test]
fn nothing_expires_before_a_group_has_finished_it() {
    let (files, mut log, queue) = setting(seven_days(), 10);
    assert_eq!(log.expire(&queue, NOW).unwrap(), Expired::default(), "no group has started");
    finish(&files, "a", 7);
    finish(&files, "b", 4);
    assert_eq!(log.expire(&queue, NOW).unwrap(), Expired { records: 4, bytes: 20 });
    assert_eq!(first(&mut log, &queue), 4, "the slowest group decides");
    finish(&files, "b", 9);
    assert_eq!(log.expire(&queue, NOW).unwrap().records, 3);
    assert_eq!(first(&mut log, &queue), 7);
}

#[test]
fn a_young_record_stays_and_keeps_those_behind_it() {
    let (files, mut log, queue) = setting(seven_days(), 3);
    let young = Record { timestamp: NOW, ..record("young") };
    log.append(&queue, vec![(Partition(0), young), (Partition(0), record("old"))], None).unwrap();
    finish(&files, "a", 5);
    let exactly_seven_days = Timestamp(NOW.0 - 24 * 3_600_000);
    assert_eq!(log.expire(&queue, exactly_seven_days).unwrap().records, 0, "seven days are not more than seven days");
    assert_eq!(log.expire(&queue, NOW).unwrap().records, 3);
    assert_eq!(first(&mut log, &queue), 3);
}

#[test]
fn size_removes_the_oldest_until_the_rest_fits() {
    let retention = Retention { age: None, bytes: Some(25) };
    let (files, mut log, queue) = setting(retention, 10);
    finish(&files, "a", 10);
    assert_eq!(log.expire(&queue, Timestamp(0)).unwrap(), Expired { records: 5, bytes: 25 });
    assert_eq!(log.expire(&queue, Timestamp(0)).unwrap(), Expired::default(), "25 bytes fit into 25");
    fill(&mut log, &queue, 1);
    assert_eq!(log.expire(&queue, Timestamp(0)).unwrap().records, 1);
    assert_eq!(first(&mut log, &queue), 6);
}

#[test]
fn without_limits_nothing_expires() {
    let (files, mut log, queue) = setting(Retention { age: None, bytes: None }, 10);
    finish(&files, "a", 10);
    assert_eq!(log.expire(&queue, Timestamp(i64::MAX)).unwrap(), Expired::default());
}

#[test]
fn offsets_go_on_after_everything_has_expired() {
    let (files, mut log, queue) = setting(seven_days(), 10);
    finish(&files, "a", 10);
    assert_eq!(log.expire(&queue, NOW).unwrap().records, 10);
    let bounds = log.bounds(&queue, Partition(0)).unwrap();
    assert_eq!((bounds.start, bounds.end), (Offset(10), Offset(10)));
    drop(log);
    let mut log = files.log();
    let receipts = log.append(&queue, vec![(Partition(0), record("next"))], None).unwrap();
    assert_eq!(receipts[0].offset, Offset(10));
}

/// The twin of the one above: it is the counter that holds, not the rows.
#[test]
fn without_the_counter_an_offset_would_come_again() {
    let (files, mut log, queue) = setting(seven_days(), 10);
    finish(&files, "a", 10);
    log.expire(&queue, NOW).unwrap();
    files.sqlite().execute("UPDATE keylane_partition SET next_offset = 0", []).unwrap();
    let receipts = log.append(&queue, vec![(Partition(0), record("again"))], None).unwrap();
    assert_eq!(receipts[0].offset, Offset(0));
}

#[test]
fn a_read_from_below_the_start_answers_from_the_start() {
    let (files, mut log, queue) = setting(seven_days(), 10);
    finish(&files, "a", 6);
    log.expire(&queue, NOW).unwrap();
    let page = log.read(&queue, Partition(0), Offset(2), ReadLimit { records: 2, bytes: usize::MAX }).unwrap();
    assert_eq!(page.records.iter().map(|r| r.offset.0).collect::<Vec<_>>(), [6, 7]);
    assert_eq!(page.next, Offset(8));
    finish(&files, "a", 10);
    log.expire(&queue, NOW).unwrap();
    let page = log.read(&queue, Partition(0), Offset(2), ReadLimit { records: 2, bytes: usize::MAX }).unwrap();
    assert!(page.records.is_empty());
    assert_eq!(page.next, Offset(10), "a head that expired is not waited for");
    let gone = log.read_at(&queue, Partition(0), &[Offset(2)]).unwrap();
    assert!(gone.is_empty());
}

/// A commit hook counts the transactions.
#[test]
fn much_expires_in_bounded_bites() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static COMMITS: AtomicUsize = AtomicUsize::new(0);
    let (files, mut log, queue) = setting(seven_days(), 2_500);
    finish(&files, "a", 2_500);
    log.connection()
        .commit_hook(Some(|| {
            COMMITS.fetch_add(1, Ordering::Relaxed);
            false
        }))
        .unwrap();
    assert_eq!(log.expire(&queue, NOW).unwrap().records, 2_500);
    assert_eq!(COMMITS.load(Ordering::Relaxed), 3, "1,000 records at most in each");
    assert!(read_all(&mut log, &queue, Partition(0)).is_empty());
}
