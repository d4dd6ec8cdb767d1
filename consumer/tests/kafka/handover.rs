//! Partitions that move between whole workers on a real Kafka.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use keylane_consumer::{JobContext, Notice, clock::Clock, group::kafka::Assignor};
use keylane_producer::Partition;
use tokio::sync::Semaphore;

use crate::rig::{How, Rig, slow_teller, tell, teller, work};

const P0: Partition = Partition(0);

/// R01, cooperative: the number moves on twice under the partitions that stay, and what runs there is neither stopped nor
/// run again.
#[test]
fn a_job_in_a_partition_that_stays_is_accepted_after_the_generation_moved_on_twice() {
    let rig = Rig::with(4, Assignor::Cooperative, |_, group| group.rebalance_timeout = Duration::from_secs(30));
    rig.enqueue_evenly(1);
    let gates: Arc<Vec<Semaphore>> = Arc::new((0..4).map(|_| Semaphore::new(0)).collect());
    let begun = Arc::new(Mutex::new(BTreeMap::<Partition, usize>::new()));
    let (held, counted) = (Arc::clone(&gates), Arc::clone(&begun));
    let first = rig.spawn("first", move |job: JobContext| {
        *counted.lock().unwrap().entry(job.partition).or_default() += 1;
        let gates = Arc::clone(&held);
        async move {
            gates[job.partition.0 as usize].acquire().await.expect("open").forget();
            tell(&job, "first")
        }
    });
    rig.wait_for("a job runs in each", || begun.lock().unwrap().len() == 4);
    let before = rig.cluster().describe_group(rig.topic()).unwrap().generation;
    let second = rig.spawn("second", teller("second"));
    let asked = || {
        first.look(|seen| {
            let draining = seen.notices.iter().filter_map(|n| if let Notice::Draining(p) = n { Some(p) } else { None });
            draining.flatten().copied().collect::<BTreeSet<Partition>>()
        })
    };
    rig.wait_for("two are asked back", || asked().len() == 2);
    let moved = asked();
    moved.iter().for_each(|p| gates[p.0 as usize].add_permits(1));
    rig.wait_for("they move", || second.owns() == moved);
    assert!(second.end().clean);
    rig.wait_for("they come back", || first.owned() == 4);
    let after = rig.cluster().describe_group(rig.topic()).unwrap().generation;
    assert!(after >= before.map(|before| before + 2), "{before:?} to {after:?}");
    assert_eq!(rig.told_count(), 2, "the two that stayed are at their jobs");
    gates.iter().for_each(|gate| gate.add_permits(1));
    rig.wait_for("all jobs", || rig.told_count() == 4);
    assert_eq!(asked(), moved);
    let failed = |notice: &Notice| {
        matches!(notice, Notice::Lost(_) | Notice::WriteRefused { .. } | Notice::LateResultDropped { .. })
    };
    assert_eq!(first.noticed(failed), 0);
    assert!(begun.lock().unwrap().values().all(|&times| times == 1), "{begun:?}");
    assert!(first.end().clean);
    rig.assert_once_in_order(4);
}

/// R01, eager: every partition is given back, with a job cut short at the drain's bound. Regained, it is another claim: the
/// word of the old try does not count.
#[test]
fn a_job_in_a_partition_that_was_given_back_and_regained_counts_in_its_new_try_only() {
    let rig = Rig::with(4, Assignor::Eager, |settings, group| {
        settings.ownership.drain = Duration::from_secs(1);
        group.rebalance_timeout = Duration::from_secs(30);
    });
    rig.enqueue_evenly(1);
    let (go, tries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (waited, counted) = (Arc::clone(&go), Arc::clone(&tries));
    // The second worker has the partitions and does nothing.
    let idle = |_: JobContext| std::future::pending();
    let first = rig.spawn("first", move |job: JobContext| {
        let (go, try_of_p0) =
            (Arc::clone(&waited), if job.partition == P0 { counted.fetch_add(1, Ordering::SeqCst) } else { 1 });
        async move {
            // Ignores its cancellation, as code that does not await would.
            while try_of_p0 == 0 && !go.load(Ordering::SeqCst) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            tell(&job, if try_of_p0 == 0 { "before" } else { "first" })
        }
    });
    rig.wait_for("it works on all", || rig.told_count() == 3 && tries.load(Ordering::SeqCst) == 1);
    let second = rig.spawn("second", idle);
    rig.wait_for("they share", || first.owned() == 2 && second.owned() == 2);
    second.end();
    rig.wait_for("the first has all again", || first.owned() == 4);
    rig.wait_for("the job is done in its new try", || rig.told_count() == 4);
    go.store(true, Ordering::SeqCst);
    let dropped = Notice::LateResultDropped { partition: P0 };
    rig.wait_for("the old try is dropped", || first.noticed(|notice| *notice == dropped) == 1);
    assert!(!rig.told().iter().any(|told| told.worker == "before"), "{:?}", rig.told());
    first.end();
    rig.assert_once_in_order(4);
}

/// R12: nothing queued of what was asked back starts, and the partition that stays goes on.
#[test]
fn nothing_queued_starts_after_the_group_asked_for_its_partition() {
    let rig = Rig::with(2, Assignor::Cooperative, |settings, _| settings.lanes.running = 1);
    rig.enqueue_evenly(20);
    let gate = Arc::new(Semaphore::new(0));
    let steps = Arc::new(Mutex::new(Vec::new()));
    let (held, begun, told) = (Arc::clone(&gate), Arc::clone(&steps), Arc::clone(&steps));
    let handler = move |job: JobContext| {
        let gate = Arc::clone(&held);
        begun.lock().unwrap().push(Step::Began(job.partition));
        async move {
            gate.acquire().await.expect("open").forget();
            tell(&job, "first")
        }
    };
    let first = rig.start("first", &How::default(), handler, move |notice| {
        if let Notice::Draining(partitions) = notice {
            told.lock().unwrap().extend(partitions.iter().map(|&p| Step::AskedBack(p)));
        }
    });
    rig.wait_for("it has both, and one job runs", || first.owned() == 2 && steps.lock().unwrap().len() == 1);
    let second = rig.spawn("second", teller("second"));
    let asked = || {
        steps.lock().unwrap().iter().find_map(|step| match step {
            Step::AskedBack(partition) => Some(*partition),
            Step::Began(_) => None,
        })
    };
    rig.wait_for("one is asked back", || asked().is_some());
    gate.add_permits(1_000);
    rig.wait_for("all jobs", || rig.told_count() == 40);
    let partition = asked().unwrap();
    let steps = steps.lock().unwrap();
    let after: Vec<_> = steps.iter().skip_while(|step| !matches!(step, Step::AskedBack(_))).collect();
    assert!(!after.contains(&&Step::Began(partition)), "{after:?}");
    assert!(after.iter().any(|step| matches!(step, Step::Began(_))), "the other partition went on: {after:?}");
    drop(steps);
    assert!(first.end().clean && second.end().clean);
    rig.assert_once_in_order(40);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Began(Partition),
    AskedBack(Partition),
}

/// R10: commits are in flight all the time, and the group is never still.
#[test]
fn a_worker_that_comes_and_goes_under_load_costs_no_job_and_repeats_none_eager() {
    comes_and_goes_under_load(Assignor::Eager);
}

/// As above, with partitions that stay.
#[test]
fn a_worker_that_comes_and_goes_under_load_costs_no_job_and_repeats_none_cooperative() {
    comes_and_goes_under_load(Assignor::Cooperative);
}

const COMINGS: usize = 20;

fn comes_and_goes_under_load(assignor: Assignor) {
    const RUNNING: usize = 4;
    let rig = Rig::with(6, assignor, |settings, _| settings.lanes.running = RUNNING);
    let each = Duration::from_millis(20);
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = |name: &str| {
        let (ran, handler) = (Arc::clone(&ran), Arc::new(name.to_owned()));
        move |job: JobContext| {
            ran.fetch_add(1, Ordering::SeqCst);
            let handler = Arc::clone(&handler);
            async move {
                work(each).await;
                tell(&job, &handler)
            }
        }
    };
    rig.enqueue_evenly(100);
    let mut jobs = 600;
    let (first, second) = (rig.spawn("first", counted("first")), rig.spawn("second", counted("second")));
    rig.wait_for("they share", || first.owned() == 3 && second.owned() == 3);
    let mut slowest = Duration::ZERO;
    for round in 0..COMINGS {
        rig.enqueue_evenly(30);
        jobs += 180;
        let asked = Clock::boot().now();
        let name = format!("third-{round}");
        let third = rig.spawn(&name, counted(&name));
        rig.wait_for("the third has its share", || third.owned() == 2);
        slowest = slowest.max(Clock::boot().now().since(asked));
        assert!(third.end().clean, "round {round}");
        rig.wait_for("the others have it again", || first.owned() + second.owned() == 6);
    }
    println!("the slowest share of {COMINGS} came after {slowest:?}");
    rig.wait_for("all jobs", || rig.told_count() == jobs);
    let lost = |notice: &Notice| matches!(notice, Notice::WriteRefused { .. });
    assert_eq!((first.noticed(lost), second.noticed(lost)), (0, 0));
    assert!(first.end().clean && second.end().clean);
    rig.assert_once_in_order(jobs);
    let again = ran.load(Ordering::SeqCst) - jobs;
    assert!(again <= COMINGS * 2 * 3 * RUNNING, "{again} runs in vain: more than what was in flight");
    rig.wait_for("all is committed", || rig.lag() == 0);
}

/// R11: joins and leaves fall into batches that arrive.
#[test]
fn after_each_of_many_joins_and_leaves_the_lag_returns_to_zero() {
    const ROUNDS: u32 = 30;
    let rig = Rig::new(4, Assignor::Cooperative);
    let steady = rig.spawn("steady", teller("steady"));
    rig.wait_for("it has all", || steady.owned() == 4);
    let pause = || {
        let until = Clock::boot().now().plus(Duration::from_millis(fastrand::u64(0..300)));
        rig.wait_for("a moment", || Clock::boot().now() >= until);
    };
    for round in 0..ROUNDS {
        let name = format!("passing-{round}");
        let passing = rig.spawn(&name, slow_teller(&name, Duration::from_millis(2)));
        pause();
        rig.enqueue(1..=50, |n| format!("key-{round}-{}", n % 20));
        pause();
        passing.ask_to_end();
        rig.wait_for("all of the round", || rig.told_count() == 50 * (round as usize + 1));
        passing.join();
        rig.wait_for("the lag is gone", || rig.lag() == 0);
    }
    assert!(steady.end().clean);
    rig.assert_once_in_order(50 * ROUNDS as usize);
}
