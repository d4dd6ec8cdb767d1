//! Claims about queues.

use std::time::Duration;

use super::{Bench, Broker, WIDE, count, eventually, fresh_name, record, value_of};
use crate::{
    error::Error,
    partition::{Offset, Partition},
    queue::{QueueSpec, Retention},
};

/// Name, partition count and retention come back; two connections see one identity; the name is listed.
pub fn a_queue_is_described_as_it_was_made(broker: &dyn Broker) {
    let retention = Retention { age: Some(Duration::from_secs(3_600)), bytes: Some(1 << 30) };
    let spec = QueueSpec { retention, ..QueueSpec::new(fresh_name(), count(7)) };
    let made = broker.open().create(&spec).expect("a new queue can be made");
    assert_eq!(made.name, spec.name);
    assert_eq!(made.partitions, spec.partitions);
    assert!(!made.cluster.is_empty() && !made.incarnation.0.is_empty(), "{made:?} names its broker and its making");

    let mut other = broker.open();
    let described = eventually("another connection to see the queue", || other.describe(&spec.name).ok());
    assert_eq!(described.identity, made);
    assert_eq!(described.retention, retention);
    let names = eventually("the queue to be listed", || other.queues().ok().filter(|n| n.contains(&spec.name)));
    assert!(names.is_sorted(), "queues are listed by name: {names:?}");
}

/// Making it again with the same count is refused, and the queue is as before.
pub fn a_queue_is_made_once(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 3);
    let again = QueueSpec::new(bench.queue.name.clone(), count(3));
    let error = bench.log.create(&again).expect_err("the second making is refused");
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert!(text(&error).contains("there already"), "{}", text(&error));
    assert_eq!(bench.log.describe(&again.name).expect("the queue is there").identity, bench.queue);
}

/// Another count is refused too, and the answer says what it would be.
pub fn a_count_change_is_refused_as_a_migration(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 3);
    let wider = QueueSpec::new(bench.queue.name.clone(), count(4));
    let error = bench.log.create(&wider).expect_err("the other count is refused");
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert!(text(&error).contains("migration"), "{}", text(&error));
    assert_eq!(bench.log.describe(&wider.name).expect("the queue is there").identity, bench.queue);
}

/// A mistyped name shows the right ones.
pub fn an_unknown_queue_names_those_that_are_there(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 1);
    let unknown = fresh_name();
    let error = bench.log.describe(&unknown).expect_err("there is no such queue");
    assert!(matches!(error, Error::NotFound(_)), "{error:?}");
    assert!(text(&error).contains(unknown.as_str()), "{}", text(&error));
    assert!(text(&error).contains(bench.queue.name.as_str()), "{}", text(&error));
}

/// Neither read nor written; nothing of the batch that names it is there.
pub fn a_partition_that_is_not_there_is_refused(broker: &dyn Broker) {
    let mut bench = Bench::new(broker, 2);
    let error = bench.log.read(&bench.queue, Partition(2), Offset(0), WIDE).expect_err("partitions are 0 and 1");
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    let batch = vec![(Partition(2), record("k", "v"))];
    let error = bench.log.append(&bench.queue, batch, None).expect_err("partitions are 0 and 1");
    assert!(matches!(error.cause, Error::Invalid(_)), "{error:?}");
    assert!(error.rest_is_absent && error.sent == [None], "{error:?}");
}

/// The same partition number of two queues is two places.
pub fn queues_do_not_mix(broker: &dyn Broker) {
    let mut one = Bench::new(broker, 1);
    let mut two = Bench::new(broker, 1);
    one.append(vec![(Partition(0), record("k", "one"))]);
    two.append(vec![(Partition(0), record("k", "two"))]);
    assert_eq!(value_of(&one.read_all(Partition(0), 1)[0]), "one");
    assert_eq!(value_of(&two.read_all(Partition(0), 1)[0]), "two");
}

fn text(error: &Error) -> String {
    format!("{error}: {}", error.detail().remedy_text().unwrap_or_default())
}
