//! What owners tell people of their partitions.

use keylane_producer::{Partition, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{SqliteSession, guard::Ours, handover::fenced, scope::Scope};
use crate::{
    error::Error,
    fence::{Fence, Fenced},
    store::{Note, NoteRead},
};

pub(super) fn note(
    session: &mut SqliteSession,
    fence: &Fence,
    note: Option<&Note>,
) -> Result<Result<(), Fenced>, Error> {
    let partition = fence.partition();
    fenced(session, fence, |tx, ours, scope, _| {
        let Some(note) = note else { return clear(tx, ours, scope, partition) };
        let sql = "INSERT OR REPLACE INTO keylane_note (scope, part, at, note) VALUES (?1, ?2, ?3, ?4)";
        let row = params![scope.id, partition.0, Timestamp::now().0, note.text()];
        ours.prepare(tx, sql)?.execute(row).map(drop)
    })
}

pub(super) fn clear(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<()> {
    let sql = "DELETE FROM keylane_note WHERE scope = ?1 AND part = ?2";
    ours.prepare(tx, sql)?.execute(params![scope.id, partition.0]).map(drop)
}

pub(super) fn read(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
) -> rusqlite::Result<Option<NoteRead>> {
    let sql = "SELECT at, note FROM keylane_note WHERE scope = ?1 AND part = ?2";
    let row = ours
        .prepare(tx, sql)?
        .query_row(params![scope.id, partition.0], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)));
    Ok(row.optional()?.and_then(|(at, text)| Note::read(at, &text)))
}
