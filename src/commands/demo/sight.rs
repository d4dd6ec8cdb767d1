//! What queue and store say at this moment. It only looks.

use std::{collections::BTreeMap, path::Path, time::Duration};

use keylane_consumer::group::GroupWatch;
use keylane_producer::{
    GroupName, Log, QueueIdentity,
    sqlite::{Patience, Purpose, open},
};
use rusqlite::{Connection, ErrorCode};

use super::{actors::Role, books::Books, stage::Scene};
use crate::{
    broker,
    cli::{BrokerUrl, StoreUrl},
    exit::{Code, Failure},
    store::Store,
};

/// One look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    /// By partition: whom the fence row names.
    pub(super) owners: Vec<Option<Role>>,
    /// Events in the journal, by the worker that wrote them.
    applied: BTreeMap<Box<str>, u64>,
    /// Late writes that the store refused.
    pub(super) refused: Late,
    /// Late writes that landed.
    pub(super) landed: Late,
    finished: bool,
}

/// Events of late writes, by worker and partition.
pub(super) type Late = BTreeMap<(Box<str>, u32), u64>;

impl Sight {
    pub(super) fn owner(&self, partition: u32) -> Option<Role> {
        self.owners.get(usize::try_from(partition).ok()?).copied().flatten()
    }

    pub(super) fn partitions_of(&self, role: Role) -> Vec<u32> {
        (0_u32..).zip(&self.owners).filter(|(_, owner)| **owner == Some(role)).map(|(p, _)| p).collect()
    }

    /// How many partitions each worker has when nobody is missing.
    pub(super) fn share(&self) -> usize {
        self.owners.len() / Role::ALL.len()
    }

    pub(super) fn holds(&self, role: Role) -> bool {
        self.owners.contains(&Some(role))
    }

    pub(super) fn applied(&self, role: Role) -> u64 {
        self.applied.get(role.to_string().as_str()).copied().unwrap_or(0)
    }

    pub(super) fn applied_in_all(&self) -> u64 {
        self.applied.values().sum()
    }

    /// Whether the group has committed every partition to its end.
    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }
}

/// Connections to look through.
pub(super) struct Watch {
    group: Box<dyn GroupWatch>,
    log: Box<dyn Log>,
    queue: QueueIdentity,
    group_name: GroupName,
    store: Store,
    books: Books,
    /// To each file of ours, for [`Watch::writers_are_free`].
    writers: Vec<Connection>,
}

/// How long a writer may wait for the others' ordinary writes.
const ORDINARY: Duration = Duration::from_millis(300);

impl Watch {
    pub(super) fn open(scene: &Scene) -> Result<Self, Failure> {
        let writer = |path: &Path, purpose| -> Result<Connection, Failure> {
            let connection = open(path, purpose, Patience::Brisk)?;
            connection.busy_timeout(ORDINARY).map_err(|e| unreadable(&e))?;
            Ok(connection)
        };
        let mut writers = Vec::new();
        if let StoreUrl::Sqlite(file) = scene.global.store()? {
            writers.push(writer(&file, Purpose::Store)?);
        }
        if let BrokerUrl::Sqlite(file) = &scene.global.broker {
            writers.push(writer(file, Purpose::QueueFile)?);
        }
        let store = Store::named(&scene.global)?;
        // The store first: it pins the queue, and makes the fence rows.
        drop(store.lines(&scene.queue, &scene.group)?);
        Ok(Self {
            store,
            group: broker::watch(&scene.global, &scene.queue)?,
            log: broker::open(&scene.global)?,
            queue: scene.queue.clone(),
            books: Books::open(&scene.global)?,
            group_name: scene.group.clone(),
            writers,
        })
    }

    pub(super) fn look(&mut self) -> Result<Sight, Failure> {
        let group = self.group.overview()?;
        let (log, queue) = (&mut self.log, &self.queue);
        let finished = group.is_finished(|partition| log.bounds(queue, partition).ok());
        let mut sight = Sight { finished, ..Sight::default() };
        for partition in self.store.look(&self.queue, &self.group_name)?.unwrap_or_default() {
            sight.owners.push(partition.worker.as_deref().and_then(Role::named));
            for late in partition.refused {
                sight.refused.insert((late.worker, partition.partition.0), late.jobs);
            }
        }
        self.look_at_journal(&mut sight)?;
        Ok(sight)
    }

    fn look_at_journal(&mut self, sight: &mut Sight) -> Result<(), Failure> {
        for share in self.books.shares()? {
            let worker: Box<str> = share.worker.into();
            *sight.applied.entry(worker.clone()).or_default() += share.jobs;
            if share.late > 0 {
                sight.landed.insert((worker, share.partition), share.late);
            }
        }
        Ok(())
    }

    /// Whether our files can be written to (a database ends a transaction in which nothing is said): a process that is frozen inside a transaction holds the write lock for
    /// everybody, and then nobody could take over from it.
    pub(super) fn writers_are_free(&self) -> Result<bool, Failure> {
        for writer in &self.writers {
            match writer.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
                Ok(()) => {}
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => return Ok(false),
                Err(error) => return Err(unreadable(&error)),
            }
        }
        Ok(true)
    }
}

fn unreadable(error: &rusqlite::Error) -> Failure {
    Failure::new(Code::Unavailable, "cannot look at the demo's files").because(error)
}
