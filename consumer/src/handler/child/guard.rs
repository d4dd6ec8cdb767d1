//! A child's process group dies with its worker, however the worker ends.
//!
//! A worker that is killed with SIGKILL cannot clean up, and a parent-death signal reaches only the direct child. So one
//! small guard process per worker holds the other end of a socket, is told which groups live, and kills what is left
//! when the socket closes, which the kernel does for the worker in every case.
//!
//! 1. A child enlists itself between fork and exec: there is no moment at which its program runs unguarded.
//! 2. A group is struck off *before* its leader is reaped. An unreaped leader holds its number, so the guard never has a
//!    number on its list that could have gone to someone else.
//! 3. The guard has a session of its own and ignores the signals that end a worker in order, so it outlives the worker.
//! 4. A guard that was killed is replaced before the next child starts, and told of all groups that live.
//!
//! Not promised: a process that moves to another group or session leaves the guard's sight.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fmt, io,
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

use rustix::{
    net::{SendFlags, send},
    process::{Pid, Signal, getpid, kill_process_group, setsid},
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The hidden argument that makes a program the guard of the worker that started it.
pub const ARGUMENT: &str = "__keylane-guard";

/// A guard that took longer to start than this is taken for a program that does not know [`ARGUMENT`].
const START_LIMIT: Duration = Duration::from_secs(10);

/// Becomes the guard, for good, if the program was started with [`ARGUMENT`]. Every program that runs a
/// [`super::ChildHandler`] calls this first thing in `main`, before it starts a thread or reads its arguments.
pub fn serve_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT) {
        let code = match serve() {
            Ok(()) => 0,
            Err(error) => {
                eprintln!("keylane: the guard is started by a worker, not by hand: {error}");
                2
            }
        };
        std::process::exit(code);
    }
}

/// Holds the list of a worker's process groups until the worker is gone, then kills what is on it. The worker's socket is
/// standard input.
///
/// # Errors
/// If standard input is not the socket of a worker.
pub fn serve() -> io::Result<()> {
    // Refused only if this process leads a group already, and then a terminal's signals do not reach it either.
    let _ = setsid();
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    // For people who read a list of processes; without /proc it keeps its old name.
    let _ = std::fs::write("/proc/self/comm", "keylane-guard");
    let worker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    (&worker).write_all(&[READY])?;

    let mut groups = BTreeSet::new();
    let mut frame = Frame::default();
    while (&worker).read_exact(&mut frame).is_ok() {
        match read_frame(frame) {
            (ADD, group) => drop(groups.insert(group)),
            (STRIKE, group) => drop(groups.remove(&group)),
            _ => groups.clear(),
        }
    }
    groups.into_iter().filter_map(pid).for_each(kill_group);
    Ok(())
}

/// Kills each process of a group that the caller knows to be its own: listed, and its leader not reaped.
fn kill_group(group: Pid) {
    // The only failure that can happen is that no process is left.
    let _ = kill_process_group(group, Signal::KILL);
}

/// The worker's end: starts the guard, and children under it.
pub(super) struct Guard {
    command: Vec<OsString>,
    watch: Mutex<Watch>,
}

/// The guard process, if it runs, and all groups that live. The lock is held while a child starts, so that the list is
/// whole whenever a guard must be told it anew.
#[derive(Default)]
struct Watch {
    running: Option<Running>,
    groups: BTreeSet<i32>,
}

struct Running {
    process: Child,
    socket: UnixStream,
}

impl Guard {
    /// Starts nothing yet. `command` is the program and arguments that end up in [`serve`].
    pub(super) fn new(command: Vec<OsString>) -> Arc<Self> {
        Arc::new(Self { command, watch: Mutex::default() })
    }

    /// Starts a child as the leader of a new group that dies with this process.
    pub(super) fn spawn(&self, program: impl Fn() -> Command) -> Result<Child, SpawnError> {
        let mut watch = self.lock();
        match watch.spawn(&self.command, program()) {
            // The guard was killed at this very moment: the child could not enlist, and did not run.
            Err(SpawnError::Child(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
                watch.give_up_guard();
                watch.spawn(&self.command, program())
            }
            spawned => spawned,
        }
    }

    /// Kills what is left of a group and strikes it off. The leader must not be reaped before this returns.
    pub(super) fn end(&self, leader: &Child) {
        pid(raw(leader)).into_iter().for_each(kill_group);
        self.strike(leader);
    }

    /// Takes a group off the list.
    pub(super) fn strike(&self, leader: &Child) {
        let group = raw(leader);
        let mut watch = self.lock();
        watch.groups.remove(&group);
        watch.tell(&write_frame(STRIKE, group));
    }

    /// The lock's holders do not leave the list half-written, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn process_id(&self) -> Option<u32> {
        self.lock().running.as_ref().map(|running| running.process.id())
    }

    /// Closes the socket, as the kernel does for a worker that died.
    #[cfg(test)]
    pub(super) fn as_if_the_worker_died(&self) {
        let watch = self.lock();
        let socket = &watch.running.as_ref().expect("the guard was started").socket;
        socket.shutdown(std::net::Shutdown::Both).expect("a connected socket can be shut down");
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("command", &self.command).finish_non_exhaustive()
    }
}

impl Watch {
    fn spawn(&mut self, guard: &[OsString], mut program: Command) -> Result<Child, SpawnError> {
        let socket = match self.told() {
            Some(socket) => socket,
            None => self.start(guard).map_err(SpawnError::Guard)?,
        };
        enlist(program.process_group(0), socket);
        let spawned = program.spawn();
        match &spawned {
            Ok(child) => drop(self.groups.insert(raw(child))),
            // If only its exec failed it had enlisted, and std has reaped it: tell the whole list anew.
            Err(_) => drop(self.told()),
        }
        spawned.map_err(SpawnError::Child)
    }

    /// The socket of a guard that has just been told the whole list; `None` if there is no guard.
    fn told(&mut self) -> Option<OwnedFd> {
        self.give_up_a_dead_guard();
        let mut list = write_frame(CLEAR, 0).to_vec();
        list.extend(self.groups.iter().flat_map(|&group| write_frame(ADD, group)));
        self.tell(&list);
        self.running.as_ref()?.socket.as_fd().try_clone_to_owned().ok()
    }

    /// A guard that cannot be told is ended; the next child starts a new one.
    fn tell(&mut self, frames: &[u8]) {
        let Some(running) = &self.running else { return };
        let sent = send(&running.socket, frames, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        if sent != Ok(frames.len()) {
            self.give_up_guard();
        }
    }

    /// A dead guard's socket can still take what is written to it: while a process that was forked elsewhere in this one
    /// has not come to its exec, it holds a copy of the other end. So the process itself is asked.
    fn give_up_a_dead_guard(&mut self) {
        let dead = |running: &mut Running| !matches!(running.process.try_wait(), Ok(None));
        if self.running.as_mut().is_some_and(dead) {
            self.give_up_guard();
        }
    }

    fn give_up_guard(&mut self) {
        if let Some(running) = self.running.take() {
            tracing::warn!("the guard of the handler's processes is gone; the next start makes a new one");
            running.kill();
        }
    }

    fn start(&mut self, command: &[OsString]) -> io::Result<OwnedFd> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (socket, theirs) = UnixStream::pair()?;
        let process = Command::new(program)
            .args(arguments)
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let running = Running { process, socket };
        if let Err(error) = running.wait_until_ready() {
            running.kill();
            return Err(error);
        }
        self.running = Some(running);
        self.told().ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl Running {
    fn wait_until_ready(&self) -> io::Result<()> {
        let mut byte = [0];
        self.socket.set_read_timeout(Some(START_LIMIT))?;
        (&self.socket).read_exact(&mut byte)?;
        if byte == [READY] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Kills it first, so that it does not take the closing socket for the worker's end.
    fn kill(mut self) {
        let _ = self.process.kill();
        reap(self.process);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let watch = self.watch.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(Running { process, socket }) = watch.running.take() {
            drop(socket);
            reap(process);
        }
    }
}

/// Collects a process that is about to end, on a thread of its own if it has not ended yet.
pub(super) fn reap(mut process: Child) {
    if matches!(process.try_wait(), Ok(None)) {
        // Without a thread it stays unreaped until this process ends: no harm but an entry in a list.
        let _ = std::thread::Builder::new().name("keylane-reaper".into()).spawn(move || process.wait());
    }
}

/// Why a child did not start.
#[derive(Debug)]
pub(super) enum SpawnError {
    /// The guard did not start, so no child may.
    Guard(io::Error),
    /// The child's own program did not start.
    Child(io::Error),
}

/// Makes the child tell the guard its group before its program runs.
#[expect(unsafe_code, reason = "std offers no safe way to act between fork and exec")]
fn enlist(command: &mut Command, socket: OwnedFd) {
    let tell = move || {
        let frame = write_frame(ADD, getpid().as_raw_nonzero().get());
        send(&socket, &frame, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    };
    // SAFETY: `tell` runs in the forked child, where only async-signal-safe things may be done. It makes two system
    // calls (getpid, sendto) on a descriptor that it owns, and it neither allocates, locks nor touches other memory.
    unsafe {
        command.pre_exec(tell);
    }
}

/// One byte for what, four for the group. Small enough that a send is never split, so those of many children do not mix.
type Frame = [u8; 5];

const READY: u8 = b'R';
const ADD: u8 = b'+';
const STRIKE: u8 = b'-';
const CLEAR: u8 = b'0';

fn write_frame(what: u8, group: i32) -> Frame {
    let [a, b, c, d] = group.to_le_bytes();
    [what, a, b, c, d]
}

fn read_frame([what, a, b, c, d]: Frame) -> (u8, i32) {
    (what, i32::from_le_bytes([a, b, c, d]))
}

/// Only numbers that can be a child's: to kill group 1 means to kill everything.
fn pid(group: i32) -> Option<Pid> {
    Pid::from_raw(group).filter(|pid| pid.as_raw_nonzero().get() > 1)
}

fn raw(child: &Child) -> i32 {
    child.id().cast_signed()
}
