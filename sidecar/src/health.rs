//! Whether a worker is well, by its file alone: for an exec probe, since nothing may listen in a worker.
//!
//! 1. Live fails only for what a new start could cure: the loop stands, the worker has ended, or all of its work stands still and
//!    nothing that it knows of holds it up. A store or broker that is away, a handler that fails, a rebalance, lag: none of them.
//! 2. Ready fails before the first proof of membership, from the moment it drains, and if a rebalance takes longer than
//!    [`REBALANCE`]. How many partitions it holds does not matter: a worker too many is ready, and holds none.
//! 3. A file that is old, cut off, or breaks the contract says nothing good.

use std::{fmt, path::Path, time::Duration};

use crate::{
    clock::Now,
    publish::{Fault, snapshot_file},
    snapshot::WorkerState,
    spool::Spooled,
};

/// So long may partitions come and go before a worker is not ready.
pub const REBALANCE: Duration = Duration::from_secs(300);
/// So long may all work stand still for no known reason.
pub const STUCK: Duration = Duration::from_secs(900);
/// A stamp may be so far ahead of us: the machine's own clock is one, read at two moments.
const AHEAD_MS: u64 = 1_000;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether to start it anew.
    Live,
    /// Whether it takes part.
    Ready,
    /// Whether it has begun.
    Startup,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// A word for programs.
    pub name: &'static str,
    /// How it stands.
    pub verdict: Verdict,
    /// The same in words.
    pub words: String,
}

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should.
    Good,
    /// Not for long, and no reason to do anything.
    Passing,
    /// Bad.
    Bad,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.verdict {
            Verdict::Good => '+',
            Verdict::Passing => '~',
            Verdict::Bad => '-',
        };
        write!(f, "[{sign}]{}", self.words)
    }
}

/// Asks the file of a worker whose loop should turn at least once `within` that time.
pub fn ask(question: Question, file: &Path, within: Duration) -> Vec<Check> {
    match snapshot_file(file) {
        Ok((spooled, _)) => answer(question, &spooled, Now::read(), within),
        Err(fault) => vec![check("file", Verdict::Bad, unread(fault).to_owned())],
    }
}

/// Whether nothing is bad.
pub fn is_well(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.verdict != Verdict::Bad)
}

fn unread(fault: Fault) -> &'static str {
    match fault {
        Fault::Missing => "file is not there or cannot be read",
        Fault::Torn => "file is not whole",
        Fault::Version => "file is of another version",
        Fault::BreaksTheContract => "file breaks the contract",
    }
}

fn answer(question: Question, said: &Spooled, now: Now, within: Duration) -> Vec<Check> {
    let word = Heard { said, now, within };
    match question {
        Question::Startup => vec![word.turns(), word.has_not_ended()],
        Question::Live => vec![word.turns(), word.has_not_ended(), word.moves()],
        Question::Ready => vec![word.turns(), word.takes_part(), word.is_settled()],
    }
}

struct Heard<'a> {
    said: &'a Spooled,
    now: Now,
    within: Duration,
}

impl Heard<'_> {
    fn turns(&self) -> Check {
        let turned = self.said.health.turned_boot_ms;
        if turned > self.now.boot_ms + AHEAD_MS {
            return check(
                "loop",
                Verdict::Bad,
                "loop is not known: the file is from before this start of the machine".into(),
            );
        }
        let ago = self.since(turned);
        if ago < self.within {
            check("loop", Verdict::Good, format!("loop ok, turned {} ago", short(ago)))
        } else {
            check("loop", Verdict::Bad, format!("loop stands still, turned {} ago", short(ago)))
        }
    }

    fn has_not_ended(&self) -> Check {
        match self.state() {
            WorkerState::Stopped => check("worker", Verdict::Bad, "worker has stopped".into()),
            WorkerState::Unknown => check("worker", Verdict::Bad, "worker could not go on".into()),
            _ => check("worker", Verdict::Good, "worker runs".into()),
        }
    }

    fn moves(&self) -> Check {
        match self.said.health.stuck_since_boot_ms.map(|since| self.since(since)) {
            Some(stuck) if stuck >= STUCK => {
                let words = format!("work stands still for {}, and nothing known holds it up", short(stuck));
                check("work", Verdict::Bad, words)
            }
            Some(stuck) => check("work", Verdict::Passing, format!("work stands still for {}", short(stuck))),
            None => check("work", Verdict::Good, "work moves, waits for what is known, or there is none".into()),
        }
    }

    fn takes_part(&self) -> Check {
        let left = self.said.snapshot.workers.first().and_then(|own| own.jobs_in_flight).unwrap_or(0);
        match self.state() {
            WorkerState::Running => check("member", Verdict::Good, "joined the group".into()),
            WorkerState::Starting => check("member", Verdict::Bad, "has not joined the group yet".into()),
            WorkerState::Draining => check("member", Verdict::Bad, format!("drain in progress: {left} jobs left")),
            WorkerState::Stopped | WorkerState::Unknown => self.has_not_ended(),
        }
    }

    fn is_settled(&self) -> Check {
        let Some(since) = self.said.health.rebalancing_since_boot_ms else {
            return check("group", Verdict::Good, "group settled".into());
        };
        let takes = self.since(since);
        let verdict = if takes < REBALANCE { Verdict::Passing } else { Verdict::Bad };
        check("group", verdict, format!("group rebalancing for {}", short(takes)))
    }

    fn state(&self) -> WorkerState {
        self.said.snapshot.workers.first().map_or(WorkerState::Starting, |own| own.state)
    }

    fn since(&self, boot_ms: u64) -> Duration {
        Duration::from_millis(self.now.since(boot_ms))
    }
}

fn check(name: &'static str, verdict: Verdict, words: String) -> Check {
    Check { name, verdict, words }
}

fn short(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
mod tests;
