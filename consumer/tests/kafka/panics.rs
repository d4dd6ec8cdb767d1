//! A handler with a bug in it.

use keylane_consumer::{JobContext, Notice, group::kafka::Assignor};
use keylane_producer::Partition;

use crate::rig::{Rig, tell};

/// R09: its key stops when its tries are used up. Its partition's other keys go on, so do the other partitions, and the group
/// can give the partition to another.
#[test]
fn a_job_that_panics_stops_its_key_and_neither_its_partition_nor_a_change_of_the_group() {
    let rig = Rig::with(4, Assignor::Cooperative, |settings, _| settings.retry.attempts = 2);
    let bad = rig.key_of(Partition(3));
    let bursting = |name: &'static str| {
        let bad = bad.clone();
        move |job: JobContext| {
            let bug = job.job.key.to_string() == bad;
            async move {
                assert!(!bug, "a bug in the handler");
                tell(&job, name)
            }
        }
    };
    rig.enqueue(1..=1, |_| bad.clone());
    let first = rig.spawn("first", bursting("first"));
    rig.wait_for("the key stops", || first.noticed(|n| matches!(n, Notice::KeyStopped { .. })) == 1);
    // One of them is the stopped key's.
    rig.enqueue_evenly(50);
    rig.wait_for("all others", || rig.told_count() == 4 * 50 - 1);
    let second = rig.spawn("second", bursting("second"));
    rig.wait_for("they share", || first.owned() == 2 && second.owned() == 2);
    rig.enqueue_evenly(50);
    rig.wait_for("all others again", || rig.told_count() == 2 * (4 * 50 - 1));
    let (first, second) = (first.end(), second.end());
    assert!(first.clean && second.clean, "{first:?}, {second:?}");
    rig.assert_once_in_order(2 * (4 * 50 - 1));
    assert_eq!(rig.count("SELECT count(*) FROM keylane_stopped WHERE part = 3"), 1);
}
