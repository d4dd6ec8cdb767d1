//! What jobs that fail, or do not end, cost the others.
//!
//! 1. One key has nine of ten jobs and its first one does not end: 1,000 other keys, whose jobs wait 5 ms, against the same alone.
//! 2. A key is parked with all that follows it: the memory of the worker with many followers, against few.

use std::{
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crossbeam_channel::{Sender, bounded, tick};
use keylane_consumer::{
    JobContext, Outcome,
    clock::{BootTime, Clock},
    store::sqlite::SqliteStore,
};
use keylane_producer::{Job, JobKey};

use super::{
    Bench,
    jobs::batches,
    measure::{Pair, Spread},
    memory::{Memory, read_memory, url},
    queue::Queue,
    row::{Aim, Row},
};
use crate::{
    exit::{Code, Failure},
    output::grouped,
};

/// Other keys.
const KEYS: u64 = 1_000;
/// What a job of one of them takes.
const TAKES: Duration = Duration::from_millis(5);
/// What a job of the hot key takes: longer than a round.
const STUCK: Duration = Duration::from_secs(600);
/// Jobs of others in a round, at most: nine times as many wait behind the hot key, below the 100,000 that a worker reads ahead.
const MOST: u64 = 10_000;
/// A worker that parks so many jobs ends before.
const LONGEST: Duration = Duration::from_secs(600);

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let others = (bench.sizes.round / 20).clamp(1, MOST);
    let mut rounds = Vec::new();
    for round in 0..bench.rounds {
        let sides = if round % 2 == 0 { [true, false] } else { [false, true] };
        let mut both = [0.0; 2];
        for hot in sides {
            both[usize::from(!hot)] = others_a_second(bench, others, hot)?;
        }
        rounds.push((both[0], both[1]));
    }
    let what = format!("{KEYS} keys while one with nine of ten jobs is stuck");
    let stuck = Row::pair("failing", what, "jobs/s", "without it", Pair::of(&rounds)).aiming(Aim::RatioAtLeast(0.9));

    let (few, many) = (1_000, bench.sizes.round / 2);
    let (small, large) = (parked(bench, few)?, parked(bench, many)?);
    let what = format!("most memory of a worker that parks {} jobs of one key", grouped(many));
    let against = "1,000 of them";
    Ok(vec![
        stuck,
        Row::pair("failing", what, "MiB", against, Pair::of(&[(large.memory.most, small.memory.most)])),
        Row::alone("failing", "jobs parked, its whole run", "jobs/s", Spread::of([large.jobs_a_second])),
    ])
}

fn hot() -> Result<JobKey, Failure> {
    Ok(JobKey::try_from("hot")?)
}

/// How fast the jobs of the other keys are done.
fn others_a_second(bench: &Bench<'_>, others: u64, with_hot: bool) -> Result<f64, Failure> {
    let corner = bench.place.corner()?;
    let mut queue = Queue::make(&corner.file("queue.db"))?;
    let hot = hot()?;
    let behind = if with_hot { 9 } else { 0 };
    for batch in batches(others) {
        let mut jobs = Vec::new();
        for n in batch {
            let payload = || Some(bench.jobs.payload().clone());
            jobs.push(Job::new(bench.jobs.key(n % KEYS).clone(), payload())?);
            for _ in 0..behind {
                jobs.push(Job::new(hot.clone(), payload())?);
            }
        }
        queue.send(jobs)?;
    }
    let (done, is_done) = bounded(1);
    let count = Arc::new(Others { clock: Clock::boot(), begun: AtomicU64::new(0), left: AtomicU64::new(others), done });
    let counts = Arc::clone(&count);
    let handler = move |job: JobContext| {
        let counts = Arc::clone(&counts);
        let is_hot = job.job.key == hot;
        async move {
            if is_hot {
                tokio::time::sleep(STUCK).await;
            } else {
                counts.begins();
                tokio::time::sleep(TAKES).await;
                counts.ends();
            }
            Outcome::<SqliteStore>::done()
        }
    };
    let worker = queue.worker(handler)?;
    let handle = worker.handle();
    let thread = std::thread::spawn(move || worker.run(|_| {}));
    let took: Result<Duration, _> = is_done.recv_timeout(LONGEST);
    handle.end();
    handle.force();
    let gone = |what: &str| Failure::new(Code::Failed, format!("the worker that was to be measured {what}"));
    thread.join().map_err(|_| gone("panicked"))??;
    let took = took.map_err(|_| gone("did not come to its end"))?;
    Ok(others as f64 / took.as_secs_f64())
}

/// From the first start to the last end of a job of another key.
struct Others {
    clock: Clock,
    /// Milliseconds on the boot clock and 1; 0: not yet.
    begun: AtomicU64,
    left: AtomicU64,
    done: Sender<Duration>,
}

impl Others {
    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().since(BootTime::ZERO).as_micros()).unwrap_or(u64::MAX)
    }

    fn begins(&self) {
        let _ = self.begun.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn ends(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            let took = self.now().saturating_sub(self.begun.load(Ordering::Relaxed));
            let _ = self.done.try_send(Duration::from_micros(took));
        }
    }
}

struct Parked {
    memory: Memory,
    jobs_a_second: f64,
}

/// A worker of its own whose program rejects the first of so many jobs of one key.
fn parked(bench: &Bench<'_>, jobs: u64) -> Result<Parked, Failure> {
    let corner = bench.place.corner()?;
    let mut queue = Queue::make(&corner.file("queue.db"))?;
    bench.progress.say(&format!("failing: a key with {} jobs is parked", grouped(jobs)));
    let hot = hot()?;
    for batch in batches(jobs) {
        let job = |_| Job::new(hot.clone(), Some(bench.jobs.payload().clone()));
        queue.send(batch.map(job).collect::<Result<_, _>>()?)?;
    }
    let clock = Clock::boot();
    let begun = clock.now();
    let mut worker = Parking::begin(&queue)?;
    let mut memory = Memory::default();
    for _ in &tick(Duration::from_millis(5)) {
        let gone = || Failure::new(Code::Failed, "the worker that was to park did not come to its end");
        // Its last words are that a key is left.
        if let Some(ended) = worker.0.try_wait().map_err(|e| gone().because(&e))? {
            let parked = ended.code() == Some(1);
            let jobs_a_second = jobs as f64 / clock.now().since(begun).as_secs_f64();
            return if parked { Ok(Parked { memory, jobs_a_second }) } else { Err(gone()) };
        }
        memory = read_memory(worker.0.id()).unwrap_or(memory);
        if clock.now().since(begun) > LONGEST {
            break;
        }
    }
    Err(Failure::new(Code::Failed, "the worker that was to park did not come to its end in ten minutes"))
}

/// Killed when it is dropped.
struct Parking(Child);

impl Parking {
    fn begin(queue: &Queue) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::new(Code::Unavailable, "cannot start a worker to measure").because(&error);
        let mut worker = Command::new(std::env::current_exe().map_err(failed)?);
        worker.arg("work").arg("--broker").arg(url(queue.file())).args([
            "--queue",
            "bench",
            "--quiet",
            "--until-empty",
        ]);
        let rejects = r#"while read -r line; do echo '{"outcome":"reject","reason":"no"}'; done"#;
        worker.args(["--exec", "sh", "-c", rejects]);
        worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("KEYLANE_")) {
            worker.env_remove(name);
        }
        worker.spawn().map(Self).map_err(failed)
    }
}

impl Drop for Parking {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
