//! The reset of the fence, in one transaction. It takes the rows in the order in which writers do.

use keylane_producer::{GroupName, QueueIdentity, Timestamp};
use tokio_postgres::types::Type;

use super::{
    PostgresStore, count,
    fault::{SqlError, cannot},
    schema,
    scope::facts,
    wire::{Param, Transaction},
};
use crate::{
    error::Error,
    store::{
        StopRule,
        identity::Facts,
        reset::{Act, Reset, ResetOrder, nothing_to_reset},
    },
};

impl PostgresStore {
    /// Resets the fence of a queue and group to what the broker says the queue is now.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the store knows nothing of this queue and group; [`Error::Invalid`] if the queue has fewer
    /// partitions than before; [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn reset(&self, queue: &QueueIdentity, group: &GroupName, order: &ResetOrder) -> Result<Reset, Error> {
        let doing = format!("cannot reset the fence of queue '{}'", queue.name);
        let sql = cannot(&doing);
        let mut wire = self.wire();
        if !schema::is_there(&mut wire.begin_picture(&doing)?)? {
            return Err(nothing_to_reset(queue, group));
        }
        let mut tx = wire.begin(&doing)?;
        let (scope, pinned) =
            pinned(&mut tx, queue, group).map_err(&sql)?.ok_or_else(|| nothing_to_reset(queue, group))?;
        let reset = Reset::plan(&pinned, queue, &stopped_keys(&mut tx, scope).map_err(&sql)?)?;
        if !order.dry_run {
            carry_out(&mut tx, scope, &pinned, queue, &reset, order).map_err(&sql)?;
            tx.commit().map_err(&sql)?;
        }
        Ok(reset)
    }

    /// What operators did to a queue and group, oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn acts(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Vec<Act>, Error> {
        let doing = "cannot read what operators did";
        let mut wire = self.wire();
        let mut tx = wire.begin_picture(doing)?;
        if !schema::is_there(&mut tx)? {
            return Ok(Vec::new());
        }
        let sql = "SELECT (extract(epoch FROM at) * 1000)::bigint, who, act, why, detail
                   FROM keylane.audit WHERE queue = $1 AND group_name = $2 ORDER BY n";
        let params: [Param<'_>; 2] = [(&queue.name.as_str(), Type::TEXT), (&group.as_str(), Type::TEXT)];
        let rows = tx.query(sql, &params).map_err(cannot(doing))?;
        let read = |row: &tokio_postgres::Row| {
            let text = |column| row.get::<_, String>(column).into();
            Act { at: Timestamp(row.get(0)), who: text(1), act: text(2), why: text(3), detail: text(4) }
        };
        Ok(rows.iter().map(read).collect())
    }
}

fn pinned(
    tx: &mut Transaction<'_>,
    queue: &QueueIdentity,
    group: &GroupName,
) -> Result<Option<(i64, Facts)>, SqlError> {
    let name: [Param<'_>; 2] = [(&queue.name.as_str(), Type::TEXT), (&group.as_str(), Type::TEXT)];
    // Writers hold rows of the fence when they come to the scope's: so in this order here too.
    let rows = "SELECT part FROM keylane.fence JOIN keylane.scope USING (scope) WHERE queue = $1 AND group_name = $2
                ORDER BY part FOR UPDATE OF fence";
    tx.query(rows, &name)?;
    let sql = "SELECT scope, cluster, incarnation, partitions, hash, former
               FROM keylane.scope WHERE queue = $1 AND group_name = $2 FOR UPDATE";
    Ok(tx.query(sql, &name)?.first().map(|row| (row.get("scope"), facts(row))))
}

fn stopped_keys(tx: &mut Transaction<'_>, scope: i64) -> Result<Vec<(u32, Vec<u8>)>, SqlError> {
    let sql = "SELECT part, key FROM keylane.stopped WHERE scope = $1 ORDER BY part, key";
    let rows = tx.query(sql, &[(&scope, Type::INT8)])?;
    Ok(rows.iter().map(|row| (row.get::<_, i32>(0).cast_unsigned(), row.get(1))).collect())
}

fn carry_out(
    tx: &mut Transaction<'_>,
    scope: i64,
    pinned: &Facts,
    queue: &QueueIdentity,
    reset: &Reset,
    order: &ResetOrder,
) -> Result<(), SqlError> {
    let here: [Param<'_>; 1] = [(&scope, Type::INT8)];
    if reset.forgets_progress {
        for table in ["marker", "admitted", "stopped", "parked", "skip", "note", "suspect", "quarantine"] {
            tx.execute(&format!("DELETE FROM keylane.{table} WHERE scope = $1"), &here)?;
        }
    }
    let now = count(queue.partitions.0.get());
    let sql = "UPDATE keylane.scope SET epoch = epoch + 1, cluster = $2, incarnation = $3, partitions = $4, hash = $5,
                      former = $6, pinned_at = now(), anew = anew OR $7 WHERE scope = $1";
    let params: [Param<'_>; 7] = [
        (&scope, Type::INT8),
        (&&*queue.cluster, Type::TEXT),
        (&&*queue.incarnation.0, Type::TEXT),
        (&now, Type::INT4),
        (&queue.hash.as_str(), Type::TEXT),
        (&reset.former(pinned), Type::TEXT),
        (&reset.forgets_progress, Type::BOOL),
    ];
    tx.execute(sql, &params)?;
    // The claim number goes on rising; whether the last owner handed over stays as it was.
    tx.execute("UPDATE keylane.fence SET epoch = epoch + 1, gen = 0, owner = '' WHERE scope = $1", &here)?;
    let intents = "UPDATE keylane.fence_intent AS i SET epoch = f.epoch, gen = 0
                   FROM keylane.fence AS f WHERE i.scope = $1 AND f.scope = i.scope AND f.part = i.part";
    tx.execute(intents, &here)?;
    let added: [Param<'_>; 3] = [(&scope, Type::INT8), (&count(pinned.partitions), Type::INT4), (&now, Type::INT4)];
    for table in ["fence", "fence_intent"] {
        let sql = format!(
            "INSERT INTO keylane.{table} (scope, part, epoch)
             SELECT scope, part, epoch FROM keylane.scope, generate_series($2::int, $3::int - 1) AS part WHERE scope = $1"
        );
        tx.execute(&sql, &added)?;
    }
    for moved in &reset.moved {
        tx.execute("UPDATE keylane.scope SET versions = versions + 1 WHERE scope = $1", &here)?;
        let sql = "INSERT INTO keylane.stopped (scope, part, key, \"offset\", job_id, attempts, rule, reason, version, released)
                   SELECT scope, $2, $3, 0, '', 0, $4, $5, versions, false FROM keylane.scope WHERE scope = $1
                   ON CONFLICT DO NOTHING";
        let params: [Param<'_>; 5] = [
            (&scope, Type::INT8),
            (&count(moved.to.0), Type::INT4),
            (&moved.key.as_bytes(), Type::BYTEA),
            (&StopRule::Paused.as_str(), Type::TEXT),
            (&moved.reason(), Type::TEXT),
        ];
        tx.execute(sql, &params)?;
    }
    let sql = "INSERT INTO keylane.audit (queue, group_name, who, act, why, detail)
               SELECT queue, group_name, $2, 'fence reset', $3, $4 FROM keylane.scope WHERE scope = $1";
    let params: [Param<'_>; 4] =
        [(&scope, Type::INT8), (&order.who, Type::TEXT), (&order.why, Type::TEXT), (&reset.detail(), Type::TEXT)];
    tx.execute(sql, &params).map(drop)
}
