//! A JVM that does not outlive the test process, however that ends.
//!
//! It runs under a small shell that reads from a pipe whose other end only the test process has. When that ends, even by
//! SIGKILL, the system closes the pipe; the shell then kills the JVM, also one that is stopped, and removes its folder.

use std::{
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

/// The JVM holds the shell's standard output open as its descriptor 3: at its end, however it came, the reader sees the end.
/// A line of input says that the folder is wanted again.
const SHELL: &str = r#"
folder=$1 log=$2; shift 2
"$@" 3>&1 </dev/null >>"$log" 2>&1 &
echo $!
exec >/dev/null
if read -r _; then kill -KILL $!; exit; fi
kill -KILL $!; wait; rm -rf "$folder"; rmdir "${folder%/*}"
"#;

/// Killed when it is dropped.
pub(super) struct Process {
    shell: Child,
    pid: Pid,
    alive: ChildStdout,
}

impl Process {
    /// Starts `java` with these arguments. What it prints goes to the end of `log`; `folder` is removed with the test process.
    pub(super) fn start(folder: &Path, log: &Path, arguments: &[&str]) -> Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SHELL, "sh"]).args([folder, log]).arg("java").args(arguments);
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

    /// Sends a signal.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        // The shell has not waited for it, so the id is still its own, even when it has ended.
        kill_process(self.pid, signal).with_context(|| format!("cannot signal process {:?}", self.pid))
    }

    /// Kills it and keeps its folder.
    pub(super) fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
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
