//! Where the demo plays: a folder of its own, with a queue full of events and an empty ledger.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use keylane_producer::{
    Enqueuer, GroupName, Job, JobKey, Log, QueueIdentity, QueueName, QueueSpec,
    log::local::{LocalLog, Open},
    sqlite::{Patience, Purpose, open},
};
use tempfile::TempDir;

use super::{
    flight::{EVENTS, Flight},
    ledger,
};
use crate::exit::{Code, Failure};

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
    /// Log and group.
    pub(super) broker: PathBuf,
    /// Fence rows, markers and the ledger itself.
    pub(super) store: PathBuf,
    pub(super) queue: QueueIdentity,
    pub(super) group: GroupName,
    pub(super) jobs: u64,
    pub(super) aircraft: u64,
    /// Where the workers' logs go.
    pub(super) folder: PathBuf,
}

impl Stage {
    /// Makes all of it. A folder that is not to be kept goes when the stage is dropped, whatever happened.
    pub(super) fn build(keep: bool) -> Result<Self, Failure> {
        let mut folder = tempfile::Builder::new().prefix("keylane-demo-").tempdir().map_err(|error| {
            Failure::new(Code::Refused, format!("cannot make a folder in '{}'", std::env::temp_dir().display()))
                .remedy("set TMPDIR to a folder that can be written to")
                .because(&error)
        })?;
        folder.disable_cleanup(keep);
        let scene = Scene::set(folder.path())?;
        Ok(Self { folder, keep, scene })
    }

    pub(super) fn scene(&self) -> &Scene {
        &self.scene
    }

    /// Removes the folder, or says where it is.
    pub(super) fn end(self) -> Option<PathBuf> {
        self.keep.then(|| self.folder.path().to_owned())
    }
}

impl Scene {
    fn set(folder: &Path) -> Result<Self, Failure> {
        let (broker, store) = (folder.join("queue.db"), folder.join("ledger.db"));
        let mut log = LocalLog::open(&broker, Open::Create, Patience::Patient)?;
        let name: QueueName = QUEUE.parse()?;
        let queue = log.create(&QueueSpec::new(name.clone(), PARTITIONS.parse()?))?;
        let (jobs, aircraft) = events()?;
        let count = jobs.len() as u64;
        Enqueuer::open(log, &name)?.send(jobs).map_err(|error| Failure::from(error.cause))?;
        open(&store, Purpose::Store, Patience::Patient)?
            .execute_batch(ledger::TABLES)
            .map_err(|error| Failure::new(Code::Unavailable, "cannot make the ledger's tables").because(&error))?;
        let group = GROUP.parse()?;
        Ok(Self { broker, store, queue, group, jobs: count, aircraft, folder: folder.to_owned() })
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
