//! Appending while brokers die: what is told is what is on the log.

use keylane_producer::{
    Error, Log, Partition, QueueSpec,
    kafka::{KafkaSettings, PropertySource},
    log::kafka::KafkaLog,
    queue::Replication,
};
use keylane_testing::kafka::{Cluster, Options};

use super::{read_all, record, spec};

/// Each partition has a copy on each broker and needs two in sync, or three.
fn make(log: &mut KafkaLog, min_in_sync: u16) -> keylane_producer::QueueIdentity {
    let replication = Some(Replication { factor: 3, min_in_sync, unsafe_too: true });
    log.create(&QueueSpec { replication, ..spec(3) }).unwrap()
}

#[test]
fn too_few_copies_in_sync_are_named_and_nothing_is_half_reported() {
    let cluster = Cluster::start(&Options::new(3)).unwrap();
    let mut settings = KafkaSettings::new(cluster.bootstrap().parse().unwrap());
    settings.set("message.timeout.ms=6000", PropertySource::Flag).unwrap();
    let mut log = KafkaLog::open(settings).unwrap();
    let (all, two) = (make(&mut log, 3), make(&mut log, 2));
    let batch = |prefix: &'static str| (0..3).map(|p| (Partition(p), record("k", prefix))).collect::<Vec<_>>();
    log.append(&all, batch("whole"), None).unwrap();
    cluster.kill(2).unwrap();

    // A queue that needs two copies goes on once the controller has noticed, and so does the connection.
    // Each try lasts up to 6 s, and the controller takes 9 s to notice.
    let went_on = (0..20).any(|_| log.append(&two, batch("two of three"), None).is_ok());
    assert!(went_on, "it never went on");

    let failed = log.append(&all, batch("after"), None).unwrap_err();
    assert!(matches!(failed.cause, Error::Unavailable(_)), "{:?}", failed.cause);
    let text = format!("{} / {:?}", failed.cause.detail().chain(), failed.cause.detail().remedy_text());
    assert!(text.contains("in sync") && text.contains("min.insync.replicas"), "{text}");

    // Without enough copies a new leader does not even tell where its partition ends.
    cluster.restart(2).unwrap();
    for partition in 0..3 {
        let on_log = read_all(&mut log, &all, Partition(partition)).len();
        let sent = usize::from(failed.sent[partition as usize].is_some());
        let least = 1 + sent;
        if sent == 1 || failed.rest_is_absent {
            assert_eq!(on_log, least, "partition {partition}, {failed:?}");
        } else {
            assert!((least..=least + 1).contains(&on_log), "partition {partition}: {on_log}, {failed:?}");
        }
    }
}
