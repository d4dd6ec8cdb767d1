//! Workers that are killed, frozen, ended and joined at random, and what must hold whatever happens to them.
//!
//! `KEYLANE_SEED=n` plays one seed; `KEYLANE_SOAK=rounds` plays that many, from that seed on.

use std::{collections::BTreeSet, time::Duration};

use keylane_consumer::clock::{BootTime, Clock};
use rustix::process::Signal;

use crate::{
    fleet::{self, Fleet, Landed, Worker},
    journal,
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

/// What is done to the workers. A number chooses among those that live.
#[derive(Clone, Copy, Debug)]
enum Step {
    Kill(usize),
    /// For so many milliseconds: shorter or longer than the session.
    Freeze(usize, u64),
    End(usize),
    Join,
    Nothing,
}

/// Small and repeatable.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn step(&mut self) -> Step {
        match self.below(10) {
            0..3 => Step::Kill(self.below(8)),
            3..5 => Step::Freeze(self.below(8), 200 + self.below(800) as u64),
            5 | 6 => Step::Freeze(self.below(8), 3_000),
            7 => Step::End(self.below(8)),
            8 => Step::Join,
            _ => Step::Nothing,
        }
    }
}

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
        (0..STEPS).map(|_| (dice.step(), (0..JOBS).map(|_| dice.below(KEYS)).collect())).collect();
    let steps: Vec<Step> = plan.iter().map(|(step, _)| *step).collect();
    println!("KEYLANE_SEED={seed}: {steps:?}");

    let fleet = Fleet::new(6, &OPTIONS);
    let mut crew = Crew { fleet: &fleet, alive: Vec::new(), thawing: Vec::new(), stopped: BTreeSet::new(), named: 0 };
    (0..3).for_each(|_| crew.join());
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

/// The workers of one play.
struct Crew<'f> {
    fleet: &'f Fleet,
    alive: Vec<Worker>,
    /// Frozen, with the time of their thaw.
    thawing: Vec<(Worker, BootTime)>,
    /// Names of those that ever stood still: they may overlap with whoever took over.
    stopped: BTreeSet<String>,
    named: usize,
}

impl Crew<'_> {
    fn join(&mut self) {
        self.named += 1;
        self.alive.push(self.fleet.start(&format!("w{}", self.named), journal::HANDLER));
    }

    fn suffer(&mut self, step: Step) {
        self.let_go();
        let clock = Clock::boot();
        match step {
            Step::Kill(at) => {
                let at = at % self.alive.len();
                self.alive.remove(at).kill();
            }
            Step::Freeze(at, ms) => {
                let at = at % self.alive.len();
                let worker = self.alive.remove(at);
                worker.signal(Signal::STOP);
                self.stopped.insert(worker.name.clone());
                self.thawing.push((worker, clock.now().plus(Duration::from_millis(ms))));
            }
            Step::End(at) => {
                let at = at % self.alive.len();
                let worker = self.alive.remove(at);
                worker.signal(Signal::TERM);
                // It ends by itself while the others go on; what still runs at the end is waited for.
                self.thawing.push((worker, clock.now()));
            }
            Step::Join => self.join(),
            Step::Nothing => {}
        }
        while self.alive.len() < 2 {
            self.join();
        }
    }

    /// Does this, which may have to wait for a frozen one.
    fn meanwhile(&mut self, act: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let acting = scope.spawn(act);
            while !acting.is_finished() {
                self.thaw();
                pause(Duration::from_millis(5));
            }
        });
        self.thaw();
    }

    /// Lets go on whose time has come.
    fn thaw(&mut self) {
        let now = Clock::boot().now();
        let (due, waiting) = std::mem::take(&mut self.thawing).into_iter().partition(|(_, at)| *at <= now);
        self.thawing = waiting;
        for (worker, _) in due {
            worker.signal(Signal::CONT);
            self.alive.push(worker);
        }
    }

    /// Those that have ended as they were asked to.
    fn let_go(&mut self) {
        let mut at = 0;
        while at < self.alive.len() {
            let Some(code) = self.alive[at].ended() else {
                at += 1;
                continue;
            };
            let worker = self.alive.remove(at);
            assert!(matches!(code, 0 | 1), "{}: {}\n{}", worker.name, worker.errors(), self.fleet.report());
            self.judge_standing(&worker);
        }
    }

    /// Whoever lost its partitions stood still, if only because the machine did.
    fn judge_standing(&mut self, worker: &Worker) {
        if worker.told("lost") + worker.told("halted") > 0 {
            self.stopped.insert(worker.name.clone());
        }
    }

    fn end_all(&mut self) {
        let frozen = std::mem::take(&mut self.thawing);
        for (worker, _) in frozen {
            worker.signal(Signal::CONT);
            self.alive.push(worker);
        }
        for worker in &mut self.alive {
            worker.signal(Signal::TERM);
        }
        for worker in &mut self.alive {
            worker.wait_end(Duration::from_secs(30));
        }
        self.let_go();
    }
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
    assert_eq!(fleet::judge(&enqueued, &good), Ok(()));
    for (bad, objection) in [
        (vec![landed(0, "k", "a")], "landed 0 times"),
        (vec![landed(0, "k", "a"), landed(1, "l", "a"), landed(1, "m", "a")], "landed 2 times"),
        (vec![landed(1, "k", "a"), landed(0, "k", "a")], "out of order"),
        (vec![landed(0, "k", "b"), landed(1, "k", "a")], "a stale write landed"),
        (vec![landed(7, "k", "a")], "nobody enqueued"),
    ] {
        assert!(fleet::judge(&enqueued, &bad).unwrap_err().contains(objection), "{objection}");
    }
    let overlap = "begin k 0 a\nbegin k 1 b\nend k 0 a\nend k 1 b\n";
    assert!(journal::find_overlap(overlap, &BTreeSet::new()).unwrap_err().contains("at once"));
    assert_eq!(journal::find_overlap(overlap, &BTreeSet::from(["a".to_owned()])), Ok(()));
    assert_eq!(journal::find_overlap("begin k 0 a\nbegin k 0 b\nend k 0 b\n", &BTreeSet::new()), Ok(()));
}
