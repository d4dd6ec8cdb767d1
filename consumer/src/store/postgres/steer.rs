//! What persons want of a partition's owner: keys that are to stand still, jobs that are to be left out.

use keylane_producer::{Offset, Partition};
use tokio_postgres::types::Type;

use super::{
    PostgresSession, audit, count,
    fault::{SqlError, cannot},
    int,
    scope::Scope,
    stopped, text, uint,
    wire::{Param, Transaction},
};
use crate::{
    error::Error,
    store::{Skip, Skipping, SteerOrder, Steering, StopRule},
};

pub(super) fn steering(session: &mut PostgresSession, partitions: &[Partition]) -> Result<Steering, Error> {
    let PostgresSession { wire, scope, .. } = session;
    let doing = "cannot read from the store what persons want";
    let parts: Vec<i32> = partitions.iter().map(|partition| count(partition.0)).collect();
    let mut tx = wire.begin_picture(doing)?;
    let keys = stopped::steered(&mut tx, scope, &parts)?;
    let skips = skips(&mut tx, scope, &parts).map_err(cannot(doing))?;
    Ok(Steering { keys, skips })
}

/// Jobs of the partitions to leave out: not those that are done, unless they wait in a line.
pub(super) fn skips(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    parts: &[i32],
) -> Result<Vec<(Partition, Skip)>, SqlError> {
    let sql = format!(
        "SELECT part, \"offset\", text FROM keylane.skip AS o WHERE scope = $1 AND part = ANY ($2) AND NOT ({DEALT_WITH})"
    );
    let rows = tx.query(&sql, &[(&scope.id, Type::INT8), (&parts, Type::INT4_ARRAY)])?;
    let skip = |row: &tokio_postgres::Row| {
        let skip = Skip { offset: Offset(uint(row.get(1))), text: row.get::<_, &str>(2).into() };
        (Partition(row.get::<_, i32>(0).unsigned_abs()), skip)
    };
    Ok(rows.iter().map(skip).collect())
}

/// A marker says so, or its handler's own transaction did it; and the job is in no line.
const DEALT_WITH: &str = "
    (EXISTS (SELECT FROM keylane.marker AS m
             WHERE m.scope = o.scope AND m.part = o.part AND m.first <= o.\"offset\" AND m.last >= o.\"offset\")
     OR EXISTS (SELECT FROM keylane.admitted AS a
                WHERE a.scope = o.scope AND a.part = o.part AND a.\"offset\" = o.\"offset\"))
    AND NOT EXISTS (SELECT FROM keylane.parked AS p
                    WHERE p.scope = o.scope AND p.part = o.part AND p.\"offset\" = o.\"offset\")";

/// Orders for jobs that are done by now.
pub(super) fn forget(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<(), SqlError> {
    let sql = format!("DELETE FROM keylane.skip AS o WHERE scope = $1 AND part = $2 AND {DEALT_WITH}");
    tx.execute(&sql, &[(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)]).map(drop)
}

/// Waits until no write of the partition's owner is under way, and lets none begin before this transaction ends.
pub(super) fn hold_up_its_owner(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<(), SqlError> {
    if !tx.rules().holds_up_owners() {
        return Ok(());
    }
    let sql = "SELECT FROM keylane.fence WHERE scope = $1 AND part = $2 FOR UPDATE";
    tx.query(sql, &[(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)]).map(drop)
}

pub(super) fn pause(session: &mut PostgresSession, order: &SteerOrder) -> Result<bool, Error> {
    let PostgresSession { wire, scope, .. } = session;
    scope.has(order.partition)?;
    let doing = format!("cannot pause key '{}' in the store", order.key);
    let sql = cannot(&doing);
    let mut tx = wire.begin(&doing)?;
    hold_up_its_owner(&mut tx, scope, order.partition).map_err(&sql)?;
    let row = "INSERT INTO keylane.stopped (scope, part, key, \"offset\", job_id, attempts, rule, reason, version)
               VALUES ($1, $2, $3, 0, '', 0, $4, $5, $6) ON CONFLICT DO NOTHING";
    let version = stopped::next_version(&mut tx, scope).map_err(&sql)?;
    let params: [Param<'_>; 6] = [
        (&scope.id, Type::INT8),
        (&count(order.partition.0), Type::INT4),
        (&order.key.as_bytes(), Type::BYTEA),
        (&StopRule::Paused.as_str(), Type::TEXT),
        (&text(&order.words()), Type::TEXT),
        (&version, Type::INT8),
    ];
    if tx.execute(row, &params).map_err(&sql)? == 0 {
        return Ok(false);
    }
    audit(&mut tx, scope, &order.who, "pause", &order.why, &order.pausing()).map_err(&sql)?;
    tx.commit().map_err(&sql)?;
    Ok(true)
}

pub(super) fn skip(session: &mut PostgresSession, order: &SteerOrder, offset: Offset) -> Result<Skipping, Error> {
    let PostgresSession { wire, scope, .. } = session;
    scope.has(order.partition)?;
    let doing = format!("cannot have a job of key '{}' left out in the store", order.key);
    let sql = cannot(&doing);
    let mut tx = wire.begin(&doing)?;
    hold_up_its_owner(&mut tx, scope, order.partition).map_err(&sql)?;
    let skipping = carry_out(&mut tx, scope, order, offset).map_err(&sql)?;
    if matches!(skipping, Skipping::Ordered | Skipping::Buried) {
        audit(&mut tx, scope, &order.who, "skip", &order.why, &order.skipping(offset)).map_err(&sql)?;
    }
    tx.commit().map_err(&sql)?;
    Ok(skipping)
}

fn carry_out(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    order: &SteerOrder,
    offset: Offset,
) -> Result<Skipping, SqlError> {
    let (part, at, key, words) = (count(order.partition.0), int(offset.0), order.key.as_bytes(), text(&order.words()));
    let place: [Param<'_>; 3] = [(&scope.id, Type::INT8), (&part, Type::INT4), (&at, Type::INT8)];
    let line: [Param<'_>; 4] = [(&scope.id, Type::INT8), (&part, Type::INT4), (&at, Type::INT8), (&key, Type::BYTEA)];
    let sql = "SELECT s.released FROM keylane.parked AS p JOIN keylane.stopped AS s USING (scope, part, key)
               WHERE p.scope = $1 AND p.part = $2 AND p.\"offset\" = $3 AND p.key = $4 FOR UPDATE OF s";
    if tx.query(sql, &line)?.first().is_some_and(|row| !row.get::<_, bool>(0)) {
        let sql = "WITH p AS (DELETE FROM keylane.parked WHERE scope = $1 AND part = $2 AND \"offset\" = $3 RETURNING *)
                   INSERT INTO keylane.dead (scope, part, \"offset\", incarnation, key, job_id, value, headers, \"timestamp\",
                                             size, attempts, rule, reason)
                   SELECT p.scope, part, \"offset\", incarnation, key, job_id, value, headers, \"timestamp\", size, attempts, $4, $5
                   FROM p JOIN keylane.scope USING (scope)";
        let rule = StopRule::Skipped.as_str();
        let params: [Param<'_>; 5] = [
            (&scope.id, Type::INT8),
            (&part, Type::INT4),
            (&at, Type::INT8),
            (&rule, Type::TEXT),
            (&words, Type::TEXT),
        ];
        tx.execute(sql, &params)?;
        stopped::left(tx, scope, order.partition, &order.key)?;
        return Ok(Skipping::Buried);
    }
    let sql = format!(
        "SELECT {DEALT_WITH} FROM (SELECT $1::bigint AS scope, $2::int AS part, $3::bigint AS \"offset\") AS o"
    );
    if tx.query(&sql, &place)?[0].get(0) {
        return Ok(Skipping::Done);
    }
    let sql = "INSERT INTO keylane.skip (scope, part, \"offset\", key, text) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    let params: [Param<'_>; 5] =
        [(&scope.id, Type::INT8), (&part, Type::INT4), (&at, Type::INT8), (&key, Type::BYTEA), (&words, Type::TEXT)];
    if tx.execute(sql, &params)? == 0 {
        return Ok(Skipping::OrderedBefore);
    }
    stopped::next_version(tx, scope)?;
    Ok(Skipping::Ordered)
}
