//! Offsets that hold no job: a worker's position passes them, and what is left to do is none.

use std::{sync::Arc, time::Duration};

use keylane_consumer::{JobContext, group::kafka::Assignor};
use keylane_producer::{
    Log, Offset, Partition,
    log::{Checkpoint, kafka::KafkaLog},
};
use keylane_testing::kafka::{Produce, Record, Transaction};
use tokio::sync::Semaphore;

use crate::rig::{How, Rig, Shown, tell, teller, wait_for};

const P0: Partition = Partition(0);

/// R17, R46: transactions by another client, some of them aborted, and by an import of ours.
#[test]
fn markers_and_aborted_transactions_are_passed_over_and_no_aborted_job_runs() {
    let rig = Rig::new(2, Assignor::Cooperative);
    let mut kept = 0;
    for n in 0..20 {
        let id = format!("transactions-of-{}", rig.topic());
        let aborted = n % 4 == 3;
        let keys: Vec<String> =
            (0..3).map(|k| format!("{}-{n}-{k}", if aborted { "aborted" } else { "kept" })).collect();
        let records: Vec<_> = keys.iter().map(|key| Record::new(key, "v")).collect();
        let transaction = if aborted { Transaction::Abort(&id) } else { Transaction::Commit(&id) };
        let how = Produce { transaction: Some(transaction), ..Produce::default() };
        rig.cluster().java_produce(rig.topic(), &records, how).unwrap();
        kept += if aborted { 0 } else { 3 };
    }
    let mut log = KafkaLog::open(rig.settings.clone()).unwrap();
    let imported = keylane_producer::Record {
        key: Some(rig.key_of(P0).into()),
        value: None,
        headers: Vec::new(),
        timestamp: keylane_producer::Timestamp::now(),
    };
    let checkpoint = Checkpoint { source: "file".into(), position: 1, digest: "d".into(), complete: true };
    log.append(&rig.queue, vec![(P0, imported)], Some(&checkpoint)).unwrap();
    kept += 1;
    let shown = Shown::default();
    let worker = rig.start("w", &How { shown: shown.clone(), ..How::default() }, teller("w"), |_| {});
    rig.wait_for("those who watch are told that nothing waits", || shown.lags(2).last() == Some(&0));
    let summary = worker.end();
    assert_eq!((summary.applied, summary.clean), (kept, true));
    assert!(!rig.told().iter().any(|told| told.key.starts_with("aborted")));
    assert_eq!(rig.lag(), 0, "the position is at the end, markers included");
    rig.assert_once_in_order(usize::try_from(kept).unwrap());
    // Nobody takes a marker for a job.
    assert_eq!(rig.run_until_empty("v", teller("v")).applied, 0);
}

/// R17: half of the records are compacted away.
#[test]
fn what_compaction_took_is_passed_over() {
    let rig = Rig::new(1, Assignor::Cooperative);
    for (name, value) in [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("max.compaction.lag.ms", "100"),
    ] {
        rig.cluster().alter_topic_config(rig.topic(), name, value).unwrap();
    }
    // Each key twice: the first ones go.
    rig.enqueue(1..=20, |n| format!("k{}", (n - 1) % 10));
    let mut log = KafkaLog::open(rig.settings.clone()).unwrap();
    let firsts: Vec<Offset> = (0..10).map(Offset).collect();
    let mut more = 0;
    wait_for("the first of each key is compacted away", || {
        // A segment is closed by what comes after it.
        rig.enqueue(1..=1, |_| "roller".into());
        more += 1;
        let pause = Duration::from_millis(500);
        std::thread::park_timeout(pause);
        log.read_at(&rig.queue, P0, &firsts).unwrap().is_empty()
    });
    let summary = rig.run_until_empty("w", teller("w"));
    assert!(summary.clean && (11..=10 + more).contains(&summary.applied), "{summary:?}");
    let told = rig.told();
    assert!((0..10).all(|n| told.iter().filter(|told| told.key == format!("k{n}")).count() == 1), "{told:?}");
    assert_eq!(rig.lag(), 0);
}

/// R17: the head expires while a slow job holds the position below it.
#[test]
fn a_head_that_expires_under_a_slow_job_is_passed_over() {
    let rig = Rig::with(1, Assignor::Cooperative, |settings, _| {
        settings.lanes.running = 2;
        // The worker reads no further than this ahead of its slow job.
        settings.lanes.known_jobs = 10;
        settings.lanes.held_jobs = 10;
    });
    rig.enqueue(1..=60, |n| format!("k{n}"));
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let worker = rig.spawn("w", move |job: JobContext| {
        let gate = Arc::clone(&held);
        async move {
            if job.offset == Offset(0) {
                gate.acquire().await.expect("open").forget();
            }
            tell(&job, "w")
        }
    });
    rig.wait_for("all but the slow one of what it knows", || rig.told_count() >= 9);
    assert_eq!(rig.cluster().delete_records(rig.topic(), 0, 50).unwrap(), 50);
    gate.add_permits(1);
    rig.wait_for("the position is at the end", || rig.lag() == 0 && rig.told().iter().any(|told| told.offset == 59));
    let told = rig.told();
    assert!((50..60).all(|offset| told.iter().any(|told| told.offset == offset)), "{told:?}");
    assert!(worker.end().clean);
    rig.assert_once_in_order(told.len());
    assert_eq!(rig.run_until_empty("v", teller("v")).applied, 0);
}

/// R46: a group that begins on a log whose head has expired has only what is left to do.
#[test]
fn a_new_group_on_an_expired_head_does_what_is_left() {
    let rig = Rig::new(1, Assignor::Cooperative);
    rig.enqueue(1..=30, |n| format!("k{n}"));
    rig.cluster().delete_records(rig.topic(), 0, 20).unwrap();
    let (shown, gate) = (Shown::default(), Arc::new(Semaphore::new(0)));
    let held = Arc::clone(&gate);
    let handler = move |job: JobContext| {
        let gate = Arc::clone(&held);
        async move {
            gate.acquire().await.expect("open").forget();
            tell(&job, "w")
        }
    };
    let worker = rig.start("w", &How { shown: shown.clone(), ..How::default() }, handler, |_| {});
    rig.wait_for("those who watch are told of ten", || shown.lags(1).last() == Some(&10));
    gate.add_permits(10);
    rig.wait_for("and of none", || shown.lags(1).last() == Some(&0));
    assert!(shown.lags(1).iter().all(|&lag| lag <= 10), "never of what expired: {:?}", shown.lags(1));
    let summary = worker.end();
    assert_eq!((summary.applied, summary.clean), (10, true));
    assert_eq!(rig.lag(), 0);
}
