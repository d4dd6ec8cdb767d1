//! The tables of a queue file, and their version.

use rusqlite::{Connection, TransactionBehavior};

use crate::{
    error::{Detail, Error},
    job::Timestamp,
    sqlite::sorted,
};

/// `user_version` of the queue files that this version writes. A file with a higher one is refused.
pub const SCHEMA_VERSION: i32 = 1;

const TABLES: &str = "
CREATE TABLE keylane_file (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    cluster TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE keylane_queue (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    incarnation TEXT NOT NULL,
    partitions INTEGER NOT NULL,
    hash TEXT NOT NULL,
    retention_ms INTEGER,
    retention_bytes INTEGER,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE keylane_partition (
    queue_id INTEGER NOT NULL,
    part INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (queue_id, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE keylane_checkpoint (
    queue_id INTEGER NOT NULL,
    source TEXT NOT NULL,
    position INTEGER NOT NULL,
    digest TEXT NOT NULL,
    complete INTEGER NOT NULL,
    PRIMARY KEY (queue_id, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE keylane_finished (
    queue_id INTEGER NOT NULL,
    grp TEXT NOT NULL,
    part INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (queue_id, grp, part)
) STRICT, WITHOUT ROWID;
";

/// Makes the tables if they are missing, compares their version if not, and answers the file's cluster id. Takes the
/// write lock only for a new file. Safe for two processes at once.
///
/// # Errors
/// [`Error::Invalid`] if a newer Keylane wrote the file; [`Error::Unavailable`], [`Error::Corrupt`].
pub fn schema(connection: &mut Connection) -> Result<Box<str>, Error> {
    let file = connection.path().unwrap_or_default().to_owned();
    let failed = |error| sorted(&format!("cannot read the tables of '{file}'"), error);
    if version(connection).map_err(failed)? == 0 {
        make(connection).map_err(|error| sorted(&format!("cannot make the tables of '{file}'"), error))?;
    }
    let version = version(connection).map_err(failed)?;
    if version != SCHEMA_VERSION {
        return Err(Error::Invalid(
            Detail::new(format!(
                "'{file}' has format {version}, and this version of Keylane knows format {SCHEMA_VERSION}"
            ))
            .remedy("a newer Keylane wrote it: use that version or a later one; the file was left as it is"),
        ));
    }
    connection.query_row("SELECT cluster FROM keylane_file", [], |row| row.get(0)).map_err(failed)
}

fn version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn make(connection: &mut Connection) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Looked at again under the lock: another process may have been first.
    if version(&tx)? == 0 {
        tx.execute_batch(TABLES)?;
        tx.execute(
            "INSERT INTO keylane_file (id, cluster, created_at) VALUES (1, ?1, ?2)",
            (ulid::Ulid::generate().to_string(), Timestamp::now().0),
        )?;
        tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    tx.commit()
}
