//! All of a batch or nothing, whatever the disk says.

use rusqlite::TransactionBehavior;

use super::{children::Child, *};
use crate::{Error, log::Checkpoint};

/// SQLite's own limit stands in for a full disk: the same answer, without needing one.
#[test]
fn a_full_disk_takes_nothing_of_a_batch_and_loses_nothing_before_it() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 2, seven_days());
    fill(&mut log, &queue, 10);
    let pages: i64 = log.connection().query_row("PRAGMA page_count", [], |r| r.get(0)).unwrap();
    log.connection().pragma_update_and_check(None, "max_page_count", pages + 2, |_| Ok(())).unwrap();

    let large = |at: u32| (Partition(at % 2), record("x".repeat(3_000)));
    let checkpoint = Checkpoint { source: "a".into(), position: 20, digest: "".into(), complete: true };
    let error = log.append(&queue, (0..20).map(large).collect(), Some(&checkpoint)).unwrap_err();
    assert!(matches!(error.cause, Error::Unavailable(_)), "{error:?}");
    assert!(error.cause.detail().remedy_text().unwrap().contains("disk is full"), "{error:?}");
    assert_eq!((error.sent, error.rest_is_absent), (vec![None; 20], true));

    let mut again = files.log();
    assert_eq!(read_all(&mut again, &queue, Partition(0)).len(), 10);
    assert_eq!(read_all(&mut again, &queue, Partition(1)).len(), 0);
    assert_eq!(again.checkpoint(&queue, "a").unwrap(), None);

    log.connection().pragma_update_and_check(None, "max_page_count", 1_000_000, |_| Ok(())).unwrap();
    let receipts = log.append(&queue, (0..20).map(large).collect(), Some(&checkpoint)).unwrap();
    assert_eq!(receipts[0].offset, Offset(10), "the refused batch used up no offsets");
}

/// A batch with one bad record is refused whole, also the records before it.
#[test]
fn a_batch_with_a_partition_that_is_not_there_leaves_nothing() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 1, seven_days());
    let error = log.append(&queue, vec![(Partition(0), record("a")), (Partition(1), record("b"))], None).unwrap_err();
    assert!(matches!(error.cause, Error::Invalid(_)) && error.rest_is_absent, "{error:?}");
    assert!(read_all(&mut log, &queue, Partition(0)).is_empty());
}

/// In a child, whose files may not grow beyond a limit: the write of the COMMIT fails there.
#[test]
fn a_commit_that_the_disk_answers_with_an_error_is_unknown() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 1, seven_days());
    fill(&mut log, &queue, 10);
    let lines = Child::GrowUntilRefused.run_with_small_files(&files.path());
    let (last, receipts) = lines.split_last().unwrap();
    assert_eq!(last, "refused: rest_is_absent=false kind=unavailable");
    assert!(!receipts.is_empty(), "some appends succeeded before");
    let found = read_all(&mut files.log(), &queue, Partition(0));
    assert!(found.len() >= 10 + receipts.len(), "{} acknowledged, {} there", receipts.len(), found.len());
}

#[test]
fn a_writer_that_keeps_the_lock_is_waited_for_and_then_named() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 1, seven_days());
    fill(&mut log, &queue, 1);
    let mut holder = files.sqlite();
    let held = holder.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();

    // Opening and reading need no lock.
    let mut brisk = LocalLog::open(&files.path(), Open::Existing, Patience::Brisk).unwrap();
    assert_eq!(read_all(&mut brisk, &queue, Partition(0)).len(), 1);
    let error = brisk.append(&queue, vec![(Partition(0), record("late"))], None).unwrap_err();
    assert!(matches!(error.cause, Error::Unavailable(_)) && error.rest_is_absent, "{error:?}");
    assert!(error.cause.detail().remedy_text().unwrap().contains("write lock"), "{error:?}");

    held.rollback().unwrap();
    brisk.append(&queue, vec![(Partition(0), record("late"))], None).unwrap();
}

#[test]
fn a_file_that_can_only_be_read_refuses_appends() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 1, seven_days());
    fill(&mut log, &queue, 1);
    let only_reads = rusqlite::Connection::open_with_flags(files.path(), rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY);
    let mut reader = LocalLog::on(only_reads.unwrap()).unwrap();
    assert_eq!(read_all(&mut reader, &queue, Partition(0)).len(), 1);
    let error = reader.append(&queue, vec![(Partition(0), record("b"))], None).unwrap_err();
    assert!(matches!(error.cause, Error::Refused(_)) && error.rest_is_absent, "{error:?}");
    assert!(error.cause.detail().remedy_text().unwrap().contains("writable"), "{error:?}");
}
