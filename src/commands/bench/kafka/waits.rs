//! Jobs that wait a while, many at once, in a whole worker that is fenced in SQLite; against a program that keeps the order of
//! a key in another way, reads the same topic, and writes nothing.
//!
//! - [`worker`]: ours, in a process of its own
//!
//! Both sides are a process of their own and measure the same part of their work: from the end of the last job of the warm-up to the
//! end of the last job. Beginning and ending, as a group's member and as a program, are in neither.

mod timer;
mod worker;

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

pub(in super::super) use self::worker::work;
use super::{
    super::{
        measure::{Pair, Spread, side_by_side},
        row::{Aim, Row},
    },
    Bench, Topic,
    noop::fresh_group,
};
use crate::{
    cli::StoreUrl,
    exit::{Code, Failure},
};

/// Jobs at once, on either side.
const RUNNING: usize = 100;

/// What a job waits, and at which ratio to the other program ours is aimed.
const WAITS: [(u64, f64); 3] = [(0, 10.0), (1, 1.0), (10, 1.0)];

/// What either side prints, as far as it counts here.
#[derive(Deserialize, Serialize)]
struct Line {
    jobs_per_s: f64,
    cpu_us_per_job: f64,
    max_rss_mib: f64,
    /// What a job really waited.
    #[serde(default)]
    work_ms_real: Option<f64>,
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let count = bench.args.jobs;
    let mut topic = bench.topic()?;
    bench.progress.say(&format!("putting {count} jobs on a topic"));
    topic.fill(&bench.jobs, count)?;
    let mut rows = Vec::new();
    for (wait, aim) in WAITS {
        bench.progress.say(&format!("{RUNNING} jobs at once, of {wait} ms each"));
        rows.extend(of_wait(bench, &topic, wait, aim)?);
    }
    Ok(rows)
}

fn of_wait(bench: &Bench<'_>, topic: &Topic, wait: u64, aim: f64) -> Result<Vec<Row>, Failure> {
    let what = match wait {
        0 => "jobs that do nothing, fenced in SQLite".to_owned(),
        _ => format!("jobs that wait {wait} ms, fenced in SQLite"),
    };
    let (cpu, memory) = ("processor time of a million of them", "memory at the peak");
    let count = bench.args.jobs;
    let ours = || ours(topic, count, wait);
    let Some(peer) = &bench.args.peer else {
        let seen = (0..bench.args.rounds).map(|_| ours()).collect::<Result<Vec<_>, Failure>>()?;
        let alone =
            |what: &str, unit, of: fn(&Line) -> f64| Row::alone("waits", what, unit, Spread::of(seen.iter().map(of)));
        return Ok(vec![
            alone(&what, "jobs/s", |line| line.jobs_per_s),
            alone(cpu, "s", |line| line.cpu_us_per_job),
            alone(memory, "MiB", |line| line.max_rss_mib),
        ]);
    };
    let seen = side_by_side(bench.args.rounds, ours, || theirs(peer, topic, count, wait))?;
    let pair = |what: &str, unit, of: fn(&Line) -> f64| {
        let pair = Pair::of(&seen.iter().map(|(ours, theirs)| (of(ours), of(theirs))).collect::<Vec<_>>());
        Row::pair("waits", what, unit, "the other program", pair)
    };
    let mut rows = vec![
        pair(&what, "jobs/s", |line| line.jobs_per_s).aiming(Aim::RatioAtLeast(aim)),
        pair(cpu, "s", |line| line.cpu_us_per_job),
        pair(memory, "MiB", |line| line.max_rss_mib),
    ];
    if wait > 0 && seen.iter().all(|(_, theirs)| theirs.work_ms_real.is_some()) {
        rows.push(pair("what a job really waited", "ms", |line| line.work_ms_real.unwrap_or_default()));
    }
    Ok(rows)
}

/// A quarter of the jobs warm it up, on either side.
fn parts(count: u64) -> (u64, u64) {
    (count / 4, count - count / 4)
}

/// In a process of its own, with a store of its own.
fn ours(topic: &Topic, count: u64, wait: u64) -> Result<Line, Failure> {
    let (warmup, jobs) = parts(count);
    let (global, group) = (&topic.global, fresh_group()?);
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(Code::Unavailable, "cannot find this program").because(&error))?;
    let mut command = Command::new(program);
    command.args(["bench", "kafka-worker", "--quiet", "--broker", &global.broker.to_string()]);
    command.args(global.kafka_args()).args(["--queue", global.queue.as_str(), "--group", group.as_str()]);
    command.args(["--store", &StoreUrl::Sqlite(topic.fresh_store()).to_string()]);
    for (name, value) in [("--wait", wait), ("--jobs", jobs), ("--warmup", warmup), ("--running", RUNNING as u64)] {
        command.args([name, &value.to_string()]);
    }
    run(&mut command)
}

fn theirs(program: &Path, topic: &Topic, count: u64, wait: u64) -> Result<Line, Failure> {
    let brokers = topic.global.broker.to_string();
    let brokers = brokers.trim_start_matches("kafka://");
    let ((warmup, jobs), queue) = (parts(count), &topic.global.queue);
    let mut command = Command::new(program);
    command.args([format!("brokers={brokers}"), format!("topic={queue}"), format!("work_ms={wait}")]);
    command.args([format!("jobs={jobs}"), format!("warmup={warmup}"), format!("concurrency={RUNNING}")]);
    run(&mut command)
}

fn run(command: &mut Command) -> Result<Line, Failure> {
    let program = Path::new(command.get_program() as &OsStr).display().to_string();
    let failed = |why: &(dyn std::error::Error + 'static)| {
        Failure::new(Code::Unavailable, format!("cannot run '{program}'")).because(why)
    };
    let output = command.stdin(Stdio::null()).output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(Code::Failed, format!("'{program}' failed: {said}")));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
}
