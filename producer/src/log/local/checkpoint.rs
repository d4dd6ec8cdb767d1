//! How far a source was brought in.

use rusqlite::{Connection, OptionalExtension, params};

use crate::{error::Error, log::Checkpoint, sqlite::sorted};

pub(super) fn read(connection: &Connection, queue_id: i64, source: &str) -> Result<Option<Checkpoint>, Error> {
    connection
        .prepare_cached("SELECT position, digest, complete FROM keylane_checkpoint WHERE queue_id = ?1 AND source = ?2")
        .and_then(|mut ask| {
            ask.query_row((queue_id, source), |row| {
                Ok(Checkpoint {
                    source: source.into(),
                    position: row.get(0)?,
                    digest: row.get(1)?,
                    complete: row.get(2)?,
                })
            })
            .optional()
        })
        .map_err(|e| sorted(&format!("cannot read the checkpoint of '{source}'"), e))
}

pub(super) fn write(tx: &Connection, queue_id: i64, checkpoint: &Checkpoint) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO keylane_checkpoint (queue_id, source, position, digest, complete) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (queue_id, source)
         DO UPDATE SET position = excluded.position, digest = excluded.digest, complete = excluded.complete",
    )?
    .execute(params![queue_id, checkpoint.source, checkpoint.position, checkpoint.digest, checkpoint.complete])?;
    Ok(())
}
