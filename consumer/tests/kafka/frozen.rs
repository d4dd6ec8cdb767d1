//! A member that is frozen while another one joins: what it costs the partitions that do not move.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use keylane_consumer::{
    JobContext, Notice,
    clock::{BootTime, Clock},
    group::kafka::Assignor,
};

use crate::{
    rig::{Rig, SESSION, slow_teller, tell, work},
    zombie::Zombie,
};

/// While the group waits for the frozen one, no other member can prove anything: its commits wait behind its own join. Its
/// lease is longer than that wait by little less than the pause: a period of proofs and the margin.
#[test]
fn partitions_that_stay_go_on_while_the_group_waits_for_a_frozen_member() {
    const EACH: usize = 400;
    let rig = Rig::with(6, Assignor::Cooperative, |settings, _| settings.lanes.running = 4);
    rig.enqueue_evenly(EACH);
    let zombie = Zombie::start(rig.folder(), "row deadline let_go", false);
    rig.wait_for("it has all", || zombie.count("TookOver") == 6);
    let ends = Arc::new(Mutex::new(Vec::<BootTime>::new()));
    let noted = Arc::clone(&ends);
    let steady = rig.spawn("steady", move |job: JobContext| {
        let noted = Arc::clone(&noted);
        async move {
            work(Duration::from_millis(20)).await;
            noted.lock().unwrap().push(Clock::boot().now());
            tell(&job, "steady")
        }
    });
    rig.wait_for("it works on its share", || steady.owned() == 3 && !ends.lock().unwrap().is_empty());
    let kept = steady.owns();
    zombie.freeze(&rig);
    let frozen_at = Clock::boot().now();
    let joining = rig.spawn("joining", slow_teller("joining", Duration::from_millis(1)));
    rig.wait_for("the frozen one's partitions are taken over", || joining.owned() + steady.owned() == 6);
    let until = Clock::boot().now();
    rig.wait_for("it goes on", || ends.lock().unwrap().last().is_some_and(|&end| end > until));
    let ends = ends.lock().unwrap().clone();
    let within: Vec<_> = ends.iter().copied().filter(|&end| end >= frozen_at).collect();
    let pause = within.windows(2).map(|two| two[1].since(two[0])).max().unwrap();
    println!("frozen, joined and settled in {:?}; the longest pause of what stayed: {pause:?}", until.since(frozen_at));
    assert!(pause < SESSION, "the partitions that stay stood still for {pause:?}");
    assert_eq!(steady.noticed(|notice| matches!(notice, Notice::Lost(_))), 0);
    assert!(kept.is_subset(&steady.owns()) || steady.noticed(|notice| matches!(notice, Notice::Draining(_))) > 0);
    drop(zombie);
    rig.wait_for("all jobs", || rig.told_count() == 6 * EACH);
    assert!(steady.end().clean && joining.end().clean);
    rig.assert_once_in_order(6 * EACH);
}
