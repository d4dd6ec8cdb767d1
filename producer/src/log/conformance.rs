//! What every log adapter must do, each claim a function, so that a failure has a name.
//!
//! An adapter says `log_conformance!(its_broker())` in a test module and gets a `#[test]` for each claim; [`suite`] runs
//! them all in one. A claim makes queues under names of its own, so one broker can serve all of them at once.
//!
//! The suite asks only for what the port promises. It allows offsets with gaps, records and queues that show up a moment
//! after they were acknowledged (each wait has a limit), and batches that are not atomic.

use std::{
    fmt::Debug,
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;

use crate::{
    Receipt, StoredRecord,
    job::Timestamp,
    log::{Log, ReadLimit},
    partition::{Offset, Partition, PartitionCount},
    queue::{QueueIdentity, QueueName, QueueSpec},
    record::Record,
};

mod appending;
mod queues;
mod reading;

pub use appending::*;
pub use queues::*;
pub use reading::*;

/// A broker that the suite may fill: every connection from it sees the same queues, also after all earlier ones are gone.
pub trait Broker: Sync {
    /// A new connection.
    fn open(&self) -> Box<dyn Log>;
}

/// With a broker: a `#[test]` for each claim. The expression is evaluated in each of them.
#[macro_export]
macro_rules! log_conformance {
    (@tests $broker:expr; $($claim:ident)*) => {
        $(
            #[test]
            fn $claim() {
                $crate::log::conformance::$claim(&$broker);
            }
        )*
    };
    (@run $broker:expr; $($claim:ident)*) => {
        $(
            eprintln!("claim: {}", stringify!($claim));
            $crate::log::conformance::$claim($broker);
        )*
    };
    (@claims $then:ident $broker:expr) => {
        $crate::log_conformance! { @$then $broker;
            a_queue_is_described_as_it_was_made
            a_queue_is_made_once
            a_count_change_is_refused_as_a_migration
            an_unknown_queue_names_those_that_are_there
            a_partition_that_is_not_there_is_refused
            queues_do_not_mix
            records_of_a_partition_keep_their_order
            receipts_name_where_the_records_are
            records_survive_byte_for_byte
            the_largest_job_survives
            an_empty_batch_appends_nothing
            two_writers_lose_nothing_and_keep_each_one_s_order
            acknowledged_records_survive_a_reopen
            a_checkpoint_commits_with_its_records
            a_checkpoint_belongs_to_its_source
            an_empty_key_never_gets_to_the_log
            a_read_stops_at_its_limits
            a_read_goes_on_where_the_last_one_stopped
            a_read_at_the_end_says_so
            reading_at_offsets_leaves_out_what_is_missing
            bounds_hold_all_that_is_there
        }
    };
    ($broker:expr) => {
        $crate::log_conformance! { @claims tests $broker }
    };
}

/// All claims, one after another.
///
/// # Panics
/// At the first claim that does not hold; its name is the last one printed.
pub fn suite(broker: &dyn Broker) {
    log_conformance!(@claims run broker);
}

/// A queue of its own for one claim, and a connection to it.
struct Bench {
    log: Box<dyn Log>,
    queue: QueueIdentity,
}

impl Bench {
    fn new(broker: &dyn Broker, partitions: u32) -> Self {
        let mut log = broker.open();
        let spec = QueueSpec::new(fresh_name(), count(partitions));
        let queue = log.create(&spec).expect("a new queue can be made");
        eventually("the new queue to be there", || log.describe(&spec.name).ok());
        Self { log, queue }
    }

    fn append(&mut self, records: Vec<(Partition, Record)>) -> Vec<Receipt> {
        self.log.append(&self.queue, records, None).expect("an append without a fault succeeds")
    }

    /// Reads from the start until as many records are there; a fault if there are more.
    fn read_all(&mut self, partition: Partition, expected: usize) -> Vec<StoredRecord> {
        let mut records = Vec::new();
        let mut from = Offset(0);
        eventually(&format!("{expected} records in partition {partition}"), || {
            let page = self.log.read(&self.queue, partition, from, WIDE).expect("a read without a fault succeeds");
            from = page.next;
            records.extend(page.records);
            (records.len() >= expected).then_some(())
        });
        assert_eq!(records.len(), expected, "records in partition {partition}");
        records
    }
}

const WIDE: ReadLimit = ReadLimit { records: 10_000, bytes: usize::MAX };

fn count(partitions: u32) -> PartitionCount {
    PartitionCount(NonZeroU32::new(partitions).expect("a claim's queue has partitions"))
}

/// A name that no other claim and no earlier run has.
fn fresh_name() -> QueueName {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("claim-{}-{number}", ulid::Ulid::generate()).parse().expect("a ULID and a number fit into a name")
}

fn record(key: &str, value: &str) -> Record {
    Record {
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Vec::new(),
        // Not an old one: a broker's retention would remove it while the claim looks.
        timestamp: Timestamp::now(),
    }
}

fn value_of(stored: &StoredRecord) -> String {
    let value = stored.record.value.as_deref().expect("a claim's record has a value");
    String::from_utf8(value.to_vec()).expect("a claim's value is text")
}

/// Asks again and again, for up to 20 s, until there is an answer.
fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    const NAP: Duration = Duration::from_millis(20);
    for _ in 0..1_000 {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::park_timeout(NAP);
    }
    panic!("waited in vain for {what}");
}

fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) {
    assert!(found == expected, "{what} differ\n found    {found:?}\n expected {expected:?}");
}
