//! One queue and group in the store: the identity pinned at first sight, and a fence row for every partition.

use keylane_producer::{GroupName, Partition, QueueIdentity};
use tokio_postgres::{Row, types::Type};

use super::{
    count,
    fault::{SqlError, cannot},
    wire::{Param, Transaction, Wire},
};
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
    /// 0 for who only looks: the epoch is part of the token.
    pub(super) epoch: i64,
    pub(super) partitions: u32,
    /// Counts by which jobs were placed before it was raised.
    pub(super) former: Vec<u32>,
    /// Whether the progress of an earlier making of the queue was forgotten.
    pub(super) anew: bool,
}

const FACTS: &str = "scope, cluster, incarnation, partitions, hash, former, anew";

impl Scope {
    /// Pins the identity, or compares it with what is pinned.
    pub(super) fn pin(wire: &mut Wire, queue: &QueueIdentity, group: &GroupName) -> Result<Self, Error> {
        let doing = format!("cannot pin queue '{}' in the store", queue.name);
        let columns = format!("{FACTS}, epoch");
        let mut tx = wire.begin(&doing)?;
        if let Some(scope) = Self::read(&mut tx, &columns, queue, group).map_err(cannot(&doing))? {
            return scope;
        }
        insert(&mut tx, queue, group).map_err(cannot(&doing))?;
        let scope = Self::read(&mut tx, &columns, queue, group).map_err(cannot(&doing))?;
        tx.commit().map_err(cannot(&doing))?;
        scope.unwrap_or_else(|| {
            Err(Error::Corrupt(Detail::new(format!(
                "the row of queue '{}' is not there after it was written",
                queue.name
            ))))
        })
    }

    /// What is pinned, if anything is; refuses an identity that differs. For who only looks.
    pub(super) fn find(
        tx: &mut Transaction<'_>,
        queue: &QueueIdentity,
        group: &GroupName,
    ) -> Result<Option<Self>, Error> {
        let found = Self::read(tx, &format!("{FACTS}, 0::bigint AS epoch"), queue, group);
        found.map_err(cannot("cannot read the identity of the queue from the store"))?.transpose()
    }

    fn read(
        tx: &mut Transaction<'_>,
        columns: &str,
        queue: &QueueIdentity,
        group: &GroupName,
    ) -> Result<Option<Result<Self, Error>>, SqlError> {
        let sql = format!("SELECT {columns} FROM keylane.scope WHERE queue = $1 AND group_name = $2");
        let (name, group) = (queue.name.as_str(), group.as_str());
        let rows = tx.query(&sql, &[(&name, Type::TEXT), (&group, Type::TEXT)])?;
        Ok(rows.first().map(|row| {
            let pinned = facts(row);
            pinned.compare(queue)?;
            Ok(Self {
                id: row.get("scope"),
                queue: name.into(),
                group: group.into(),
                epoch: row.get("epoch"),
                partitions: queue.partitions.0.get(),
                former: former_counts(&pinned.former),
                anew: row.get("anew"),
            })
        }))
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

/// Of several that pin at once, one does; the others wait for it and find its row.
fn insert(tx: &mut Transaction<'_>, queue: &QueueIdentity, group: &GroupName) -> Result<(), SqlError> {
    let sql = "WITH pinned AS (
                   INSERT INTO keylane.scope (queue, group_name, cluster, incarnation, partitions, hash)
                   VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING RETURNING scope, partitions, epoch
               ), rows AS (SELECT scope, part, epoch FROM pinned, generate_series(0, partitions - 1) AS part),
               intents AS (INSERT INTO keylane.fence_intent (scope, part, epoch) SELECT scope, part, epoch FROM rows)
               INSERT INTO keylane.fence (scope, part, epoch) SELECT scope, part, epoch FROM rows";
    let params: [Param<'_>; 6] = [
        (&queue.name.as_str(), Type::TEXT),
        (&group.as_str(), Type::TEXT),
        (&&*queue.cluster, Type::TEXT),
        (&&*queue.incarnation.0, Type::TEXT),
        (&count(queue.partitions.0.get()), Type::INT4),
        (&queue.hash.as_str(), Type::TEXT),
    ];
    tx.execute(sql, &params).map(drop)
}

pub(super) fn facts(row: &Row) -> Facts {
    Facts {
        cluster: row.get("cluster"),
        incarnation: row.get("incarnation"),
        partitions: row.get::<_, i32>("partitions").unsigned_abs(),
        hash: row.get("hash"),
        former: row.get("former"),
    }
}
