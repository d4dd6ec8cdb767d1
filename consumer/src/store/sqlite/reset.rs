//! The reset of the fence, in one transaction.

use keylane_producer::{GroupName, QueueIdentity, Timestamp};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{SqliteStore, cannot, schema, scope::facts};
use crate::{
    error::Error,
    store::{
        StopRule,
        identity::Facts,
        reset::{Act, Reset, ResetOrder, nothing_to_reset},
    },
};

impl SqliteStore {
    /// Resets the fence of a queue and group to what the broker says the queue is now.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the store knows nothing of this queue and group; [`Error::Invalid`] if the queue has fewer
    /// partitions than before; [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn reset(&self, queue: &QueueIdentity, group: &GroupName, order: &ResetOrder) -> Result<Reset, Error> {
        let doing = format!("cannot reset the fence of queue '{}'", queue.name);
        let nothing = || nothing_to_reset(queue, group);
        if self.connect_to_read()?.is_none() {
            return Err(nothing());
        }
        let mut connection = self.connect()?;
        schema::ensure(&mut connection)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(cannot(&doing))?;
        let (scope, pinned) = pinned(&tx, queue, group).map_err(cannot(&doing))?.ok_or_else(nothing)?;
        let stopped = stopped_keys(&tx, scope).map_err(cannot(&doing))?;
        let reset = Reset::plan(&pinned, queue, &stopped)?;
        if !order.dry_run {
            carry_out(&tx, scope, &pinned, queue, &reset, order).map_err(cannot(&doing))?;
            tx.commit().map_err(cannot(&doing))?;
        }
        Ok(reset)
    }

    /// What operators did to a queue and group, oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn acts(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Vec<Act>, Error> {
        let Some(connection) = self.connect_to_read()? else { return Ok(Vec::new()) };
        let read = || -> rusqlite::Result<Vec<Act>> {
            connection
                .prepare("SELECT at, who, act, why, detail FROM keylane_audit WHERE queue = ?1 AND group_name = ?2 ORDER BY n")?
                .query_map([queue.name.as_str(), group.as_str()], |row| {
                    let text = |column| row.get::<_, String>(column).map(Into::into);
                    Ok(Act {
                        at: Timestamp(row.get(0)?),
                        who: text(1)?,
                        act: text(2)?,
                        why: text(3)?,
                        detail: text(4)?,
                    })
                })?
                .collect()
        };
        read().map_err(cannot("cannot read what operators did"))
    }
}

fn pinned(tx: &Connection, queue: &QueueIdentity, group: &GroupName) -> rusqlite::Result<Option<(i64, Facts)>> {
    let sql = "SELECT scope, cluster, incarnation, partitions, hash, former
               FROM keylane_scope WHERE queue = ?1 AND group_name = ?2";
    tx.query_row(sql, [queue.name.as_str(), group.as_str()], |row| Ok((row.get(0)?, facts(row)?))).optional()
}

fn stopped_keys(tx: &Connection, scope: i64) -> rusqlite::Result<Vec<(u32, Vec<u8>)>> {
    let sql = "SELECT part, key FROM keylane_stopped WHERE scope = ?1 ORDER BY part, key";
    tx.prepare(sql)?.query_map([scope], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn carry_out(
    tx: &Connection,
    scope: i64,
    pinned: &Facts,
    queue: &QueueIdentity,
    reset: &Reset,
    order: &ResetOrder,
) -> rusqlite::Result<()> {
    if reset.forgets_progress {
        for table in ["marker", "stopped", "parked", "skip", "note", "suspect", "quarantine"] {
            tx.execute(&format!("DELETE FROM keylane_{table} WHERE scope = ?1"), [scope])?;
        }
    }
    let now = Timestamp::now().0;
    tx.execute(
        "UPDATE keylane_scope SET epoch = epoch + 1, cluster = ?2, incarnation = ?3, partitions = ?4, hash = ?5,
                                  former = ?6, pinned_at = ?7, anew = anew OR ?8
         WHERE scope = ?1",
        params![
            scope,
            queue.cluster,
            queue.incarnation.0,
            queue.partitions.0.get(),
            queue.hash.as_str(),
            reset.former(pinned),
            now,
            reset.forgets_progress
        ],
    )?;
    // The claim number goes on rising; whether the last owner handed over stays as it was.
    tx.execute("UPDATE keylane_fence SET epoch = epoch + 1, gen = 0, owner = '' WHERE scope = ?1", [scope])?;
    let mut row = tx.prepare(
        "INSERT INTO keylane_fence (scope, part, epoch, gen, owner, claim, closed, clean, handed_over)
         SELECT scope, ?2, epoch, 0, '', 0, 0, 1, 1 FROM keylane_scope WHERE scope = ?1",
    )?;
    for part in pinned.partitions..queue.partitions.0.get() {
        row.execute(params![scope, part])?;
    }
    let mut row = tx.prepare(
        "INSERT INTO keylane_stopped (scope, part, key, offset, job_id, attempts, rule, reason, since, version, released)
         SELECT scope, ?2, ?3, 0, '', 0, ?4, ?5, ?6, versions, 0 FROM keylane_scope WHERE scope = ?1
         ON CONFLICT DO NOTHING",
    )?;
    for moved in &reset.moved {
        tx.execute("UPDATE keylane_scope SET versions = versions + 1 WHERE scope = ?1", [scope])?;
        let rule = StopRule::Paused.as_str();
        row.execute(params![scope, moved.to.0, moved.key.as_bytes(), rule, moved.reason(), now])?;
    }
    tx.execute(
        "INSERT INTO keylane_audit (queue, group_name, at, who, act, why, detail)
         SELECT queue, group_name, ?2, ?3, 'fence reset', ?4, ?5 FROM keylane_scope WHERE scope = ?1",
        params![scope, now, order.who, order.why, reset.detail()],
    )?;
    Ok(())
}
