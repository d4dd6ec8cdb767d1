//! The claim: raises a partition's row to a new owner, who reads in the same transaction what is done.
//!
//! Two transactions. The first writes down what is about to be claimed, and commits: from then on no write with an older
//! token begins. The second takes the row, for which it waits until the writes in flight have ended.

use keylane_producer::{Offset, Partition};
use tokio_postgres::types::Type;

use super::{
    PostgresSession, count,
    fault::{SqlError, cannot},
    int, markers, note,
    rules::Rules,
    scope::Scope,
    steer, stopped, uint,
    wire::{Param, Transaction, Wire},
};
use crate::{
    error::{Detail, Error},
    fence::{FenceToken, Pass},
    store::{Candidate, ClaimError, ClaimRefused, Claimed, ranges::Ranges, rule},
};

pub(super) fn claim(session: &mut PostgresSession, candidate: &Candidate) -> Result<Claimed, ClaimError> {
    let PostgresSession { wire, scope, rules, claimants, .. } = session;
    let partition = candidate.partition;
    scope.has(partition)?;
    let doing = format!("cannot claim partition {partition} in the store");
    let sql = cannot(&doing);

    if rules.intends() {
        intend(wire, scope, candidate, &doing)?;
    }
    let (mut tx, row) = FenceRow::lock(wire, scope, partition, &doing)?;
    let row = row.ok_or_else(|| missing(partition))?;
    let again = row.decide(candidate, scope, rules).map_err(ClaimError::Refused)?;
    let clean = if again { row.clean } else { row.handed_over };
    if !again && !clean {
        count_deaths(&mut tx, scope, partition, &row).map_err(&sql)?;
    }
    if row.claim == 0 {
        begin(&mut tx, scope, candidate)?;
    }
    let minted = raise(&mut tx, scope, candidate, clean, rules).map_err(&sql)?.ok_or_else(|| missing(partition))?;
    steer::forget(&mut tx, scope, partition).map_err(&sql)?;
    note::clear(&mut tx, scope, partition).map_err(&sql)?;
    let token = FenceToken::minted(uint(row.epoch), candidate.generation, uint(minted));
    let claimed = Claimed {
        token,
        pass: Some(Pass::minted(scope.id, partition, token, &candidate.owner)),
        done: markers::progress(&mut tx, scope, partition).map_err(&sql)?,
        stopped: stopped::of(&mut tx, scope, partition)?,
        skips: steer::skips(&mut tx, scope, &[count(partition.0)])
            .map_err(&sql)?
            .into_iter()
            .map(|(_, skip)| skip)
            .collect(),
        clean,
        suspects: suspects(&mut tx, scope, partition).map_err(&sql)?,
    };
    tx.commit().map_err(&sql)?;
    claimants.note(scope.id, partition, claimed.token.claim, &candidate.worker);
    Ok(claimed)
}

/// The first transaction. A claimant that is older than what was asked for already changes nothing.
fn intend(wire: &mut Wire, scope: &Scope, candidate: &Candidate, doing: &str) -> Result<(), Error> {
    let (id, part) = (scope.id, count(candidate.partition.0));
    let (epoch, generation) = (scope.epoch, int(candidate.generation.get()));
    let words = format!(
        "UPDATE keylane.fence_intent SET epoch = {epoch}, gen = {generation}
         WHERE scope = {id} AND part = {part} AND (epoch, gen) < ({epoch}, {generation})"
    );
    wire.say_alone(&words, doing)
}

/// The row as the claimant finds it.
struct FenceRow {
    epoch: i64,
    generation: i64,
    owner: String,
    claim: i64,
    closed: bool,
    clean: bool,
    handed_over: bool,
    /// Epoch and generation of the newest claim that announced itself.
    announced: (i64, i64),
}

impl FenceRow {
    /// Begins the second transaction.
    fn lock<'w>(
        wire: &'w mut Wire,
        scope: &Scope,
        partition: Partition,
        doing: &str,
    ) -> Result<(Transaction<'w>, Option<Self>), Error> {
        // It waits for many writers, each for a short time: the limit of the statement holds, none for one lock.
        let settings = "; SET LOCAL lock_timeout = 0";
        let sql = "SELECT f.epoch, f.gen, f.owner, f.claim, f.closed, f.clean, f.handed_over, i.epoch, i.gen
                   FROM keylane.fence AS f JOIN keylane.fence_intent AS i USING (scope, part)
                   WHERE f.scope = $1 AND f.part = $2 FOR UPDATE OF f";
        let params: [Param<'_>; 2] = [(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)];
        let (tx, rows) = wire.begin_asking(settings, (sql, &params), doing)?;
        let row = rows.first().map(|row| Self {
            epoch: row.get(0),
            generation: row.get(1),
            owner: row.get(2),
            claim: row.get(3),
            closed: row.get(4),
            clean: row.get(5),
            handed_over: row.get(6),
            announced: (row.get(7), row.get(8)),
        });
        Ok((tx, row))
    }

    /// Whether the row is this candidate's to take, and if so whether it has taken it before: then the answer was lost.
    fn decide(&self, candidate: &Candidate, scope: &Scope, rules: &Rules) -> Result<bool, ClaimRefused> {
        let row = rule::Row {
            epoch: uint(self.epoch),
            generation: uint(self.generation),
            owner: self.owner.as_str(),
            claim: uint(self.claim),
            closed: self.closed,
            announced: rules.intends().then(|| (uint(self.announced.0), uint(self.announced.1))),
        };
        let (epoch, generation) = (uint(scope.epoch), candidate.generation.get());
        match row.decide(&rule::Claimant { epoch, generation, owner: candidate.owner.as_str() }) {
            Err(ClaimRefused::EqualGeneration) if rules.equal_generation_wins() => Ok(false),
            decided => decided.map(|won| won == rule::Won::Again),
        }
    }
}

/// Mints the claim number. It rises by a random step: a server that was restored from an older copy would else mint a number
/// a second time, and a token that was lost with the newer copy would pass again.
fn raise(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    candidate: &Candidate,
    clean: bool,
    rules: &Rules,
) -> Result<Option<i64>, SqlError> {
    let sql = "UPDATE keylane.fence
               SET gen = $4, owner = $5, claim = claim + 1 + floor(random() * 4294967296)::bigint, worker = $6,
                   claimed_at = now(), clean = $7, handed_over = false, timeline = keylane.timeline()
               WHERE scope = $1 AND part = $2 AND epoch = $3 AND NOT closed
                 AND (gen < $4 OR gen = $4 AND (owner = $5 OR $8))
               RETURNING claim";
    let params: [Param<'_>; 8] = [
        (&scope.id, Type::INT8),
        (&count(candidate.partition.0), Type::INT4),
        (&scope.epoch, Type::INT8),
        (&int(candidate.generation.get()), Type::INT8),
        (&candidate.owner.as_str(), Type::TEXT),
        (&&*candidate.worker, Type::TEXT),
        (&clean, Type::BOOL),
        (&rules.equal_generation_wins(), Type::BOOL),
    ];
    Ok(tx.query(sql, &params)?.first().map(|row| row.get(0)))
}

/// The first claim of all: the group may have been another consumer's before.
fn begin(tx: &mut Transaction<'_>, scope: &Scope, candidate: &Candidate) -> Result<(), Error> {
    let doing = format!("cannot claim partition {} in the store", candidate.partition);
    let before = markers::of(tx, scope, candidate.partition).map_err(cannot(&doing))?;
    let Some(last) = candidate.begins_behind(&before, scope.anew) else { return Ok(()) };
    let (mut after, mut change) = (Ranges::default(), markers::Change::default());
    after.add(0, last);
    change.add(candidate.partition, &before.iter().collect(), &after);
    change.write(tx, scope)
}

/// The last owner did not hand over: what it had started and not finished may have killed it.
fn count_deaths(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    partition: Partition,
    last: &FenceRow,
) -> Result<(), SqlError> {
    markers::clear_suspects(tx, scope, &[count(partition.0)])?;
    let sql = "UPDATE keylane.suspect SET deaths = deaths + 1, started = 0
               WHERE scope = $1 AND part = $2 AND started = $3";
    let params: [Param<'_>; 3] =
        [(&scope.id, Type::INT8), (&count(partition.0), Type::INT4), (&last.claim, Type::INT8)];
    tx.execute(sql, &params).map(drop)
}

fn suspects(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<Vec<(Offset, u32)>, SqlError> {
    let sql = "SELECT \"offset\", deaths FROM keylane.suspect WHERE scope = $1 AND part = $2 AND deaths > 0
               ORDER BY \"offset\"";
    let rows = tx.query(sql, &[(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)])?;
    Ok(rows.iter().map(|row| (Offset(uint(row.get(0))), row.get::<_, i32>(1).unsigned_abs())).collect())
}

fn missing(partition: Partition) -> Error {
    Error::Corrupt(
        Detail::new(format!("the store has no fence row for partition {partition}"))
            .remedy("rows are made with the queue's pin and never removed: restore them from a copy"),
    )
}
