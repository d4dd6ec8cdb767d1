//! What people are shown of a queue's partitions. No token: the columns that make one are not read here.

use keylane_producer::{GroupName, Partition, QueueIdentity, Timestamp};
use rusqlite::{Connection, TransactionBehavior, params};

use super::{SqliteSession, SqliteStore, cannot, guard::Ours, markers, note, scope::Scope, stopped, uint};
use crate::{
    error::Error,
    store::{PartitionOverview, Progress, RefusedWrites},
};

pub(super) fn overview(session: &mut SqliteSession) -> Result<Vec<PartitionOverview>, Error> {
    let SqliteSession { connection, scope, ours, .. } = session;
    read(connection, scope, ours)
}

impl SqliteStore {
    /// As [`StoreSession::overview`](crate::store::StoreSession::overview), for one who only looks: it makes and pins
    /// nothing. `None` if the file holds no store, or none that this queue and group ever used.
    ///
    /// # Errors
    /// As [`FencedStore::open`](crate::store::FencedStore::open).
    pub fn look(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Option<Vec<PartitionOverview>>, Error> {
        let Some(mut connection) = self.connect_to_read()? else { return Ok(None) };
        let Some(scope) = Scope::find(&connection, queue, group)? else { return Ok(None) };
        read(&mut connection, &scope, &Ours::salted()).map(Some)
    }
}

fn read(connection: &mut Connection, scope: &Scope, ours: &Ours) -> Result<Vec<PartitionOverview>, Error> {
    let sql = cannot("cannot read the partitions from the store");
    // One picture: a reader's transaction, which waits for no writer and holds none up.
    let tx = connection.transaction_with_behavior(TransactionBehavior::Deferred).map_err(&sql)?;
    let mut partitions = rows(&tx, ours, scope).map_err(&sql)?;
    for found in &mut partitions {
        found.done = markers::progress(&tx, ours, scope, found.partition).map_err(&sql)?;
        found.refused = refused(&tx, ours, scope, found.partition).map_err(&sql)?;
        found.stopped = stopped::all(&tx, ours, scope, found.partition)?;
        found.note = note::read(&tx, ours, scope, found.partition).map_err(&sql)?;
    }
    Ok(partitions)
}

fn rows(tx: &Connection, ours: &Ours, scope: &Scope) -> rusqlite::Result<Vec<PartitionOverview>> {
    let sql = "SELECT part, worker, claimed_at, closed, handed_over,
                   (SELECT count(*) FROM keylane_quarantine AS q WHERE q.scope = f.scope AND q.part = f.part),
                   (SELECT count(*) FROM keylane_dead AS d WHERE d.scope = f.scope AND d.part = f.part)
               FROM keylane_fence AS f WHERE scope = ?1 ORDER BY part";
    ours.prepare(tx, sql)?
        .query_map([scope.id], |row| {
            Ok(PartitionOverview {
                partition: Partition(row.get(0)?),
                worker: row.get::<_, Option<String>>(1)?.map(Into::into),
                claimed_at: row.get::<_, Option<i64>>(2)?.map(Timestamp),
                closed: row.get(3)?,
                handed_over: row.get(4)?,
                done: Progress::default(),
                stopped: Vec::new(),
                refused: Vec::new(),
                quarantined: uint(row.get(5)?),
                dead: uint(row.get(6)?),
                note: None,
            })
        })?
        .collect()
}

fn refused(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<Vec<RefusedWrites>> {
    let sql = "SELECT worker, writes, jobs, last FROM keylane_refused WHERE scope = ?1 AND part = ?2 ORDER BY worker";
    ours.prepare(tx, sql)?
        .query_map(params![scope.id, partition.0], |row| {
            Ok(RefusedWrites {
                worker: row.get::<_, String>(0)?.into(),
                writes: uint(row.get(1)?),
                jobs: uint(row.get(2)?),
                last: Timestamp(row.get(3)?),
            })
        })?
        .collect()
}
