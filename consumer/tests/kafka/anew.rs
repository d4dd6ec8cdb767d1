//! A topic that is deleted, and made again under the same name, beneath a worker.

use keylane_consumer::{
    Error,
    group::kafka::Assignor,
    store::{ResetOrder, sqlite::SqliteStore},
};
use keylane_producer::{Log, QueueSpec, log::kafka::KafkaLog};

use crate::rig::{Rig, teller};

/// A worker that has done two jobs of the first making; then there is the second one.
fn made_anew(identity: bool) -> (Rig, crate::rig::Running) {
    let mut rig = Rig::with(1, Assignor::Cooperative, move |settings, _| settings.guards.identity = identity);
    rig.enqueue(1..=2, |n| format!("before-{n}"));
    let worker = rig.spawn("worker", teller("worker"));
    rig.wait_for("both jobs", || rig.told_count() == 2);
    rig.cluster().delete_topic(rig.topic()).unwrap();
    let mut log = KafkaLog::open(rig.settings.clone()).unwrap();
    let spec = QueueSpec::new(rig.queue.name.clone(), rig.queue.partitions);
    let mut made = None;
    rig.wait_for("it can be made again", || {
        made = log.create(&spec).ok();
        made.is_some()
    });
    let before = std::mem::replace(&mut rig.queue, made.unwrap());
    assert_ne!(rig.queue.incarnation, before.incarnation);
    (rig, worker)
}

/// Its offsets begin again, and the old markers would hide jobs. Nobody joins anew for it, so no claim would find it out; and
/// the worker goes on committing the old offsets, which would hide the jobs from its successor.
#[test]
fn a_topic_that_was_made_anew_ends_the_worker_and_after_a_reset_its_jobs_run() {
    let (rig, worker) = made_anew(true);
    rig.wait_for("it ends", || worker.is_over());
    rig.enqueue(1..=3, |n| format!("after-{n}"));
    let error = worker.outcome().unwrap_err();
    let text = format!("{} / {:?}", error.detail().chain(), error.detail().remedy_text());
    assert!(matches!(error, Error::Refused(_)) && text.contains("another one now"), "{text}");
    assert!(text.contains("keylane fence reset"), "{text}");
    let order = ResetOrder { who: "a person".into(), why: "made anew".into(), dry_run: false };
    SqliteStore::new(rig.store_path()).reset(&rig.queue, &rig.group_name(), &order).unwrap();
    let summary = rig.run_until_empty("after", teller("after"));
    assert_eq!((summary.applied, summary.clean, rig.told_count()), (3, true, 5));
}

/// The twin: the markers of the first making hide two of the three jobs for ever.
#[test]
fn without_a_look_at_the_identity_old_markers_hide_new_jobs() {
    let (rig, worker) = made_anew(false);
    rig.enqueue(1..=3, |n| format!("after-{n}"));
    rig.wait_for("it runs what is not hidden", || rig.told_count() == 3);
    rig.wait_for("it counts all as finished", || rig.committed().is_some_and(|c| c.get(&0) == Some(&3)));
    assert_eq!(rig.told_count(), 3, "two of three are lost");
    drop(worker.end());
}
