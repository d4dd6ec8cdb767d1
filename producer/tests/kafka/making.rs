//! Queues as topics: what is made, what is refused, what makes two of them differ.

use std::time::Duration;

use keylane_producer::{
    Error, Log, QueueSpec, Retention,
    queue::{GroupName, Replication},
};

use super::{log, spec};

fn with(factor: u16, min_in_sync: u16, unsafe_too: bool) -> QueueSpec {
    QueueSpec { replication: Some(Replication { factor, min_in_sync, unsafe_too }), ..spec(1) }
}

#[test]
fn numbers_of_copies_that_lose_jobs_are_refused_unless_it_is_said_so() {
    let mut log = log();
    for (factor, min_in_sync, why) in [
        (1, 1, "the death of one disk loses jobs"),
        (3, 1, "the death of one disk loses jobs"),
        (3, 3, "every restart of a broker stops all who enqueue"),
        (2, 2, "every restart of a broker stops all who enqueue"),
    ] {
        let refused = log.create(&with(factor, min_in_sync, false)).unwrap_err();
        let remedy = refused.detail().remedy_text().unwrap_or_default().to_owned();
        assert!(matches!(refused, Error::Invalid(_)) && refused.detail().what().contains(why), "{refused:?}");
        assert!(remedy.contains("--unsafe"), "{remedy}");
        log.create(&with(factor, min_in_sync, true)).unwrap();
    }
    log.create(&with(3, 2, false)).unwrap();
}

#[test]
fn more_copies_than_brokers_are_refused_in_any_case() {
    let mut log = log();
    for unsafe_too in [false, true] {
        let refused = log.create(&with(4, 3, unsafe_too)).unwrap_err();
        assert!(refused.detail().what().contains("4 copies, and there are 3 brokers"), "{refused:?}");
    }
    let refused = log.create(&with(2, 3, true)).unwrap_err();
    assert!(refused.detail().what().contains("1 to 2"), "{refused:?}");
}

#[test]
fn retention_is_the_topics() {
    let mut log = log();
    for retention in [
        Retention { age: Some(Duration::from_secs(7_200)), bytes: Some(1 << 20) },
        Retention { age: None, bytes: None },
    ] {
        let spec = QueueSpec { retention, ..spec(1) };
        log.create(&spec).unwrap();
        assert_eq!(log.describe(&spec.name).unwrap().retention, retention);
    }
}

#[test]
fn a_topic_that_was_made_anew_is_another_queue() {
    let mut log = log();
    let spec = spec(2);
    let first = log.create(&spec).unwrap();
    log.delete(&spec.name, &"workers".parse::<GroupName>().unwrap()).unwrap();
    let mut made = log.create(&spec);
    for _ in 0..100 {
        // The brokers hear of the end one after another.
        let Err(Error::Invalid(_)) = made else { break };
        std::thread::park_timeout(Duration::from_millis(100));
        made = log.create(&spec);
    }
    let second = made.unwrap();
    assert_ne!(first.incarnation, second.incarnation);
    assert_eq!((first.cluster, first.name), (second.cluster, second.name));
}
