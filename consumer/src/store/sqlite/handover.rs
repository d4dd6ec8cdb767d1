//! Between two owners: whether the last one gave up alive, and what it had started if it did not.

use keylane_producer::Offset;
use rusqlite::{Connection, TransactionBehavior, params};

use super::{SqliteSession, cannot, guard::Ours, int, scope::Scope, write::row_matches};
use crate::{
    error::Error,
    fence::{Fence, FenceToken, Fenced},
};

pub(super) fn hand_over(session: &mut SqliteSession, fence: &Fence) -> Result<Result<(), Fenced>, Error> {
    let part = fence.partition().0;
    fenced(session, fence, |tx, ours, scope, _| {
        let row = "UPDATE keylane_fence SET handed_over = 1 WHERE scope = ?1 AND part = ?2";
        ours.prepare(tx, row)?.execute(params![scope.id, part])?;
        // What ran has ended, so it killed nobody. Deaths that were counted before stay: the job was not run again.
        let innocent = "DELETE FROM keylane_suspect WHERE scope = ?1 AND part = ?2 AND deaths = 0";
        ours.prepare(tx, innocent)?.execute(params![scope.id, part])?;
        let ended = "UPDATE keylane_suspect SET started = 0 WHERE scope = ?1 AND part = ?2";
        ours.prepare(tx, ended)?.execute(params![scope.id, part]).map(drop)
    })
}

pub(super) fn starting(
    session: &mut SqliteSession,
    fence: &Fence,
    running: &[Offset],
) -> Result<Result<(), Fenced>, Error> {
    let part = fence.partition().0;
    fenced(session, fence, |tx, ours, scope, token| {
        let ended = "UPDATE keylane_suspect SET started = 0 WHERE scope = ?1 AND part = ?2 AND started = ?3";
        ours.prepare(tx, ended)?.execute(params![scope.id, part, int(token.claim)])?;
        let sql = "INSERT INTO keylane_suspect (scope, part, offset, deaths, started) VALUES (?1, ?2, ?3, 0, ?4)
                   ON CONFLICT DO UPDATE SET started = excluded.started";
        let mut row = ours.prepare(tx, sql)?;
        running
            .iter()
            .try_for_each(|offset| row.execute(params![scope.id, part, int(offset.0), int(token.claim)]).map(drop))
    })
}

/// A transaction of our own under one fence: looked at before and after, and compared with the row in between.
pub(super) fn fenced(
    session: &mut SqliteSession,
    fence: &Fence,
    act: impl FnOnce(&Connection, &Ours, &Scope, FenceToken) -> rusqlite::Result<()>,
) -> Result<Result<(), Fenced>, Error> {
    let SqliteSession { connection, scope, ours, rules, .. } = session;
    let doing = format!("cannot note the state of partition {} in the store", fence.partition());
    let sql = cannot(&doing);
    let token = match fence.check() {
        Ok(permit) => permit.token(),
        Err(fenced) => return Ok(Err(fenced)),
    };
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
    if rules.row && !row_matches(&tx, ours, scope, fence.partition(), token).map_err(&sql)? {
        return Ok(Err(Fenced::NewerClaim));
    }
    act(&tx, ours, scope, token).map_err(&sql)?;
    if let Err(fenced) = fence.check() {
        return Ok(Err(fenced));
    }
    tx.commit().map_err(&sql)?;
    Ok(Ok(()))
}
