//! Where the demo plays: a folder of its own, with a queue full of events and an empty ledger.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use keylane_producer::{
    Enqueuer, Error, GroupName, Job, JobKey, Log, QueueIdentity, QueueSpec, log::kafka::KafkaLog, queue::Replication,
};
use tempfile::TempDir;

use super::{
    books::Books,
    flight::{EVENTS, Flight},
};
use crate::{
    broker,
    cli::{BrokerUrl, Global, StoreUrl},
    exit::{Code, Failure},
};

const QUEUE: &str = "flights";
const GROUP: &str = "ledger";
const PARTITIONS: &str = "12";

/// The folder, and what is in it.
pub(super) struct Stage {
    folder: TempDir,
    keep: bool,
    scene: Scene,
}

/// What is on the stage.
pub(super) struct Scene {
    /// Where log, group and store are, as the flags would say it.
    pub(super) global: Global,
    pub(super) queue: QueueIdentity,
    pub(super) group: GroupName,
    pub(super) jobs: u64,
    pub(super) aircraft: u64,
    /// Where the workers' logs go.
    pub(super) folder: PathBuf,
}

impl Stage {
    /// Makes all of it. A folder that is not to be kept goes when the stage is dropped, whatever happened.
    pub(super) fn build(keep: bool, global: &Global) -> Result<Self, Failure> {
        let mut folder = tempfile::Builder::new().prefix("keylane-demo-").tempdir().map_err(|error| {
            Failure::new(Code::Refused, format!("cannot make a folder in '{}'", std::env::temp_dir().display()))
                .remedy("set TMPDIR to a folder that can be written to")
                .because(&error)
        })?;
        folder.disable_cleanup(keep);
        let scene = Scene::set(folder.path(), global)?;
        Ok(Self { folder, keep, scene })
    }

    pub(super) fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Removes the folder, or says where it is.
    pub(super) fn end(&self) -> Option<PathBuf> {
        self.keep.then(|| self.folder.path().to_owned())
    }
}

/// Brokers and databases keep nothing of a demo that is over.
impl Drop for Stage {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if Books::open(&self.scene.global).and_then(|mut books| books.remove()).is_err() {
            tracing::warn!(group = %self.scene.group, "the ledger of the demo stays in the database");
        }
        let BrokerUrl::Kafka(servers) = &self.scene.global.broker else { return };
        let gone = self.scene.global.kafka(servers).and_then(|settings| {
            let mut log = KafkaLog::open(settings)?;
            Ok(log.delete(&self.scene.queue.name, &self.scene.group)?)
        });
        if gone.is_err() {
            tracing::warn!(topic = %self.scene.queue.name, "the topic of the demo stays on the brokers");
        }
    }
}

impl Scene {
    fn set(folder: &Path, global: &Global) -> Result<Self, Failure> {
        let mut global = global.clone();
        // Fence rows, markers and the ledger itself. A database is named on purpose; a file is the demo's own.
        let in_database = matches!(global.store, Some(StoreUrl::Postgres(_)));
        if !in_database {
            global.store = Some(StoreUrl::Sqlite(folder.join("ledger.db")));
        }
        global.group = GROUP.parse()?;
        global.queue = match &mut global.broker {
            BrokerUrl::Sqlite(file) => {
                *file = folder.join("queue.db");
                QUEUE.parse()?
            }
            // Brokers that others use too: names of its own.
            BrokerUrl::Kafka(_) => format!("keylane-demo-{QUEUE}-{}", ulid::Ulid::generate()).parse()?,
        };
        if let BrokerUrl::Kafka(_) = global.broker {
            global.group = global.queue.as_str().parse()?;
        } else if in_database {
            global.group = format!("keylane-demo-{}", ulid::Ulid::generate()).parse()?;
        }
        let mut log = broker::open_or_make(&global)?;
        let spec = QueueSpec::new(global.queue.clone(), PARTITIONS.parse()?);
        let queue = match log.create(&spec) {
            // Fewer brokers than copies that are safe: for a demo one copy does.
            Err(Error::Invalid(_)) => {
                let one = Replication { factor: 1, min_in_sync: 1, unsafe_too: true };
                log.create(&QueueSpec { replication: Some(one), ..spec })?
            }
            made => made?,
        };
        let name = global.queue.clone();
        let (jobs, aircraft) = events()?;
        let count = jobs.len() as u64;
        Enqueuer::open(log, &name)?.send(jobs).map_err(|error| Failure::from(error.cause))?;
        Books::open(&global)?.make()?;
        let group = global.group.clone();
        Ok(Self { global, queue, group, jobs: count, aircraft, folder: folder.to_owned() })
    }
}

/// The shipped events as jobs, and how many aircraft they are of.
fn events() -> Result<(Vec<Job>, u64), Failure> {
    let mut aircraft = BTreeSet::new();
    let mut jobs = Vec::new();
    for line in EVENTS.lines() {
        let flight = Flight::parse(line.as_bytes()).expect("a test reads every shipped event");
        let key = JobKey::try_from(flight.tail.as_str())?;
        jobs.push(Job::new(key, Some(Bytes::from_static(line.as_bytes())))?);
        aircraft.insert(flight.tail);
    }
    Ok((jobs, aircraft.len() as u64))
}
