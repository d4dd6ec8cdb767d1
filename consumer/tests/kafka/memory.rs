//! What a worker's process holds while large records wait and its handler is slow.

use std::{
    path::PathBuf,
    process::{Child, Command},
    time::Duration,
};

use bytes::Bytes;
use keylane_consumer::group::kafka::{Assignor, KafkaGroupSettings};
use keylane_producer::{Job, JobKey};

use crate::rig::{How, Rig, slow_teller};

/// Tells a process of this test binary that it is the worker that is measured: in which folder.
const FOLDER: &str = "KEYLANE_TEST_MEMORY_FOLDER";
/// And that it is the twin.
const IN_ONE_PIECE: &str = "KEYLANE_TEST_MEMORY_IN_ONE_PIECE";

const PARTITIONS: usize = 20;
const RECORD: usize = 400 << 10;
/// At the start, and again while it works: 320 MB in all.
const WAITING: usize = 400;
/// So many are done before it is looked at: what is left of each job would be seen.
const DONE: usize = 600;
const HELD_BYTES: usize = 1 << 20;
const RUNNING: usize = 4;
const PROGRAM: usize = 12 << 20;
/// An answer of a broker at its largest (`fetch.max.bytes`).
const ANSWER: usize = 4 << 20;

/// R33: it follows its settings, not its backlog.
#[test]
fn a_slow_worker_with_large_records_waiting_stays_below_the_documented_formula() {
    let grown = grown(false);
    assert!(formula() < WAITING * RECORD, "else it would show nothing");
    assert!(grown < formula());
}

#[test]
fn a_worker_whose_keys_lie_in_their_records_keeps_what_it_has_done() {
    assert!(grown(true) > formula());
}

fn formula() -> usize {
    let polled = KafkaGroupSettings::default().poll_bytes + RECORD;
    let parts = [
        // For each partition: the records that it holds, and the one that is more than that.
        PARTITIONS * (HELD_BYTES + RECORD),
        // What handlers hold.
        RUNNING * RECORD,
        // Pages on their way from the polling thread: 16, the one that it makes, and the one that the desk takes in.
        18 * polled,
        // The client: an answer of each broker, and one that is read.
        4 * ANSWER,
        PROGRAM,
    ];
    parts.iter().sum()
}

/// Bytes by which a worker grew until it had done enough.
fn grown(in_one_piece: bool) -> usize {
    let rig = Rig::new(u32::try_from(PARTITIONS).unwrap(), Assignor::Cooperative);
    fill(&rig, "early");
    let mut command = Command::new(std::env::current_exe().unwrap());
    if in_one_piece {
        command.env(IN_ONE_PIECE, "1");
    }
    let worker = Measured(
        command
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
    fill(&rig, "late");
    rig.wait_for("much is done", || rig.told_count() >= DONE);
    let grown = worker.peak() - before().unwrap();
    let mib = |bytes: usize| bytes >> 20;
    println!(
        "grown by {} MiB at its peak; formula {} MiB; came to it {} MiB",
        mib(grown),
        mib(formula()),
        mib(2 * WAITING * RECORD)
    );
    grown
}

/// Each job has a key of its own, and nothing that could be compressed.
fn fill(rig: &Rig, when: &str) {
    let mut enqueuer = rig.enqueuer();
    let mut payload = vec![0; RECORD];
    for batch in 0..WAITING / 20 {
        payload.fill_with(|| fastrand::u8(..));
        let payload = Bytes::copy_from_slice(&payload);
        let job = |n: usize| {
            let key = JobKey::try_from(format!("{when}-{batch}-{n}").as_str()).unwrap();
            Job::new(key, Some(payload.clone())).unwrap()
        };
        enqueuer.send((0..20).map(job).collect()).unwrap();
    }
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
    let how = How { in_one_piece: std::env::var_os(IN_ONE_PIECE).is_some(), ..How::default() };
    let worker = rig.start("slow", &how, slow_teller("slow", Duration::from_millis(50)), |_| {});
    let _ = worker.outcome();
}
