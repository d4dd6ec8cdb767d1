//! The fenced write: many finished jobs in one transaction, none of them under a token that the row does not hold.
//!
//! 1. The local fences are looked at before BEGIN and again right before the markers and COMMIT; the rows in between, under a lock, outside
//!    of any savepoint. If a fence fails at the end, all is rolled back and done again without that partition.
//! 2. What is done is read from the markers in this transaction, so a write whose outcome was unknown applies once.
//! 3. All that needs no code of the user's is one statement for the whole batch: the check, the markers, the results. BEGIN goes
//!    with the check, and COMMIT with the markers, so a write takes two round trips and those of its effects.
//! 4. An error leaves the batch whole.

use std::{
    collections::{BTreeSet, HashSet},
    ops::Range,
};

use keylane_producer::{JobKey, Partition};
use tokio_postgres::types::Type;

use super::{
    PostgresSession, PostgresStore,
    admitted::Joined,
    check::{self, Lock},
    count, dead,
    effect::{Care, Savepoint},
    fault::{Kind, SqlError, cannot},
    int,
    markers::{Change, Found, Reach, clear_suspects},
    parked::{self, NewParked},
    refused,
    results::NewResults,
    scope::Scope,
    stopped,
    wire::{Param, Transaction},
};
use crate::{
    error::Error,
    fence::FenceToken,
    store::{
        EffectError, JobWrite, PartitionWrite, PartitionWritten, Quarantined, Write, Written,
        line::{Room, no_line},
        plan::Plan,
        ranges::Ranges,
        refused::Refusal,
    },
};

const DOING: &str = "cannot write to the store";

type Batch = [PartitionWrite<PostgresStore>];

pub(super) fn write(session: &mut PostgresSession, batch: &mut Batch) -> Result<Vec<PartitionWritten>, Error> {
    for part in batch.iter() {
        session.scope.has(part.fence.partition())?;
    }
    let mut plan = Plan::new(batch);
    let all = 0..plan.jobs();
    write_span(session, batch, &mut plan, all).inspect_err(|_| session.settled.forget())?;
    Ok(plan.into_answers(batch))
}

/// Commits the jobs of this span of the batch. If the database refuses it because of something that an effect left behind
/// (a deferred constraint) or a result that it does not take, halves the span until the job is found.
fn write_span(
    session: &mut PostgresSession,
    batch: &mut Batch,
    plan: &mut Plan,
    span: Range<usize>,
) -> Result<(), Error> {
    loop {
        match attempt(session, batch, plan, &span)? {
            Turn::Committed => return Ok(()),
            Turn::Again => {}
            // Not a job's doing: a trigger or a foreign key that somebody put on our tables.
            Turn::Refused(cause) if span.is_empty() || plan.is_struck(span.start) => return Err(cannot(DOING)(cause)),
            Turn::Refused(cause) if span.len() == 1 => plan.strike(span.start, Unfit(cause).into()),
            Turn::Refused(_) => {
                let middle = span.start + span.len() / 2;
                write_span(session, batch, plan, span.start..middle)?;
                return write_span(session, batch, plan, middle..span.end);
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the database does not commit what the job left")]
struct Unfit(#[source] SqlError);

/// How one transaction ended.
enum Turn {
    Committed,
    /// Rolled back; the plan says what to leave out now.
    Again,
    /// The database would not take what the jobs left.
    Refused(SqlError),
}

fn attempt(
    session: &mut PostgresSession,
    batch: &mut Batch,
    plan: &mut Plan,
    span: &Range<usize>,
) -> Result<Turn, Error> {
    let PostgresSession { wire, scope, rules, claimants, settled, care, .. } = session;
    let sql = cannot(DOING);
    plan.begin(batch);
    if plan.nothing_left() {
        return Ok(Turn::Committed);
    }
    let claims: Vec<(usize, Partition, FenceToken)> =
        plan.tokens().map(|(at, token)| (at, batch[at].fence.partition(), token)).collect();
    let lock = match settled.lock(&claims) {
        _ if !rules.locks() => Lock::None,
        Lock::Alone if !rules.settles() => Lock::Shared,
        lock => lock,
    };
    let (mut tx, stale, mut found) = if lock == Lock::Shared && rules.are_whole() {
        let (tx, stale, found) = check::enter(wire, scope, &claims, &reach(batch, plan, span), DOING)?;
        (tx, stale, Some(found))
    } else {
        let mut tx = wire.begin(DOING)?;
        let stale = if rules.row { check::stale(&mut tx, scope, &claims, lock, rules).map_err(&sql)? } else { vec![] };
        (tx, stale, None)
    };
    if rules.looks_outside() {
        tx.commit().map_err(&sql)?;
        rules.checked();
        tx = wire.begin(DOING)?;
    } else {
        rules.checked();
    }
    for at in stale {
        let (partition, jobs) = (batch[at].fence.partition(), batch[at].jobs.len());
        let claim = claims.iter().find(|(place, ..)| *place == at).map_or(0, |(.., token)| token.claim);
        plan.refuse(at, Refusal { partition, worker: claimants.name(scope.id, partition, claim), jobs });
    }

    let found = match found.take() {
        Some(found) => found,
        None => reach(batch, plan, span).read(&mut tx, scope).map_err(&sql)?,
    };
    let written = Writer::new(&mut tx, scope, care).write(batch, plan, span, found);
    let change = match written {
        Ok(change) => change,
        Err(Halt::Turn(turn)) => return Ok(turn),
        Err(Halt::Failed(_)) if tx.is_lost_to_an_effect() => {
            care.take();
            return Ok(Turn::Again);
        }
        Err(Halt::Failed(error)) => return Err(error),
    };
    if plan.look(batch) {
        return Ok(Turn::Again);
    }
    let turn = commit(tx, &change, plan, scope)?;
    if matches!(turn, Turn::Committed) {
        settled.note(&claims);
        care.relax();
    }
    Ok(turn)
}

/// Where the write may touch markers, in all that is not left out.
fn reach(batch: &Batch, plan: &Plan, span: &Range<usize>) -> Reach {
    let mut reach = Reach::default();
    for (at, part) in batch.iter().enumerate().filter(|(at, _)| !plan.is_fenced(*at)) {
        let (_, jobs) = plan.within(at, span);
        let offsets = || {
            let aside = part.quarantined.iter().map(|record| record.offset.0);
            part.jobs[jobs.clone()].iter().map(|job| job.offset.0).chain(aside)
        };
        reach.add(part.fence.partition(), part.watermark.0, offsets().min().zip(offsets().max()));
    }
    reach
}

fn commit(mut tx: Transaction<'_>, change: &Change, plan: &mut Plan, scope: &Scope) -> Result<Turn, Error> {
    // Counting what was refused is a service to people. It rides along; without the right to, it does not.
    let counted = plan.refusals().is_empty() || refused::count(plan.refusals(), &mut tx, scope);
    let committed = if change.is_empty() { tx.commit() } else { change.commit(tx, scope)? };
    match committed {
        Ok(()) => {
            plan.commit(counted);
            Ok(Turn::Committed)
        }
        Err(_) if plan.nothing_left() => Ok(Turn::Committed),
        Err(fault) if fault.kind() == Kind::Data => Ok(Turn::Refused(fault)),
        Err(fault) => Err(cannot(DOING)(fault)),
    }
}

/// Why an open transaction does not come to its COMMIT.
enum Halt {
    Turn(Turn),
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What an open transaction writes with.
struct Writer<'s, 'w> {
    tx: &'s mut Transaction<'w>,
    scope: &'s Scope,
    care: &'s mut Care,
    savepoint: Savepoint,
    results: NewResults,
    parked: NewParked,
    /// The line that was found last.
    line_found: Option<(Partition, JobKey)>,
    change: Change,
    joined: Joined,
}

/// A partition of the batch in this transaction.
struct Part {
    first: usize,
    jobs: Range<usize>,
    before: Ranges,
    /// Done by their handlers' own transactions, and in no marker yet.
    admitted: BTreeSet<u64>,
}

impl<'s, 'w> Writer<'s, 'w> {
    fn new(tx: &'s mut Transaction<'w>, scope: &'s Scope, care: &'s mut Care) -> Self {
        Self {
            tx,
            scope,
            savepoint: Savepoint::new(care.is_due()),
            care,
            results: NewResults::default(),
            parked: NewParked::default(),
            line_found: None,
            change: Change::default(),
            joined: Joined::default(),
        }
    }

    /// All of the span that is not left out; what is left to change of the markers.
    fn write(&mut self, batch: &mut Batch, plan: &mut Plan, span: &Range<usize>, found: Found) -> Result<Change, Halt> {
        let sql = cannot(DOING);
        let Found { mut markers, mut admitted, suspected, .. } = found;
        let mut parts = Vec::new();
        for (at, part) in batch.iter_mut().enumerate() {
            if plan.is_fenced(at) {
                continue;
            }
            let (first, jobs) = plan.within(at, span);
            let partition = part.fence.partition();
            let rows = markers.remove(&partition.0).unwrap_or_default();
            let before = rows.iter().map(|(&first, &last)| (first, last)).collect();
            let place = Part { first, jobs, before, admitted: admitted.take(partition) };
            let after = self.partition(part, plan, &place)?;
            parts.push(count(partition.0));
            self.change.add(partition, &rows, &after);
            self.joined.add(partition, &place.admitted, &after);
        }
        self.savepoint.close(self.tx);
        self.tx.flush().map_err(&sql)?;
        self.parked.insert(self.tx, self.scope).map_err(&sql)?;
        match self.results.insert(self.tx, self.scope) {
            Ok(taken) if taken.is_empty() => {}
            Ok(taken) => {
                // A row without its marker: somebody changed our tables. Overwriting it would hide that.
                taken.into_iter().for_each(|job| plan.strike(job, "there is a result of this job already".into()));
                return Err(Halt::Turn(Turn::Again));
            }
            Err(fault) if fault.kind() == Kind::Data => return Err(Halt::Turn(Turn::Refused(fault))),
            Err(fault) => return Err(sql(fault).into()),
        }
        self.joined.delete(self.tx, self.scope).map_err(&sql)?;
        let change = std::mem::take(&mut self.change);
        if !suspected || change.is_empty() {
            return Ok(change);
        }
        change.write(self.tx, self.scope)?;
        clear_suspects(self.tx, self.scope, &parts).map_err(&sql)?;
        Ok(Change::default())
    }

    /// The part of the span that lies in one partition; what is done there after it.
    fn partition(
        &mut self,
        part: &mut PartitionWrite<PostgresStore>,
        plan: &mut Plan,
        place: &Part,
    ) -> Result<Ranges, Halt> {
        let sql = cannot(DOING);
        let partition = part.fence.partition();
        stopped::resume(self.tx, self.scope, partition, &part.resumed).map_err(&sql)?;
        let mut after = place.before.clone();
        let mut held = HashSet::new();
        let mut room = Room { limit: part.line_room, left: None };
        for (index, job) in (place.first..).zip(&mut part.jobs[place.jobs.clone()]) {
            let marked = after.contains(job.offset.0);
            // A marker says that it is done, or that it waits in its key's line.
            let in_line = marked && self.is_in_line(partition, job)?;
            let by_handler = place.admitted.contains(&job.offset.0);
            let written = if marked && (!in_line || matches!(job.write, Write::Park)) {
                Written::AlreadyDone
            } else if plan.is_struck(index) {
                held.insert(job.job.key.clone());
                continue;
            } else if by_handler {
                after.add(job.offset.0, job.offset.0);
                if in_line {
                    self.take_from_line(partition, job)?;
                }
                self.admitted(partition, index, job)
            } else {
                self.job((partition, index, in_line), job, &held, &mut room)?
            };
            match written {
                Written::Applied | Written::Buried if in_line && !by_handler => self.take_from_line(partition, job)?,
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
        let aside: Vec<_> = part.quarantined.iter().filter(|record| !place.before.contains(record.offset.0)).collect();
        if !aside.is_empty() {
            self.quarantine(partition, &aside).map_err(&sql)?;
            aside.iter().for_each(|record| after.add(record.offset.0, record.offset.0));
        }
        if let Some(below) = part.watermark.0.checked_sub(1) {
            after.add(0, below);
        }
        Ok(after)
    }

    /// One job that its handler's own transaction did. What the handler answered beside is kept; an effect, or a reason to
    /// stop the key, comes too late.
    fn admitted(&mut self, partition: Partition, index: usize, job: &JobWrite<PostgresStore>) -> Written {
        match &job.write {
            Write::Nothing => Written::Applied,
            Write::Result(json) => match self.results.add(index, partition, job, json) {
                Ok(()) => Written::Applied,
                Err(_) => Written::AlreadyDone,
            },
            Write::Effect(_) | Write::Stop(_) | Write::Park | Write::Bury(_) => Written::AlreadyDone,
        }
    }

    /// It is done, so it waits no longer.
    fn take_from_line(&mut self, partition: Partition, job: &JobWrite<PostgresStore>) -> Result<(), Error> {
        self.savepoint.close(self.tx);
        parked::take(self.tx, self.scope, partition, job.offset, &job.job.key).map_err(cannot(DOING))
    }

    /// One job that is not done yet. `held` are the keys that an earlier job of this write stopped at.
    fn job(
        &mut self,
        (partition, index, in_line): (Partition, usize, bool),
        job: &mut JobWrite<PostgresStore>,
        held: &HashSet<JobKey>,
        room: &mut Room,
    ) -> Result<Written, Halt> {
        if matches!(job.write, Write::Park) {
            return Ok(self.park(partition, job, room)?);
        }
        if held.contains(&job.job.key) {
            return Ok(failed("an earlier job of its key is not done"));
        }
        if let Write::Effect(effect) = &mut job.write {
            return self.savepoint.run(self.tx, effect)?.ok_or_else(|| {
                self.care.take();
                Halt::Turn(Turn::Again)
            });
        }
        match &job.write {
            Write::Nothing | Write::Effect(_) => Ok(Written::Applied),
            Write::Result(json) => Ok(match self.results.add(index, partition, job, json) {
                Ok(()) => Written::Applied,
                Err(why) => failed(why),
            }),
            Write::Park => unreachable!("it went another way"),
            Write::Stop(_) | Write::Bury(_) if !in_line && !self.has_room(partition, room)? => Ok(Written::NoRoom),
            Write::Stop(reason) => {
                self.savepoint.close(self.tx);
                stopped::stop(self.tx, self.scope, partition, job, reason).map_err(cannot(DOING))?;
                self.parked.add(partition, job);
                self.line_found = Some((partition, job.job.key.clone()));
                Ok(Written::Stopped)
            }
            Write::Bury(reason) => {
                self.savepoint.close(self.tx);
                dead::bury(self.tx, self.scope, partition, job, reason).map_err(cannot(DOING))?;
                Ok(Written::Buried)
            }
        }
    }

    fn is_in_line(&mut self, partition: Partition, job: &JobWrite<PostgresStore>) -> Result<bool, Error> {
        self.savepoint.close(self.tx);
        parked::has(self.tx, self.scope, partition, job.offset).map_err(cannot(DOING))
    }

    fn has_room(&mut self, partition: Partition, room: &mut Room) -> Result<bool, Error> {
        self.savepoint.close(self.tx);
        room.take(|| {
            let lines = parked::held(self.tx, self.scope, partition).map_err(cannot(DOING))?;
            Ok(lines + dead::held(self.tx, self.scope, partition).map_err(cannot(DOING))?)
        })
    }

    fn park(&mut self, partition: Partition, job: &JobWrite<PostgresStore>, room: &mut Room) -> Result<Written, Error> {
        let key = &job.job.key;
        if self.line_found.as_ref().is_none_or(|(of, found)| *of != partition || found != key) {
            self.savepoint.close(self.tx);
            if !parked::is_stopped(self.tx, self.scope, partition, key).map_err(cannot(DOING))? {
                return Err(no_line(key));
            }
            self.line_found = Some((partition, key.clone()));
        }
        if !self.has_room(partition, room)? {
            return Ok(Written::NoRoom);
        }
        self.parked.add(partition, job);
        Ok(Written::Parked)
    }

    fn quarantine(&mut self, partition: Partition, records: &[&Quarantined]) -> Result<(), SqlError> {
        let sql = "INSERT INTO keylane.quarantine (scope, part, \"offset\", key, reason)
                   SELECT $1, $2, q.* FROM unnest($3::bigint[], $4::bytea[], $5::text[]) AS q
                   ON CONFLICT (scope, part, \"offset\") DO UPDATE SET key = excluded.key, reason = excluded.reason, at = now()";
        let offsets: Vec<i64> = records.iter().map(|record| int(record.offset.0)).collect();
        let keys: Vec<Option<&[u8]>> = records.iter().map(|record| record.key.as_deref()).collect();
        let reasons: Vec<&str> = records.iter().map(|record| &*record.reason).collect();
        let params: [Param<'_>; 5] = [
            (&self.scope.id, Type::INT8),
            (&count(partition.0), Type::INT4),
            (&offsets, Type::INT8_ARRAY),
            (&keys, Type::BYTEA_ARRAY),
            (&reasons, Type::TEXT_ARRAY),
        ];
        self.tx.execute(sql, &params).map(drop)
    }
}

fn failed(cause: impl Into<EffectError>) -> Written {
    Written::EffectFailed(cause.into())
}
