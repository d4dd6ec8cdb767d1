//! What a worker's process holds while large records wait and its handler is slow.

use std::{
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

use bytes::Bytes;
use keylane_consumer::group::kafka::{Assignor, KafkaGroupSettings};
use keylane_producer::{Job, JobKey};

use crate::rig::{Rig, slow_teller};

/// Tells a process of this test binary that it is the worker that is measured: in which folder.
const FOLDER: &str = "KEYLANE_TEST_MEMORY_FOLDER";

const PARTITIONS: usize = 20;
const RECORD: usize = 400 << 10;
/// 320 MB in all.
const WAITING: usize = 800;
const HELD_BYTES: usize = 1 << 20;
const RUNNING: usize = 4;

/// R33: it follows its settings, not its backlog.
#[test]
fn a_slow_worker_with_large_records_waiting_stays_below_the_documented_formula() {
    let rig = Rig::new(u32::try_from(PARTITIONS).unwrap(), Assignor::Cooperative);
    let mut enqueuer = rig.enqueuer();
    // Nothing that could be compressed.
    let mut payload = vec![0; RECORD];
    for batch in 0..WAITING / 20 {
        payload.fill_with(|| fastrand::u8(..));
        let payload = Bytes::copy_from_slice(&payload);
        let job = |n: usize| {
            let key = JobKey::try_from(format!("key-{batch}-{n}").as_str()).unwrap();
            Job::new(key, Some(payload.clone())).unwrap()
        };
        enqueuer.send((0..20).map(job).collect()).unwrap();
    }
    drop(enqueuer);
    let worker = Measured(
        Command::new(std::env::current_exe().unwrap())
            .args(["memory::memory_process", "--exact", "--nocapture"])
            .env(FOLDER, rig.folder())
            .stdout(std::fs::File::create(rig.folder().join("told-by-it")).unwrap())
            .spawn()
            .unwrap(),
    );
    let before = || std::fs::read_to_string(rig.folder().join("before")).ok()?.parse::<usize>().ok();
    rig.wait_for("it works on all partitions", || {
        let told = rig.told();
        before().is_some() && (0..PARTITIONS).all(|p| told.iter().any(|told| told.partition as usize == p))
    });
    let group = KafkaGroupSettings::default();
    let polled = group.poll_bytes + RECORD;
    let formula = [
        // For each partition: the records that it holds, and the one that is more than that.
        PARTITIONS * (HELD_BYTES + RECORD),
        // What handlers hold.
        RUNNING * RECORD,
        // Pages on their way from the polling thread: 16, the one that it makes, and the one that the desk takes in.
        18 * polled,
        // All else, the client and the program among it: not derived, but what was allowed before (docs/benchmarks.md).
        16 * (4 << 20),
    ];
    let formula: usize = formula.iter().sum();
    let grown = worker.peak() - before().unwrap();
    let mib = |bytes: usize| bytes >> 20;
    println!(
        "grown by {} MiB at its peak; formula {} MiB; waiting {} MiB",
        mib(grown),
        mib(formula),
        mib(WAITING * RECORD)
    );
    assert!(formula < WAITING * RECORD, "else it would show nothing");
    assert!(grown < formula);
}

struct Measured(Child);

impl Measured {
    /// Bytes of memory that were resident at most.
    fn peak(&self) -> usize {
        resident(&self.0.id().to_string(), "VmHWM:")
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn resident(process: &str, what: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// The body of the measured worker; in an ordinary run of the tests it has nothing to do.
#[test]
fn memory_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    std::fs::write(folder.join("before"), resident("self", "VmRSS:").to_string()).unwrap();
    let rig = Rig::at(&folder, |settings, _| {
        settings.lanes.running = RUNNING;
        settings.lanes.held_bytes = HELD_BYTES;
    });
    let worker = rig.spawn("slow", slow_teller("slow", Duration::from_millis(50)));
    let _ = worker.outcome();
}
