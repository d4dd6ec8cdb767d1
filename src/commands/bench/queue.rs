//! A queue in a file of its own: filled, worked, passed over.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use keylane_consumer::{
    FencedStore, Handler, Parts, Worker, WorkerSettings,
    clock::Clock,
    group::{
        Commit, Group, GroupEvent,
        local::{LocalGroup, LocalGroupSettings},
    },
    store::sqlite::SqliteStore,
};
use keylane_producer::{
    Enqueuer, GroupName, Job, Log, Offset, Partition, QueueIdentity, QueueSpec, Retention, StoredRecord,
    log::{
        ReadLimit,
        local::{LocalLog, Open},
    },
    sqlite::Patience,
};

use keylane_sidecar::spool::SnapshotFile;

use super::{
    jobs::{Jobs, batches},
    measure::rate,
    observed::{Moment, Observed, Watch},
};
use crate::exit::{Code, Failure};

const PARTITIONS: &str = "12";

/// A queue, and the workers' group in the same file.
pub(super) struct Queue {
    file: PathBuf,
    enqueuer: Enqueuer<LocalLog>,
    group: GroupName,
    /// Jobs that were ever enqueued.
    jobs: u64,
}

/// How long a worker took for its jobs.
pub(super) struct Worked {
    pub(super) jobs_a_second: f64,
    pub(super) cpu_seconds_a_million: f64,
}

impl Queue {
    /// With this file, which is made.
    pub(super) fn make(file: &Path) -> Result<Self, Failure> {
        Self::make_for(file, "workers".parse()?)
    }

    /// The same for workers of this group.
    pub(super) fn make_for(file: &Path, group: GroupName) -> Result<Self, Failure> {
        let mut log = LocalLog::open(file, Open::Create, Patience::Patient)?;
        let (name, partitions) = ("bench".parse()?, PARTITIONS.parse()?);
        let spec = QueueSpec { retention: Retention { age: None, bytes: None }, ..QueueSpec::new(name, partitions) };
        log.create(&spec)?;
        let enqueuer = Enqueuer::open(log, &spec.name)?;
        Ok(Self { file: file.to_owned(), enqueuer, group, jobs: 0 })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn identity(&self) -> &QueueIdentity {
        self.enqueuer.queue()
    }

    pub(super) fn group(&self) -> &GroupName {
        &self.group
    }

    /// Enqueues so many jobs: jobs a second.
    pub(super) fn fill(&mut self, jobs: &Jobs, count: u64) -> Result<f64, Failure> {
        let base = self.jobs;
        self.jobs += count;
        rate(count, || {
            batches(count).try_for_each(|batch| {
                let batch = batch.map(|n| jobs.job(base + n)).collect::<Result<_, _>>()?;
                self.enqueuer.send(batch).map_err(|error| error.cause)?;
                Ok(())
            })
        })
    }

    /// Enqueues these.
    pub(super) fn send(&mut self, jobs: Vec<Job>) -> Result<(), Failure> {
        self.jobs += jobs.len() as u64;
        self.enqueuer.send(jobs).map_err(|error| error.cause)?;
        Ok(())
    }

    /// A worker that is not started.
    pub(super) fn worker<H: Handler<SqliteStore>>(&self, handler: H) -> Result<Worker<SqliteStore, H>, Failure> {
        worker(self, self.member()?, SqliteStore::new(&self.file), None, handler)
    }

    /// A worker for what is not finished: from its first fetch until all of it is committed.
    pub(super) fn work<H: Handler<SqliteStore>>(&mut self, count: u64, handler: H) -> Result<Worked, Failure> {
        let store = SqliteStore::new(&self.file);
        self.work_with(count, store, None, handler)
    }

    /// The same with another store than the queue's file, over so many connections.
    pub(super) fn work_with<S: FencedStore>(
        &mut self,
        count: u64,
        store: S,
        connections: Option<usize>,
        handler: impl Handler<S>,
    ) -> Result<Worked, Failure> {
        let watch = Watch::until(self.ends()?);
        let group = Observed { group: self.member()?, watch: Arc::clone(&watch) };
        run(self, group, store, connections, handler)?;
        worked(&watch, count)
    }

    /// The same, shown in this file if one is named; also how long its commits took, in seconds.
    pub(super) fn work_shown<H: Handler<SqliteStore>>(
        &mut self,
        count: u64,
        snapshot: Option<&Path>,
        handler: H,
    ) -> Result<(Worked, Vec<f64>), Failure> {
        let watch = Watch::until(self.ends()?);
        let group = Observed { group: self.member()?, watch: Arc::clone(&watch) };
        let mut worker = worker(self, group, SqliteStore::new(&self.file), None, handler)?;
        if let Some(file) = snapshot.map(SnapshotFile::new) {
            worker = worker.shown_to(move |edition| file.put(edition));
        }
        until_empty(worker)?;
        Ok((worked(&watch, count)?, watch.commits()))
    }

    /// All of its records, by partition.
    pub(super) fn records(&mut self) -> Result<BTreeMap<Partition, Vec<StoredRecord>>, Failure> {
        let (queue, ends) = (self.identity().clone(), self.ends()?);
        let limit = ReadLimit { records: usize::MAX, bytes: usize::MAX };
        let log = self.enqueuer.log();
        ends.into_keys().map(|p| Ok((p, log.read(&queue, p, Offset(0), limit)?.records))).collect()
    }

    /// Another connection to its log.
    pub(super) fn log(&self) -> Result<LocalLog, Failure> {
        Ok(LocalLog::open(&self.file, Open::Existing, Patience::Patient)?)
    }

    /// Counts everything that is in the file as finished by the group.
    pub(super) fn pass_over(&mut self) -> Result<(), Failure> {
        let offsets: Vec<_> = self.ends()?.into_iter().collect();
        let mut member = self.member()?;
        let control = member.control();
        let mut commit = None;
        while commit.is_none() {
            member.poll(Duration::from_secs(1), &mut |event| {
                if let GroupEvent::Assigned(now) = event
                    && !now.partitions.is_empty()
                {
                    let offsets = offsets.clone();
                    commit = Some(Commit { member: now.member, generation: now.generation, offsets });
                }
            })?;
        }
        if let Some(commit) = commit {
            control.commit(&commit, Duration::from_secs(10)).map_err(|error| {
                Failure::new(Code::Unavailable, "cannot pass over what is in the file").because(&error)
            })?;
        }
        control.leave();
        Ok(member.poll(Duration::from_secs(1), &mut |_| {})?)
    }

    fn member(&self) -> Result<LocalGroup, Failure> {
        let settings = LocalGroupSettings::default();
        Ok(LocalGroup::open(&self.file, self.identity(), &self.group, Clock::boot(), settings)?)
    }

    pub(super) fn ends(&mut self) -> Result<BTreeMap<Partition, Offset>, Failure> {
        let queue = self.identity().clone();
        let log = self.enqueuer.log();
        queue.partitions.all().map(|p| Ok((p, log.bounds(&queue, p)?.end))).collect()
    }
}

/// A whole worker, with its defaults, until the queue is empty.
pub(super) fn run<S: FencedStore, H: Handler<S>>(
    queue: &Queue,
    group: impl Group + 'static,
    store: S,
    connections: Option<usize>,
    handler: H,
) -> Result<(), Failure> {
    until_empty(worker(queue, group, store, connections, handler)?)
}

fn worker<S: FencedStore, H: Handler<S>>(
    queue: &Queue,
    group: impl Group + 'static,
    store: S,
    connections: Option<usize>,
    handler: H,
) -> Result<Worker<S, H>, Failure> {
    let mut settings = WorkerSettings::named("bench");
    settings.until_empty = true;
    settings.store_connections = connections;
    let parts = Parts {
        queue: queue.identity().clone(),
        group_name: queue.group.clone(),
        group: Box::new(group),
        log: Box::new(queue.log()?),
        store,
        handler,
        clock: Clock::boot(),
    };
    Ok(Worker::new(settings, parts)?)
}

fn until_empty<S: FencedStore, H: Handler<S>>(worker: Worker<S, H>) -> Result<(), Failure> {
    let summary = worker.run(|_| {})?;
    if summary.clean && summary.keys_left == 0 {
        return Ok(());
    }
    Err(Failure::new(Code::Failed, "the worker left jobs behind: its figure would say nothing"))
}

/// What the watch saw.
pub(super) fn worked(watch: &Watch, count: u64) -> Result<Worked, Failure> {
    let Some((begun, ended)) = watch.moments() else {
        return Err(Failure::new(Code::Failed, "the worker ended before everything was committed"));
    };
    let Moment { at, cpu_seconds } = begun;
    Ok(Worked {
        jobs_a_second: count as f64 / ended.at.since(at).as_secs_f64(),
        cpu_seconds_a_million: (ended.cpu_seconds - cpu_seconds) / count as f64 * 1e6,
    })
}
