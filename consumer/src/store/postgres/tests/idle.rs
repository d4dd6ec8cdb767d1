//! Owners that have nothing to write, and whose claims are gone with a fail-over: they look.

use std::time::Duration;

use super::{failover::Pair, scene::Scene, until};
use crate::{clock::Clock, fence::Guards};

/// A worker whose claims and jobs did not reach the standby, and that has nothing to do when that takes over.
fn idle(guards: Guards) -> (Scene, [String; 2]) {
    let pair = Pair::start();
    let mut scene = Scene::new("2", pair.database());
    let ([a], [b]) = (scene.keys_of::<1>(0), scene.keys_of::<1>(1));
    // Else the store would be a new one to the worker, which begins where the group is.
    scene.start_as("earlier", 2, guards, |_| {});
    scene.enqueue_of(&[&a, &b]);
    until(|| scene.told().len() == 2);
    assert!(scene.end().clean);
    pair.part();
    scene.start(2, guards, |_| {});
    scene.enqueue_of(&[&a, &b, &a, &b]);
    until(|| scene.told().len() == 6);
    pair.fail_over(&mut scene.database);
    assert_eq!(scene.told().len(), 2);
    (scene, [a, b])
}

#[test]
fn an_idle_owner_notices_that_its_claims_are_lost_and_runs_again_what_was_lost_with_them() {
    let (mut scene, _) = idle(Guards::default());
    until(|| scene.told().len() == 6);
    assert!(scene.end().clean);
    scene.assert_once_in_order(6);
}

/// The twin: a partition that is written to is found out; the idle one beside it is not, however long.
#[test]
fn without_a_look_the_jobs_of_an_idle_owner_stay_lost() {
    let (mut scene, [a, b]) = idle(Guards { look: false, ..Guards::default() });
    let clock = Clock::boot();
    let since = clock.now();
    let mut told = 3;
    while told < 6 || clock.now().since(since) < Duration::from_secs(3) {
        scene.enqueue_of(&[&a]);
        told += 1;
        scene.until_told(&a, told);
    }
    assert_eq!(scene.offsets_of(&b).len(), 1, "two of its jobs are not there, and nobody looks");
    scene.force();
}
