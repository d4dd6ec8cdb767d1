//! Equal and restarted generations, and a partition that comes back: made by a real broker, and what the row says to them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use keylane_consumer::{
    JobContext, Notice,
    group::{
        Assignment, Group, GroupEvent,
        kafka::{Assignor, KafkaGroup},
    },
    store::{ClaimRefused, ResetOrder, sqlite::SqliteStore},
};
use keylane_producer::Partition;

use crate::rig::{Gate, How, Rig, Running, SESSION, tell, teller, wait_for};

const P0: Partition = Partition(0);

/// A topic of one partition whose identity has two already, so that the second can be added while workers run.
fn growing(assignor: Assignor) -> Rig {
    let mut rig = Rig::with(1, assignor, |_, group| group.rebalance_timeout = Duration::from_secs(60));
    rig.queue.partitions = "2".parse().unwrap();
    rig
}

/// The partition was given to somebody, and nobody has answered for it yet.
fn wait_for_an_unanswered_assign(rig: &Rig) {
    rig.wait_for("the first member has its partition", || {
        let group = rig.cluster().describe_group(rig.topic()).unwrap();
        group.state == "Stable" && group.members.iter().any(|member| !member.partitions.is_empty())
    });
}

fn wait_for_a_second_member(rig: &Rig, mut meanwhile: impl FnMut()) {
    rig.wait_for("the second member waits in its join", || {
        meanwhile();
        rig.cluster().describe_group(rig.topic()).unwrap().members.len() == 2
    });
}

/// Why the store has the last word: the group's number does not order these two.
#[test]
fn a_metadata_change_during_an_unanswered_assign_gives_two_members_one_partition_in_one_generation() {
    let rig = growing(Assignor::Eager);
    let mut held = rig.member("z-held");
    wait_for_an_unanswered_assign(&rig);
    let mut other = rig.member("a-other");
    let mut given = Vec::new();
    wait_for_a_second_member(&rig, || given.extend(assignments(&mut other)));
    rig.cluster().add_partitions(rig.topic(), 2).unwrap();
    wait_for("the second member has the partition", || {
        given.extend(assignments(&mut other));
        given.iter().any(|assignment| assignment.partitions.contains(&P0))
    });
    let mut stale = Vec::new();
    wait_for("the first one is told of its assignment", || {
        stale.extend(assignments(&mut held));
        !stale.is_empty()
    });
    let newer = given.iter().find(|assignment| assignment.partitions.contains(&P0)).unwrap();
    assert_eq!(stale[0].partitions, [P0], "what it was given before the change");
    assert_eq!(stale[0].generation, newer.generation);
    assert_ne!(stale[0].member, newer.member);
}

/// What one poll brings of that kind; what is asked back is given back.
fn assignments(member: &mut KafkaGroup) -> Vec<Assignment> {
    let mut given = Vec::new();
    let mut asked = Vec::new();
    let answer = member.poll(Duration::from_millis(20), &mut |event| match event {
        GroupEvent::Assigned(assignment) => given.push(assignment),
        GroupEvent::Revoking(partitions) => asked.extend(partitions),
        _ => {}
    });
    member.control().release(&asked);
    answer.unwrap();
    given
}

/// Two workers that claim one partition in one generation, the first one after the second and refused for it. `None`: the
/// clients' timing brought it about that the second was sent to the partition twice in that generation. Then it is the one that
/// is refused, by its own first claim, and joins anew too.
fn two_claimants() -> Option<(Rig, How, Running, Running)> {
    let rig = growing(Assignor::Eager);
    // It claims before it is told of what came after.
    let how = How { gate: Gate::shut_now(), assigned: Gate::shut_now(), ..How::default() };
    let first = rig.start("z-held", &how, teller("z-held"), |_| {});
    wait_for_an_unanswered_assign(&rig);
    let second = rig.spawn("a-other", teller("a-other"));
    wait_for_a_second_member(&rig, || {});
    rig.cluster().add_partitions(rig.topic(), 2).unwrap();
    let refused = Notice::ClaimRefused { partition: P0, why: ClaimRefused::EqualGeneration };
    let is_refused = |worker: &Running| worker.noticed(|notice| *notice == refused) > 0;
    rig.wait_for("the second claims the partition", || second.owns().contains(&P0) || is_refused(&second));
    how.gate.open();
    let ahead = Notice::ClaimRefused { partition: P0, why: ClaimRefused::RowAhead };
    rig.wait_for("the first is refused", || is_refused(&first) || first.noticed(|notice| *notice == ahead) > 0);
    if is_refused(&first) {
        return Some((rig, how, first, second));
    }
    how.assigned.open();
    drop((first.end(), second.end()));
    None
}

#[test]
fn of_two_claimants_in_one_generation_the_store_refuses_the_second_which_joins_anew() {
    let (rig, how, first, second) = (0..5).find_map(|_| two_claimants()).expect("one of five times");
    how.assigned.open();
    rig.enqueue_evenly(5);
    rig.wait_for("all jobs", || rig.told_count() == 10);
    rig.wait_for("they share", || first.owned() == 1 && second.owned() == 1);
    assert!(first.end().clean && second.end().clean);
    rig.assert_once_in_order(10);
}

#[test]
fn a_group_that_was_deleted_and_began_below_the_row_admits_nothing_and_says_fence_ahead() {
    let rig = Rig::new(2, Assignor::Cooperative);
    rig.enqueue_evenly(3);
    for before in ["one", "two", "three"] {
        let worker = rig.spawn(before, teller(before));
        rig.wait_for("it owns both", || worker.owned() == 2);
        rig.wait_for("all jobs", || rig.told_count() == 6);
        assert!(worker.end().clean);
    }
    rig.cluster().delete_group(rig.topic()).unwrap();
    rig.enqueue_evenly(1);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ran);
    let worker = rig.spawn("after", move |job: JobContext| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { tell(&job, "after") }
    });
    for partition in [P0, Partition(1)] {
        let ahead = Notice::FenceIsAhead(partition);
        rig.wait_for("it says that the fence is ahead", || worker.noticed(|notice| *notice == ahead) > 0);
        let refused = Notice::ClaimRefused { partition, why: ClaimRefused::RowAhead };
        rig.wait_for("it asks again and again", || worker.noticed(|notice| *notice == refused) > 3);
    }
    // Its coordinator's word about it may be a moment behind.
    let known = || rig.cluster().describe_group(rig.topic()).unwrap().generation;
    rig.wait_for("the group's number can be read", || known().is_some());
    let generation = known();
    assert_eq!(generation, Some(1), "and does not join anew, which would raise the number by and by");
    assert_eq!((worker.owned(), ran.load(Ordering::SeqCst), rig.told_count()), (0, 0, 6));
    assert_eq!(worker.end().applied, 0);
    // The remedy that the notice names.
    let order = ResetOrder { who: "a person".into(), why: "the group was deleted".into(), dry_run: false };
    SqliteStore::new(rig.store_path()).reset(&rig.queue, &rig.group_name(), &order).unwrap();
    let summary = rig.run_until_empty("reset", teller("reset"));
    assert_eq!((summary.applied, summary.clean), (2, true), "nothing is done again");
    rig.assert_once_in_order(8);
}

/// The polling thread stands still until the group has given the partition away, and goes on: another claim, so the word of
/// the job that ran all the while does not count.
#[test]
fn a_partition_lost_and_regained_by_one_process_is_another_claim() {
    let rig = Rig::with(1, Assignor::Cooperative, |_, group| group.rebalance_timeout = SESSION);
    rig.enqueue(1..=2, |_| "k".into());
    let (tries, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, waited) = (Arc::clone(&tries), Arc::clone(&go));
    let handler = move |job: JobContext| {
        let (first, go) = (counted.fetch_add(1, Ordering::SeqCst) == 0, Arc::clone(&waited));
        async move {
            // Ignores its cancellation, as code that does not await would.
            while first && !go.load(Ordering::SeqCst) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            tell(&job, if first { "before" } else { "after" })
        }
    };
    let how = How::default();
    let worker = rig.start("w", &how, handler, |_| {});
    rig.wait_for("it has begun", || tries.load(Ordering::SeqCst) == 1);
    how.gate.shut();
    rig.wait_for("the group has expelled it", || rig.cluster().describe_group(rig.topic()).unwrap().members.is_empty());
    how.gate.open();
    rig.wait_for("both jobs, in the new claim", || rig.told_count() == 2);
    go.store(true, Ordering::SeqCst);
    let dropped = Notice::LateResultDropped { partition: P0 };
    rig.wait_for("the old one is dropped", || worker.noticed(|notice| *notice == dropped) == 1);
    assert_eq!(worker.noticed(|notice| *notice == Notice::Lost(vec![P0])), 1);
    assert!(worker.end().clean);
    assert!(rig.told().iter().all(|told| told.worker == "after"), "{:?}", rig.told());
    rig.assert_once_in_order(2);
}
