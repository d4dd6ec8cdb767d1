//! The tables. Made together in one transaction, so that of two processes that open a file at once both find them all.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::cannot;
use crate::error::{Detail, Error};

/// Raised when the tables change in a way that an older program would misread.
const VERSION: i64 = 5;
/// Older versions whose rows are understood: without lines, and without dead letters. Only tables are missing.
const GROWS: [i64; 2] = [3, 4];

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS keylane_schema (
    version INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS keylane_scope (
    scope       INTEGER PRIMARY KEY,
    queue       TEXT    NOT NULL,
    group_name  TEXT    NOT NULL,
    cluster     TEXT    NOT NULL,
    incarnation TEXT    NOT NULL,
    partitions  INTEGER NOT NULL,
    hash        TEXT    NOT NULL,
    former      TEXT    NOT NULL,
    anew        INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    versions    INTEGER NOT NULL,
    pinned_at   INTEGER NOT NULL,
    UNIQUE (queue, group_name)
);
CREATE TABLE IF NOT EXISTS keylane_fence (
    scope       INTEGER NOT NULL,
    part        INTEGER NOT NULL,
    epoch       INTEGER NOT NULL,
    gen         INTEGER NOT NULL,
    owner       TEXT    NOT NULL,
    claim       INTEGER NOT NULL,
    worker      TEXT,
    claimed_at  INTEGER,
    closed      INTEGER NOT NULL,
    clean       INTEGER NOT NULL,
    handed_over INTEGER NOT NULL,
    PRIMARY KEY (scope, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_marker (
    scope INTEGER NOT NULL,
    part  INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last  INTEGER NOT NULL,
    PRIMARY KEY (scope, part, first)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_result (
    queue       TEXT    NOT NULL,
    group_name  TEXT    NOT NULL,
    part        INTEGER NOT NULL,
    offset      INTEGER NOT NULL,
    key         BLOB    NOT NULL,
    job_id      TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    result      TEXT    NOT NULL,
    finished_at INTEGER NOT NULL,
    PRIMARY KEY (queue, group_name, part, offset)
);
CREATE INDEX IF NOT EXISTS keylane_result_key ON keylane_result (key);
CREATE INDEX IF NOT EXISTS keylane_result_job ON keylane_result (job_id);
CREATE TABLE IF NOT EXISTS keylane_stopped (
    scope    INTEGER NOT NULL,
    part     INTEGER NOT NULL,
    key      BLOB    NOT NULL,
    offset   INTEGER NOT NULL,
    job_id   TEXT    NOT NULL,
    attempts INTEGER NOT NULL,
    rule     TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    since    INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    released INTEGER NOT NULL,
    PRIMARY KEY (scope, part, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_parked (
    scope     INTEGER NOT NULL,
    part      INTEGER NOT NULL,
    offset    INTEGER NOT NULL,
    key       BLOB    NOT NULL,
    job_id    TEXT    NOT NULL,
    value     BLOB,
    headers   BLOB,
    timestamp INTEGER NOT NULL,
    size      INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    since     INTEGER NOT NULL,
    PRIMARY KEY (scope, part, offset)
);
CREATE INDEX IF NOT EXISTS keylane_parked_line ON keylane_parked (scope, part, key, offset);
CREATE TABLE IF NOT EXISTS keylane_dead (
    n           INTEGER PRIMARY KEY AUTOINCREMENT,
    scope       INTEGER NOT NULL,
    part        INTEGER NOT NULL,
    offset      INTEGER NOT NULL,
    incarnation TEXT    NOT NULL,
    key         BLOB    NOT NULL,
    job_id      TEXT    NOT NULL,
    value       BLOB,
    headers     BLOB,
    timestamp   INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    rule        TEXT    NOT NULL,
    reason      TEXT    NOT NULL,
    at          INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS keylane_dead_part ON keylane_dead (scope, part);
CREATE TABLE IF NOT EXISTS keylane_skip (
    scope  INTEGER NOT NULL,
    part   INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    key    BLOB    NOT NULL,
    text   TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (scope, part, offset)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_note (
    scope INTEGER NOT NULL,
    part  INTEGER NOT NULL,
    at    INTEGER NOT NULL,
    note  TEXT    NOT NULL,
    PRIMARY KEY (scope, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_suspect (
    scope   INTEGER NOT NULL,
    part    INTEGER NOT NULL,
    offset  INTEGER NOT NULL,
    deaths  INTEGER NOT NULL,
    started INTEGER NOT NULL,
    PRIMARY KEY (scope, part, offset)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_quarantine (
    scope  INTEGER NOT NULL,
    part   INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    key    BLOB,
    reason TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (scope, part, offset)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keylane_audit (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    queue      TEXT    NOT NULL,
    group_name TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    who        TEXT    NOT NULL,
    act        TEXT    NOT NULL,
    why        TEXT    NOT NULL,
    detail     TEXT    NOT NULL
);
CREATE TABLE IF NOT EXISTS keylane_refused (
    scope  INTEGER NOT NULL,
    part   INTEGER NOT NULL,
    worker TEXT    NOT NULL,
    writes INTEGER NOT NULL,
    jobs   INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    PRIMARY KEY (scope, part, worker)
) WITHOUT ROWID;
";

/// Makes the tables if they are not there. Writes nothing if they are.
pub(super) fn ensure(connection: &mut Connection) -> Result<(), Error> {
    let doing = "cannot make the store's tables";
    if let Some(found) = version(connection).map_err(cannot(doing))?.filter(|found| !GROWS.contains(found)) {
        return understood(found);
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(cannot(doing))?;
    let found = version(&tx).map_err(cannot(doing))?;
    if let Some(found) = found.filter(|found| !GROWS.contains(found)) {
        return understood(found);
    }
    tx.execute_batch(TABLES).map_err(cannot(doing))?;
    let say = match found {
        None => "INSERT INTO keylane_schema (version) VALUES (?1)",
        Some(_) => "UPDATE keylane_schema SET version = ?1",
    };
    tx.execute(say, [VERSION]).map_err(cannot(doing))?;
    tx.commit().map_err(cannot(doing))
}

/// Whether the file holds a store at all: for readers, who make nothing.
pub(super) fn is_there(connection: &Connection) -> Result<bool, Error> {
    match version(connection).map_err(cannot("cannot read the store's tables"))? {
        None => Ok(false),
        Some(found) => understood(found).map(|()| true),
    }
}

fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let named = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'keylane_schema'";
    if connection.query_row(named, [], |_| Ok(())).optional()?.is_none() {
        return Ok(None);
    }
    connection.query_row("SELECT version FROM keylane_schema", [], |row| row.get(0)).optional()
}

fn understood(found: i64) -> Result<(), Error> {
    if found == VERSION {
        return Ok(());
    }
    Err(Error::Invalid(
        Detail::new(format!("the store's tables have version {found}: this program knows version {VERSION}"))
            .remedy("use the version of keylane that made them, or a newer one"),
    ))
}
