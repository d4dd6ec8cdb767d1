//! A whole worker that writes over several connections: what happens to one of them is no other's matter, and a key stays
//! in order.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use keylane_producer::{
    Enqueuer, Job, JobKey, Log, Partition, QueueIdentity, QueueSpec,
    log::local::{LocalLog, Open},
    partition_of,
    sqlite::Patience,
};
use keylane_testing::postgres::shared;
use tokio::sync::Semaphore;

use super::{
    Database, Limits, PostgresStore, PostgresTx,
    cut::{KEEP_BOTH, LOSE_ANSWER, Proxy},
    until,
};
use crate::{
    Notice, Parts, Summary, Worker, WorkerHandle, WorkerSettings,
    clock::Clock,
    fence::Guards,
    group::local::{LocalGroup, LocalGroupSettings},
    handler::{Handler, JobContext, Outcome},
    store::{
        FencedStore, StoreSession,
        conformance::{Place, candidate},
    },
};

/// A queue in a file, a database behind a proxy, and one worker.
struct Scene {
    folder: tempfile::TempDir,
    queue: QueueIdentity,
    proxy: Proxy,
    database: Database,
    /// Jobs of these keys wait for theirs to be opened.
    gates: BTreeMap<String, Arc<Semaphore>>,
    worker: Option<(WorkerHandle, thread::JoinHandle<Summary>)>,
}

impl Scene {
    fn new(partitions: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LocalLog::open(&folder.path().join("q.db"), Open::Create, Patience::Patient).unwrap();
        let queue = log.create(&QueueSpec::new("jobs".parse().unwrap(), partitions.parse().unwrap())).unwrap();
        let proxy = Proxy::start();
        // A COMMIT that a test keeps for a while is not what idles.
        let limits = Limits { idle: Duration::from_secs(60), lock: Duration::from_secs(30), ..Limits::default() };
        let limits = Limits { statement: Duration::from_secs(60), answer: Duration::from_secs(60), ..limits };
        let database = Database::on(shared(), |name| proxy.url(name)).with(|store| store.with_limits(limits));
        Self { folder, queue, proxy, database, gates: BTreeMap::new(), worker: None }
    }

    fn log(&self) -> LocalLog {
        LocalLog::open(&self.folder.path().join("q.db"), Open::Existing, Patience::Patient).unwrap()
    }

    fn enqueue(&self, keys: impl IntoIterator<Item = String>) {
        let job = |key: String| Job::new(JobKey::try_from(key.as_str()).unwrap(), None).unwrap();
        let mut enqueuer = Enqueuer::open(self.log(), &self.queue.name).unwrap();
        enqueuer.send(keys.into_iter().map(job).collect()).unwrap();
    }

    fn enqueue_of(&self, keys: &[&String]) {
        self.enqueue(keys.iter().map(|&key| key.clone()));
    }

    /// So many keys of the partition.
    fn keys_of<const N: usize>(&self, partition: u32) -> [String; N] {
        let belongs = |key: &String| partition_of(key.as_bytes(), self.queue.partitions) == Partition(partition);
        let keys: Vec<_> = (0..).map(|n| format!("key{n}")).filter(belongs).take(N).collect();
        keys.try_into().unwrap()
    }

    /// Jobs of this key wait until the gate is opened.
    fn shut(&mut self, key: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.gates.insert(key.to_owned(), Arc::clone(&gate));
        gate
    }

    fn start(&mut self, connections: usize, guards: Guards, notice: impl FnMut(Notice) + Send + 'static) {
        let mut settings = WorkerSettings::named("one");
        settings.store_connections = Some(connections);
        settings.guards = guards;
        let group_name: keylane_producer::GroupName = "workers".parse().unwrap();
        let file = self.folder.path().join("q.db");
        let own = LocalGroupSettings { worker: "one".into(), ..Default::default() };
        let parts = Parts {
            queue: self.queue.clone(),
            group: Box::new(LocalGroup::open(&file, &self.queue, &group_name, Clock::boot(), own).unwrap()),
            group_name,
            log: Box::new(self.log()),
            store: self.database.store(),
            handler: teller(self.gates.clone()),
            clock: Clock::boot(),
        };
        let worker = Worker::new(settings, parts).unwrap();
        self.worker = Some((worker.handle(), thread::spawn(move || worker.run(notice).unwrap())));
    }

    /// Key, offset and server process of each effect, in the order of their COMMITs' effects on the table.
    fn told(&self) -> Vec<(String, u64, String)> {
        let row = |line: String| {
            let fields: Vec<&str> = line.split(':').collect();
            (fields[0].to_owned(), fields[1].parse().unwrap(), fields[2].to_owned())
        };
        self.database.told().into_iter().map(row).collect()
    }

    fn until_told(&self, key: &str, count: usize) {
        until(|| self.told().iter().filter(|(of, ..)| of == key).count() >= count);
    }

    fn offsets_of(&self, key: &str) -> Vec<u64> {
        self.told().into_iter().filter(|(of, ..)| of == key).map(|(_, offset, _)| offset).collect()
    }

    fn end(&mut self) -> Summary {
        let (handle, thread) = self.worker.take().expect("it was started");
        handle.end();
        thread.join().unwrap()
    }
}

/// Tells key, offset and which connection wrote it.
fn teller(gates: BTreeMap<String, Arc<Semaphore>>) -> impl Handler<PostgresStore> {
    move |context: JobContext| {
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

#[test]
fn each_key_is_told_in_order_and_once_over_several_connections_that_are_cut_and_killed() {
    const JOBS: usize = 1_200;
    let mut scene = Scene::new("12");
    scene.enqueue((0..JOBS).map(|n| format!("k{}", n % 60)));
    scene.start(4, Guards::default(), |_| {});
    for quarter in 1..5 {
        until(|| scene.told().len() >= JOBS * quarter / 8);
        // One connection loses the answer to its COMMIT; the others have their server processes ended.
        scene.proxy.cut.store(LOSE_ANSWER, Ordering::SeqCst);
        until(|| scene.proxy.cut.load(Ordering::SeqCst) != LOSE_ANSWER);
        scene.database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 2",
        );
    }
    until(|| scene.told().len() >= JOBS);
    assert!(scene.end().clean);
    let told = scene.told();
    let mut offsets = BTreeMap::<&str, Vec<u64>>::new();
    told.iter().for_each(|(key, offset, _)| offsets.entry(key).or_default().push(*offset));
    assert_eq!(told.len(), JOBS, "none twice");
    assert!(offsets.values().all(|of_key| of_key.is_sorted() && of_key.len() == JOBS / 60), "{offsets:?}");
    let connections: std::collections::BTreeSet<_> = told.iter().map(|(.., pid)| pid).collect();
    assert!(connections.len() >= 4, "{connections:?}");
}

#[test]
fn one_partition_is_refused_while_the_write_of_another_lands() {
    let mut scene = Scene::new("2");
    let keys = [0, 1].map(|partition| scene.keys_of::<1>(partition)[0].clone());
    let refused = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = Arc::clone(&refused);
    scene.enqueue(keys.clone());
    scene.start(2, Guards::default(), move |notice| {
        if let Notice::WriteRefused { partition, .. } = notice {
            note.lock().unwrap().push(partition);
        }
    });
    until(|| scene.told().len() == 2);
    let mut newer = scene.database.store().open(&scene.queue, &"workers".parse().unwrap()).unwrap();
    newer.claim(&candidate("newer", 1_000, Partition(0))).unwrap();
    scene.enqueue(keys.clone());
    scene.until_told(&keys[1], 2);
    until(|| !refused.lock().unwrap().is_empty());
    assert_eq!(*refused.lock().unwrap(), [Partition(0)]);
    let (handle, thread) = scene.worker.take().unwrap();
    handle.force();
    thread.join().unwrap();
    assert_eq!(scene.offsets_of(&keys[0]).len(), 1, "the stale one did not land");
}

/// A COMMIT is on its way when its connection is lost, and comes late: of a job behind two that still run, one of which ends
/// before the write is tried again. So no marker row of the two tries is the same. The offsets of the job's key, as they came
/// to be seen; and how many jobs of another partition were seen before the COMMIT came.
fn a_commit_that_comes_late(guards: Guards) -> (Vec<u64>, usize) {
    let mut scene = Scene::new("2");
    let ([a, first, second], [b]) = (scene.keys_of(0), scene.keys_of(1));
    let (first_gate, second_gate) = (scene.shut(&first), scene.shut(&second));
    scene.enqueue_of(&[&a, &a, &a, &a, &b]);
    scene.start(2, guards, |_| {});
    scene.until_told(&a, 4);
    scene.until_told(&b, 1);
    scene.proxy.cut.store(KEEP_BOTH, Ordering::SeqCst);
    scene.enqueue_of(&[&first, &second, &a, &a]);
    scene.proxy.until_kept();
    second_gate.add_permits(1);
    // What is told of the other partition ended later, so the desk knows of the end before.
    scene.enqueue_of(&[&b]);
    scene.until_told(&b, 2);
    scene.proxy.lose_client();
    if guards.one_way {
        scene.database.until_one_waits();
    } else {
        scene.until_told(&a, 6);
    }
    scene.enqueue_of(&[&b; 20]);
    scene.until_told(&b, 22);
    assert_eq!(scene.database.one_waits(), guards.one_way, "the others did not wait until the lost connection was ended");
    let (mut seen, others) = (scene.offsets_of(&a), scene.offsets_of(&b).len());
    scene.proxy.send_kept();
    scene.until_told(&a, if guards.one_way { 6 } else { 7 });
    first_gate.add_permits(1);
    assert!(scene.end().clean);
    let mut late = scene.offsets_of(&a);
    for offset in &seen {
        late.remove(late.iter().position(|of| of == offset).expect("what was seen stays"));
    }
    seen.extend(late);
    (seen, others)
}

#[test]
fn a_commit_whose_outcome_is_unknown_holds_up_its_own_partitions_alone() {
    assert_eq!(a_commit_that_comes_late(Guards::default()), (vec![0, 1, 2, 3, 6, 7], 22));
}

#[test]
fn without_one_connection_for_a_partition_a_late_commit_repeats_a_job_behind_its_follower() {
    let (seen, _) = a_commit_that_comes_late(Guards { one_way: false, ..Guards::default() });
    assert_eq!(seen, [0, 1, 2, 3, 6, 7, 6]);
}
