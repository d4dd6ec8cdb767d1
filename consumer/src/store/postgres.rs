//! The store in a PostgreSQL database (13 or later), beside the user's own tables.
//!
//! 1. A claim is two transactions: it says that it comes, then takes the partition's row, for which it waits until the
//!    writes in flight have ended. A write checks the row under a shared lock that lasts to its COMMIT.
//! 2. READ COMMITTED, said by each transaction. No state of a session: a transaction pooler may stand between.
//! 3. Nothing waits without a limit ([`Limits`]). What passes by itself is [`Error::Unavailable`], never a job's failure.
//! 4. Tables are in the schema `keylane`; times are the database's. Never written by hand, readable with `psql`:
//!
//! | table | a row is | columns |
//! |---|---|---|
//! | `result` | a job's result | queue, group_name, part, offset, key, job_id, attempt, result (json), finished_at |
//! | `scope` | a queue and group, pinned | scope, queue, group_name, cluster, incarnation, partitions, hash, epoch |
//! | `fence`, `fence_intent` | a partition's owner; who comes next | scope, part, epoch, gen, owner, claim, worker, ... |
//! | `marker` | a range of finished offsets | scope, part, first, last |
//! | `admitted` | a job that a handler's own transaction did | scope, part, offset, at, by_role |
//! | `stopped` | a key that stands still | scope, part, key, offset, job_id, attempts, rule, reason, released |
//! | `parked` | a job in its key's line | scope, part, offset, key, job_id, value, headers, timestamp, attempts, since |
//! | `dead` | a job that left alone | n, scope, part, offset, key, job_id, value, headers, timestamp, attempts, rule, reason, at |
//! | `skip`, `note` | a job to leave out; what an owner tells people | scope, part, offset, text; scope, part, at, note (json) |
//! | `suspect`, `quarantine` | a job that ran when its worker died; a record that is no job | scope, part, offset, ... |
//! | `refused`, `audit` | what a stale worker tried; what an operator did | worker, writes, jobs; who, act, why |
//!
//! Why it is so: `docs/decisions/0008-postgres-store.md`.

use std::{fmt, sync::Arc, time::Duration};

use keylane_producer::{GroupName, JobKey, Offset, Partition, PartitionCount, QueueIdentity, Timestamp};

use super::{
    Candidate, ClaimError, Claimed, DeadActed, DeadJob, DeadLetter, DeadOrder, FencedStore, Line, LineOrder, Note,
    ParkedJob, PartitionOverview, PartitionWrite, PartitionWritten, Skipping, Steer, SteerOrder, Steering,
    StoreSession, cut, refused::Claimants,
};
use crate::{
    clock::Clock,
    error::Error,
    fence::{Fence, Fenced, Guards},
};

mod address;
mod admitted;
mod check;
mod claim;
mod dead;
mod effect;
mod fault;
mod fence_rows;
mod handover;
mod markers;
mod note;
mod overview;
mod parked;
mod plain;
mod refused;
mod reset;
mod results;
mod rules;
mod schema;
mod scope;
mod statement;
mod steer;
mod stopped;
mod wire;
mod words;
mod write;

#[cfg(test)]
mod tests;

pub use address::PostgresAddress;
pub use effect::PostgresTx;
pub use fault::SqlError;
pub use plain::PostgresConnection;
pub use tokio_postgres::{Row, types};
pub use wire::Limits;

use check::Settled;
use effect::Care;
use fault::cannot;
use rules::Rules;
use scope::Scope;
use wire::{Transaction, Wire};

/// A store in one database. Cloning it is cheap; each session is a connection of its own.
#[derive(Clone)]
pub struct PostgresStore {
    address: Arc<PostgresAddress>,
    limits: Limits,
    rules: Rules,
    claimants: Claimants,
}

impl PostgresStore {
    /// The store in this database; its tables are made when the first session opens.
    pub fn new(address: PostgresAddress) -> Self {
        Self::without(address, Guards::default())
    }

    /// As [`PostgresStore::new`], with the guards that `guards` leaves standing: for twin tests and `demo`.
    pub fn without(address: PostgresAddress, guards: Guards) -> Self {
        Self {
            address: Arc::new(address),
            limits: Limits::default(),
            rules: Rules::standing(guards),
            claimants: Claimants::default(),
        }
    }

    /// How long anything may take.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// How far the database's clock is ahead of this machine's (negative: behind), in milliseconds, and how exactly that
    /// is known. For people; nothing depends on it.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`].
    pub fn clock_skew(&self) -> Result<(i64, Duration), Error> {
        let doing = "cannot ask the database for its time";
        let mut wire = self.wire();
        let mut tx = wire.begin_picture(doing)?;
        let clock = Clock::boot();
        let (asked, before) = (clock.now(), Timestamp::now().0);
        let rows =
            tx.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", &[]).map_err(cannot(doing))?;
        let took = clock.now().since(asked);
        let halfway = before + i64::try_from(took.as_millis() / 2).unwrap_or(0);
        Ok((rows[0].get::<_, i64>(0) - halfway, took / 2))
    }

    fn wire(&self) -> Wire {
        Wire::new(self.address.clone(), self.limits, self.rules.clone())
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresStore({})", self.address)
    }
}

impl FencedStore for PostgresStore {
    type Tx<'t> = PostgresTx<'t>;
    type Session = PostgresSession;
    /// Measured: `docs/decisions/0011-several-connections.md`.
    const CONNECTIONS: usize = 4;

    fn open(&self, queue: &QueueIdentity, group: &GroupName) -> Result<PostgresSession, Error> {
        let mut wire = self.wire();
        wire.connect()?;
        schema::ensure(&mut wire)?;
        let scope = Scope::pin(&mut wire, queue, group)?;
        Ok(PostgresSession {
            wire,
            scope,
            rules: self.rules.clone(),
            claimants: self.claimants.clone(),
            settled: Settled::default(),
            care: Care::default(),
            seen: None,
        })
    }
}

/// One connection to the database.
pub struct PostgresSession {
    wire: Wire,
    scope: Scope,
    rules: Rules,
    claimants: Claimants,
    settled: Settled,
    care: Care,
    seen: Option<i64>,
}

impl StoreSession<PostgresStore> for PostgresSession {
    fn former_counts(&self) -> Vec<PartitionCount> {
        self.scope.former.iter().filter_map(|count| count.to_string().parse().ok()).collect()
    }

    fn claim(&mut self, candidate: &Candidate) -> Result<Claimed, ClaimError> {
        claim::claim(self, candidate)
    }

    fn write(&mut self, batch: &mut [PartitionWrite<PostgresStore>]) -> Result<Vec<PartitionWritten>, Error> {
        write::write(self, batch)
    }

    fn hand_over(&mut self, fence: &Fence) -> Result<Result<(), Fenced>, Error> {
        handover::hand_over(self, fence)
    }

    fn starting(&mut self, fence: &Fence, running: &[Offset]) -> Result<Result<(), Fenced>, Error> {
        handover::starting(self, fence, running)
    }

    fn unknown(&mut self, claims: &[Arc<Fence>]) -> Result<Vec<Arc<Fence>>, Error> {
        check::unknown(self, claims)
    }

    fn steering(&mut self, partitions: &[Partition]) -> Result<Steering, Error> {
        steer::steering(self, partitions)
    }

    fn note(&mut self, fence: &Fence, note: Option<&Note>) -> Result<Result<(), Fenced>, Error> {
        note::note(self, fence, note)
    }

    fn changed(&mut self) -> Result<bool, Error> {
        let doing = "cannot ask the store whether it changed";
        let mut tx = self.wire.begin_picture(doing)?;
        let now = stopped::versions(&mut tx, &self.scope).map_err(cannot(doing))?;
        drop(tx);
        Ok(std::mem::replace(&mut self.seen, now) != now)
    }

    fn overview(&mut self) -> Result<Vec<PartitionOverview>, Error> {
        overview::overview(self)
    }

    fn line(&mut self, partition: Partition, key: &JobKey) -> Result<Line, Error> {
        parked::line(self, partition, key)
    }

    fn parked(&mut self, partition: Partition, key: &JobKey, offsets: &[Offset]) -> Result<Vec<ParkedJob>, Error> {
        parked::jobs(self, partition, key, offsets)
    }

    fn act_on_line(&mut self, order: &LineOrder) -> Result<bool, Error> {
        parked::act(self, order)
    }
}

impl Steer for PostgresSession {
    fn pause(&mut self, order: &SteerOrder) -> Result<bool, Error> {
        steer::pause(self, order)
    }

    fn skip(&mut self, order: &SteerOrder, offset: Offset) -> Result<Skipping, Error> {
        steer::skip(self, order, offset)
    }

    fn dead_letters(&mut self, after: u64, limit: usize) -> Result<Vec<DeadLetter>, Error> {
        dead::letters(self, after, limit)
    }

    fn dead_job(&mut self, number: u64) -> Result<Option<DeadJob>, Error> {
        dead::job(self, number)
    }

    fn act_on_dead(&mut self, order: &DeadOrder) -> Result<DeadActed, Error> {
        dead::act(self, order)
    }
}

/// Writes down what a person did.
fn audit(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    who: &str,
    act: &str,
    why: &str,
    detail: &str,
) -> Result<(), SqlError> {
    let sql = "INSERT INTO keylane.audit (queue, group_name, who, act, why, detail) VALUES ($1, $2, $3, $4, $5, $6)";
    let params: [wire::Param<'_>; 6] = [
        (&&*scope.queue, types::Type::TEXT),
        (&&*scope.group, types::Type::TEXT),
        (&who, types::Type::TEXT),
        (&act, types::Type::TEXT),
        (&why, types::Type::TEXT),
        (&detail, types::Type::TEXT),
    ];
    tx.execute(sql, &params).map(drop)
}

/// A reason as it can be kept: cut, and without NUL, the one character that Postgres has no text for.
fn text(words: &str) -> String {
    cut(words).replace('\0', "\u{fffd}")
}

/// As Postgres keeps it. Offsets and generations stay far below 2^63; one beyond it is as good as the last.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// As it was kept; nothing of ours is negative.
fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Partitions, counts of them and attempts stay far below 2^31.
fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
