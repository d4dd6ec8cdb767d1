//! Between two owners: whether the last one gave up alive, and what it had started if it did not.

use keylane_producer::Offset;
use tokio_postgres::types::Type;

use super::{
    PostgresSession,
    check::{self, Lock},
    count,
    fault::{SqlError, cannot},
    int,
    scope::Scope,
    wire::{Param, Transaction},
};
use crate::{
    error::Error,
    fence::{Fence, FenceToken, Fenced},
};

pub(super) fn hand_over(session: &mut PostgresSession, fence: &Fence) -> Result<Result<(), Fenced>, Error> {
    let part = count(fence.partition().0);
    fenced(session, fence, |tx, scope, _| {
        let place: [Param<'_>; 2] = [(&scope.id, Type::INT8), (&part, Type::INT4)];
        tx.execute("UPDATE keylane.fence SET handed_over = true WHERE scope = $1 AND part = $2", &place)?;
        // What ran has ended, so it killed nobody. Deaths that were counted before stay: the job was not run again.
        tx.execute("DELETE FROM keylane.suspect WHERE scope = $1 AND part = $2 AND deaths = 0", &place)?;
        tx.execute("UPDATE keylane.suspect SET started = 0 WHERE scope = $1 AND part = $2", &place).map(drop)
    })
}

pub(super) fn starting(
    session: &mut PostgresSession,
    fence: &Fence,
    running: &[Offset],
) -> Result<Result<(), Fenced>, Error> {
    let part = count(fence.partition().0);
    let running: Vec<i64> = running.iter().map(|offset| int(offset.0)).collect();
    fenced(session, fence, |tx, scope, token| {
        let claim = int(token.claim);
        let ended = "UPDATE keylane.suspect SET started = 0 WHERE scope = $1 AND part = $2 AND started = $3";
        tx.execute(ended, &[(&scope.id, Type::INT8), (&part, Type::INT4), (&claim, Type::INT8)])?;
        let sql = "INSERT INTO keylane.suspect (scope, part, \"offset\", started)
                   SELECT DISTINCT $1::bigint, $2::int, at, $4::bigint FROM unnest($3::bigint[]) AS at
                   ON CONFLICT (scope, part, \"offset\") DO UPDATE SET started = excluded.started";
        let params: [Param<'_>; 4] =
            [(&scope.id, Type::INT8), (&part, Type::INT4), (&running, Type::INT8_ARRAY), (&claim, Type::INT8)];
        tx.execute(sql, &params).map(drop)
    })
}

/// A transaction of our own under one fence: looked at before and after, and compared with the row in between. It takes the
/// row alone, so that of two notes the later one stays.
pub(super) fn fenced(
    session: &mut PostgresSession,
    fence: &Fence,
    act: impl FnOnce(&mut Transaction<'_>, &Scope, FenceToken) -> Result<(), SqlError>,
) -> Result<Result<(), Fenced>, Error> {
    let PostgresSession { wire, scope, rules, .. } = session;
    let doing = format!("cannot note the state of partition {} in the store", fence.partition());
    let sql = cannot(&doing);
    let token = match fence.check() {
        Ok(permit) => permit.token(),
        Err(fenced) => return Ok(Err(fenced)),
    };
    let mut tx = wire.begin(&doing)?;
    let claim = [(0, fence.partition(), token)];
    if rules.row && !check::stale(&mut tx, scope, &claim, Lock::Alone, rules.intends()).map_err(&sql)?.is_empty() {
        return Ok(Err(Fenced::NewerClaim));
    }
    act(&mut tx, scope, token).map_err(&sql)?;
    if let Err(fenced) = fence.check() {
        return Ok(Err(fenced));
    }
    tx.commit().map_err(&sql)?;
    Ok(Ok(()))
}
