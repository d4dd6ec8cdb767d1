//! A whole worker that writes over several connections: what happens to one of them is no other's matter, and a key stays
//! in order.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use keylane_producer::Partition;
use keylane_testing::postgres::shared;

use super::{
    Database, Limits,
    cut::{KEEP_BOTH, LOSE_ANSWER, Proxy},
    scene::Scene,
    until,
};
use crate::{
    Notice,
    fence::Guards,
    store::{
        FencedStore, StoreSession,
        conformance::{Place, candidate},
    },
};

fn behind_a_proxy(partitions: &str) -> (Proxy, Scene) {
    let proxy = Proxy::start();
    // A COMMIT that a test keeps for a while is not what idles.
    let limits = Limits { idle: Duration::from_secs(60), lock: Duration::from_secs(30), ..Limits::default() };
    let limits = Limits { statement: Duration::from_secs(60), answer: Duration::from_secs(60), ..limits };
    let database = Database::on(shared(), |name| proxy.url(name)).with(|store| store.with_limits(limits));
    (proxy, Scene::new(partitions, database))
}

#[test]
fn each_key_is_told_in_order_and_once_over_several_connections_that_are_cut_and_killed() {
    const JOBS: usize = 1_200;
    let (proxy, mut scene) = behind_a_proxy("12");
    scene.enqueue((0..JOBS).map(|n| format!("k{}", n % 60)));
    scene.start(4, Guards::default(), |_| {});
    for quarter in 1..5 {
        until(|| scene.told().len() >= JOBS * quarter / 8);
        // One connection loses the answer to its COMMIT; the others have their server processes ended.
        proxy.cut.store(LOSE_ANSWER, Ordering::SeqCst);
        until(|| proxy.cut.load(Ordering::SeqCst) != LOSE_ANSWER);
        scene.database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 2",
        );
    }
    until(|| scene.told().len() >= JOBS);
    assert!(scene.end().clean);
    scene.assert_once_in_order(JOBS);
    let connections: BTreeSet<_> = scene.told().into_iter().map(|(.., pid)| pid).collect();
    assert!(connections.len() >= 4, "{connections:?}");
}

#[test]
fn one_partition_is_refused_while_the_write_of_another_lands() {
    let (_proxy, mut scene) = behind_a_proxy("2");
    let keys = [0, 1].map(|partition| scene.keys_of::<1>(partition)[0].clone());
    let refused = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&refused);
    scene.enqueue(keys.clone());
    // It is to find out by its write.
    scene.start(2, Guards { look: false, ..Guards::default() }, move |notice| {
        if let Notice::WriteRefused { partition, .. } = notice {
            note.lock().unwrap().push(partition);
        }
    });
    until(|| scene.told().len() == 2);
    let mut newer = scene.database.store().open(&scene.queue, &"workers".parse().unwrap()).unwrap();
    newer.claim(&candidate("newer", 1_000, Partition(0))).unwrap();
    scene.enqueue(keys.clone());
    scene.until_told(&keys[1], 2);
    until(|| !refused.lock().unwrap().is_empty());
    assert_eq!(*refused.lock().unwrap(), [Partition(0)]);
    scene.force();
    assert_eq!(scene.offsets_of(&keys[0]).len(), 1, "the stale one did not land");
}

/// A COMMIT is on its way when its connection is lost, and comes late: of a job behind two that still run, one of which ends
/// before the write is tried again. So no marker row of the two tries is the same. The offsets of the job's key, as they came
/// to be seen; and how many jobs of another partition were seen before the COMMIT came.
fn a_commit_that_comes_late(guards: Guards) -> (Vec<u64>, usize) {
    let (proxy, mut scene) = behind_a_proxy("2");
    let ([a, first, second], [b]) = (scene.keys_of(0), scene.keys_of(1));
    let (first_gate, second_gate) = (scene.shut(&first), scene.shut(&second));
    scene.enqueue_of(&[&a, &a, &a, &a, &b]);
    scene.start(2, guards, |_| {});
    scene.until_told(&a, 4);
    scene.until_told(&b, 1);
    proxy.cut.store(KEEP_BOTH, Ordering::SeqCst);
    scene.enqueue_of(&[&first, &second, &a, &a]);
    proxy.until_kept();
    second_gate.add_permits(1);
    // What is told of the other partition ended later, so the desk knows of the end before.
    scene.enqueue_of(&[&b]);
    scene.until_told(&b, 2);
    proxy.lose_client();
    if guards.one_way {
        scene.database.until_one_waits();
    } else {
        scene.until_told(&a, 6);
    }
    scene.enqueue_of(&[&b; 20]);
    scene.until_told(&b, 22);
    assert_eq!(
        scene.database.one_waits(),
        guards.one_way,
        "the others did not wait until the lost connection was ended"
    );
    let (mut seen, others) = (scene.offsets_of(&a), scene.offsets_of(&b).len());
    proxy.send_kept();
    scene.until_told(&a, if guards.one_way { 6 } else { 7 });
    first_gate.add_permits(1);
    assert!(scene.end().clean);
    let mut late = scene.offsets_of(&a);
    for offset in &seen {
        late.remove(late.iter().position(|of| of == offset).expect("what was seen stays"));
    }
    seen.extend(late);
    (seen, others)
}

#[test]
fn a_commit_whose_outcome_is_unknown_holds_up_its_own_partitions_alone() {
    assert_eq!(a_commit_that_comes_late(Guards::default()), (vec![0, 1, 2, 3, 6, 7], 22));
}

#[test]
fn without_one_connection_for_a_partition_a_late_commit_repeats_a_job_behind_its_follower() {
    let (seen, _) = a_commit_that_comes_late(Guards { one_way: false, ..Guards::default() });
    assert_eq!(seen, [0, 1, 2, 3, 6, 7, 6]);
}
