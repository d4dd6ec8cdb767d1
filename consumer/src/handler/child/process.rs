//! One child: asked one job at a time, never asked again once anything was odd.
//!
//! 1. Its group is killed, struck off the guard's list and only then reaped, in this order, whatever ended it.
//! 2. Dropping it kills the group: a child whose job was given up is never asked another one.
//! 3. Its exit is seen on a process descriptor, so also when a grandchild keeps its output open.

use std::{
    ffi::OsString,
    fmt, io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, Interest, unix::AsyncFd},
    net::unix::pipe,
};

use super::{
    guard::{self, Guard, SpawnError},
    line::{ProtocolError, line_end, printable},
};

/// How long a child that closed its output may take to exit before it is taken for one that goes on without.
const EXIT_GRACE: Duration = Duration::from_secs(1);
/// Read at once.
const CHUNK: usize = 16 * 1024;

/// A child that no runtime knows yet: it can be started before there is one.
#[derive(Debug)]
pub(super) struct Started {
    stdin: OwnedFd,
    stdout: OwnedFd,
    exit: OwnedFd,
    group: Group,
}

impl Started {
    pub(super) fn start(command: &[OsString], guard: &Arc<Guard>) -> Result<Self, SpawnError> {
        let (program, arguments) =
            command.split_first().ok_or(SpawnError::Child(io::ErrorKind::InvalidInput.into()))?;
        let mut leader = guard.spawn(|| {
            let mut command = Command::new(program);
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        })?;
        let (stdin, stdout) = (leader.stdin.take(), leader.stdout.take());
        let group = Group { leader: Some(leader), guard: Arc::clone(guard) };
        let exit = group.pid().map(|pid| pidfd_open(pid, PidfdFlags::empty()));
        match (stdin, stdout, exit) {
            (Some(stdin), Some(stdout), Some(Ok(exit))) => {
                Ok(Self { stdin: stdin.into(), stdout: stdout.into(), exit, group })
            }
            (_, _, Some(Err(error))) => Err(SpawnError::Child(error.into())),
            _ => Err(SpawnError::Child(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Hands it to the runtime of the caller.
    pub(super) fn attach(self) -> io::Result<Process> {
        Ok(Process {
            stdin: pipe::Sender::from_owned_fd(self.stdin)?,
            stdout: pipe::Receiver::from_owned_fd(self.stdout)?,
            exit: watch(self.exit)?,
            group: self.group,
            heard: Vec::new(),
            answered: false,
            reusable: false,
        })
    }

    pub(super) fn close_input(self) -> Closing {
        Closing { exit: self.exit, _group: self.group }
    }
}

/// A child on a runtime.
#[derive(Debug)]
pub(super) struct Process {
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    exit: AsyncFd<OwnedFd>,
    group: Group,
    heard: Vec<u8>,
    answered: bool,
    reusable: bool,
}

/// What a child is found to be between two jobs.
pub(super) enum Standing {
    /// Waiting for a job.
    Silent,
    /// It has exited, or closed its output.
    Gone,
    /// It wrote something that nobody asked for.
    OutOfStep(ProtocolError),
}

impl Process {
    /// Writes the job's line and reads the answer's. The future may be dropped at any time; the child is not reusable
    /// then.
    pub(super) async fn ask(&mut self, line: &[u8], cap: usize) -> Result<Vec<u8>, Failure> {
        self.reusable = false;
        self.heard.clear();
        let end = {
            // Both at once: a child may answer before it has read all, or never read at all.
            let mut write = std::pin::pin!(self.stdin.write_all(line));
            let mut sent = None;
            loop {
                let seen = self.heard.len();
                self.heard.reserve(CHUNK);
                tokio::select! {
                    biased;
                    // A child that closed its input may have answered: the answer decides, not this.
                    result = &mut write, if sent.is_none() => sent = Some(result.is_ok()),
                    read = self.stdout.read_buf(&mut self.heard) => {
                        if read.map_err(Failure::Pipe)? == 0 {
                            break None;
                        }
                        if let Some(end) = line_end(&self.heard, seen, cap)? {
                            self.reusable = sent == Some(true);
                            break Some(end);
                        }
                    }
                    _ = self.exit.readable() => break self.drain(cap)?,
                }
            }
        };
        match end {
            Some(end) => {
                self.heard.truncate(end);
                Ok(std::mem::take(&mut self.heard))
            }
            None => Err(self.ended().await),
        }
    }

    /// What lies between two jobs; costs two system calls and does not wait.
    pub(super) fn standing(&self) -> Standing {
        let mut buffer = [0; 256];
        match rustix::io::read(&self.stdout, &mut buffer) {
            Ok(length @ 1..) => {
                Standing::OutOfStep(ProtocolError::new(&buffer[..length], "nothing is written while no job is running"))
            }
            Err(Errno::AGAIN | Errno::INTR) if !exited(self.exit.get_ref(), Duration::ZERO) => Standing::Silent,
            _ => Standing::Gone,
        }
    }

    /// What [`Process::ask`] returned was an answer.
    pub(super) fn was_understood(&mut self) {
        self.answered = true;
    }

    /// Whether it ever answered a job: if not, it is the command that is broken, rather than one job of many.
    pub(super) fn has_answered(&self) -> bool {
        self.answered
    }

    /// Whether it read the whole last job and answered it, and so waits for the next.
    pub(super) fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// What it wrote of an answer that is not complete.
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.heard
    }

    pub(super) fn close_input(self) -> Closing {
        Closing { exit: self.exit.into_inner(), _group: self.group }
    }

    /// After its exit: all that it wrote lies in the pipe. Reads past the runtime, whose notion of "readable" may lag.
    fn drain(&mut self, cap: usize) -> Result<Option<usize>, Failure> {
        let mut chunk = [0; CHUNK];
        loop {
            let seen = self.heard.len();
            match rustix::io::read(&self.stdout, &mut chunk) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(None),
                Ok(length) => self.heard.extend_from_slice(&chunk[..length]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(Failure::Pipe(error.into())),
            }
            if let Some(end) = line_end(&self.heard, seen, cap)? {
                return Ok(Some(end));
            }
        }
    }

    /// It will write no more: why.
    async fn ended(&mut self) -> Failure {
        if tokio::time::timeout(EXIT_GRACE, self.exit.readable()).await.is_err() {
            return ProtocolError::new(&self.heard, "the output stays open until the input ends").into();
        }
        match self.group.collect() {
            Ok(status) if status.success() && !self.heard.is_empty() => {
                ProtocolError::new(&self.heard, "an answer ends with a newline").into()
            }
            Ok(status) => Failure::Exited(status),
            Err(error) => Failure::Pipe(error),
        }
    }
}

/// A child whose input is closed, so that it ends by itself; dropping it ends the patience.
pub(super) struct Closing {
    exit: OwnedFd,
    _group: Group,
}

impl Closing {
    /// Waits for its exit, at most so long.
    pub(super) fn wait(&self, patience: Duration) {
        exited(&self.exit, patience);
    }
}

#[expect(unsafe_code, reason = "tokio has no safe way to watch a process descriptor")]
fn watch(exit: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open until it is dropped and is the same descriptor all the while; the `AsyncFd` owns it
    // and gives it back only after it has let go of it.
    unsafe { AsyncFd::register_with_interest(exit, Interest::READABLE) }.map_err(Into::into)
}

/// Whether the process has exited, or does within that time.
fn exited(exit: &OwnedFd, within: Duration) -> bool {
    let within = Timespec::try_from(within).ok();
    poll(&mut [PollFd::new(exit, PollFlags::IN)], within.as_ref()).is_ok_and(|ready| ready > 0)
}

/// A child's process group; its end is invariant 1.
#[derive(Debug)]
struct Group {
    leader: Option<Child>,
    guard: Arc<Guard>,
}

impl Group {
    fn pid(&self) -> Option<Pid> {
        self.leader.as_ref().map(Pid::from_child)
    }

    /// How the leader, which has exited, did so.
    fn collect(&mut self) -> io::Result<ExitStatus> {
        let mut leader = self.leader.take().ok_or(io::ErrorKind::NotFound)?;
        self.guard.end(&leader);
        leader.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            self.guard.end(&leader);
            guard::reap(leader);
        }
    }
}

/// Why there is no answer. Each fails the attempt, and the child is replaced.
#[derive(Debug)]
pub(super) enum Failure {
    /// The child did not start.
    Start(String),
    /// It ended before it answered.
    Exited(ExitStatus),
    /// It wrote what the protocol does not allow.
    Protocol(ProtocolError),
    /// It took too long; what it wrote so far.
    TimedOut { limit: Duration, unfinished: String },
    /// Its pipes failed.
    Pipe(io::Error),
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl Failure {
    pub(super) fn timed_out(limit: Duration, unfinished: &[u8]) -> Self {
        Self::TimedOut { limit, unfinished: printable(unfinished) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(why) => f.write_str(why),
            Self::Exited(status) => match (status.code(), status.signal()) {
                (Some(code), _) => write!(f, "handler exited with status {code}"),
                (None, Some(signal)) => write!(f, "handler was killed by signal {signal}"),
                (None, None) => write!(f, "handler ended: {status}"),
            },
            Self::Protocol(error) => error.fmt(f),
            Self::TimedOut { limit, unfinished } => {
                f.write_str("no answer within ")?;
                match limit.subsec_millis() {
                    0 => write!(f, "{} s", limit.as_secs())?,
                    _ => write!(f, "{} ms", limit.as_millis())?,
                }
                if unfinished.is_empty() { Ok(()) } else { write!(f, "; `{unfinished}` came without a newline") }
            }
            Self::Pipe(error) => write!(f, "the handler's pipe failed: {error}"),
        }
    }
}
