//! The claim: raises a partition's row to a new owner, who reads in the same transaction what is done.

use keylane_producer::{Offset, Partition, Timestamp};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{SqliteSession, cannot, guard::Ours, int, markers, note, rules::Rules, scope::Scope, steer, stopped, uint};
use crate::{
    error::{Detail, Error},
    fence::FenceToken,
    store::{
        Candidate, ClaimError, ClaimRefused, Claimed,
        ranges::Ranges,
        rule::{Claimant, Row, Won},
    },
};

pub(super) fn claim(session: &mut SqliteSession, candidate: &Candidate) -> Result<Claimed, ClaimError> {
    let SqliteSession { connection, scope, ours, rules, claimants, .. } = session;
    let partition = candidate.partition;
    scope.has(partition)?;
    let doing = format!("cannot claim partition {partition} in the store");
    let sql = cannot(&doing);

    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
    let row = FenceRow::read(&tx, ours, scope, partition).map_err(&sql)?.ok_or_else(|| missing(partition))?;
    let again = row.decide(candidate, scope, rules).map_err(ClaimError::Refused)? == Won::Again;
    let clean = if again { row.clean } else { row.handed_over };
    if !again && !clean {
        count_deaths(&tx, ours, scope, partition, &row).map_err(&sql)?;
    }
    if row.claim == 0 {
        begin(&tx, ours, scope, candidate).map_err(&sql)?;
    }
    steer::forget(&tx, ours, scope, partition).map_err(&sql)?;
    note::clear(&tx, ours, scope, partition).map_err(&sql)?;
    let minted = raise(&tx, ours, scope, candidate, clean).map_err(&sql)?;
    let claimed = Claimed {
        token: FenceToken::minted(uint(row.epoch), candidate.generation, uint(minted)),
        pass: None,
        done: markers::progress(&tx, ours, scope, partition).map_err(&sql)?,
        stopped: stopped::all(&tx, ours, scope, partition)?,
        skips: steer::skips(&tx, ours, scope, partition).map_err(&sql)?,
        clean,
        suspects: suspects(&tx, ours, scope, partition).map_err(&sql)?,
    };
    tx.commit().map_err(&sql)?;
    claimants.note(scope.id, partition, claimed.token.claim, &candidate.worker);
    Ok(claimed)
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
}

impl FenceRow {
    fn read(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT epoch, gen, owner, claim, closed, clean, handed_over
                   FROM keylane_fence WHERE scope = ?1 AND part = ?2";
        ours.prepare(tx, sql)?
            .query_row(params![scope.id, partition.0], |row| {
                Ok(Self {
                    epoch: row.get(0)?,
                    generation: row.get(1)?,
                    owner: row.get(2)?,
                    claim: row.get(3)?,
                    closed: row.get(4)?,
                    clean: row.get(5)?,
                    handed_over: row.get(6)?,
                })
            })
            .optional()
    }

    /// Whether the row is this candidate's to take, and how.
    fn decide(&self, candidate: &Candidate, scope: &Scope, rules: &Rules) -> Result<Won, ClaimRefused> {
        let row = Row {
            epoch: uint(self.epoch),
            generation: uint(self.generation),
            owner: &*self.owner,
            claim: uint(self.claim),
            closed: self.closed,
            // BEGIN IMMEDIATE waits for the writer in flight, and nobody can overtake it: no claim need announce itself.
            announced: None,
        };
        let claimant = Claimant {
            epoch: uint(scope.epoch),
            generation: candidate.generation.get(),
            owner: candidate.owner.as_str(),
        };
        match row.decide(&claimant) {
            Err(ClaimRefused::EqualGeneration) if rules.equal_generation_wins() => Ok(Won::Anew),
            decided => decided,
        }
    }
}

/// Mints the claim number. It rises by a random step: a row that was restored from an older copy would else mint a
/// number a second time, and a token that was lost with the newer copy would pass again.
fn raise(tx: &Connection, ours: &Ours, scope: &Scope, candidate: &Candidate, clean: bool) -> rusqlite::Result<i64> {
    let sql = "UPDATE keylane_fence
               SET gen = ?3, owner = ?4, claim = claim + 1 + (random() & 0xffffffff), worker = ?5, claimed_at = ?6,
                   clean = ?7, handed_over = 0
               WHERE scope = ?1 AND part = ?2
               RETURNING claim";
    ours.prepare(tx, sql)?.query_row(
        params![
            scope.id,
            candidate.partition.0,
            int(candidate.generation.get()),
            candidate.owner.as_str(),
            candidate.worker,
            Timestamp::now().0,
            clean
        ],
        |row| row.get(0),
    )
}

/// The first claim of all: the group may have been another consumer's before.
fn begin(tx: &Connection, ours: &Ours, scope: &Scope, candidate: &Candidate) -> rusqlite::Result<()> {
    let before = markers::all(tx, ours, scope, candidate.partition)?;
    let Some(last) = candidate.begins_behind(&before, scope.anew) else { return Ok(()) };
    let mut after = Ranges::default();
    after.add(0, last);
    markers::replace(tx, ours, scope, candidate.partition, &before, &after)
}

/// The last owner did not hand over: what it had started and not finished may have killed it.
fn count_deaths(
    tx: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    last: &FenceRow,
) -> rusqlite::Result<()> {
    markers::clear_suspects(tx, ours, scope, partition)?;
    let sql = "UPDATE keylane_suspect SET deaths = deaths + 1, started = 0
               WHERE scope = ?1 AND part = ?2 AND started = ?3";
    ours.prepare(tx, sql)?.execute(params![scope.id, partition.0, last.claim]).map(drop)
}

fn suspects(tx: &Connection, ours: &Ours, scope: &Scope, partition: Partition) -> rusqlite::Result<Vec<(Offset, u32)>> {
    let sql = "SELECT offset, deaths FROM keylane_suspect WHERE scope = ?1 AND part = ?2 AND deaths > 0
               ORDER BY offset";
    ours.prepare(tx, sql)?
        .query_map(params![scope.id, partition.0], |row| Ok((Offset(uint(row.get(0)?)), row.get(1)?)))?
        .collect()
}

fn missing(partition: Partition) -> Error {
    Error::Corrupt(
        Detail::new(format!("the store has no fence row for partition {partition}"))
            .remedy("rows are made with the queue's pin and never removed: restore the file from a copy"),
    )
}
