//! A program that calls `serve_if_asked` first thing in `main` needs nothing else for its handler's children to die with
//! it. This one starts itself as a worker, kills that, and looks for what is left.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use keylane_consumer::{
    clock::Clock,
    handler::child::{ChildHandler, ChildSettings, guard},
};

fn main() {
    guard::serve_if_asked();
    match std::env::args().nth(1).as_deref() {
        Some("worker") => be_a_worker(),
        _ => nothing_outlives_a_killed_worker(),
    }
}

fn be_a_worker() {
    let script = "trap '' TERM; echo $$ >&2; sleep 1000 & echo $! >&2; exec sleep 1000";
    let command = ["sh", "-c", script].map(Into::into).to_vec();
    let handler = ChildHandler::new(ChildSettings::new(command, Duration::from_secs(30))).unwrap();
    handler.check().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

fn nothing_outlives_a_killed_worker() {
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .arg("worker")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Worker, child and grandchild hold this pipe, so its end is the end of all three.
    let mut stderr = BufReader::new(worker.stderr.take().unwrap());
    let pids: Vec<u32> = stderr.by_ref().lines().take(2).map(|line| line.unwrap().parse().unwrap()).collect();
    assert!(pids.iter().all(|&pid| runs(pid)));

    worker.kill().unwrap();
    worker.wait().unwrap();
    let clock = Clock::boot();
    let end = clock.now().plus(Duration::from_secs(60));
    while pids.iter().any(|&pid| runs(pid)) {
        assert!(clock.now() < end, "a child outlived its worker");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    stderr.read_to_end(&mut Vec::new()).unwrap();
    println!("test nothing_outlives_a_killed_worker ... ok");
}

fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
