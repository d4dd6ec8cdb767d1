//! One queue and group in the store: the identity pinned at first sight, and a fence row for every partition.

use keylane_producer::{GroupName, Partition, QueueIdentity, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use super::cannot;
use crate::{
    error::{Detail, Error},
    store::identity::{Facts, former_counts},
};

/// What a session is bound to.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) id: i64,
    pub(super) queue: Box<str>,
    pub(super) group: Box<str>,
    pub(super) epoch: i64,
    pub(super) partitions: u32,
    /// Counts by which jobs were placed before it was raised.
    pub(super) former: Vec<u32>,
    /// Whether the progress of an earlier making of the queue was forgotten.
    pub(super) anew: bool,
}

impl Scope {
    /// Pins the identity, or compares it with what is pinned.
    pub(super) fn pin(connection: &mut Connection, queue: &QueueIdentity, group: &GroupName) -> Result<Self, Error> {
        if let Some(scope) = Self::find(connection, queue, group)? {
            return Ok(scope);
        }
        let doing = format!("cannot pin queue '{}' in the store", queue.name);
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(cannot(&doing))?;
        if Self::find(&tx, queue, group)?.is_none() {
            insert(&tx, queue, group).map_err(cannot(&doing))?;
            tx.commit().map_err(cannot(&doing))?;
        } else {
            drop(tx);
        }
        Self::find(connection, queue, group)?.ok_or_else(|| {
            Error::Corrupt(Detail::new(format!("the row of queue '{}' is not there after it was written", queue.name)))
        })
    }

    /// What is pinned, if anything is; refuses an identity that differs.
    pub(super) fn find(
        connection: &Connection,
        queue: &QueueIdentity,
        group: &GroupName,
    ) -> Result<Option<Self>, Error> {
        let sql = "SELECT scope, epoch, cluster, incarnation, partitions, hash, former, anew
                   FROM keylane_scope WHERE queue = ?1 AND group_name = ?2";
        let found = connection
            .query_row(sql, [queue.name.as_str(), group.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get("anew")?, facts(row)?))
            })
            .optional()
            .map_err(cannot("cannot read the identity of the queue from the store"))?;
        let Some((id, epoch, anew, pinned)) = found else { return Ok(None) };
        pinned.compare(queue)?;
        let former = former_counts(&pinned.former);
        let (queue_name, group) = (queue.name.as_str().into(), group.as_str().into());
        let partitions = queue.partitions.0.get();
        Ok(Some(Self { id, queue: queue_name, group, epoch, partitions, former, anew }))
    }

    /// Refuses a partition that the queue does not have.
    pub(super) fn has(&self, partition: Partition) -> Result<(), Error> {
        if partition.0 < self.partitions {
            return Ok(());
        }
        Err(Error::Invalid(Detail::new(format!(
            "partition {partition} is not one of queue '{}': it has {}",
            self.queue, self.partitions
        ))))
    }
}

fn insert(tx: &Connection, queue: &QueueIdentity, group: &GroupName) -> rusqlite::Result<()> {
    let partitions = queue.partitions.0.get();
    tx.execute(
        "INSERT INTO keylane_scope
             (queue, group_name, cluster, incarnation, partitions, hash, former, anew, epoch, versions, pinned_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', 0, 1, 0, ?7)",
        params![
            queue.name.as_str(),
            group.as_str(),
            queue.cluster,
            queue.incarnation.0,
            partitions,
            queue.hash.as_str(),
            Timestamp::now().0
        ],
    )?;
    let scope = tx.last_insert_rowid();
    let mut row = tx.prepare(
        "INSERT INTO keylane_fence (scope, part, epoch, gen, owner, claim, closed, clean, handed_over)
         VALUES (?1, ?2, 1, 0, '', 0, 0, 1, 1)",
    )?;
    (0..partitions).try_for_each(|part| row.execute(params![scope, part]).map(drop))
}

pub(super) fn facts(row: &Row<'_>) -> rusqlite::Result<Facts> {
    Ok(Facts {
        cluster: row.get("cluster")?,
        incarnation: row.get("incarnation")?,
        partitions: row.get("partitions")?,
        hash: row.get("hash")?,
        former: row.get("former")?,
    })
}
