//! The children that wait for a job, and the pace at which new ones start.
//!
//! There are as many children as jobs run at once: one is started when none waits, and waits again after its job. A
//! command whose children end without ever answering is started more and more slowly, up to once in [`SLOWEST`] for
//! each running job, so that a broken one does not eat the machine.

use std::{
    ffi::OsString,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    guard::{Guard, SpawnError},
    process::{Closing, Failure, Process, Standing, Started},
};
use crate::{
    clock::{BootTime, Clock},
    error::{Detail, Error},
};

const FASTEST: Duration = Duration::from_millis(100);
const SLOWEST: Duration = Duration::from_secs(10);

pub(super) struct Pool {
    command: Vec<OsString>,
    guard: Arc<Guard>,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Started by [`Pool::check`], before there was a runtime.
    checked: Option<Started>,
    idle: Vec<Process>,
    pace: Pace,
}

impl Pool {
    pub(super) fn new(command: Vec<OsString>, guard: Arc<Guard>) -> Self {
        Self { command, guard, clock: Clock::boot(), state: Mutex::default() }
    }

    /// Starts one child, which waits for the first job.
    pub(super) fn check(&self) -> Result<(), Error> {
        let started = Started::start(&self.command, &self.guard).map_err(|error| self.explain(error))?;
        self.lock().checked = Some(started);
        Ok(())
    }

    /// A child that waits for a job, or a new one.
    pub(super) async fn take(&self) -> Result<Process, Failure> {
        loop {
            if let Some(process) = self.take_waiting()? {
                return Ok(process);
            }
            let wait = self.lock().pace.next_start.since(self.clock.now());
            if wait.is_zero() {
                break;
            }
            // Another job may finish meanwhile, and its child be free.
            tokio::time::sleep(wait).await;
        }
        let started = Started::start(&self.command, &self.guard);
        started.map_err(|error| self.explain(error)).and_then(attach).map_err(|error| {
            self.failed_to_start();
            Failure::Start(error.detail().chain())
        })
    }

    /// The child of a job that was answered.
    pub(super) fn give_back(&self, mut process: Process) {
        process.was_understood();
        let mut state = self.lock();
        state.pace = Pace::default();
        if process.is_reusable() {
            state.idle.push(process);
        }
    }

    /// The child of a job that was not; it ends here.
    pub(super) fn discard(&self, process: Process, failure: &Failure) {
        if !process.has_answered() && !matches!(failure, Failure::TimedOut { .. }) {
            self.failed_to_start();
        }
        drop(process);
    }

    /// Lets all waiting children end by themselves, together at most so long.
    pub(super) fn close(&self, patience: Duration) {
        let (checked, idle) = {
            let mut state = self.lock();
            (state.checked.take(), std::mem::take(&mut state.idle))
        };
        let idle = idle.into_iter().map(Process::close_input);
        let closing: Vec<Closing> = idle.chain(checked.map(Started::close_input)).collect();
        let end = self.clock.now().plus(patience);
        closing.iter().for_each(|child| child.wait(end.since(self.clock.now())));
    }

    #[cfg(test)]
    pub(super) fn guard(&self) -> &Guard {
        &self.guard
    }

    fn take_waiting(&self) -> Result<Option<Process>, Failure> {
        loop {
            let mut state = self.lock();
            let process = match (state.idle.pop(), state.checked.take()) {
                (Some(process), checked) => {
                    state.checked = checked;
                    process
                }
                (None, Some(started)) => started.attach().map_err(Failure::Pipe)?,
                (None, None) => return Ok(None),
            };
            drop(state);
            match process.standing() {
                Standing::Silent => return Ok(Some(process)),
                Standing::Gone if process.has_answered() => tracing::debug!("an idle handler has ended"),
                Standing::Gone => {
                    tracing::warn!("the handler ended before it got a job");
                    self.failed_to_start();
                }
                Standing::OutOfStep(error) => return Err(error.into()),
            }
        }
    }

    fn failed_to_start(&self) {
        let now = self.clock.now();
        self.lock().pace.slow_down(now);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn explain(&self, error: SpawnError) -> Error {
        let name = self.command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
        let shell = "a line for the shell is written: sh -c 'the line'";
        match error {
            SpawnError::Guard(error) => Error::Refused(
                Detail::new("cannot start the guard of the handler's processes")
                    .remedy(
                        "the program must call guard::serve_if_asked() first in main, and be allowed to start itself",
                    )
                    .because(error),
            ),
            SpawnError::Child(error) if error.kind() == io::ErrorKind::NotFound => Error::Invalid(
                Detail::new(format!(
                    "handler command '{name}' was not found, or the interpreter named in its first line"
                ))
                .remedy(format!("give a program on PATH or a path to one, and its arguments as words; {shell}"))
                .because(error),
            ),
            SpawnError::Child(error) if error.kind() == io::ErrorKind::PermissionDenied => Error::Invalid(
                Detail::new(format!("handler command '{name}' is not executable"))
                    .remedy(format!("run: chmod +x '{name}', or name the interpreter first (python3 handler.py)"))
                    .because(error),
            ),
            SpawnError::Child(error) => {
                Error::Unavailable(Detail::new(format!("cannot start handler command '{name}'")).because(error))
            }
        }
    }
}

fn attach(started: Started) -> Result<Process, Error> {
    started.attach().map_err(|e| Error::Unavailable(Detail::new("cannot watch the handler's pipes").because(e)))
}

/// How fast children may start.
#[derive(Default)]
struct Pace {
    barren: u32,
    next_start: BootTime,
}

impl Pace {
    /// One more child ended without ever answering.
    fn slow_down(&mut self, now: BootTime) {
        let delay = FASTEST.saturating_mul(1 << self.barren.min(16)).min(SLOWEST);
        self.barren = self.barren.saturating_add(1);
        self.next_start = self.next_start.max(now.plus(delay));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_never_answers_starts_more_slowly_up_to_a_bound() {
        let now = BootTime::from_nanos(5_000_000_000);
        let mut pace = Pace::default();
        assert_eq!(pace.next_start.since(now), Duration::ZERO, "the first start waits for nothing");
        let delays: Vec<u128> = (0..40)
            .map(|_| {
                pace.slow_down(now);
                pace.next_start.since(now).as_millis()
            })
            .collect();
        assert_eq!(delays[..8], [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000]);
        assert_eq!(delays[39], 10_000);
    }
}
