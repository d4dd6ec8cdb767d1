//! A server that does not outlive the test process, however that ends.
//!
//! It runs under a small shell that reads from a pipe whose other end only the test process has. When that ends, even by
//! SIGKILL, the system closes the pipe; the shell then kills the server and its children, also stopped ones, and removes its
//! folder.

use std::{
    ffi::OsStr,
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};

/// The server and its children hold the shell's standard output open as their descriptor 3: at the end of the last of them,
/// however it came, the reader sees the end. One that is stopped makes no child, so the list of them is whole. A line of input
/// says that the folder is wanted again. A group of processes that has lost its parent and has a stopped one in it is hung up by
/// the system, and the shell must outlive that.
const SHELL: &str = r#"
folder=$1 log=$2; shift 2
"$@" 3>&1 </dev/null >>"$log" 2>&1 &
echo $!
trap '' HUP
exec >/dev/null
read -r _ && keep=1
kill -STOP $!; kill -KILL $! $(ps -o pid= --ppid $!)
wait
[ "$keep" ] && exit
rm -rf "$folder"; rmdir "${folder%/*}"
"#;

/// Killed when it is dropped.
pub(super) struct Process {
    shell: Child,
    pid: Pid,
    alive: ChildStdout,
}

impl Process {
    /// Starts a program with these arguments. What it prints goes to the end of `log`; `folder` is removed with the test
    /// process.
    pub(super) fn start(folder: &Path, log: &Path, program: &[impl AsRef<OsStr>]) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SHELL, "sh"]).args([folder, log]).args(program);
        // A group of its own: Ctrl-C is for the test process, and the shell sees how that ends.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = shell.spawn().context("cannot start sh")?;
        let mut alive = shell.stdout.take().context("its output is piped")?;
        let mut pid = String::new();
        let mut byte = [0];
        while alive.read(&mut byte)? == 1 && byte != *b"\n" {
            pid.push(char::from(byte[0]));
        }
        let pid = pid.parse().ok().and_then(Pid::from_raw).context("sh did not say whom it started")?;
        Ok(Self { shell, pid, alive })
    }

    /// Whether it has ended, by itself or killed; waits so long for it.
    pub(super) fn ended_within(&self, limit: Duration) -> Result<bool> {
        let mut end = [PollFd::new(&self.alive, PollFlags::IN)];
        Ok(poll(&mut end, Some(&Timespec::try_from(limit)?))? > 0)
    }

    /// The id of its process.
    pub(super) fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        // The shell has not waited for it, so the id is still its own, even when it has ended.
        kill_process(self.pid, signal).with_context(|| format!("cannot signal process {:?}", self.pid))
    }

    /// Sends a signal to it, and then to its children.
    pub(super) fn signal_all(&self, signal: Signal) -> Result<()> {
        self.signal(signal)?;
        let listed =
            Command::new("ps").args(["-o", "pid=", "--ppid", &self.pid.as_raw_nonzero().to_string()]).output()?;
        for child in String::from_utf8_lossy(&listed.stdout).split_whitespace() {
            let child = child.parse().ok().and_then(Pid::from_raw).context("ps lists numbers")?;
            // It may have ended meanwhile.
            let _ = kill_process(child, signal);
        }
        Ok(())
    }

    /// Kills it with its children, and keeps its folder.
    pub(super) fn kill(mut self) -> Result<()> {
        if let Some(mut pipe) = self.shell.stdin.take() {
            pipe.write_all(b"keep\n")?;
        }
        self.shell.wait()?;
        anyhow::ensure!(self.ended_within(Duration::from_secs(10))?, "process {:?} survived SIGKILL", self.pid);
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closes the pipe, and the shell does the rest.
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
