//! A worker as a process of its own, that a test can freeze; it ends with the test.

use std::{
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};

use super::{Place, pause, wait_until};

/// A running `keylane work`.
pub struct Worker(Child);

impl Worker {
    /// Starts one whose handler is this line of shell, run for each answer: it finds the job in `$line`.
    pub fn start(place: &Place, name: &str, flags: &[&str], answer: &str) -> Self {
        let script = format!("while read -r line; do {answer}; done");
        let mut args = vec!["work", "--name", name, "--concurrency", "4"];
        args.extend(flags);
        args.extend(["--exec", "sh", "-c", &script]);
        let mut command = place.command(&args);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        wait_until("the worker stands still", || stands_still(Pid::from_child(&self.0)));
    }

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end, and waits until it did.
    pub fn end(mut self) {
        self.signal(Signal::TERM);
        self.0.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stops a process between its transactions on this file: whoever is stopped inside of one keeps the write lock, and all
/// others out, for as long as it stands still.
pub fn freeze_outside_of_transactions(pid: Pid, file: &Path) {
    wait_until("it stands still outside of a transaction", || {
        kill_process(pid, Signal::STOP).unwrap();
        wait_until("it stands still", || stands_still(pid));
        let outside = !is_locked(file);
        if !outside {
            kill_process(pid, Signal::CONT).unwrap();
            pause(Duration::from_millis(3));
        }
        outside
    });
}

/// Whether all of a process that was told to stop has: each thread stops for itself, some time after the signal.
pub fn stands_still(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let stats = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")));
    stats.flatten().all(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
}

/// Whether somebody is inside a transaction that writes to the file.
pub fn is_locked(file: &Path) -> bool {
    let file = Connection::open(file).unwrap();
    file.busy_timeout(Duration::ZERO).unwrap();
    file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
}
