//! A queue on a real Kafka, a store in a temporary folder, and whole workers on threads or in processes of their own.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex},
    time::Duration,
};

use bytes::Bytes;
use keylane_consumer::{
    Handler, JobContext, Notice, Outcome, Parts, Summary, Worker, WorkerSettings,
    clock::Clock,
    group::kafka::{Assignor, KafkaGroup, KafkaGroupSettings},
    store::sqlite::SqliteStore,
};
use keylane_producer::{
    Enqueuer, GroupName, Job, JobKey, Log, Partition, PartitionCount, QueueIdentity, QueueSpec,
    kafka::{KafkaSettings, PropertySource},
    log::kafka::KafkaLog,
    partition_of,
};
use keylane_testing::kafka::{Cluster, shared};
use rusqlite::{Connection, params};

pub(crate) use crate::running::{Gate, How, Running, Shown};

pub(crate) type Answer = Outcome<SqliteStore>;

/// Everything here is waited for that long at most.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// The session of all workers here, unless a test says otherwise.
pub(crate) const SESSION: Duration = Duration::from_secs(5);

/// Shortens or lengthens what a test looks at.
pub(crate) type Change = dyn Fn(&mut WorkerSettings, &mut KafkaGroupSettings) + Send + Sync;

pub(crate) struct Rig {
    pub(crate) cluster: Option<&'static Cluster>,
    pub(crate) settings: KafkaSettings,
    pub(crate) queue: QueueIdentity,
    pub(crate) assignor: Assignor,
    folder: PathBuf,
    /// Removes it at the end, if this rig made it.
    _made: Option<tempfile::TempDir>,
    change: Box<Change>,
}

/// What a job's effect left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) key: String,
    pub(crate) partition: u32,
    pub(crate) offset: i64,
    pub(crate) worker: String,
}

/// The effect that tells who did the job.
pub(crate) fn tell(job: &JobContext, worker: &str) -> Answer {
    let (partition, offset, key) = (job.partition.0, job.offset.0.cast_signed(), job.job.key.to_string());
    let worker = worker.to_owned();
    Outcome::effect(move |tx: &mut rusqlite::Savepoint<'_>| {
        tx.prepare_cached("INSERT INTO told (partition, offset, key, worker) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![partition, offset, key, worker])?;
        Ok(())
    })
}

/// A handler that does nothing but tell.
pub(crate) fn teller(worker: &str) -> impl Handler<SqliteStore> + use<> {
    let worker = worker.to_owned();
    move |job: JobContext| {
        let answer = tell(&job, &worker);
        async move { answer }
    }
}

/// A job's work: a handler that takes its time. No test waits by it.
pub(crate) async fn work(each: Duration) {
    tokio::time::sleep(each).await;
}

/// As [`teller`], after a while.
pub(crate) fn slow_teller(worker: &str, each: Duration) -> impl Handler<SqliteStore> + use<> {
    let worker = worker.to_owned();
    move |job: JobContext| {
        let answer = tell(&job, &worker);
        async move {
            work(each).await;
            answer
        }
    }
}

impl Rig {
    /// On the brokers that all tests share.
    pub(crate) fn new(partitions: u32, assignor: Assignor) -> Self {
        Self::on(shared(3), partitions, assignor, |_, _| {})
    }

    pub(crate) fn with(
        partitions: u32,
        assignor: Assignor,
        change: impl Fn(&mut WorkerSettings, &mut KafkaGroupSettings) + Send + Sync + 'static,
    ) -> Self {
        Self::on(shared(3), partitions, assignor, change)
    }

    pub(crate) fn on(
        cluster: &'static Cluster,
        partitions: u32,
        assignor: Assignor,
        change: impl Fn(&mut WorkerSettings, &mut KafkaGroupSettings) + Send + Sync + 'static,
    ) -> Self {
        let made = tempfile::tempdir().unwrap();
        let settings = reach(cluster.bootstrap());
        let mut log = KafkaLog::open(settings.clone()).unwrap();
        let count: PartitionCount = partitions.to_string().parse().unwrap();
        let name = format!("jobs-{}", ulid::Ulid::generate()).parse().unwrap();
        let queue = log.create(&QueueSpec::new(name, count)).unwrap();
        let folder = made.path().to_owned();
        // For the rigs of other processes.
        std::fs::write(folder.join("bootstrap"), cluster.bootstrap()).unwrap();
        std::fs::write(folder.join("queue"), queue.name.as_str()).unwrap();
        std::fs::write(folder.join("eager"), [u8::from(assignor == Assignor::Eager)]).unwrap();
        let change = Box::new(change);
        let rig = Self { cluster: Some(cluster), settings, queue, assignor, folder, _made: Some(made), change };
        let table =
            "CREATE TABLE told (n INTEGER PRIMARY KEY, partition INTEGER, offset INTEGER, key TEXT, worker TEXT)";
        rig.store_file().execute_batch(table).unwrap();
        rig
    }

    /// The rig of another process.
    pub(crate) fn at(
        folder: &Path,
        change: impl Fn(&mut WorkerSettings, &mut KafkaGroupSettings) + Send + Sync + 'static,
    ) -> Self {
        let said = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let settings = reach(&said("bootstrap"));
        let mut log = KafkaLog::open(settings.clone()).unwrap();
        let queue = log.describe(&said("queue").parse().unwrap()).unwrap().identity;
        let assignor = if said("eager") == "\u{1}" { Assignor::Eager } else { Assignor::Cooperative };
        let (folder, change) = (folder.to_owned(), Box::new(change));
        Self { cluster: None, settings, queue, assignor, folder, _made: None, change }
    }

    pub(crate) fn cluster(&self) -> &'static Cluster {
        self.cluster.expect("the test's own process has it")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn topic(&self) -> &str {
        self.queue.name.as_str()
    }

    pub(crate) fn group_name(&self) -> GroupName {
        self.topic().parse().unwrap()
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.folder.join("store.db")
    }

    pub(crate) fn store_file(&self) -> Connection {
        let file = Connection::open(self.store_path()).unwrap();
        file.busy_timeout(Duration::from_secs(20)).unwrap();
        file.pragma_update(None, "journal_mode", "wal").unwrap();
        file
    }

    pub(crate) fn enqueuer(&self) -> Enqueuer<KafkaLog> {
        let open = || Enqueuer::open(KafkaLog::open(self.settings.clone()).unwrap(), &self.queue.name);
        // Brokers hear of a queue that was just made one after another.
        let mut opened = None;
        wait_for("every broker knows the queue", || match open() {
            Ok(enqueuer) => opened.replace(enqueuer).is_none(),
            Err(keylane_producer::Error::NotFound(_)) => false,
            Err(error) => panic!("{error:?}"),
        });
        opened.unwrap()
    }

    /// Jobs whose payload is their number.
    pub(crate) fn enqueue(&self, numbers: std::ops::RangeInclusive<u32>, key: impl Fn(u32) -> String) {
        let mut enqueuer = self.enqueuer();
        let job =
            |n: u32| Job::new(JobKey::try_from(key(n).as_str()).unwrap(), Some(Bytes::from(n.to_string()))).unwrap();
        enqueuer.send(numbers.map(job).collect()).unwrap();
    }

    /// As many jobs in each partition, each of a key of its own.
    pub(crate) fn enqueue_evenly(&self, each: usize) {
        let mut left: BTreeMap<Partition, usize> = self.queue.partitions.all().map(|p| (p, each)).collect();
        let mut keys = Vec::new();
        for n in 0.. {
            let key = format!("key{n}");
            let left = left.get_mut(&partition_of(key.as_bytes(), self.queue.partitions)).unwrap();
            if *left > 0 {
                *left -= 1;
                keys.push(key);
            }
            if keys.len() == each * self.queue.partitions.0.get() as usize {
                break;
            }
        }
        self.enqueue(1..=u32::try_from(keys.len()).unwrap(), |n| keys[n as usize - 1].clone());
    }

    pub(crate) fn key_of(&self, partition: Partition) -> String {
        let belongs = |key: &String| partition_of(key.as_bytes(), self.queue.partitions) == partition;
        (0..).map(|n| format!("key{n}")).find(belongs).unwrap()
    }

    /// A member that no worker drives.
    pub(crate) fn member(&self, name: &str) -> KafkaGroup {
        let (_, behaviour) = self.behaviour(name);
        KafkaGroup::open(&self.settings, &self.queue, &self.group_name(), &behaviour).unwrap()
    }

    fn behaviour(&self, name: &str) -> (WorkerSettings, KafkaGroupSettings) {
        let mut settings = WorkerSettings::named(name);
        settings.ownership.session = SESSION;
        settings.ownership.margin = Duration::from_millis(300);
        settings.ownership.drain = Duration::from_secs(4);
        settings.ownership.claim_again = Duration::from_millis(200);
        settings.prove_every = Duration::from_millis(250);
        settings.poll_limit = Duration::from_secs(2);
        settings.job_limit = LIMIT;
        settings.retry.first = Duration::from_millis(10);
        let mut group = KafkaGroupSettings {
            worker: name.into(),
            session_timeout: SESSION,
            rebalance_timeout: Duration::from_secs(15),
            heartbeat_interval: Duration::from_millis(200),
            assignor: self.assignor,
            ..KafkaGroupSettings::default()
        };
        (self.change)(&mut settings, &mut group);
        (settings, group)
    }

    fn worker<H: Handler<SqliteStore>>(&self, name: &str, how: &How, handler: H) -> Worker<SqliteStore, H> {
        let (mut settings, behaviour) = self.behaviour(name);
        settings.until_empty = how.until_empty;
        let group = KafkaGroup::open(&self.settings, &self.queue, &self.group_name(), &behaviour).unwrap();
        let group = how.gated(group);
        let parts = Parts {
            queue: self.queue.clone(),
            group_name: self.group_name(),
            group: Box::new(group),
            log: Box::new(KafkaLog::open(self.settings.clone()).unwrap()),
            store: SqliteStore::without(self.store_path(), settings.guards),
            handler,
            clock: Clock::boot(),
        };
        Worker::new(settings, parts).unwrap().shown_to(how.shown.sink())
    }

    pub(crate) fn run_until_empty<H: Handler<SqliteStore>>(&self, name: &str, handler: H) -> Summary {
        self.start(name, &How { until_empty: true, ..How::default() }, handler, |_| {}).join()
    }

    pub(crate) fn spawn<H: Handler<SqliteStore>>(&self, name: &str, handler: H) -> Running {
        self.start(name, &How::default(), handler, |_| {})
    }

    pub(crate) fn start<H: Handler<SqliteStore>>(
        &self,
        name: &str,
        how: &How,
        handler: H,
        listen: impl FnMut(&Notice) + Send + 'static,
    ) -> Running {
        Running::start(name, self.worker(name, how, handler), listen)
    }

    pub(crate) fn wait_for(&self, what: &str, is_so: impl FnMut() -> bool) {
        wait_for(what, is_so);
    }

    /// Whether nobody is inside a transaction that writes.
    pub(crate) fn nobody_writes(&self) -> bool {
        let file = Connection::open(self.store_path()).unwrap();
        file.busy_timeout(Duration::ZERO).unwrap();
        file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
    }

    /// In the order in which the effects were committed.
    pub(crate) fn told(&self) -> Vec<Told> {
        let file = self.store_file();
        let mut rows = file.prepare("SELECT key, partition, offset, worker FROM told ORDER BY n").unwrap();
        let told = |row: &rusqlite::Row<'_>| {
            Ok(Told { key: row.get(0)?, partition: row.get(1)?, offset: row.get(2)?, worker: row.get(3)? })
        };
        rows.query_map([], told).unwrap().map(Result::unwrap).collect()
    }

    pub(crate) fn count(&self, sql: &str) -> i64 {
        self.store_file().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn told_count(&self) -> usize {
        usize::try_from(self.count("SELECT count(*) FROM told")).unwrap()
    }

    pub(crate) fn assert_once_in_order(&self, jobs: usize) {
        let told = self.told();
        let mut last = BTreeMap::new();
        for Told { key, offset, worker, .. } in &told {
            let before = last.insert(key.clone(), *offset);
            assert!(before < Some(*offset), "{key}: {offset} by {worker} after {before:?}");
        }
        assert_eq!(told.len(), jobs, "each job once");
    }

    /// What the group has committed, by partition; `None` if its coordinator could not be asked.
    pub(crate) fn committed(&self) -> Option<BTreeMap<i32, i64>> {
        let found = self.cluster().committed_offsets(self.topic()).ok()?;
        Some(found.into_iter().map(|committed| (committed.partition, committed.offset)).collect())
    }

    /// What the log has above what the group has committed, markers of transactions included.
    pub(crate) fn lag(&self) -> i64 {
        let committed = self.committed().unwrap();
        let bounds = self.cluster().list_offsets(self.topic()).unwrap();
        let lag = |(partition, bounds): (usize, &keylane_testing::kafka::Offsets)| {
            let at = committed.get(&i32::try_from(partition).unwrap()).copied().unwrap_or(bounds.start);
            bounds.end - at.max(bounds.start)
        };
        bounds.iter().enumerate().map(lag).sum()
    }
}

/// Reaches the cluster, and hears soon of partitions that are added.
fn reach(bootstrap: &str) -> KafkaSettings {
    let mut settings = KafkaSettings::new(bootstrap.parse().unwrap());
    settings.set("topic.metadata.refresh.interval.ms=1000", PropertySource::File).unwrap();
    settings
}

/// Waits for a condition, with a limit.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let (lock, bell) = (Mutex::new(()), Condvar::new());
    let start = Clock::boot().now();
    while !is_so() {
        assert!(Clock::boot().now().since(start) < LIMIT, "waited in vain for: {what}");
        drop(bell.wait_timeout(lock.lock().unwrap(), Duration::from_millis(20)).unwrap());
    }
}
