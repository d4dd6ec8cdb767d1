//! A queue is recognised again by its making, and offsets never come twice.

use super::*;
use crate::{Error, queue::Incarnation};

#[test]
fn a_queue_that_was_made_anew_takes_nothing_of_the_old_one_s() {
    let files = Files::new();
    let mut log = files.log();
    let opened = queue(&mut log, 1, seven_days());
    files.sqlite().execute("UPDATE keylane_queue SET incarnation = 'anew'", []).unwrap();

    let error = log.append(&opened, vec![(Partition(0), record("stale"))], None).unwrap_err();
    assert!(matches!(error.cause, Error::NotFound(_)), "{error:?}");
    assert!(error.rest_is_absent);
    assert!(matches!(log.bounds(&opened, Partition(0)), Err(Error::NotFound(_))));
    assert!(matches!(log.checkpoint(&opened, "a"), Err(Error::NotFound(_))));
    assert!(matches!(log.queue_id(&opened), Err(Error::NotFound(_))));

    // The twin: with the new making's name the same calls go through, so it was the comparison that held them off.
    let anew = QueueIdentity { incarnation: Incarnation("anew".into()), ..opened };
    assert!(read_all(&mut log, &anew, Partition(0)).is_empty());
    log.append(&anew, vec![(Partition(0), record("fresh"))], None).unwrap();
    assert_eq!(log.queue_id(&anew).unwrap(), 1);
}

#[test]
fn a_queue_of_another_file_is_not_this_one() {
    let files = Files::new();
    let mut log = files.log();
    let other = QueueIdentity { cluster: "another file".into(), ..queue(&mut log, 1, seven_days()) };
    assert!(matches!(log.bounds(&other, Partition(0)), Err(Error::NotFound(_))));
}

#[test]
fn two_files_are_two_clusters() {
    let cluster = || {
        let files = Files::new();
        let mut log = files.log();
        queue(&mut log, 1, seven_days())
    };
    let (one, two) = (cluster(), cluster());
    assert_ne!(one.cluster, two.cluster);
    assert_ne!(one.incarnation, two.incarnation);
}

#[test]
fn too_many_partitions_are_refused() {
    let files = Files::new();
    let mut log = files.log();
    let partitions = crate::PartitionCount(std::num::NonZeroU32::new(4_097).unwrap());
    let spec = QueueSpec { retention: seven_days(), ..QueueSpec::new("jobs".parse().unwrap(), partitions) };
    assert!(matches!(log.create(&spec), Err(Error::Invalid(_))));
    assert!(log.queues().unwrap().is_empty());
}

#[test]
fn the_widest_queue_works() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 4_096, seven_days());
    let batch: Vec<_> = queue.partitions.all().map(|p| (p, record(p.to_string()))).collect();
    log.append(&queue, batch, None).unwrap();
    let last = read_all(&mut files.log(), &queue, Partition(4_095)).remove(0);
    assert_eq!(last.record, record("4095"));
}
