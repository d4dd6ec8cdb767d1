//! What owners tell people of their partitions.

use std::collections::BTreeMap;

use keylane_producer::Partition;
use tokio_postgres::types::Type;

use super::{
    PostgresSession, count,
    fault::SqlError,
    handover::fenced,
    scope::Scope,
    text,
    wire::{Param, Transaction},
};
use crate::{
    error::Error,
    fence::{Fence, Fenced},
    store::{Note, NoteRead},
};

pub(super) fn note(
    session: &mut PostgresSession,
    fence: &Fence,
    note: Option<&Note>,
) -> Result<Result<(), Fenced>, Error> {
    let partition = fence.partition();
    fenced(session, fence, |tx, scope, _| {
        let Some(note) = note else { return clear(tx, scope, partition) };
        let sql = "INSERT INTO keylane.note (scope, part, note) VALUES ($1, $2, $3)
                   ON CONFLICT (scope, part) DO UPDATE SET note = excluded.note, at = now()";
        let row: [Param<'_>; 3] =
            [(&scope.id, Type::INT8), (&count(partition.0), Type::INT4), (&text(&note.text()), Type::TEXT)];
        tx.execute(sql, &row).map(drop)
    })
}

pub(super) fn clear(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<(), SqlError> {
    let sql = "DELETE FROM keylane.note WHERE scope = $1 AND part = $2";
    tx.execute(sql, &[(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)]).map(drop)
}

pub(super) fn all(tx: &mut Transaction<'_>, scope: &Scope) -> Result<BTreeMap<Partition, NoteRead>, SqlError> {
    let sql = "SELECT part, (extract(epoch FROM at) * 1000)::bigint, note FROM keylane.note WHERE scope = $1";
    let rows = tx.query(sql, &[(&scope.id, Type::INT8)])?;
    let note = |row: &tokio_postgres::Row| {
        let partition = Partition(row.get::<_, i32>(0).unsigned_abs());
        Note::read(row.get(1), row.get(2)).map(|note| (partition, note))
    };
    Ok(rows.iter().filter_map(note).collect())
}
