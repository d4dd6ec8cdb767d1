//! The group's tables in the queue file, and the place of one group in them.
//!
//! 1. `keylane_group.generation` only rises; the row stays when the last member has left.
//! 2. `keylane_assignment` has one row for each owned partition, and its `generation` is the group's number as it was
//!    when that member got it. So no two members ever have one partition in one generation.
//! 3. Every change of members or owners raises the group's number in the same transaction. So whoever sees the number
//!    it knows has nothing to learn.
//! 4. Times are nanoseconds of the boot-time clock and mean nothing in another boot: `boot` says which.

use std::{path::Path, time::Duration};

use keylane_producer::{
    Detail, GroupName, QueueIdentity,
    log::local::LocalLog,
    sqlite::{self, Patience, Purpose, sorted},
};
use rusqlite::Connection;

use crate::{clock::Clock, error::Error};

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS keylane_group (
    queue_id INTEGER NOT NULL, grp TEXT NOT NULL, generation INTEGER NOT NULL,
    PRIMARY KEY (queue_id, grp)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_member (
    queue_id INTEGER NOT NULL, grp TEXT NOT NULL, member TEXT NOT NULL, worker TEXT NOT NULL,
    boot TEXT NOT NULL, joined INTEGER NOT NULL, seen INTEGER NOT NULL,
    session_ns INTEGER NOT NULL, rebalance_ns INTEGER NOT NULL,
    PRIMARY KEY (queue_id, grp, member)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_assignment (
    queue_id INTEGER NOT NULL, grp TEXT NOT NULL, part INTEGER NOT NULL, member TEXT NOT NULL,
    generation INTEGER NOT NULL, revoke_by INTEGER,
    PRIMARY KEY (queue_id, grp, part)
) STRICT, WITHOUT ROWID;";

/// Whose rows: one group on one queue, seen from one boot of the machine.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) queue_id: i64,
    pub(super) group: GroupName,
    pub(super) partitions: u32,
    pub(super) boot: Box<str>,
    pub(super) clock: Clock,
    pub(super) guards: Guards,
}

/// Which guards stand. Only twin tests take one away, to see what it holds off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guards {
    /// A commit is compared with the group's rows.
    pub(super) commit: bool,
    /// A partition that moves waits for its owner's release.
    pub(super) release: bool,
}

impl Default for Guards {
    fn default() -> Self {
        Self { commit: true, release: true }
    }
}

impl Place {
    /// Finds the queue in the file.
    pub(super) fn find(log: &LocalLog, queue: &QueueIdentity, group: &GroupName, clock: Clock) -> Result<Self, Error> {
        Ok(Self {
            queue_id: log.queue_id(queue)?,
            group: group.clone(),
            partitions: queue.partitions.0.get(),
            boot: boot_id()?,
            clock,
            guards: Guards::default(),
        })
    }

    /// What an SQLite error interrupted, sorted by who must act.
    pub(super) fn failed(&self, doing: &str) -> impl Fn(rusqlite::Error) -> Error {
        let doing = format!("cannot {doing} group '{}'", self.group);
        move |error| sorted(&doing, error).into()
    }
}

/// Opens the queue file for one thread of a member, with the group's tables in it.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    let connection = sqlite::open(path, Purpose::QueueFile, Patience::Brisk)?;
    connection
        .execute_batch(TABLES)
        .map_err(|e| Error::from(sorted(&format!("cannot make the group's tables in '{}'", path.display()), e)))?;
    Ok(connection)
}

/// Opens the log in the same file, for one thread that only reads it.
pub(super) fn open_log(path: &Path) -> Result<LocalLog, Error> {
    Ok(LocalLog::on(open_to_look(path)?)?)
}

/// Opens the queue file for looking only: whatever is asked of it, nothing changes.
pub(super) fn open_to_look(path: &Path) -> Result<Connection, Error> {
    let doing = || format!("cannot look into '{}'", path.display());
    let connection = sqlite::open(path, Purpose::QueueFile, Patience::Brisk)?;
    connection.pragma_update(None, "query_only", true).map_err(|e| Error::from(sorted(&doing(), e)))?;
    Ok(connection)
}

/// Which boot of the machine this is. A member of another one is dead, whatever its times say.
fn boot_id() -> Result<Box<str>, Error> {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    std::fs::read_to_string(FILE).map(|id| id.trim().into()).map_err(|error| {
        Error::Refused(
            Detail::new(format!("cannot read '{FILE}', which tells members of this boot from earlier ones"))
                .remedy("mount /proc, or use a Kafka broker")
                .because(error),
        )
    })
}

/// As SQLite keeps it.
pub(super) fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
