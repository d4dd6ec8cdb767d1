//! Worker processes of this program, with jobs coming all the time: how long a partition stands still that moves, and how
//! long one that stays.
//!
//! - [`coordinator`]: the death of the broker that is their coordinator
//!
//! A job is late by the time from when a reader that is in no group had it until it ran. So what brokers and producer need on
//! a busy machine is no part of it.

mod coordinator;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use keylane_consumer::clock::{BootTime, Clock};
use keylane_producer::{
    Enqueuer, Job, JobKey,
    kafka::{
        KafkaContext,
        rdkafka::{
            Message, Offset, TopicPartitionList,
            consumer::{BaseConsumer, Consumer},
        },
    },
    log::kafka::KafkaLog,
    partition_of,
};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::{
    super::{
        measure::Spread,
        row::{Aim, Row},
    },
    Bench, Topic,
};
use crate::exit::{Code, Failure};

/// As short as brokers take by default.
const SESSION: Duration = Duration::from_secs(6);
/// Between two jobs of a partition.
const PACE: Duration = Duration::from_millis(10);
/// A partition whose last job was no later than this, in seconds, has caught up.
const CAUGHT_UP: f64 = 0.02;
/// The store is free within this time, if nobody who is frozen holds it.
const LONGEST_WRITE: Duration = Duration::from_millis(300);
/// For everything that should happen.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let (mut killed, mut left, mut ordinary, mut frozen) = (vec![], vec![], vec![], vec![]);
    for round in 0..bench.args.rounds {
        bench.progress.say(&format!(
            "workers join, leave, die and freeze: round {} of {}",
            round + 1,
            bench.args.rounds
        ));
        let mut scene = Scene::begin(bench, SESSION, Feed::Together)?;
        let (a, b) = (scene.start()?, scene.start()?);
        scene.settle(&[a, b])?;

        let ordinary_from = scene.now();
        let c = scene.start()?;
        scene.settle(&[a, b, c])?;
        let asked = scene.now();
        let theirs = scene.partitions_of(c);
        scene.signal(c, Signal::TERM)?;
        left.push(scene.until_taken(&theirs, c, asked)?);
        scene.settle(&[a, b])?;
        ordinary.push(scene.latest_of_those_that_stayed(ordinary_from));

        let at = scene.now();
        let theirs = scene.partitions_of(b);
        scene.signal(b, Signal::KILL)?;
        killed.push(scene.until_taken(&theirs, b, at)?);
        scene.settle(&[a])?;

        let d = scene.start()?;
        scene.settle(&[a, d])?;
        let from = scene.now();
        scene.freeze(d)?;
        let e = scene.start()?;
        scene.settle(&[a, e])?;
        frozen.push(scene.latest_of_those_that_stayed(from));
    }
    let most = |seconds: Vec<f64>| Spread::of(seconds);
    let mut rows = vec![
        Row::alone("moves", "kill -9 to the first job of its partitions elsewhere", "s", most(killed))
            .aiming(Aim::OursBelow(SESSION.as_secs_f64() + 1.0)),
        Row::alone("moves", "SIGTERM to the first job of its partitions elsewhere", "s", most(left))
            .aiming(Aim::OursBelow(0.3)),
        Row::alone("moves", "the latest job of a partition that stays, a worker joins and leaves", "s", most(ordinary))
            .aiming(Aim::OursBelow(0.05)),
        Row::alone("moves", "the same, another joins while one is frozen", "s", most(frozen))
            .aiming(Aim::OursBelow(0.5)),
    ];
    rows.extend(coordinator::measure(bench)?);
    Ok(rows)
}

/// How jobs come.
#[derive(Clone, Copy)]
enum Feed {
    /// From one producer. A partition that it waits for holds the others up.
    Together,
    /// From a producer for each partition, at this pace: so many of them and their brokers must leave the workers some time to run.
    Apart(Duration),
}

/// A job that ran.
#[derive(Clone, Copy)]
struct Ran {
    at: BootTime,
    worker: usize,
    offset: i64,
}

#[derive(Default)]
struct Log {
    /// By partition, in the order of running.
    ran: BTreeMap<u32, Vec<Ran>>,
    /// By partition and offset: when it could be read.
    seen: BTreeMap<(u32, i64), BootTime>,
}

impl Log {
    /// Seconds from when the job could be read until it ran.
    fn late(&self, partition: u32, ran: &Ran) -> Option<f64> {
        Some(ran.at.since(*self.seen.get(&(partition, ran.offset))?).as_secs_f64())
    }

    /// Why a partition does not go on as it should with one of these workers.
    fn unsettled(&self, partition: u32, workers: &[usize], now: BootTime) -> Option<String> {
        let Some(last) = self.ran.get(&partition).and_then(|ran| ran.last()) else {
            return Some("no job of it ran".into());
        };
        let silent = now.since(last.at);
        let late = self.late(partition, last);
        if silent >= Duration::from_millis(500) {
            let newest =
                self.seen.range((partition, 0)..=(partition, i64::MAX)).next_back().map(|((_, offset), _)| *offset);
            Some(format!("no job ran for {silent:?}: the last was {}, the reader has {newest:?}", last.offset))
        } else if !workers.contains(&last.worker) {
            Some(format!("worker {} has it", last.worker))
        } else if late.is_none_or(|late| late >= CAUGHT_UP) {
            Some(format!("its last job was late by {late:?} s"))
        } else {
            None
        }
    }
}

/// A topic, jobs that come, and workers.
struct Scene {
    topic: Topic,
    clock: Clock,
    log: Arc<Mutex<Log>>,
    workers: Vec<Child>,
    session: Duration,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Scene {
    fn begin(bench: &Bench<'_>, session: Duration, feeding: Feed) -> Result<Self, Failure> {
        let topic = bench.topic()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (log, clock) = (Arc::default(), Clock::boot());
        let reader = read(&topic, Arc::clone(&stop), Arc::clone(&log), clock.clone())?;
        let keys = key_of_each(&topic)?;
        let (shares, pace) = match feeding {
            Feed::Together => (vec![keys], PACE),
            Feed::Apart(pace) => (keys.into_iter().map(|key| vec![key]).collect(), pace),
        };
        let mut threads = vec![reader];
        for share in shares {
            threads.push(feed(&topic, share, pace, Arc::clone(&stop))?);
        }
        Ok(Self { topic, clock, log, workers: Vec::new(), session, stop, threads })
    }

    fn now(&self) -> BootTime {
        self.clock.now()
    }

    /// One more worker process; its lines are read as they come.
    fn start(&mut self) -> Result<usize, Failure> {
        let worker = self.workers.len();
        let failed = |e: std::io::Error| Failure::new(Code::Unavailable, "cannot start a worker").because(&e);
        let global = &self.topic.global;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["work", "--builtin", "print", "--name", &format!("bench-{worker}")]);
        command.args(["--session-timeout", &format!("{}s", self.session.as_secs()), "--drain-timeout", "5s"]);
        command.args(["--broker", &global.broker.to_string()]).args(global.kafka_args());
        command.args(["--store", &global.store()?.to_string()]);
        command.args(["--queue", global.queue.as_str(), "--group", global.group.as_str()]);
        // What it says is of use to somebody who looks for the cause of a number.
        let words = if global.verbose > 0 { Stdio::inherit() } else { Stdio::null() };
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(words).spawn().map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(|| Failure::new(Code::Bug, "a worker without output"))?;
        self.workers.push(child);
        let (log, clock) = (Arc::clone(&self.log), self.clock.clone());
        let read = move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(job) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
                let partition = job["partition"].as_u64().and_then(|p| u32::try_from(p).ok()).unwrap_or_default();
                let ran = Ran { at: clock.now(), worker, offset: job["offset"].as_i64().unwrap_or(-1) };
                log.lock().unwrap_or_else(PoisonError::into_inner).ran.entry(partition).or_default().push(ran);
            }
        };
        std::thread::Builder::new().name("keylane-bench".into()).spawn(read).map_err(failed)?;
        Ok(worker)
    }

    /// Waits until exactly these run the jobs of all partitions, each some of them, with nothing left behind.
    fn settle(&self, workers: &[usize]) -> Result<(), Failure> {
        let partitions: Vec<u32> = self.topic.identity().partitions.all().map(|partition| partition.0).collect();
        let shared = |log: &Log, now| {
            let owners: Vec<usize> = log.ran.values().filter_map(|ran| ran.last()).map(|ran| ran.worker).collect();
            partitions.iter().all(|&p| log.unsettled(p, workers, now).is_none())
                && workers.iter().all(|worker| owners.contains(worker))
        };
        self.wait("the workers share the partitions", shared).map_err(|_| {
            let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            let why = |&p: &u32| Some(format!("partition {p}: {}", log.unsettled(p, workers, self.now())?));
            let why: Vec<_> = partitions.iter().filter_map(why).collect();
            Failure::new(Code::Failed, format!("the workers do not share the partitions: {}", why.join("; ")))
        })?;
        // What was about to move has moved.
        std::thread::park_timeout(Duration::from_secs(1));
        Ok(())
    }

    /// The partitions whose last job ran there.
    fn partitions_of(&self, worker: usize) -> Vec<u32> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.ran.iter().filter(|(_, ran)| ran.last().is_some_and(|r| r.worker == worker)).map(|(p, _)| *p).collect()
    }

    /// Seconds from then until another worker ran the first job of these partitions.
    fn until_taken(&self, partitions: &[u32], from: usize, since: BootTime) -> Result<f64, Failure> {
        let first = |log: &Log| {
            let of = |p: &u32| log.ran[p].iter().find(|ran| ran.at > since && ran.worker != from).map(|ran| ran.at);
            partitions.iter().filter_map(of).min()
        };
        self.wait("another worker takes over", |log, _| first(log).is_some())?;
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(first(&log).unwrap_or(since).since(since).as_secs_f64())
    }

    /// The latest that a job ran of a partition which one worker has had all the while, in seconds.
    fn latest_of_those_that_stayed(&self, since: BootTime) -> f64 {
        self.latest_of_each_that_stayed(since).into_values().fold(0.0, f64::max)
    }

    /// The same by partition.
    fn latest_of_each_that_stayed(&self, since: BootTime) -> BTreeMap<u32, f64> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let of_partition = |(&partition, ran): (&u32, &Vec<Ran>)| {
            let (before, ran) = ran.split_at(ran.partition_point(|ran| ran.at < since));
            let stayed = before.last().is_some_and(|last| ran.iter().all(|ran| ran.worker == last.worker));
            let late = ran.iter().filter_map(|ran| Some((log.late(partition, ran)?, ran.at)));
            let (late, at) = late.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
            tracing::debug!(partition, stayed, late, after = at.since(since).as_secs_f64(), "the latest job");
            stayed.then_some((partition, late))
        };
        log.ran.iter().filter_map(of_partition).collect()
    }

    /// Freezes it between two transactions of the store: in one it would hold the only lock of an SQLite file.
    fn freeze(&self, worker: usize) -> Result<(), Failure> {
        let failed =
            |error: rusqlite::Error| Failure::new(Code::Unavailable, "cannot look at the store").because(&error);
        let store = Connection::open(self.topic.store_file()).map_err(failed)?;
        store.busy_timeout(LONGEST_WRITE).map_err(failed)?;
        let until = self.now().plus(PATIENCE);
        while self.now() < until {
            self.signal(worker, Signal::STOP)?;
            let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            // Its last thread stands still only then.
            let _ = waitid(WaitId::Pid(Pid::from_child(&self.workers[worker])), options);
            if store.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
                return Ok(());
            }
            self.signal(worker, Signal::CONT)?;
            std::thread::park_timeout(PACE);
        }
        Err(Failure::new(Code::Failed, "a frozen worker held the store each time"))
    }

    fn signal(&self, worker: usize, signal: Signal) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.workers[worker]), signal)
            .map_err(|error| Failure::new(Code::Bug, "cannot signal a worker").because(&error))
    }

    fn wait(&self, what: &str, met: impl Fn(&Log, BootTime) -> bool) -> Result<(), Failure> {
        let until = self.now().plus(PATIENCE);
        while self.now() < until {
            if met(&self.log.lock().unwrap_or_else(PoisonError::into_inner), self.now()) {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Err(Failure::new(Code::Failed, format!("waited in vain until {what}")))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for worker in &mut self.workers {
            // It may have ended: then there is nothing to kill.
            let _ = worker.kill();
            let _ = worker.wait();
        }
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Notes when each record can be read, by a client that is in no group.
fn read(topic: &Topic, stop: Arc<AtomicBool>, log: Arc<Mutex<Log>>, clock: Clock) -> Result<JoinHandle<()>, Failure> {
    let mut config = topic.settings.config();
    config.set("group.id", "keylane-bench-reader").set("enable.auto.commit", "false");
    config.set("isolation.level", "read_committed");
    let failed =
        |error| Failure::from(KafkaContext::new(topic.settings.clone()).explain("cannot read the topic", &error));
    let consumer: BaseConsumer<KafkaContext> =
        config.create_with_context(KafkaContext::new(topic.settings.clone())).map_err(failed)?;
    let mut all = TopicPartitionList::new();
    for partition in topic.identity().partitions.all() {
        let number = i32::try_from(partition.0).unwrap_or(i32::MAX);
        all.add_partition_offset(topic.global.queue.as_str(), number, Offset::Beginning).map_err(failed)?;
    }
    consumer.assign(&all).map_err(failed)?;
    let note = move || {
        while !stop.load(Ordering::Acquire) {
            let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) else { continue };
            let place = (u32::try_from(record.partition()).unwrap_or_default(), record.offset());
            log.lock().unwrap_or_else(PoisonError::into_inner).seen.insert(place, clock.now());
        }
    };
    thread("keylane-reader", note)
}

/// One for each partition.
fn key_of_each(topic: &Topic) -> Result<Vec<JobKey>, Failure> {
    let count = topic.identity().partitions;
    let key_of =
        |partition| (0..).map(|n: u64| format!("key-{n}")).find(|k| partition_of(k.as_bytes(), count) == partition);
    Ok(count.all().filter_map(key_of).map(|k| JobKey::try_from(k.as_str())).collect::<Result<_, _>>()?)
}

/// Puts a job of each key again and again.
fn feed(topic: &Topic, keys: Vec<JobKey>, pace: Duration, stop: Arc<AtomicBool>) -> Result<JoinHandle<()>, Failure> {
    let open = {
        let (settings, queue) = (topic.settings.clone(), topic.global.queue.clone());
        move || KafkaLog::open(settings.clone()).and_then(|log| Enqueuer::open(log, &queue))
    };
    let mut enqueuer = open()?;
    let put = move || {
        while !stop.load(Ordering::Acquire) {
            let jobs = keys.iter().map(|key| Job::new(key.clone(), None)).collect::<Result<_, _>>();
            let Ok(jobs) = jobs else { return };
            // Brokers die here on purpose: what could not be sent is not missed, what follows would be.
            if let Err(error) = enqueuer.send(jobs) {
                tracing::debug!(?error, "jobs could not be sent");
                if let Ok(anew) = open() {
                    enqueuer = anew;
                }
            }
            std::thread::park_timeout(pace);
        }
    };
    thread("keylane-feeder", put)
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map_err(|e| Failure::new(Code::Unavailable, "cannot start a thread").because(&e))
}
