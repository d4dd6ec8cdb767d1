//! A whole worker: its queue is in a file, its effects go to a database.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use keylane_producer::{
    Enqueuer, Job, JobKey, Log, Partition, QueueIdentity, QueueSpec,
    log::local::{LocalLog, Open},
    partition_of,
    sqlite::Patience,
};
use tokio::sync::Semaphore;

use super::{Database, PostgresStore, PostgresTx, until};
use crate::{
    Notice, Parts, Summary, Worker, WorkerHandle, WorkerSettings,
    clock::Clock,
    fence::Guards,
    group::local::{LocalGroup, LocalGroupSettings},
    handler::{Handler, JobContext, Outcome},
    store::conformance::Place,
};

/// See the module's docs.
pub(super) struct Scene {
    folder: tempfile::TempDir,
    pub(super) queue: QueueIdentity,
    pub(super) database: Database,
    /// Jobs of these keys wait for theirs to be opened.
    gates: BTreeMap<String, Arc<Semaphore>>,
    /// How often a handler began.
    pub(super) begun: Arc<AtomicUsize>,
    workers: Vec<(WorkerHandle, thread::JoinHandle<Summary>)>,
}

impl Scene {
    pub(super) fn new(partitions: &str, database: Database) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LocalLog::open(&folder.path().join("q.db"), Open::Create, Patience::Patient).unwrap();
        let queue = log.create(&QueueSpec::new("jobs".parse().unwrap(), partitions.parse().unwrap())).unwrap();
        Self { folder, queue, database, gates: BTreeMap::new(), begun: Arc::default(), workers: Vec::new() }
    }

    fn log(&self) -> LocalLog {
        LocalLog::open(&self.folder.path().join("q.db"), Open::Existing, Patience::Patient).unwrap()
    }

    pub(super) fn enqueue(&self, keys: impl IntoIterator<Item = String>) {
        let job = |key: String| Job::new(JobKey::try_from(key.as_str()).unwrap(), None).unwrap();
        let mut enqueuer = Enqueuer::open(self.log(), &self.queue.name).unwrap();
        enqueuer.send(keys.into_iter().map(job).collect()).unwrap();
    }

    pub(super) fn enqueue_of(&self, keys: &[&String]) {
        self.enqueue(keys.iter().map(|&key| key.clone()));
    }

    /// So many keys of the partition.
    pub(super) fn keys_of<const N: usize>(&self, partition: u32) -> [String; N] {
        let belongs = |key: &String| partition_of(key.as_bytes(), self.queue.partitions) == Partition(partition);
        let keys: Vec<_> = (0..).map(|n| format!("key{n}")).filter(belongs).take(N).collect();
        keys.try_into().unwrap()
    }

    /// Jobs of this key wait until the gate is opened.
    pub(super) fn shut(&mut self, key: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.gates.insert(key.to_owned(), Arc::clone(&gate));
        gate
    }

    pub(super) fn start(&mut self, connections: usize, guards: Guards, notice: impl FnMut(Notice) + Send + 'static) {
        self.start_as("one", connections, guards, notice);
    }

    pub(super) fn start_as(
        &mut self,
        name: &str,
        connections: usize,
        guards: Guards,
        notice: impl FnMut(Notice) + Send + 'static,
    ) {
        let mut settings = WorkerSettings::named(name);
        settings.store_connections = Some(connections);
        settings.guards = guards;
        let group_name: keylane_producer::GroupName = "workers".parse().unwrap();
        let file = self.folder.path().join("q.db");
        let own = LocalGroupSettings { worker: name.into(), ..Default::default() };
        let parts = Parts {
            queue: self.queue.clone(),
            group: Box::new(LocalGroup::open(&file, &self.queue, &group_name, Clock::boot(), own).unwrap()),
            group_name,
            log: Box::new(self.log()),
            store: self.database.store(),
            handler: teller(self.gates.clone(), Arc::clone(&self.begun)),
            clock: Clock::boot(),
        };
        let worker = Worker::new(settings, parts).unwrap();
        self.workers.push((worker.handle(), thread::spawn(move || worker.run(notice).unwrap())));
    }

    /// Key, offset and server process of each effect, in the order of their COMMITs' effects on the table.
    pub(super) fn told(&self) -> Vec<(String, u64, String)> {
        let row = |line: String| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields[0].to_owned(), fields[1].parse().unwrap(), fields[2].to_owned())
        };
        self.database.told().into_iter().map(row).collect()
    }

    pub(super) fn until_told(&self, key: &str, count: usize) {
        until(|| self.told().iter().filter(|(of, ..)| of == key).count() >= count);
    }

    pub(super) fn offsets_of(&self, key: &str) -> Vec<u64> {
        self.told().into_iter().filter(|(of, ..)| of == key).map(|(_, offset, _)| offset).collect()
    }

    /// Each of so many jobs was told once, and each key's in order.
    pub(super) fn assert_once_in_order(&self, jobs: usize) {
        let told = self.told();
        let mut offsets = BTreeMap::<&str, Vec<u64>>::new();
        told.iter().for_each(|(key, offset, _)| offsets.entry(key).or_default().push(*offset));
        assert_eq!(told.len(), jobs, "none twice, none lost");
        assert!(offsets.values().all(|of_key| of_key.windows(2).all(|two| two[0] < two[1])), "{offsets:?}");
    }

    /// Ends the one that was started first.
    pub(super) fn end(&mut self) -> Summary {
        self.ended_by(WorkerHandle::end)
    }

    pub(super) fn force(&mut self) -> Summary {
        self.ended_by(WorkerHandle::force)
    }

    fn ended_by(&mut self, ask: impl Fn(&WorkerHandle)) -> Summary {
        let (handle, thread) = self.workers.remove(0);
        ask(&handle);
        thread.join().unwrap()
    }
}

/// Tells key, offset and which connection wrote it.
fn teller(gates: BTreeMap<String, Arc<Semaphore>>, begun: Arc<AtomicUsize>) -> impl Handler<PostgresStore> {
    move |context: JobContext| {
        begun.fetch_add(1, Ordering::Relaxed);
        let key = context.job.key.to_string();
        let gate = gates.get(&key).cloned();
        async move {
            if let Some(gate) = gate {
                drop(gate.acquire().await.expect("it is never closed"));
            }
            let line = format!("{key}:{}", context.offset.0);
            Outcome::effect(move |tx: &mut PostgresTx<'_>| {
                tx.execute("INSERT INTO told (line) SELECT $1 || ':' || pg_backend_pid()", &[&line])?;
                Ok(())
            })
        }
    }
}
