//! Workers that stand still: inside a transaction, and for longer than their session.

use std::time::Duration;

use rustix::process::Signal;

use crate::{
    fleet::{Fleet, Worker},
    journal,
    process::{pause, wait_until, worker::is_locked},
};

const OPTIONS: [&str; 6] = ["--session-timeout", "2s", "--drain-timeout", "5s", "--concurrency", "8"];

/// R02: frozen for longer than its session, with a job half-way and fifty queued. Nothing of it lands after the thaw,
/// what was queued is thrown away, and it takes part again by itself.
#[test]
fn a_worker_that_was_frozen_past_its_session_writes_nothing_and_joins_anew() {
    let fleet = Fleet::new(1, &["--session-timeout", "2s", "--drain-timeout", "5s", "--concurrency", "1"]);
    std::fs::write(fleet.file("hold-a"), "").unwrap();
    fleet.enqueue((0..51).map(|n| format!("k{n}")));
    let script = HELD.replace("ANSWER", journal::ANSWER);
    let mut a = fleet.start("a", &script);
    wait_until("a has begun", || journal::begun(&fleet.file("journal"), "a") == 1);

    wait_until("a is frozen outside of a transaction", || a.freeze_if(|| !fleet.is_locked()));
    // Its handler is another process: it finishes, and the answer waits for the thaw.
    std::fs::remove_file(fleet.file("hold-a")).unwrap();
    let mut b = fleet.start("b", &script);
    wait_until("b has finished twenty", || fleet.count() >= 20);
    std::fs::write(fleet.file("hold-b"), "").unwrap();
    wait_until("b has begun a job that does not end", || {
        journal::begun(&fleet.file("journal"), "b") > fleet.count() as usize
    });
    assert!(fleet.count() < 51, "{}", fleet.report());

    a.signal(Signal::CONT);
    wait_until("a knows that it lost the partition", || a.told("lost") == 1);
    std::fs::remove_file(fleet.file("hold-b")).unwrap();
    wait_until("b has finished all", || fleet.count() == 51);
    assert_eq!(journal::begun(&fleet.file("journal"), "a"), 1, "what was queued did not run: {}", fleet.report());

    // It takes part again: what b gives back comes to it.
    fleet.enqueue(["k0".to_owned()]);
    b.signal(Signal::TERM);
    assert_eq!(b.wait_end(Duration::from_secs(30)), 0, "{}", fleet.report());
    wait_until("a holds it again", || a.told("took_over") == 2);
    wait_until("all is done", || fleet.count() == 52);
    a.signal(Signal::TERM);
    assert_eq!(a.wait_end(Duration::from_secs(30)), 0, "{}", fleet.report());
    // Its answer came too late: it was never read, or it is told and counted that it was dropped.
    assert_eq!(a.summary()["refused"], a.told("late_result_dropped"), "{}", fleet.report());
    fleet.judge().unwrap_or_else(|broken| panic!("{broken}\n{}", fleet.report()));
}

/// Runs while a file of its worker's name is not there.
const HELD: &str = r#"
while IFS= read -r line; do
    key=${line#*\"key\":\"}; key=${key%%\"*}
    offset=${line#*\"offset\":}; offset=${offset%%,*}
    echo "begin $key $offset $1" >> journal
    /bin/sleep 0.02
    while [ -e "hold-$1" ]; do /bin/sleep 0.02; done
    echo "end $key $offset $1" >> journal
    ANSWER
done"#;

/// SQLite's limit: a process that is frozen inside its transaction holds the file's lock. The others wait and say so;
/// they do not fail, no job is blamed, and they go on by themselves once it is continued.
#[test]
fn others_wait_for_a_worker_frozen_inside_its_transaction() {
    frozen_inside_a_transaction(|frozen| frozen.signal(Signal::CONT));
}

/// The same, and it is killed instead.
#[test]
fn others_go_on_after_a_worker_frozen_inside_its_transaction_is_killed() {
    frozen_inside_a_transaction(Worker::kill);
}

fn frozen_inside_a_transaction(relieve: impl FnOnce(&mut Worker)) {
    let fleet = Fleet::new(4, &OPTIONS);
    let script = journal::HANDLER;
    let mut workers = [fleet.start("a", script), fleet.start("b", script)];
    for worker in &workers {
        wait_until("each holds something", || worker.told("took_over") > 0);
    }
    let mut jobs = 0;
    let mut enqueue = |fleet: &Fleet| {
        fleet.enqueue((0..400).map(|n| format!("k{}", n % 100)));
        jobs += 400;
        jobs
    };
    let mut all = enqueue(&fleet);
    wait_until("one is frozen while it holds the store's lock", || {
        if fleet.count() + 100 > all {
            all = enqueue(&fleet);
        }
        // If it is the other one that holds it, that is over soon.
        workers[0].freeze_if(|| {
            let held = || {
                pause(Duration::from_millis(5));
                is_locked(&fleet.file("store.db"))
            };
            (0..40).all(|_| held())
        })
    });
    let other = &workers[1];
    wait_until("the other says that the store is away", || other.told("away") > 0);
    assert_eq!(workers[1].ended(), None, "it waits: {}", workers[1].errors());
    relieve(&mut workers[0]);
    wait_until("the other says that the store is back", || workers[1].told("back") > 0);
    wait_until("everything landed", || fleet.count() == all);
    let [a, b] = &mut workers;
    for worker in [&*a, &*b] {
        assert_eq!(worker.told("will_retry") + worker.told("key_stopped"), 0, "{}", fleet.report());
    }
    b.signal(Signal::TERM);
    assert_eq!(b.wait_end(Duration::from_secs(30)), 0, "{}", fleet.report());
    fleet.judge().unwrap_or_else(|broken| panic!("{broken}\n{}", fleet.report()));
}
