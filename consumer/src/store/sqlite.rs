//! The store in an SQLite file: the queue file, or any file with the user's own tables beside ours.
//!
//! 1. Claims and writes are `BEGIN IMMEDIATE`: SQLite has one writer at a time, so whoever holds the write lock sees
//!    the row as it is. It fences processes that share the file, on one machine; nothing else.
//! 2. Busy and full are [`Error::Unavailable`], never a job's failure.
//! 3. Tables are `keylane_*`; times are milliseconds since 1970 UTC. Never written by hand, readable with `sqlite3`:
//!
//! | table | a row is | columns |
//! |---|---|---|
//! | `keylane_result` | a job's result | queue, group_name, part, offset, key, job_id, attempt, result, finished_at |
//! | `keylane_scope` | a queue and group, pinned | scope, queue, group_name, cluster, incarnation, partitions, hash, epoch |
//! | `keylane_fence` | a partition's owner | scope, part, epoch, gen, owner, claim, worker, claimed_at, closed, handed_over |
//! | `keylane_marker` | a range of finished offsets | scope, part, first, last |
//! | `keylane_stopped` | a key that stands still | scope, part, key, offset, job_id, attempts, rule, reason, released |
//! | `keylane_parked` | a job in its key's line | scope, part, offset, key, job_id, value, headers, timestamp, attempts, since |
//! | `keylane_dead` | a job that left alone | n, scope, part, offset, key, job_id, value, headers, timestamp, attempts, rule, reason, at |
//! | `keylane_skip` | a job that a person wants left out | scope, part, offset, key, text, at |
//! | `keylane_note` | what an owner tells people of a partition | scope, part, at, note (JSON) |
//! | `keylane_suspect` | a job that ran when its worker died | scope, part, offset, deaths |
//! | `keylane_quarantine` | a record that is no job | scope, part, offset, key, reason, at |
//! | `keylane_refused` | what a stale worker tried | scope, part, worker, writes, jobs, last |
//!
//! Why it is so: `docs/decisions/0004-sqlite-store.md`.

use std::{fmt, path::Path, sync::Arc};

use keylane_producer::{
    GroupName, JobKey, Offset, Partition, PartitionCount, QueueIdentity, Timestamp,
    sqlite::{Patience, Purpose, open, sorted},
};
use rusqlite::Connection;

use super::{
    Candidate, ClaimError, Claimed, DeadActed, DeadJob, DeadLetter, DeadOrder, FencedStore, Line, LineOrder, Note,
    ParkedJob, PartitionOverview, PartitionWrite, PartitionWritten, Skipping, Steer, SteerOrder, Steering,
    StoreSession, refused::Claimants,
};
use crate::{
    error::Error,
    fence::{Fence, Fenced, Guards},
};

mod claim;
mod dead;
mod effect;
mod fence_rows;
mod guard;
mod handover;
mod markers;
mod note;
mod overview;
mod parked;
mod refused;
mod reset;
mod results;
mod rules;
mod schema;
mod scope;
mod steer;
mod stopped;
mod write;

#[cfg(test)]
mod tests;

use guard::{Guard, Ours};
use rules::Rules;
use scope::Scope;

/// A store in one SQLite file. Cloning it is cheap; each session is a connection of its own.
#[derive(Clone)]
pub struct SqliteStore {
    path: Arc<Path>,
    patience: Patience,
    rules: Rules,
    claimants: Claimants,
}

impl SqliteStore {
    /// The store in this file, which is made when the first session opens.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self::without(path, Guards::default())
    }

    /// As [`SqliteStore::new`], with the guards that `guards` leaves standing: for twin tests and `demo`.
    pub fn without(path: impl AsRef<Path>, guards: Guards) -> Self {
        Self {
            path: path.as_ref().into(),
            patience: Patience::Worker,
            rules: Rules::standing(guards),
            claimants: Claimants::default(),
        }
    }

    /// How long its sessions wait for another writer; [`Patience::Worker`] if it is not said.
    #[must_use]
    pub fn with_patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    fn connect(&self) -> Result<Connection, Error> {
        Ok(open(&self.path, Purpose::Store, self.patience)?)
    }

    /// For readers, who make nothing: `None` if there is no store in the file.
    fn connect_to_read(&self) -> Result<Option<Connection>, Error> {
        if !self.path.exists() {
            return Ok(None);
        }
        let connection = open(&self.path, Purpose::StoreToRead, self.patience)?;
        Ok(schema::is_there(&connection)?.then_some(connection))
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteStore({})", self.path.display())
    }
}

impl FencedStore for SqliteStore {
    type Tx<'t> = rusqlite::Savepoint<'t>;
    type Session = SqliteSession;

    fn open(&self, queue: &QueueIdentity, group: &GroupName) -> Result<SqliteSession, Error> {
        let mut connection = self.connect()?;
        schema::ensure(&mut connection)?;
        let scope = Scope::pin(&mut connection, queue, group)?;
        let guard = Guard::install(&mut connection).map_err(cannot("cannot guard the store's connection"))?;
        let seen = data_version(&connection)?;
        Ok(SqliteSession {
            connection,
            scope,
            guard,
            ours: Ours::salted(),
            rules: self.rules.clone(),
            claimants: self.claimants.clone(),
            seen,
            versions: 0,
        })
    }
}

/// One connection to the file.
pub struct SqliteSession {
    connection: Connection,
    scope: Scope,
    guard: Guard,
    ours: Ours,
    rules: Rules,
    claimants: Claimants,
    seen: i64,
    versions: i64,
}

impl StoreSession<SqliteStore> for SqliteSession {
    fn former_counts(&self) -> Vec<PartitionCount> {
        self.scope.former.iter().filter_map(|count| count.to_string().parse().ok()).collect()
    }

    fn claim(&mut self, candidate: &Candidate) -> Result<Claimed, ClaimError> {
        claim::claim(self, candidate)
    }

    fn write(&mut self, batch: &mut [PartitionWrite<SqliteStore>]) -> Result<Vec<PartitionWritten>, Error> {
        write::write(self, batch)
    }

    fn hand_over(&mut self, fence: &Fence) -> Result<Result<(), Fenced>, Error> {
        handover::hand_over(self, fence)
    }

    fn starting(&mut self, fence: &Fence, running: &[Offset]) -> Result<Result<(), Fenced>, Error> {
        handover::starting(self, fence, running)
    }

    fn steering(&mut self, partitions: &[Partition]) -> Result<Steering, Error> {
        steer::steering(self, partitions)
    }

    fn changed(&mut self) -> Result<bool, Error> {
        let now = data_version(&self.connection)?;
        if std::mem::replace(&mut self.seen, now) == now {
            return Ok(false);
        }
        // Others commit all the time.
        let versions = stopped::versions(&self.connection, &self.ours, &self.scope)
            .map_err(cannot("cannot ask the store whether it changed"))?;
        Ok(std::mem::replace(&mut self.versions, versions) != versions)
    }

    fn note(&mut self, fence: &Fence, note: Option<&Note>) -> Result<Result<(), Fenced>, Error> {
        note::note(self, fence, note)
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

impl Steer for SqliteSession {
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
    tx: &Connection,
    ours: &guard::Ours,
    scope: &Scope,
    who: &str,
    act: &str,
    why: &str,
    detail: &str,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO keylane_audit (queue, group_name, at, who, act, why, detail)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let row = rusqlite::params![scope.queue, scope.group, Timestamp::now().0, who, act, why, detail];
    ours.prepare(tx, sql)?.execute(row).map(drop)
}

/// SQLite's own count of what other connections committed.
fn data_version(connection: &Connection) -> Result<i64, Error> {
    connection
        .query_row("PRAGMA data_version", [], |row| row.get(0))
        .map_err(cannot("cannot ask the store whether it changed"))
}

/// Sorts what SQLite answered: `.map_err(cannot("cannot write to the store"))`.
fn cannot(doing: &str) -> impl Fn(rusqlite::Error) -> Error + '_ {
    move |error| sorted(doing, error).into()
}

/// As SQLite keeps it. Offsets and generations stay far below 2^63; one beyond it is as good as the last.
fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// As it was kept; nothing of ours is negative.
fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
