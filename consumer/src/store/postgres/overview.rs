//! What people are shown of a queue's partitions. No token: the columns that make one are not read here.

use std::collections::BTreeMap;

use keylane_producer::{GroupName, Partition, QueueIdentity, Timestamp};
use tokio_postgres::types::Type;

use super::{
    PostgresSession, PostgresStore,
    fault::{SqlError, cannot},
    markers, note, schema,
    scope::Scope,
    stopped, uint,
    wire::Transaction,
};
use crate::{
    error::Error,
    store::{PartitionOverview, Progress, RefusedWrites},
};

const DOING: &str = "cannot read the partitions from the store";

pub(super) fn overview(session: &mut PostgresSession) -> Result<Vec<PartitionOverview>, Error> {
    let PostgresSession { wire, scope, .. } = session;
    read(&mut wire.begin_picture(DOING)?, scope)
}

impl PostgresStore {
    /// As [`StoreSession::overview`](crate::store::StoreSession::overview), for one who only looks: it makes and pins
    /// nothing, and needs no right to. `None` if the database holds no store, or none that this queue and group ever used.
    ///
    /// # Errors
    /// As [`FencedStore::open`](crate::store::FencedStore::open).
    pub fn look(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Option<Vec<PartitionOverview>>, Error> {
        let mut wire = self.wire();
        let mut tx = wire.begin_picture(DOING)?;
        if !schema::is_there(&mut tx)? {
            return Ok(None);
        }
        match Scope::find(&mut tx, queue, group)? {
            Some(scope) => read(&mut tx, &scope).map(Some),
            None => Ok(None),
        }
    }
}

fn read(tx: &mut Transaction<'_>, scope: &Scope) -> Result<Vec<PartitionOverview>, Error> {
    let sql = cannot(DOING);
    let mut done = markers::all(tx, scope).map_err(&sql)?;
    let mut late = refused(tx, scope).map_err(&sql)?;
    let mut notes = note::all(tx, scope).map_err(&sql)?;
    let mut keys = BTreeMap::<Partition, Vec<_>>::new();
    for (partition, key) in stopped::all(tx, scope)? {
        keys.entry(partition).or_default().push(key);
    }
    let mut partitions = rows(tx, scope).map_err(&sql)?;
    for found in &mut partitions {
        let done = done.remove(&found.partition.0).unwrap_or_default();
        found.done = Progress { anew: scope.anew, ..done };
        found.refused = late.remove(&found.partition).unwrap_or_default();
        found.stopped = keys.remove(&found.partition).unwrap_or_default();
        found.note = notes.remove(&found.partition);
    }
    Ok(partitions)
}

fn rows(tx: &mut Transaction<'_>, scope: &Scope) -> Result<Vec<PartitionOverview>, SqlError> {
    let sql = "SELECT part, worker, (extract(epoch FROM claimed_at) * 1000)::bigint, closed, handed_over,
                   (SELECT count(*) FROM keylane.quarantine AS q WHERE q.scope = f.scope AND q.part = f.part),
                   (SELECT count(*) FROM keylane.dead AS d WHERE d.scope = f.scope AND d.part = f.part)
               FROM keylane.fence AS f WHERE scope = $1 ORDER BY part";
    let rows = tx.query(sql, &[(&scope.id, Type::INT8)])?;
    let partition = |row: &tokio_postgres::Row| PartitionOverview {
        partition: Partition(row.get::<_, i32>(0).unsigned_abs()),
        worker: row.get::<_, Option<String>>(1).map(Into::into),
        claimed_at: row.get::<_, Option<i64>>(2).map(Timestamp),
        closed: row.get(3),
        handed_over: row.get(4),
        done: Progress::default(),
        stopped: Vec::new(),
        refused: Vec::new(),
        quarantined: uint(row.get(5)),
        dead: uint(row.get(6)),
        note: None,
    };
    Ok(rows.iter().map(partition).collect())
}

fn refused(tx: &mut Transaction<'_>, scope: &Scope) -> Result<BTreeMap<Partition, Vec<RefusedWrites>>, SqlError> {
    let sql = "SELECT part, worker, writes, jobs, (extract(epoch FROM last) * 1000)::bigint
               FROM keylane.refused WHERE scope = $1 ORDER BY part, worker";
    let mut found = BTreeMap::<Partition, Vec<RefusedWrites>>::new();
    for row in &tx.query(sql, &[(&scope.id, Type::INT8)])? {
        found.entry(Partition(row.get::<_, i32>(0).unsigned_abs())).or_default().push(RefusedWrites {
            worker: row.get::<_, String>(1).into(),
            writes: uint(row.get(2)),
            jobs: uint(row.get(3)),
            last: Timestamp(row.get(4)),
        });
    }
    Ok(found)
}
