//! The fence: whether the partitions' rows still hold these very claims, seen under a lock that lasts to the end of the
//! transaction.
//!
//! 1. Writers of one owner share the lock; a claim waits for all of them, and none begins once a claim was announced.
//! 2. Partitions are locked in ascending order, so that two transactions never wait for each other here.
//! 3. A connection that is new to a claim takes the lock alone, once: what a lost connection may still be committing has
//!    ended by then, and its markers are seen.
//! 4. A claim holds in the history of the server in which it was made (its timeline). After a fail-over rows and markers may be
//!    older than their owner thinks, also where its claim is among them: another claim reads what is left.

use std::{collections::HashSet, sync::Arc};

use keylane_producer::Partition;
use tokio_postgres::types::Type;

use super::{
    PostgresSession, count,
    fault::{SqlError, cannot},
    int,
    markers::{Found, Reach},
    rules::Rules,
    scope::Scope,
    wire::{Param, Transaction, Wire},
};
use crate::{
    error::Error,
    fence::{Fence, FenceToken},
};

/// The wait of rule 3 is over for these claims.
#[derive(Default)]
pub(super) struct Settled(HashSet<(Partition, u64)>);

impl Settled {
    /// The connection may be another one.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    pub(super) fn note(&mut self, claims: &[(usize, Partition, FenceToken)]) {
        // Claims come and go; what is forgotten is only waited for once more.
        const MANY: usize = 4_096;
        if self.0.len() > MANY {
            self.0.clear();
        }
        self.0.extend(claims.iter().map(|(_, partition, token)| (*partition, token.claim)));
    }

    pub(super) fn lock(&self, claims: &[(usize, Partition, FenceToken)]) -> Lock {
        let all = claims.iter().all(|(_, partition, token)| self.0.contains(&(*partition, token.claim)));
        if all { Lock::Shared } else { Lock::Alone }
    }
}

/// How a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// With other writers of its owner.
    Shared,
    /// By nobody else.
    Alone,
    /// Not at all: only a twin does that.
    None,
}

/// Which of these claims do not hold any more. Each has a number by which it is told.
pub(super) fn stale(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    claims: &[(usize, Partition, FenceToken)],
    lock: Lock,
    rules: &Rules,
) -> Result<Vec<usize>, SqlError> {
    let (intents, timelines) = (rules.intends(), rules.heeds_timelines());
    if lock == Lock::Shared && intents && timelines {
        return holding(tx, scope, claims, "SELECT keylane.holds($1, $2, $3, $4, $5)");
    }
    let intent = "AND NOT EXISTS (SELECT 1 FROM keylane.fence_intent AS i
                                  WHERE i.scope = f.scope AND i.part = f.part AND (i.epoch, i.gen) > (f.epoch, f.gen))";
    let sql = format!(
        "SELECT t.at FROM keylane.fence AS f
         JOIN unnest($2::int[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS t (part, epoch, gen, claim, at)
           ON f.part = t.part AND f.epoch = t.epoch AND f.gen = t.gen AND f.claim = t.claim
         WHERE f.scope = $1 AND NOT f.closed {} {} ORDER BY f.part {}",
        if timelines { "AND f.timeline IN ('', keylane.timeline())" } else { "" },
        if intents { intent } else { "" },
        match lock {
            Lock::Shared => "FOR SHARE OF f",
            Lock::Alone => "FOR UPDATE OF f",
            Lock::None => "",
        }
    );
    holding(tx, scope, claims, &sql)
}

/// Which of these claims do not hold, by a look of its own. A standby is not asked: it may be behind.
pub(super) fn unknown(session: &mut PostgresSession, claims: &[Arc<Fence>]) -> Result<Vec<Arc<Fence>>, Error> {
    let PostgresSession { wire, scope, rules, .. } = session;
    let doing = "cannot look at the fence in the store";
    let mut tx = wire.begin(doing)?;
    let tokens = claims.iter().enumerate();
    let tokens = tokens.filter_map(|(at, fence)| Some((at, fence.partition(), fence.check().ok()?.token())));
    let stale = stale(&mut tx, scope, &tokens.collect::<Vec<_>>(), Lock::None, rules).map_err(cannot(doing))?;
    Ok(stale.into_iter().map(|at| Arc::clone(&claims[at])).collect())
}

/// Begins a write whose claims are settled: [`stale`] under a shared lock and [`Reach::read`], in one round trip with BEGIN. `reach`
/// has the partitions of `claims`, in their order.
pub(super) fn enter<'w>(
    wire: &'w mut Wire,
    scope: &Scope,
    claims: &[(usize, Partition, FenceToken)],
    reach: &Reach,
    doing: &str,
) -> Result<(Transaction<'w>, Vec<usize>, Found), Error> {
    let sql = "SELECT kind, part, first, last FROM keylane.enter($1, $2, $3, $4, $5, $6, $7, $8)";
    let [epochs, gens, numbers] = columns(claims);
    let [id, parts, marks, lows, highs] = reach.params(scope);
    let of = Type::INT8_ARRAY;
    let params: [Param<'_>; 8] =
        [id, parts, (&epochs, of.clone()), (&gens, of.clone()), (&numbers, of), marks, lows, highs];
    let (tx, rows) = wire.begin_asking("", (sql, &params), doing)?;
    let found = Found::of(&rows);
    Ok((tx, beside(claims, &found.holds), found))
}

/// Epochs, generations and claim numbers.
fn columns(claims: &[(usize, Partition, FenceToken)]) -> [Vec<i64>; 3] {
    let column = |of: fn(&FenceToken) -> u64| claims.iter().map(|(_, _, token)| int(of(token))).collect();
    [column(|token| token.epoch), column(|token| token.generation.get()), column(|token| token.claim)]
}

fn holding(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    claims: &[(usize, Partition, FenceToken)],
    sql: &str,
) -> Result<Vec<usize>, SqlError> {
    let parts: Vec<i32> = claims.iter().map(|(_, partition, _)| count(partition.0)).collect();
    let [epochs, gens, numbers] = columns(claims);
    let of = Type::INT8_ARRAY;
    let params: [Param<'_>; 5] = [
        (&scope.id, Type::INT8),
        (&parts, Type::INT4_ARRAY),
        (&epochs, of.clone()),
        (&gens, of.clone()),
        (&numbers, of),
    ];
    let rows = tx.query(sql, &params)?;
    Ok(beside(claims, &rows.iter().map(|row| row.get(0)).collect()))
}

/// Those of the claims that are not among these places.
fn beside(claims: &[(usize, Partition, FenceToken)], holds: &HashSet<i64>) -> Vec<usize> {
    let stands = |place: usize| i64::try_from(place + 1).is_ok_and(|at| holds.contains(&at));
    claims.iter().enumerate().filter(|(place, _)| !stands(*place)).map(|(_, (at, ..))| *at).collect()
}
