//! A handler in any language: a child process that gets jobs as JSON lines and answers with JSON lines.
//!
//! `docs/handlers.md` is the protocol for people who write one. What holds here:
//!
//! 1. A child is kept alive and has one job at a time; as many run as jobs run at once.
//! 2. A child in the middle of a job is never asked another one. A time limit, a dropped future (the partition is lost), an
//!    exit, or anything that the protocol does not allow ends it with its whole process group, and a new one starts.
//! 3. No child outlives the worker, also when the worker is killed with SIGKILL: see [`guard`].
//! 4. What a child answers is written under the worker's claim. It learns nothing of the fence, unless it asked for what its own
//!    transaction shows to the store ([`ChildSettings::fence`]): that is in the job line, and in no word of ours.
//!
//! The program that runs it calls [`guard::serve_if_asked`] first thing in `main`, runs it on a tokio runtime with I/O and
//! time enabled, and leaves SIGPIPE ignored (as Rust programs start).

use std::{ffi::OsString, fmt, time::Duration};

use crate::{
    error::{Detail, Error},
    fence::redacted,
    handler::{Handler, JobContext, Outcome, Retry},
    store::FencedStore,
};

/// A job as a child gets it: one JSON line, the newline included. `limit` is the time that it has.
pub use line::{job_line, printable};

pub mod guard;
mod line;
mod pool;
mod process;

use guard::Guard;
use line::{Answer, fenced_job_line, read_answer};
use pool::Pool;
use process::Failure;

/// Longest answer unless set otherwise, in bytes: what a result row may reasonably hold.
pub const DEFAULT_ANSWER_CAP: usize = 1024 * 1024;
/// How long waiting children may take to end after their input closed, unless set otherwise.
pub const DEFAULT_END_GRACE: Duration = Duration::from_secs(2);

/// What to run, and its limits.
#[derive(Clone, Debug)]
pub struct ChildSettings {
    /// The program and its arguments. No shell is between; for one, write `sh`, `-c` and the line.
    pub command: Vec<OsString>,
    /// How long a child may work on one job; then its process group is killed and the attempt has failed.
    pub limit: Duration,
    /// Longest answer, in bytes without the newline. Default: [`DEFAULT_ANSWER_CAP`]; each running job may hold so much.
    pub answer_cap: usize,
    /// Whether the job line has what `keylane.admit` wants, where the store gives it out. Default: no.
    pub fence: bool,
    /// How long all waiting children together may take to end by themselves. Default: [`DEFAULT_END_GRACE`].
    pub end_grace: Duration,
    /// The program and arguments that end up in [`guard::serve`]. Default: this program with [`guard::ARGUMENT`].
    pub guard: Vec<OsString>,
}

impl ChildSettings {
    /// With the defaults for all else.
    pub fn new(command: Vec<OsString>, limit: Duration) -> Self {
        Self {
            command,
            limit,
            answer_cap: DEFAULT_ANSWER_CAP,
            fence: false,
            end_grace: DEFAULT_END_GRACE,
            // The link, not the path behind it: it is this very program also after an upgrade replaced the file.
            guard: vec!["/proc/self/exe".into(), guard::ARGUMENT.into()],
        }
    }
}

/// Runs jobs in child processes. Dropping it waits up to [`ChildSettings::end_grace`] for the children to end.
pub struct ChildHandler {
    limit: Duration,
    answer_cap: usize,
    fence: bool,
    end_grace: Duration,
    pool: Pool,
}

impl ChildHandler {
    /// Starts nothing yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the command is empty.
    pub fn new(settings: ChildSettings) -> Result<Self, Error> {
        if settings.command.first().is_none_or(|program| program.is_empty()) {
            return Err(Error::Invalid(
                Detail::new("handler command is empty: it is a program and its arguments")
                    .remedy("write for example: --exec python3 handler.py"),
            ));
        }
        Ok(Self {
            limit: settings.limit,
            answer_cap: settings.answer_cap,
            fence: settings.fence,
            end_grace: settings.end_grace,
            pool: Pool::new(settings.command, Guard::new(settings.guard)),
        })
    }

    /// Starts one child, which then waits for the first job: a command that cannot run is found before the worker joins
    /// the group. Needs no runtime.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the command is not there or not executable, [`Error::Refused`] if the guard does not start,
    /// [`Error::Unavailable`] if the machine has no room for another process.
    pub fn check(&self) -> Result<(), Error> {
        self.pool.check()
    }

    async fn attempt(&self, context: &JobContext) -> Result<Answer, Failure> {
        let mut process = self.pool.take().await?;
        let line = if self.fence { fenced_job_line(context, self.limit) } else { job_line(context, self.limit) };
        let answer = match tokio::time::timeout(self.limit, process.ask(&line, self.answer_cap)).await {
            Ok(heard) => heard.and_then(|line| Ok(read_answer(&line, &context.job.id)?)),
            Err(_) => Err(Failure::timed_out(self.limit, process.unfinished())),
        };
        match &answer {
            Ok(_) => self.pool.give_back(process),
            Err(failure) => self.pool.discard(process, failure),
        }
        answer
    }
}

impl<S: FencedStore> Handler<S> for ChildHandler {
    async fn run(&self, context: JobContext) -> Outcome<S> {
        match self.attempt(&context).await {
            Ok(answer) => outcome(answer),
            Err(failure) => Outcome::retry(redacted(&failure.to_string())),
        }
    }
}

fn outcome<S: FencedStore>(answer: Answer) -> Outcome<S> {
    match answer {
        Answer::Done { result: None } => Outcome::done(),
        Answer::Done { result: Some(json) } => Outcome::result(json),
        Answer::Retry { reason, after } => Outcome::Retry(Retry { reason: redacted(&reason).into(), after }),
        Answer::Reject { reason } => Outcome::reject(redacted(&reason)),
    }
}

/// An answer of this protocol that came another way. One that the protocol does not allow is tried again, as a child's is.
pub fn outcome_of<S: FencedStore>(answer: &[u8], job: &keylane_producer::JobId) -> Outcome<S> {
    match read_answer(answer.trim_ascii_end(), job) {
        Ok(answer) => outcome(answer),
        Err(wrong) => Outcome::retry(redacted(&wrong.to_string())),
    }
}

impl Drop for ChildHandler {
    fn drop(&mut self) {
        self.pool.close(self.end_grace);
    }
}

impl fmt::Debug for ChildHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildHandler")
            .field("limit", &self.limit)
            .field("answer_cap", &self.answer_cap)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
