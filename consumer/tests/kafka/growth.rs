//! Partitions that are added under workers.

use std::time::Duration;

use keylane_consumer::{
    Error, Notice,
    group::kafka::Assignor,
    store::{ResetOrder, sqlite::SqliteStore},
};
use keylane_producer::{Log, log::kafka::KafkaLog};

use crate::rig::{Rig, slow_teller, teller};

/// R37: keys would change their places while they are worked on, so the workers stop and name the remedy; what was enqueued
/// before, meanwhile and after is done once it was carried out.
#[test]
fn when_partitions_are_added_the_workers_stop_with_the_remedy_and_no_job_is_lost() {
    let mut rig = Rig::new(3, Assignor::Cooperative);
    rig.enqueue_evenly(200);
    let each = Duration::from_millis(5);
    let workers = [rig.spawn("first", slow_teller("first", each)), rig.spawn("second", slow_teller("second", each))];
    rig.wait_for("both work", || workers.iter().all(|worker| worker.owned() > 0) && rig.told_count() > 20);
    rig.cluster().add_partitions(rig.topic(), 6).unwrap();
    // A producer hears of it before the workers do.
    rig.queue = KafkaLog::open(rig.settings.clone()).unwrap().describe(&rig.queue.name).unwrap().identity;
    assert_eq!(rig.queue.partitions.0.get(), 6);
    rig.enqueue_evenly(10);
    for worker in workers {
        rig.wait_for("it ends", || worker.is_over());
        let stale = worker.noticed(|notice| matches!(notice, Notice::WriteRefused { .. }));
        let error = worker.outcome().unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        let text = error.detail().chain();
        let remedy = error.detail().remedy_text().unwrap_or_default().to_owned();
        assert!(
            text.contains("keys would change their places") && remedy.contains("keylane fence reset"),
            "{text}: {remedy}"
        );
        assert_eq!(stale, 0);
    }
    let order = ResetOrder { who: "a person".into(), why: "more partitions".into(), dry_run: false };
    SqliteStore::new(rig.store_path()).reset(&rig.queue, &rig.group_name(), &order).unwrap();
    let summary = rig.run_until_empty("after", teller("after"));
    assert!(summary.clean, "{summary:?}");
    assert_eq!(rig.told_count(), 3 * 200 + 6 * 10);
    assert_eq!((rig.lag(), rig.count("SELECT count(*) FROM keylane_quarantine")), (0, 0));
    let twice = "SELECT count(*) FROM (SELECT 1 FROM told GROUP BY partition, offset HAVING count(*) > 1)";
    assert_eq!(rig.count(twice), 0);
}
