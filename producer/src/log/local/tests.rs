//! The port's claims on a queue file, and what only this adapter promises.

use std::{path::PathBuf, time::Duration};

use rusqlite::Connection;
use tempfile::TempDir;

use super::{LocalLog, Open};
use crate::{
    log::{Log, ReadLimit, conformance::Broker},
    partition::{Offset, Partition},
    queue::{QueueIdentity, QueueSpec, Retention},
    record::{Record, StoredRecord},
    sqlite::Patience,
};

mod atomic;
mod children;
mod death;
mod files;
mod format;
mod identity;
mod retention;

crate::log_conformance!(Files::new());

/// A queue file in a folder of its own, gone with it.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("queue.db")
    }

    fn log(&self) -> LocalLog {
        LocalLog::open(&self.path(), Open::Create, Patience::Patient).unwrap()
    }

    /// As a person would look at it.
    fn sqlite(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }
}

impl Broker for Files {
    fn open(&self) -> Box<dyn Log> {
        Box::new(self.log())
    }
}

fn queue(log: &mut LocalLog, partitions: u32, retention: Retention) -> QueueIdentity {
    let partitions = partitions.to_string().parse().unwrap();
    log.create(&QueueSpec { retention, ..QueueSpec::new("jobs".parse().unwrap(), partitions) }).unwrap()
}

fn seven_days() -> Retention {
    Retention { age: Some(Duration::from_secs(7 * 24 * 3_600)), bytes: None }
}

fn record(value: impl Into<String>) -> Record {
    Record {
        key: Some("k".into()),
        value: Some(value.into().into()),
        headers: Vec::new(),
        timestamp: crate::Timestamp(1_700_000_000_000),
    }
}

fn fill(log: &mut LocalLog, queue: &QueueIdentity, records: usize) {
    let records = (0..records).map(|at| (Partition(0), record(format!("{at:04}")))).collect();
    log.append(queue, records, None).unwrap();
}

fn read_all(log: &mut LocalLog, queue: &QueueIdentity, partition: Partition) -> Vec<StoredRecord> {
    let all = ReadLimit { records: usize::MAX, bytes: usize::MAX };
    log.read(queue, partition, Offset(0), all).unwrap().records
}
