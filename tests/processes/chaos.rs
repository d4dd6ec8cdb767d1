//! Workers that are killed, frozen, ended and joined at random, and what must hold whatever happens to them.
//!
//! `KEYLANE_SEED=n` plays one seed; `KEYLANE_SOAK=rounds` plays that many, from that seed on.

use std::{collections::BTreeSet, time::Duration};

use keylane_consumer::clock::Clock;

use crate::{
    crew::{Crew, Dice, Step},
    fleet::{self, Fleet, Landed},
    journal, persons,
    process::pause,
};

const SESSION: &str = "2s";
const OPTIONS: [&str; 10] = [
    "--session-timeout",
    SESSION,
    "--drain-timeout",
    "5s",
    "--concurrency",
    "8",
    "--retry-first",
    "50ms",
    "--attempts",
    "20",
];
/// Jobs that come before each step.
const JOBS: usize = 220;
const KEYS: usize = 200;
const STEPS: usize = 12;

#[test]
fn whatever_happens_to_workers_nothing_is_lost_repeated_or_out_of_order() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seed, rounds) = (number("KEYLANE_SEED"), number("KEYLANE_SOAK"));
    let first = seed.unwrap_or(1);
    let rounds = rounds.unwrap_or(if seed.is_some() { 1 } else { 3 });
    for seed in first..first + rounds {
        play(seed);
    }
}

fn play(seed: u64) {
    let mut dice = Dice::new(seed);
    let plan: Vec<(Step, Vec<usize>)> =
        (0..STEPS).map(|_| (Step::draw(&mut dice), (0..JOBS).map(|_| dice.below(KEYS)).collect())).collect();
    let steps: Vec<Step> = plan.iter().map(|(step, _)| *step).collect();
    println!("KEYLANE_SEED={seed}: {steps:?}");

    let fleet = Fleet::new(6, &OPTIONS);
    let mut crew = Crew::of(&fleet, 3);
    for (step, keys) in plan {
        crew.meanwhile(|| fleet.enqueue(keys.into_iter().map(|key| format!("k{key}"))));
        crew.suffer(step);
        crew.meanwhile(|| pause(Duration::from_millis(350)));
    }
    let all = (STEPS * JOBS) as u64;
    let clock = Clock::boot();
    let until = clock.now().plus(Duration::from_secs(90));
    while fleet.count() < all {
        crew.thaw();
        assert!(clock.now() < until, "seed {seed}: {} of {all} landed\n{}", fleet.count(), fleet.report());
        pause(Duration::from_millis(20));
    }
    crew.end_all();
    let verdict = fleet.judge().and_then(|()| journal::overlap(&fleet.file("journal"), &crew.stopped));
    if let Err(broken) = verdict {
        panic!("KEYLANE_SEED={seed} {steps:?}: {broken}\n{}", fleet.report());
    }
}

#[test]
fn whatever_jobs_workers_and_persons_do_each_job_lands_once_and_keys_keep_their_order() {
    persons::play_all(SESSION, 2, |options| Fleet::new(6, options));
}

/// A judge that cannot object proves nothing.
#[test]
fn the_judge_objects_to_each_fault() {
    let landed = |offset, key: &str, writer: &str| Landed {
        partition: 0,
        offset,
        key: key.into(),
        writer: writer.into(),
        holder: "a".into(),
    };
    let enqueued = [(0, 0), (0, 1)];
    let good = [landed(0, "k", "a"), landed(1, "k", "a")];
    let none = BTreeSet::new();
    assert_eq!(fleet::judge(&enqueued, &good, &none), Ok(()));
    for (bad, objection) in [
        (vec![landed(0, "k", "a")], "landed 0 times"),
        (vec![landed(0, "k", "a"), landed(1, "l", "a"), landed(1, "m", "a")], "landed 2 times"),
        (vec![landed(1, "k", "a"), landed(0, "k", "a")], "out of order"),
        (vec![landed(0, "k", "b"), landed(1, "k", "a")], "a stale write landed"),
        (vec![landed(7, "k", "a")], "nobody enqueued"),
    ] {
        assert!(fleet::judge(&enqueued, &bad, &none).unwrap_err().contains(objection), "{objection}");
    }
    let late = [landed(1, "k", "a"), landed(0, "k", "a")];
    assert_eq!(fleet::judge(&enqueued, &late, &BTreeSet::from([(0, 0)])), Ok(()), "it left its order by name");
    let overlap = "begin k 0 a\nbegin k 1 b\nend k 0 a\nend k 1 b\n";
    assert!(journal::find_overlap(overlap, &BTreeSet::new()).unwrap_err().contains("at once"));
    assert_eq!(journal::find_overlap(overlap, &BTreeSet::from(["a".to_owned()])), Ok(()));
    assert_eq!(journal::find_overlap("begin k 0 a\nbegin k 0 b\nend k 0 b\n", &BTreeSet::new()), Ok(()));
}
