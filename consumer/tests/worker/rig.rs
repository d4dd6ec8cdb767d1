//! A queue in a temporary folder, workers on threads, and a table in which each job's effect tells itself.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use bytes::Bytes;
use keylane_consumer::{
    FencedStore, Handler, JobContext, Notice, Outcome, Parts, Summary, Worker, WorkerHandle, WorkerSettings,
    clock::Clock,
    group::{
        Group,
        local::{LocalGroup, LocalGroupSettings},
    },
    store::{
        SteerOrder, StopRule, StoreSession,
        sqlite::{SqliteSession, SqliteStore},
    },
};
use keylane_producer::{
    Enqueuer, GroupName, Job, JobKey, Log, Partition, PartitionCount, QueueIdentity, QueueSpec, Record, Timestamp,
    log::local::{LocalLog, Open},
    partition_of,
    sqlite::Patience,
};
use keylane_sidecar::spool::Edition;
use rusqlite::{Connection, params};

pub(crate) struct Rig {
    folder: PathBuf,
    /// Removes it at the end, if this rig made it.
    _made: Option<tempfile::TempDir>,
    queue: QueueIdentity,
    change: Box<dyn Fn(&mut WorkerSettings)>,
    /// What its workers have between them and the group.
    between: Box<dyn Fn(LocalGroup) -> Box<dyn Group>>,
}

/// What a job's effect left.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) key: String,
    pub(crate) offset: u64,
}

/// The effect that tells the job.
pub(crate) fn tell(job: &JobContext) -> Outcome<SqliteStore> {
    let (partition, offset, key) = (job.partition.0, job.offset.0, job.job.key.to_string());
    Outcome::effect(move |tx: &mut rusqlite::Savepoint<'_>| {
        tx.prepare_cached("INSERT INTO told (partition, offset, key) VALUES (?1, ?2, ?3)")?.execute(params![
            partition,
            offset.cast_signed(),
            key
        ])?;
        Ok(())
    })
}

impl Rig {
    pub(crate) fn new(partitions: u32) -> Self {
        Self::with(partitions, |_| {})
    }

    pub(crate) fn with(partitions: u32, change: impl Fn(&mut WorkerSettings) + 'static) -> Self {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path().to_owned();
        let mut log = LocalLog::open(&folder.join("q.db"), Open::Create, Patience::Patient).unwrap();
        let partitions: PartitionCount = partitions.to_string().parse().unwrap();
        let spec = QueueSpec::new("jobs".parse().unwrap(), partitions);
        let queue = log.create(&spec).unwrap();
        let rig = Self {
            folder,
            _made: Some(made),
            queue,
            change: Box::new(change),
            between: Box::new(|group| Box::new(group)),
        };
        let table = "CREATE TABLE told (n INTEGER PRIMARY KEY, partition INTEGER, offset INTEGER, key TEXT)";
        rig.store_file().execute_batch(table).unwrap();
        rig
    }

    /// The rig of another process.
    pub(crate) fn at(folder: &Path, change: impl Fn(&mut WorkerSettings) + 'static) -> Self {
        let mut log = LocalLog::open(&folder.join("q.db"), Open::Existing, Patience::Patient).unwrap();
        let queue = log.describe(&"jobs".parse().unwrap()).unwrap().identity;
        Self {
            folder: folder.to_owned(),
            _made: None,
            queue,
            change: Box::new(change),
            between: Box::new(|group| Box::new(group)),
        }
    }

    pub(crate) fn identity(&self) -> QueueIdentity {
        self.queue.clone()
    }

    pub(crate) fn between(mut self, between: impl Fn(LocalGroup) -> Box<dyn Group> + 'static) -> Self {
        self.between = Box::new(between);
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Long: what these tests look at is not how a session runs out, and a busy disk must not make it.
    pub(crate) fn session() -> Duration {
        Duration::from_secs(15)
    }

    fn path(&self) -> PathBuf {
        self.folder.join("q.db")
    }

    fn store_path(&self) -> PathBuf {
        self.folder.join("store.db")
    }

    pub(crate) fn store_file(&self) -> Connection {
        let file = Connection::open(self.store_path()).unwrap();
        file.busy_timeout(Duration::from_secs(10)).unwrap();
        file.pragma_update(None, "journal_mode", "wal").unwrap();
        file
    }

    /// As of now.
    pub(crate) fn copy_of_store(&self) -> PathBuf {
        let copy = self.folder.join("copy.db");
        self.store_file().execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
        copy
    }

    /// While no worker runs.
    pub(crate) fn restore_store(&self, copy: &Path) {
        // Another file, not other bytes in the same one: SQLite knows a file of this process by its inode.
        for file in ["store.db", "store.db-wal", "store.db-shm"] {
            let _ = std::fs::remove_file(self.folder.join(file));
        }
        std::fs::copy(copy, self.store_path()).unwrap();
    }

    fn log(&self) -> LocalLog {
        LocalLog::open(&self.path(), Open::Existing, Patience::Patient).unwrap()
    }

    /// Jobs whose payload is their number.
    pub(crate) fn enqueue(&self, numbers: std::ops::RangeInclusive<u32>, key: impl Fn(u32) -> String) {
        let mut enqueuer = Enqueuer::open(self.log(), &self.queue.name).unwrap();
        let job =
            |n: u32| Job::new(JobKey::try_from(key(n).as_str()).unwrap(), Some(Bytes::from(n.to_string()))).unwrap();
        enqueuer.send(numbers.map(job).collect()).unwrap();
    }

    pub(crate) fn append_raw(&self, partition: u32, key: Option<String>) {
        let record =
            Record { key: key.map(Bytes::from), value: None, headers: Vec::new(), timestamp: Timestamp::now() };
        self.log().append(&self.queue, vec![(Partition(partition), record)], None).unwrap();
    }

    /// A record as another producer may write it, where its key belongs.
    pub(crate) fn append_bytes(&self, key: &[u8], value: Option<&'static [u8]>) {
        let record = Record {
            key: Some(Bytes::copy_from_slice(key)),
            value: value.map(Bytes::from_static),
            headers: Vec::new(),
            timestamp: Timestamp::now(),
        };
        self.log().append(&self.queue, vec![(partition_of(key, self.queue.partitions), record)], None).unwrap();
    }

    pub(crate) fn key_of_partition(&self, partition: u32) -> String {
        let belongs = |key: &String| partition_of(key.as_bytes(), self.queue.partitions) == Partition(partition);
        (0..).map(|n| format!("key{n}")).find(belongs).unwrap()
    }

    fn worker<H: Handler<SqliteStore>>(
        &self,
        name: &str,
        job_limit: Duration,
        until_empty: bool,
        handler: H,
    ) -> Worker<SqliteStore, H> {
        let mut settings = WorkerSettings::named(name);
        settings.ownership.session = Self::session();
        settings.ownership.margin = Duration::from_millis(100);
        settings.prove_every = Duration::from_millis(100);
        settings.job_limit = job_limit;
        settings.retry.first = Duration::from_millis(10);
        settings.until_empty = until_empty;
        (self.change)(&mut settings);
        let group_name: GroupName = "workers".parse().unwrap();
        let session_timeout = settings.ownership.session;
        let own = LocalGroupSettings { worker: name.into(), session_timeout, ..Default::default() };
        let group = LocalGroup::open(&self.path(), &self.queue, &group_name, Clock::boot(), own).unwrap();
        let parts = Parts {
            queue: self.queue.clone(),
            group_name,
            group: (self.between)(group),
            log: Box::new(self.log()),
            store: SqliteStore::without(self.store_path(), settings.guards),
            handler,
            clock: Clock::boot(),
        };
        Worker::new(settings, parts).unwrap()
    }

    pub(crate) fn run_until_empty<H: Handler<SqliteStore>>(&self, name: &str, handler: H) -> Summary {
        self.worker(name, Duration::from_millis(300), true, handler).run(|_| {}).unwrap()
    }

    pub(crate) fn spawn<H: Handler<SqliteStore>>(&self, name: &str, handler: H) -> Running {
        self.spawn_with(name, Duration::from_secs(60), handler, |_| {})
    }

    pub(crate) fn spawn_with<H: Handler<SqliteStore>>(
        &self,
        name: &str,
        job_limit: Duration,
        handler: H,
        listen: impl FnMut(&Notice) + Send + 'static,
    ) -> Running {
        Self::start(name, self.worker(name, job_limit, false, handler), listen)
    }

    /// One that shows what it holds.
    pub(crate) fn spawn_shown<H: Handler<SqliteStore>>(
        &self,
        name: &str,
        handler: H,
        sink: impl FnMut(&Edition) -> std::io::Result<()> + Send + 'static,
    ) -> Running {
        self.spawn_shown_with(name, handler, sink, |_| {})
    }

    pub(crate) fn spawn_shown_with<H: Handler<SqliteStore>>(
        &self,
        name: &str,
        handler: H,
        sink: impl FnMut(&Edition) -> std::io::Result<()> + Send + 'static,
        listen: impl FnMut(&Notice) + Send + 'static,
    ) -> Running {
        Self::start(name, self.worker(name, Duration::from_secs(60), false, handler).shown_to(sink), listen)
    }

    fn start<H: Handler<SqliteStore>>(
        name: &str,
        worker: Worker<SqliteStore, H>,
        mut listen: impl FnMut(&Notice) + Send + 'static,
    ) -> Running {
        let handle = worker.handle();
        let owned = Arc::new(AtomicUsize::new(0));
        let ending = Arc::new(AtomicBool::new(false));
        let (count, end) = (Arc::clone(&owned), Arc::clone(&ending));
        let name = name.to_owned();
        let thread = std::thread::spawn(move || {
            worker
                .run(move |notice| {
                    match &notice {
                        Notice::TookOver { .. } => drop(count.fetch_add(1, Ordering::SeqCst)),
                        Notice::Released { .. } => drop(count.fetch_sub(1, Ordering::SeqCst)),
                        Notice::Lost(lost) => drop(count.fetch_sub(lost.len(), Ordering::SeqCst)),
                        Notice::Ending => end.store(true, Ordering::SeqCst),
                        _ => {}
                    }
                    println!("{name}: {notice:?}");
                    listen(&notice);
                })
                .unwrap()
        });
        Running { handle, thread, owned, ending }
    }

    pub(crate) fn wait_for(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let (lock, bell) = (Mutex::new(()), std::sync::Condvar::new());
        #[expect(clippy::disallowed_methods, reason = "the limit of a wait in a test")]
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for: {what}");
            drop(bell.wait_timeout(lock.lock().unwrap(), Duration::from_millis(5)).unwrap());
        }
    }

    /// Whether nobody is inside a transaction that writes.
    pub(crate) fn nobody_writes(&self) -> bool {
        [self.path(), self.store_path()].iter().all(|path| {
            let file = Connection::open(path).unwrap();
            file.busy_timeout(Duration::ZERO).unwrap();
            file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
        })
    }

    /// In the order in which the effects were committed.
    pub(crate) fn told(&self) -> Vec<Told> {
        let file = self.store_file();
        let mut rows = file.prepare("SELECT key, offset FROM told ORDER BY n").unwrap();
        let told =
            |row: &rusqlite::Row<'_>| Ok(Told { key: row.get(0)?, offset: row.get::<_, i64>(1)?.cast_unsigned() });
        rows.query_map([], told).unwrap().map(Result::unwrap).collect()
    }

    pub(crate) fn assert_once_in_order(&self, jobs: usize) {
        let told = self.told();
        assert_eq!(told.len(), jobs, "each job once");
        let mut last = std::collections::HashMap::new();
        for Told { key, offset } in told {
            let before = last.insert(key.clone(), offset);
            assert!(before < Some(offset), "{key}: {offset} after {before:?}");
        }
    }

    pub(crate) fn release(&self, key: &str) -> bool {
        let key = JobKey::try_from(key).unwrap();
        let mut session = SqliteStore::new(self.store_path()).open(&self.queue, &"workers".parse().unwrap()).unwrap();
        let partition = partition_of(key.as_bytes(), self.queue.partitions);
        let overview = session.overview().unwrap();
        let row = overview.iter().flat_map(|o| &o.stopped).find(|s| s.key == key).expect("it is stopped");
        session.release_key(partition, &key, row.version).unwrap()
    }

    /// A session for what persons do.
    pub(crate) fn person(&self) -> SqliteSession {
        SqliteStore::new(self.store_path()).open(&self.queue, &"workers".parse().unwrap()).unwrap()
    }

    pub(crate) fn steer(&self, key: &str) -> SteerOrder {
        let key = JobKey::try_from(key).unwrap();
        let partition = partition_of(key.as_bytes(), self.queue.partitions);
        SteerOrder { partition, key, who: "a person".to_owned(), why: "a reason".to_owned() }
    }

    pub(crate) fn stop_rule(&self, key: &str) -> StopRule {
        let key = JobKey::try_from(key).unwrap();
        let mut session = SqliteStore::new(self.store_path()).open(&self.queue, &"workers".parse().unwrap()).unwrap();
        let overview = session.overview().unwrap();
        overview.iter().flat_map(|o| &o.stopped).find(|row| row.key == key).expect("it is stopped").reason.rule
    }

    /// The offsets in a key's line, and everything below which the store has finished in its partition.
    pub(crate) fn line(&self, key: &str) -> (Vec<u64>, u64) {
        let key = JobKey::try_from(key).unwrap();
        let mut session = SqliteStore::new(self.store_path()).open(&self.queue, &"workers".parse().unwrap()).unwrap();
        let partition = partition_of(key.as_bytes(), self.queue.partitions);
        let line = session.line(partition, &key).unwrap();
        let overview = session.overview().unwrap();
        let floor = overview.iter().find(|row| row.partition == partition).map_or(0, |row| row.done.floor);
        (line.jobs.into_iter().map(|(offset, _)| offset.0).collect(), floor)
    }

    pub(crate) fn quarantined(&self) -> u64 {
        let mut session = SqliteStore::new(self.store_path()).open(&self.queue, &"workers".parse().unwrap()).unwrap();
        session.overview().unwrap().iter().map(|o| o.quarantined).sum()
    }
}

pub(crate) struct Running {
    handle: WorkerHandle,
    thread: JoinHandle<Summary>,
    owned: Arc<AtomicUsize>,
    ending: Arc<AtomicBool>,
}

impl Running {
    pub(crate) fn owned(&self) -> usize {
        self.owned.load(Ordering::SeqCst)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    pub(crate) fn ask_to_end(&self) {
        self.handle.end();
    }

    pub(crate) fn join(self) -> Summary {
        self.thread.join().unwrap()
    }

    /// What runs is cut short.
    pub(crate) fn force(self) -> Summary {
        self.handle.end();
        self.handle.force();
        self.join()
    }

    pub(crate) fn end(self) -> Summary {
        self.handle.end();
        self.join()
    }
}
