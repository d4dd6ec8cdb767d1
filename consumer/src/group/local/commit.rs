//! Committed offsets: `keylane_finished`, which the log's retention reads too.
//!
//! A commit is compared with the group's rows in its own transaction. The check is stricter than Kafka's, which knows
//! members only: a partition must be the member's own.

use std::{collections::BTreeMap, time::Duration};

use keylane_producer::{Detail, Offset, Partition, Timestamp};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{
    membership::{generation, nanos_of},
    schema::Place,
};
use crate::{
    error::Error,
    group::{Commit, CommitError},
};

/// How long one try waits for the write lock. Short, since SQLite naps longer and longer.
pub(super) const TRY: Duration = Duration::from_millis(20);

/// One try: all of it commits, or nothing changes.
pub(super) fn carry_out(connection: &mut Connection, place: &Place, commit: &Commit) -> Result<(), CommitError> {
    let failed = |error| answer(place.failed("commit to")(error));
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let now = nanos_of(place.clock.now());
    if place.guards.commit {
        check(&tx, place, commit, now).map_err(failed)??;
    }
    for &(partition, offset) in &commit.offsets {
        let before = finished(&tx, place, partition).map_err(failed)?;
        if before.is_some_and(|before| before > offset) && place.guards.commit {
            return Err(goes_back(place, partition));
        }
        write(&tx, place, partition, offset).map_err(failed)?;
    }
    tx.prepare_cached(
        "UPDATE keylane_member SET seen = max(seen, ?4) WHERE queue_id = ?1 AND grp = ?2 AND member = ?3",
    )
    .and_then(|mut keep| keep.execute(params![place.queue_id, place.group.as_str(), commit.member.as_str(), now]))
    .map_err(failed)?;
    tx.commit().map_err(failed)
}

/// Whether the member may commit now, in this generation, to these partitions.
fn check(tx: &Transaction<'_>, place: &Place, commit: &Commit, now: i64) -> rusqlite::Result<Result<(), CommitError>> {
    let lives = tx
        .prepare_cached(
            "SELECT 1 FROM keylane_member
              WHERE queue_id = ?1 AND grp = ?2 AND member = ?3 AND boot = ?4 AND seen + session_ns > ?5",
        )?
        .exists(params![place.queue_id, place.group.as_str(), commit.member.as_str(), place.boot, now])?;
    if !lives {
        return Ok(Err(CommitError::UnknownMember));
    }
    if generation(tx, place)? != Some(commit.generation) {
        return Ok(Err(CommitError::GenerationMovedOn));
    }
    let mut owns = tx.prepare_cached(
        "SELECT 1 FROM keylane_assignment WHERE queue_id = ?1 AND grp = ?2 AND part = ?3 AND member = ?4",
    )?;
    for &(partition, _) in &commit.offsets {
        let whose = params![place.queue_id, place.group.as_str(), partition.0, commit.member.as_str()];
        if !owns.exists(whose)? {
            return Ok(Err(CommitError::NotOwner(partition)));
        }
    }
    Ok(Ok(()))
}

fn finished(connection: &Connection, place: &Place, partition: Partition) -> rusqlite::Result<Option<Offset>> {
    connection
        .prepare_cached("SELECT next_offset FROM keylane_finished WHERE queue_id = ?1 AND grp = ?2 AND part = ?3")?
        .query_row(params![place.queue_id, place.group.as_str(), partition.0], |row| {
            let next: i64 = row.get(0)?;
            u64::try_from(next).map(Offset).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, next))
        })
        .optional()
}

fn write(tx: &Transaction<'_>, place: &Place, partition: Partition, offset: Offset) -> rusqlite::Result<()> {
    let next = i64::try_from(offset.0).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    tx.prepare_cached(
        "INSERT INTO keylane_finished (queue_id, grp, part, next_offset, at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET next_offset = excluded.next_offset, at = excluded.at",
    )?
    .execute(params![place.queue_id, place.group.as_str(), partition.0, next, Timestamp::now().0])
    .map(drop)
}

/// The committed offsets of these partitions, as of one moment.
pub(super) fn committed(
    connection: &Connection,
    place: &Place,
    partitions: &[Partition],
) -> Result<BTreeMap<Partition, Option<Offset>>, Error> {
    let read = || {
        let tx = connection.unchecked_transaction()?;
        partitions.iter().map(|&p| Ok((p, finished(&tx, place, p)?))).collect::<rusqlite::Result<_>>()
    };
    read().map_err(place.failed("read the offsets of"))
}

fn answer(error: Error) -> CommitError {
    if error.is_transient() { CommitError::Unavailable(error) } else { CommitError::Fatal(error) }
}

/// The group lets only the owner commit, so it is never a race between two of them.
fn goes_back(place: &Place, partition: Partition) -> CommitError {
    CommitError::Fatal(Error::Bug(
        Detail::new(format!(
            "the commit of partition {partition} for group '{}' is below what is committed already",
            place.group
        ))
        .remedy("report it; nothing was changed"),
    ))
}
