//! Handlers that need no program: for trying things out, and for measuring.

use std::{io::Write, time::Duration};

use keylane_consumer::{FencedStore, Handler, JobContext, Outcome, handler::child};

/// Prints each job as a program would get it.
pub(super) struct Print {
    /// The time that a program would have.
    pub(super) limit: Duration,
}

/// Does nothing.
pub(super) struct Discard;

impl<S: FencedStore> Handler<S> for Print {
    async fn run(&self, job: JobContext) -> Outcome<S> {
        let line = child::job_line(&job, self.limit);
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(&line).and_then(|()| stdout.flush()) {
            Ok(()) => Outcome::done(),
            Err(error) => Outcome::retry(format!("cannot print: {error}")),
        }
    }
}

impl<S: FencedStore> Handler<S> for Discard {
    async fn run(&self, _: JobContext) -> Outcome<S> {
        Outcome::done()
    }
}
