//! Opening an SQLite file so that what it acknowledges survives a power cut, and sorting what it can answer.
//!
//! 1. Write-ahead log and `synchronous=FULL`: a commit that returned is on the disk.
//! 2. Writers say `BEGIN IMMEDIATE`; busy is waited for up to a limit and then [`Error::Unavailable`], never a
//!    failure of a job.
//! 3. A file that is not ours is never written to.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Detail, Error};

/// `application_id` of a queue file: "KLQ1".
pub const QUEUE_FILE: i32 = i32::from_be_bytes(*b"KLQ1");

/// What the file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Log and group, and by default the store: wholly ours, marked with [`QUEUE_FILE`]. Made if missing.
    NewQueueFile,
    /// The same, but it must be there.
    QueueFile,
    /// A store beside the user's own tables, in any SQLite file. Made if missing.
    Store,
}

/// How long a connection waits for another writer before it answers [`Error::Unavailable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// 1 s: what must not be late (heartbeats, proofs), and is tried again soon.
    Brisk,
    /// 10 s: fenced writes and claims, which are tried again as long as the partition is owned.
    Worker,
    /// 30 s: a person or a script is waiting.
    Patient,
}

impl Patience {
    /// The limit.
    pub fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Brisk => 1,
            Self::Worker => 10,
            Self::Patient => 30,
        })
    }
}

/// Opens a file for the purpose. Tables are not made here.
///
/// # Errors
/// [`Error::NotFound`] (no such file), [`Error::Refused`] (rights), [`Error::Invalid`] (an SQLite file, but not one of
/// ours), [`Error::Corrupt`] (not an SQLite file, or damaged), [`Error::Unavailable`] (locked, disk full).
pub fn open(path: &Path, purpose: Purpose, patience: Patience) -> Result<Connection, Error> {
    let named = path.display();
    if purpose == Purpose::QueueFile && !path.exists() {
        return Err(Error::NotFound(
            Detail::new(format!("no queue file at '{named}'"))
                .remedy("make one with 'keylane queue create', or check --broker"),
        ));
    }
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty() && !f.exists()) {
        return Err(Error::NotFound(
            Detail::new(format!("no folder '{}' for the file '{named}'", folder.display()))
                .remedy("make the folder, or check the path"),
        ));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let doing = format!("cannot open '{named}'");
    let mut connection = Connection::open_with_flags(path, flags).map_err(|e| sorted(&doing, e))?;
    connection
        .busy_handler(Some(match patience {
            Patience::Brisk => wait_for_writer::<1_000>,
            Patience::Worker => wait_for_writer::<10_000>,
            Patience::Patient => wait_for_writer::<30_000>,
        }))
        .map_err(|e| sorted(&doing, e))?;
    if purpose != Purpose::Store {
        belongs_to_us(&connection, path, purpose)?;
    }
    let settings = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY; \
                    PRAGMA cache_size=-16000; PRAGMA journal_size_limit=67108864;";
    connection.execute_batch(settings).map_err(|e| sorted(&doing, e))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Refuses a file that holds somebody else's tables; marks an empty one as ours.
fn belongs_to_us(connection: &Connection, path: &Path, purpose: Purpose) -> Result<(), Error> {
    let named = path.display();
    let doing = format!("cannot read '{named}'");
    let mark: i32 = connection.query_row("PRAGMA application_id", [], |r| r.get(0)).map_err(|e| sorted(&doing, e))?;
    if mark == QUEUE_FILE {
        return Ok(());
    }
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0)).map_err(|e| sorted(&doing, e))?;
    if mark != 0 || tables > 0 || purpose == Purpose::QueueFile {
        return Err(Error::Invalid(
            Detail::new(format!("'{named}' is not a Keylane queue file: it is left as it is")).remedy(
                "name another file with --broker sqlite:FILE; to keep effects in this one, use --store sqlite:FILE",
            ),
        ));
    }
    connection.pragma_update(None, "application_id", QUEUE_FILE).map_err(|e| sorted(&doing, e))
}

/// SQLite asks this while another connection holds the write lock. Short naps: the lock is held for one group commit,
/// and SQLite's own handler would soon sleep 100 ms at a time.
fn wait_for_writer<const LIMIT_MS: u64>(tries: i32) -> bool {
    let tries = u64::try_from(tries).unwrap_or(0);
    let waited_ms = if tries < 20 { tries } else { 20 + (tries - 20) * 5 };
    if waited_ms >= LIMIT_MS {
        return false;
    }
    #[expect(clippy::disallowed_methods, reason = "the one place where a lock of another process is waited for")]
    std::thread::sleep(Duration::from_millis(if tries < 20 { 1 } else { 5 }));
    true
}

/// Sorts an SQLite error by who must act. `doing` names the act and the thing: "cannot append to queue 'jobs'".
pub fn sorted(doing: &str, error: rusqlite::Error) -> Error {
    let detail = Detail::new(doing);
    let Some(code) = error.sqlite_error_code() else { return Error::Bug(detail.because(error)) };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Error::Unavailable(
            detail
                .remedy("another process holds the file's write lock; if it is frozen or stuck, end it")
                .because(error),
        ),
        ErrorCode::DiskFull => Error::Unavailable(
            detail.remedy("the disk is full: free some space; nothing that was acknowledged is lost").because(error),
        ),
        ErrorCode::SystemIoFailure => {
            Error::Unavailable(detail.remedy("the disk answered with an error: see the system's log").because(error))
        }
        ErrorCode::CannotOpen
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::AuthorizationForStatementDenied => Error::Refused(
            detail.remedy("file and folder must be writable: SQLite makes two files beside it").because(error),
        ),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Corrupt(
            detail
                .remedy("the file is damaged or no SQLite file: restore it from a copy, or name another one")
                .because(error),
        ),
        _ => Error::Bug(detail.because(error)),
    }
}
