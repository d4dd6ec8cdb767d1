//! What a worker holds while many jobs wait: a process of its own, whose handlers do not end.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crossbeam_channel::tick;

use super::{
    Bench,
    measure::{Pair, Spread},
    queue::Queue,
    row::{Aim, Row},
};
use crate::{
    exit::{Code, Failure},
    output::grouped,
};

/// It has taken what it takes when its memory has not grown for so many looks.
const STILL: u32 = 15;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Then it is measured as it is.
const MOST_LOOKS: u32 = 600;
const MIB: f64 = 1024.0;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let (few, many) = (bench.sizes.few, bench.sizes.many_waiting);
    let (small, large) = (held(bench, few)?, held(bench, many)?);
    let now = Pair::of(&[(large.resident, small.resident)]);
    let what = format!("memory of a worker while {} jobs wait, against {}", grouped(many), grouped(few));
    let most = format!("the most it had while {} jobs waited", grouped(many));
    Ok(vec![
        Row::pair("memory", what, "MiB", "the few", now),
        Row::alone("memory", most, "MiB", Spread::of([large.most])).aiming(Aim::OursBelow(100.0)),
    ])
}

/// In MiB.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Memory {
    resident: f64,
    pub(super) most: f64,
}

/// Of a process that lives.
pub(super) fn read_memory(pid: u32) -> Option<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some(Memory { resident: mib(&status, "VmRSS:")?, most: mib(&status, "VmHWM:")? })
}

/// Of a worker on a queue with so many jobs, once it takes no more.
fn held(bench: &Bench<'_>, jobs: u64) -> Result<Memory, Failure> {
    let corner = bench.place.corner()?;
    let mut queue = Queue::make(&corner.file("queue.db"))?;
    bench.progress.say(&format!("memory: {} jobs wait", grouped(jobs)));
    queue.fill(&bench.jobs, jobs)?;
    let mut worker = Waiting::begin(&queue)?;
    let mut memory = worker.memory()?;
    let mut still = 0;
    for _ in tick(LOOK_EVERY).iter().take(MOST_LOOKS as usize) {
        let now = worker.memory()?;
        still = if now.most > memory.most { 0 } else { still + 1 };
        memory = now;
        if still == STILL {
            break;
        }
    }
    Ok(memory)
}

/// A worker whose every job lasts longer than this runs; killed when it is dropped, and its programs with it.
struct Waiting(Child);

impl Waiting {
    fn begin(queue: &Queue) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::new(Code::Unavailable, "cannot start a worker to measure").because(&error);
        let program = std::env::current_exe().map_err(failed)?;
        let mut worker = Command::new(program);
        worker.arg("work").arg("--broker").arg(url(queue.file())).args(["--queue", "bench", "--quiet"]);
        worker.args(["--job-timeout", "1h", "--exec", "sleep", "3600"]);
        worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KEYLANE_")) {
            worker.env_remove(name);
        }
        worker.spawn().map(Self).map_err(failed)
    }

    fn memory(&mut self) -> Result<Memory, Failure> {
        let gone = || Failure::new(Code::Failed, "the worker that was to be measured has ended");
        if self.0.try_wait().is_ok_and(|ended| ended.is_some()) {
            return Err(gone());
        }
        read_memory(self.0.id()).ok_or_else(gone)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn url(file: &Path) -> std::ffi::OsString {
    let mut url = std::ffi::OsString::from("sqlite:");
    url.push(file);
    url
}

/// The value of a line `VmRSS:   12345 kB`.
fn mib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(mib("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n", "VmRSS:"), Some(1.0));
        assert_eq!(mib("Name:\tx\n", "VmRSS:"), None);
    }
}
