//! The workers of one play, and what is done to them at random.

use std::{collections::BTreeSet, time::Duration};

use keylane_consumer::clock::{BootTime, Clock};
use rustix::process::Signal;

use crate::{
    fleet::{Fleet, Worker},
    journal,
    process::pause,
};

/// What is done to the workers. A number chooses among those that live.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Kill(usize),
    /// For so many milliseconds: shorter or longer than the session.
    Freeze(usize, u64),
    End(usize),
    Join,
    Nothing,
}

impl Step {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        match dice.below(10) {
            0..3 => Self::Kill(dice.below(8)),
            3..5 => Self::Freeze(dice.below(8), 200 + dice.below(800) as u64),
            5 | 6 => Self::Freeze(dice.below(8), 3_000),
            7 => Self::End(dice.below(8)),
            8 => Self::Join,
            _ => Self::Nothing,
        }
    }
}

/// Small and repeatable.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// The workers of one play.
pub(crate) struct Crew<'f> {
    fleet: &'f Fleet,
    handler: &'static str,
    alive: Vec<Worker>,
    /// Frozen, with the time of their thaw.
    thawing: Vec<(Worker, BootTime)>,
    /// Names of those that ever stood still: they may overlap with whoever took over.
    pub(crate) stopped: BTreeSet<String>,
    named: usize,
}

impl<'f> Crew<'f> {
    /// That many workers to begin with.
    pub(crate) fn of(fleet: &'f Fleet, workers: usize) -> Self {
        Self::with(fleet, workers, journal::HANDLER)
    }

    /// As [`Crew::of`], with this handler.
    pub(crate) fn with(fleet: &'f Fleet, workers: usize, handler: &'static str) -> Self {
        let (alive, thawing, stopped) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut crew = Self { fleet, handler, alive, thawing, stopped, named: 0 };
        (0..workers).for_each(|_| crew.join());
        crew
    }

    pub(crate) fn join(&mut self) {
        self.named += 1;
        self.alive.push(self.fleet.start(&format!("w{}", self.named), self.handler));
    }

    pub(crate) fn suffer(&mut self, step: Step) {
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
    pub(crate) fn meanwhile(&mut self, act: impl FnOnce() + Send) {
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
    pub(crate) fn thaw(&mut self) {
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

    pub(crate) fn end_all(&mut self) {
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
