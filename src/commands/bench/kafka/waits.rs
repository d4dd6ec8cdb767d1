//! Jobs that wait a while, many at once, in a whole worker that is fenced in SQLite; against a program that keeps the order of
//! a key in another way, reads the same topic, and writes nothing.

use std::{path::Path, process::Command, time::Duration};

use keylane_consumer::{JobContext, Outcome, store::sqlite::SqliteStore};
use serde::Deserialize;

use super::{
    super::{
        measure::{Pair, Spread, side_by_side},
        queue::Worked,
        row::{Aim, Row},
    },
    Bench, Topic,
    noop::{fresh_group, work_at_once},
};
use crate::exit::{Code, Failure};

/// Jobs at once, on either side.
const RUNNING: usize = 100;

/// What a job waits, and at which ratio to the other program ours is aimed.
const WAITS: [(u64, f64); 3] = [(0, 10.0), (1, 1.0), (10, 1.0)];

/// What it prints, as far as it counts here.
#[derive(Deserialize)]
struct Line {
    jobs_per_s: f64,
    cpu_us_per_job: f64,
    max_rss_mib: f64,
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let count = bench.args.jobs;
    let mut topic = bench.topic()?;
    bench.progress.say(&format!("putting {count} jobs on a topic"));
    topic.fill(&bench.jobs, count)?;
    let mut rows = Vec::new();
    for (wait, aim) in WAITS {
        bench.progress.say(&format!("{RUNNING} jobs at once, of {wait} ms each"));
        rows.extend(of_wait(bench, &mut topic, wait, aim)?);
    }
    rows.push(Row::alone("waits", "memory of this process at its peak", "MiB", Spread::of([own_peak()?])));
    Ok(rows)
}

fn of_wait(bench: &Bench<'_>, topic: &mut Topic, wait: u64, aim: f64) -> Result<Vec<Row>, Failure> {
    let what = match wait {
        0 => "jobs that do nothing, fenced in SQLite".to_owned(),
        _ => format!("jobs that wait {wait} ms, fenced in SQLite"),
    };
    let rates = |worked: &Worked| worked.jobs_a_second;
    let count = bench.args.jobs;
    let topic = std::cell::RefCell::new(topic);
    let ours = || {
        let store = SqliteStore::new(topic.borrow().fresh_store());
        let handler = move |_: JobContext| async move {
            if wait > 0 {
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            Outcome::done()
        };
        work_at_once(&mut topic.borrow_mut(), count, fresh_group()?, store, handler, RUNNING)
    };
    let Some(peer) = &bench.args.peer else {
        let seen = (0..bench.args.rounds).map(|_| ours()).collect::<Result<Vec<_>, Failure>>()?;
        return Ok(vec![Row::alone("waits", what, "jobs/s", Spread::of(seen.iter().map(rates)))]);
    };
    let seen = side_by_side(bench.args.rounds, ours, || run(peer, &topic.borrow(), count, wait))?;
    let pair = |of: fn(&Worked) -> f64, theirs: fn(&Line) -> f64| {
        Pair::of(&seen.iter().map(|(ours, line)| (of(ours), theirs(line))).collect::<Vec<_>>())
    };
    let memory = Spread::of(seen.iter().map(|(_, line)| line.max_rss_mib));
    Ok(vec![
        Row::pair("waits", what, "jobs/s", "the other program", pair(rates, |line| line.jobs_per_s))
            .aiming(Aim::RatioAtLeast(aim)),
        Row::pair(
            "waits",
            "processor time of a million of them",
            "s",
            "the other program",
            pair(|worked| worked.cpu_seconds_a_million, |line| line.cpu_us_per_job),
        ),
        Row::alone("waits", "memory of the other program at its peak", "MiB", memory),
    ])
}

/// A quarter of the jobs warm it up.
fn run(program: &Path, topic: &Topic, count: u64, wait: u64) -> Result<Line, Failure> {
    let failed = |why: &(dyn std::error::Error + 'static)| {
        Failure::new(Code::Unavailable, format!("cannot run '{}'", program.display())).because(why)
    };
    let brokers = topic.global.broker.to_string();
    let brokers = brokers.trim_start_matches("kafka://");
    let (warmup, queue) = (count / 4, &topic.global.queue);
    let mut command = Command::new(program);
    command.args([format!("brokers={brokers}"), format!("topic={queue}"), format!("work_ms={wait}")]);
    command.args([format!("jobs={}", count - warmup), format!("warmup={warmup}"), format!("concurrency={RUNNING}")]);
    let output = command.output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(Code::Failed, format!("'{}' failed: {said}", program.display())));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
}

/// In MiB: what was put on the topic passed through it too.
fn own_peak() -> Result<f64, Failure> {
    let failed = || Failure::new(Code::Bug, "this process does not tell its memory");
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| failed().because(&error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or_else(failed)?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().map_err(|_| failed())?;
    Ok(kib / 1024.0)
}
