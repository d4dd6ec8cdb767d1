//! The fenced write: many finished jobs in one transaction, none of them under a token that the row does not hold.
//!
//! 1. The local fences are looked at before BEGIN and again right before COMMIT; the row in between, outside of any
//!    savepoint. If a fence fails at the end, all is rolled back and done again without that partition.
//! 2. What is done is read from the markers in this transaction, so a write whose outcome was unknown applies once.
//! 3. An effect that ends the transaction, or leaves something that lets no COMMIT succeed, is found and fails alone.
//! 4. An error leaves the batch whole.

use std::{collections::HashSet, ops::Range};

use keylane_producer::{JobKey, Partition, Timestamp};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{
    SqliteSession, SqliteStore, cannot, dead,
    effect::{self, Ran},
    guard::{Guard, Ours},
    int, markers, parked, refused,
    scope::Scope,
    stopped, uint,
};
use crate::{
    error::Error,
    fence::FenceToken,
    store::{
        JobWrite, PartitionWrite, PartitionWritten, Quarantined, Write, Written,
        line::{Room, no_line},
        plan::Plan,
        ranges::Ranges,
        refused::Refusal,
        rule::Row,
    },
};

const DOING: &str = "cannot write to the store";

type Batch = [PartitionWrite<SqliteStore>];

pub(super) fn write(session: &mut SqliteSession, batch: &mut Batch) -> Result<Vec<PartitionWritten>, Error> {
    for part in batch.iter() {
        session.scope.has(part.fence.partition())?;
    }
    let mut plan = Plan::new(batch);
    let all = 0..plan.jobs();
    write_span(session, batch, &mut plan, all)?;
    Ok(plan.into_answers(batch))
}

/// Commits the jobs of this span of the batch. If the database refuses the COMMIT because of something that an effect
/// left behind (a deferred constraint), halves the span until the effect is found.
fn write_span(
    session: &mut SqliteSession,
    batch: &mut Batch,
    plan: &mut Plan,
    span: Range<usize>,
) -> Result<(), Error> {
    loop {
        match attempt(session, batch, plan, &span)? {
            Turn::Committed => return Ok(()),
            Turn::Again => {}
            // Not an effect's doing: a trigger or a foreign key that somebody put on our tables.
            Turn::Refused(cause) if span.is_empty() || plan.is_struck(span.start) => return Err(cannot(DOING)(cause)),
            Turn::Refused(cause) if span.len() == 1 => plan.strike(span.start, effect::left_unfit(cause)),
            Turn::Refused(_) => {
                let middle = span.start + span.len() / 2;
                write_span(session, batch, plan, span.start..middle)?;
                return write_span(session, batch, plan, middle..span.end);
            }
        }
    }
}

/// How one transaction ended.
enum Turn {
    Committed,
    /// Rolled back; the plan says what to leave out now.
    Again,
    /// The database would not commit what the effects left.
    Refused(rusqlite::Error),
}

fn attempt(
    session: &mut SqliteSession,
    batch: &mut Batch,
    plan: &mut Plan,
    span: &Range<usize>,
) -> Result<Turn, Error> {
    let SqliteSession { connection, scope, guard, ours, rules, claimants, .. } = session;
    let sql = cannot(DOING);
    plan.begin(batch);
    if plan.nothing_left() {
        return Ok(Turn::Committed);
    }
    let early =
        if rules.looks_outside() { Some(stale(connection, ours, scope, batch, plan).map_err(&sql)?) } else { None };
    rules.before_begin();
    let mut tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
    let stale = match early {
        Some(early) => early,
        None if rules.row => stale(&tx, ours, scope, batch, plan).map_err(&sql)?,
        None => Vec::new(),
    };
    for (at, token) in stale {
        let partition = batch[at].fence.partition();
        let worker = claimants.name(scope.id, partition, token.claim);
        plan.refuse(at, Refusal { partition, worker, jobs: batch[at].jobs.len() });
    }

    let mut writer = Writer { tx: &mut tx, scope, guard, ours };
    for (at, part) in batch.iter_mut().enumerate() {
        if plan.is_fenced(at) {
            continue;
        }
        if let Fate::Ended { job, cause } = writer.partition(at, part, plan, span)? {
            plan.strike(job, cause);
            return Ok(Turn::Again);
        }
    }
    if plan.look(batch) {
        return Ok(Turn::Again);
    }
    commit(tx, plan, ours, scope)
}

fn commit(tx: Transaction<'_>, plan: &mut Plan, ours: &Ours, scope: &Scope) -> Result<Turn, Error> {
    // Counting what was refused is a service to people: it rides along, and its failure fails nothing.
    let counted = plan.refusals().iter().try_for_each(|refusal| refused::count(refusal, &tx, ours, scope)).is_ok();
    match tx.commit() {
        Ok(()) => {
            plan.commit(counted);
            Ok(Turn::Committed)
        }
        Err(_) if plan.nothing_left() => Ok(Turn::Committed),
        Err(cause) if cause.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Ok(Turn::Refused(cause)),
        Err(cause) => Err(cannot(DOING)(cause)),
    }
}

/// What an open transaction writes with.
struct Writer<'s, 't> {
    tx: &'s mut Transaction<'t>,
    scope: &'s Scope,
    guard: &'s Guard,
    ours: &'s Ours,
}

/// Whether the transaction is still there.
enum Fate {
    Open,
    Ended { job: usize, cause: crate::store::EffectError },
}

impl Writer<'_, '_> {
    /// The part of the span that lies in one partition.
    fn partition(
        &mut self,
        at: usize,
        part: &mut PartitionWrite<SqliteStore>,
        plan: &mut Plan,
        span: &Range<usize>,
    ) -> Result<Fate, Error> {
        let sql = cannot(DOING);
        let (partition, watermark) = (part.fence.partition(), part.watermark.0);
        let (first, jobs) = plan.within(at, span);
        let jobs = &mut part.jobs[jobs];
        let aside = part.quarantined.iter().map(|record| record.offset.0);
        let offsets = || jobs.iter().map(|job| job.offset.0).chain(aside.clone());
        let touched = offsets().min().zip(offsets().max());
        let before = markers::near(self.tx, self.ours, self.scope, partition, watermark, touched).map_err(&sql)?;
        stopped::resume(self.tx, self.ours, self.scope, partition, &part.resumed).map_err(&sql)?;

        let mut after = before.clone();
        let mut held = HashSet::new();
        let mut room = Room { limit: part.line_room, left: None };
        for (index, job) in (first..).zip(jobs) {
            let marked = after.contains(job.offset.0);
            // A marker says that it is done, or that it waits in its key's line.
            let in_line = marked && parked::has(self.tx, self.ours, self.scope, partition, job.offset).map_err(&sql)?;
            let written = if marked && (!in_line || matches!(job.write, Write::Park)) {
                Written::AlreadyDone
            } else if plan.is_struck(index) {
                held.insert(job.job.key.clone());
                continue;
            } else {
                match self.job(partition, job, &held, in_line, &mut room)? {
                    Ran::Ended(cause) => return Ok(Fate::Ended { job: index, cause }),
                    Ran::Wrote(written) => written,
                }
            };
            match written {
                Written::Applied | Written::Buried if in_line => {
                    let key = &job.job.key;
                    parked::take(self.tx, self.ours, self.scope, partition, job.offset, key).map_err(&sql)?;
                }
                Written::Applied | Written::Parked | Written::Buried => after.add(job.offset.0, job.offset.0),
                Written::AlreadyDone => {}
                Written::Stopped => {
                    after.add(job.offset.0, job.offset.0);
                    held.insert(job.job.key.clone());
                }
                Written::EffectFailed(_) | Written::NoRoom => drop(held.insert(job.job.key.clone())),
            }
            plan.answer(index, written);
        }
        for record in part.quarantined.iter().filter(|record| !before.contains(record.offset.0)) {
            self.quarantine(partition, record).map_err(&sql)?;
            after.add(record.offset.0, record.offset.0);
        }
        if let Some(below) = watermark.checked_sub(1) {
            after.add(0, below);
        }
        self.finish(partition, &before, &after).map_err(&sql)?;
        Ok(Fate::Open)
    }

    fn finish(&self, partition: Partition, before: &Ranges, after: &Ranges) -> rusqlite::Result<()> {
        if before == after {
            return Ok(());
        }
        markers::replace(self.tx, self.ours, self.scope, partition, before, after)?;
        markers::clear_suspects(self.tx, self.ours, self.scope, partition)
    }

    /// One job that is not done yet. `held` are the keys that an earlier job of this write stopped at.
    fn job(
        &mut self,
        partition: Partition,
        job: &mut JobWrite<SqliteStore>,
        held: &HashSet<JobKey>,
        in_line: bool,
        room: &mut Room,
    ) -> Result<Ran, Error> {
        let sql = cannot(DOING);
        if matches!(job.write, Write::Park) {
            return self.park(partition, job, room);
        }
        if held.contains(&job.job.key) {
            return Ok(Ran::failed("an earlier job of its key is not done"));
        }
        match &mut job.write {
            Write::Nothing => Ok(Ran::Wrote(Written::Applied)),
            Write::Effect(effect) => effect::run(self.tx, self.guard, effect),
            Write::Result(json) => {
                let json = json.clone();
                self.result(partition, job, &json)
            }
            Write::Park => unreachable!("it went another way"),
            Write::Stop(_) | Write::Bury(_) if !in_line && !room.take(|| self.parked(partition))? => {
                Ok(Ran::Wrote(Written::NoRoom))
            }
            Write::Stop(reason) => {
                let reason = reason.clone();
                stopped::stop(self.tx, self.ours, self.scope, partition, job, &reason).map_err(&sql)?;
                Ok(Ran::Wrote(Written::Stopped))
            }
            Write::Bury(reason) => {
                let reason = reason.clone();
                dead::bury(self.tx, self.ours, self.scope, partition, job, &reason).map_err(&sql)?;
                Ok(Ran::Wrote(Written::Buried))
            }
        }
    }

    fn parked(&self, partition: Partition) -> Result<u64, Error> {
        let lines = parked::held(self.tx, self.ours, self.scope, partition);
        let dead = dead::held(self.tx, self.ours, self.scope, partition);
        Ok(lines.map_err(cannot(DOING))? + dead.map_err(cannot(DOING))?)
    }

    fn park(&self, partition: Partition, job: &JobWrite<SqliteStore>, room: &mut Room) -> Result<Ran, Error> {
        let sql = cannot(DOING);
        let key = &job.job.key;
        if !parked::is_stopped(self.tx, self.ours, self.scope, partition, key).map_err(&sql)? {
            return Err(no_line(key));
        }
        if !room.take(|| self.parked(partition))? {
            return Ok(Ran::Wrote(Written::NoRoom));
        }
        parked::put(self.tx, self.ours, self.scope, partition, job).map_err(&sql)?;
        Ok(Ran::Wrote(Written::Parked))
    }

    fn result(&self, partition: Partition, job: &JobWrite<SqliteStore>, json: &[u8]) -> Result<Ran, Error> {
        let Ok(text) = std::str::from_utf8(json) else { return Ok(Ran::failed("its result is not UTF-8 text")) };
        let sql = "INSERT INTO keylane_result
                       (queue, group_name, part, offset, key, job_id, attempt, result, finished_at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let inserted = self.ours.prepare(self.tx, sql).and_then(|mut row| {
            row.execute(params![
                self.scope.queue,
                self.scope.group,
                partition.0,
                int(job.offset.0),
                job.job.key.as_bytes(),
                job.job.id.as_str(),
                job.attempt.0,
                text,
                Timestamp::now().0
            ])
        });
        match inserted {
            Ok(_) => Ok(Ran::Wrote(Written::Applied)),
            // A row without its marker: somebody changed our tables. Overwriting it would hide that.
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => Ok(Ran::failed(e)),
            Err(e) => Err(cannot(DOING)(e)),
        }
    }

    fn quarantine(&self, partition: Partition, record: &Quarantined) -> rusqlite::Result<()> {
        let sql = "INSERT OR REPLACE INTO keylane_quarantine (scope, part, offset, key, reason, at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let key = record.key.as_deref();
        let row = params![self.scope.id, partition.0, int(record.offset.0), key, record.reason, Timestamp::now().0];
        self.ours.prepare(self.tx, sql)?.execute(row).map(drop)
    }
}

/// The partitions whose rows hold another claim by now.
fn stale(
    connection: &Connection,
    ours: &Ours,
    scope: &Scope,
    batch: &Batch,
    plan: &Plan,
) -> rusqlite::Result<Vec<(usize, FenceToken)>> {
    let mut stale = Vec::new();
    for (at, token) in plan.tokens() {
        if !row_matches(connection, ours, scope, batch[at].fence.partition(), token)? {
            stale.push((at, token));
        }
    }
    Ok(stale)
}

/// The fence: whether the partition's row still holds this very claim.
pub(super) fn row_matches(
    connection: &Connection,
    ours: &Ours,
    scope: &Scope,
    partition: Partition,
    token: FenceToken,
) -> rusqlite::Result<bool> {
    let sql = "SELECT epoch, gen, claim, closed FROM keylane_fence WHERE scope = ?1 AND part = ?2";
    let row = ours.prepare(connection, sql)?.query_row(params![scope.id, partition.0], |row| {
        Ok(Row {
            epoch: uint(row.get(0)?),
            generation: uint(row.get(1)?),
            owner: (),
            claim: uint(row.get(2)?),
            closed: row.get(3)?,
            announced: None,
        })
    });
    let row = row.optional()?;
    Ok(row.is_some_and(|row| row.admits(token.epoch, token.generation.get(), token.claim)))
}
