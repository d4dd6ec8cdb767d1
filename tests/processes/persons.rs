//! Jobs that fail, workers that are killed, frozen and ended, and persons who pause, resume, skip and replay, all at random; and
//! what must hold whatever happens.
//!
//! `KEYLANE_SEED=n` plays one seed; `KEYLANE_SOAK=rounds` plays that many, from that seed on.

use std::time::Duration;

use keylane_consumer::clock::Clock;

use crate::{
    crew::{Crew, Dice, Step},
    fleet::Fleet,
    journal,
    process::pause,
};

const OPTIONS: [&str; 8] = ["--drain-timeout", "5s", "--concurrency", "8", "--retry-first", "50ms", "--attempts", "3"];
/// What makes a job leave alone; without it its key is parked.
const LEAVES: [&str; 2] = ["--dead-letter", "rejected,out_of_attempts"];

/// As the journal's handler, and: every 7th job fails at its first try, every 13th cannot be done before there is a file `healed`.
const HANDLER: &str = r#"
while IFS= read -r line; do
    key=${line#*\"key\":\"}; key=${key%%\"*}
    offset=${line#*\"offset\":}; offset=${offset%%,*}
    attempt=${line#*\"attempt\":}; attempt=${attempt%%,*}
    echo "begin $key $offset $1" >> journal
    echo "end $key $offset $1" >> journal
    if [ $((offset % 13)) = 2 ] && [ ! -e healed ]; then
        echo '{"outcome":"reject","reason":"not yet"}'
    elif [ $((offset % 7)) = 1 ] && [ "$attempt" = 1 ]; then
        echo '{"outcome":"retry","reason":"busy"}'
    else
        echo "{\"outcome\":\"done\",\"result\":{\"worker\":\"$1\"}}"
    fi
done"#;

const JOBS: usize = 120;
const KEYS: usize = 40;
const STEPS: usize = 10;

/// What a person does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Pause(usize),
    Resume(usize),
    /// One of the jobs that came last.
    Skip(usize),
    ReplayLines,
    ReplayLetters,
}

impl Act {
    fn draw(dice: &mut Dice) -> Self {
        match dice.below(8) {
            0..3 => Self::Pause(dice.below(KEYS)),
            3 => Self::Resume(dice.below(KEYS)),
            4 | 5 => Self::Skip(dice.below(JOBS)),
            6 => Self::ReplayLines,
            _ => Self::ReplayLetters,
        }
    }

    fn carry_out(self, fleet: &Fleet) {
        let key = |key: usize| format!("k{key}");
        match self {
            Self::Pause(of) => person(fleet, &["pause", &key(of)]),
            Self::Resume(of) => person(fleet, &["resume", &key(of)]),
            Self::Skip(of) => {
                let job = fleet.place.records("jobs").into_iter().rev().nth(of).unwrap();
                let (key, offset) = (String::from_utf8(job.key).unwrap(), job.offset.to_string());
                person(fleet, &["skip", &key, "--offset", &offset, "--execute"]);
            }
            Self::ReplayLines => person(fleet, &["parked", "replay", "--all", "--execute"]),
            Self::ReplayLetters => person(fleet, &["dead", "replay", "--all", "--execute"]),
        }
    }
}

/// It may find nothing to do, or somebody was quicker.
fn person(fleet: &Fleet, command: &[&str]) {
    let mut all = command.to_vec();
    let store = fleet.store_url();
    all.extend(["--store", &store, "--why", "a test"]);
    let ended = fleet.place.run(&all);
    assert!(matches!(ended.code, Some(0 | 1 | 5 | 7)), "{command:?}: {:?} {}", ended.code, ended.stderr);
}

pub(crate) fn play_all(session: &str, most: u64, mut fleet: impl FnMut(&[&str]) -> Fleet) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seed, rounds) = (number("KEYLANE_SEED"), number("KEYLANE_SOAK"));
    let first = seed.unwrap_or(1);
    for seed in first..first + rounds.unwrap_or(if seed.is_some() { 1 } else { most }) {
        let mut options = OPTIONS.to_vec();
        options.extend(["--session-timeout", session]);
        if seed % 2 == 0 {
            options.extend(LEAVES);
        }
        play(&fleet(&options), seed);
    }
}

fn play(fleet: &Fleet, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut crew = Crew::with(fleet, 3, HANDLER);
    let mut done = Vec::new();
    for _ in 0..STEPS {
        let keys: Vec<_> = (0..JOBS).map(|_| format!("k{}", dice.below(KEYS))).collect();
        crew.meanwhile(|| fleet.enqueue_what_can_be(keys));
        let step = Step::draw(&mut dice);
        crew.suffer(step);
        for _ in 0..4 {
            let act = Act::draw(&mut dice);
            done.push((step, act));
            crew.meanwhile(|| act.carry_out(fleet));
            crew.meanwhile(|| pause(Duration::from_millis(150)));
        }
    }
    let (buried, stood) = (fleet.buried().len(), fleet.number("SELECT count(*) FROM keylane_stopped"));
    fleet.place.write("healed", "");
    let all = fleet.place.records("jobs").len() as u64;
    let clock = Clock::boot();
    let until = clock.now().plus(Duration::from_secs(120));
    while fleet.count() < all {
        assert!(
            clock.now() < until,
            "KEYLANE_SEED={seed} {done:?}: {} of {all} landed\n{}",
            fleet.count(),
            fleet.report()
        );
        crew.meanwhile(|| Act::ReplayLines.carry_out(fleet));
        crew.meanwhile(|| Act::ReplayLetters.carry_out(fleet));
        crew.meanwhile(|| pause(Duration::from_millis(300)));
    }
    crew.end_all();
    let verdict = fleet.judge().and_then(|()| journal::overlap(&fleet.file("journal"), &crew.stopped));
    println!(
        "KEYLANE_SEED={seed}: {all} jobs, {buried} were dead letters, {stood} keys stood still when all was healed"
    );
    if let Err(broken) = verdict {
        panic!("KEYLANE_SEED={seed} {done:?}: {broken}\n{}", fleet.report());
    }
    for table in ["keylane_parked", "keylane_dead"] {
        assert_eq!(fleet.number(&format!("SELECT count(*) FROM {table}")), 0, "nothing is left in {table}");
    }
    assert!(buried > 0 && stood > 0, "nothing to judge: {done:?}");
}
