//! A worker as a process of its own, that a test can freeze; it ends with the test.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Place, wait_until};

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

    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.0.id());
        wait_until("the worker stands still", || {
            std::fs::read_to_string(&stat)
                .is_ok_and(|text| text.rsplit(") ").next().is_some_and(|s| s.starts_with('T')))
        });
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
