//! Opening an SQLite file so that what it acknowledges survives a power cut, and sorting what it can answer.
//!
//! 1. Write-ahead log and `synchronous=FULL`: a commit that returned is on the disk.
//! 2. Writers say `BEGIN IMMEDIATE`; busy is waited for up to a limit and then [`Error::Unavailable`], never a
//!    failure of a job.
//! 3. A file that is not ours is never written to.

use std::{fs::File, io::Read, path::Path, time::Duration};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};

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
    /// The same for one who only looks: it must be there, and nothing in it changes, not even its journal mode.
    StoreToRead,
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

    /// What SQLite asks while another connection holds the lock.
    fn handler(self) -> fn(i32) -> bool {
        match self {
            Self::Brisk => wait_for_writer::<1_000>,
            Self::Worker => wait_for_writer::<10_000>,
            Self::Patient => wait_for_writer::<30_000>,
        }
    }
}

/// Opens a file for the purpose. Tables are not made here.
///
/// # Errors
/// [`Error::NotFound`] (no such file or folder), [`Error::Refused`] (rights), [`Error::Invalid`] (a folder, or an SQLite
/// file that is not one of ours), [`Error::Corrupt`] (not an SQLite file, or damaged), [`Error::Unavailable`] (locked,
/// disk full).
pub fn open(path: &Path, purpose: Purpose, patience: Patience) -> Result<Connection, Error> {
    let doing = format!("cannot open '{}'", path.display());
    let size = size_of(path)?;
    let is_new = size.is_none_or(|size| size == 0);
    if is_new && purpose == Purpose::QueueFile {
        let empty = if size.is_some() { ": the file there is empty" } else { "" };
        return Err(Error::NotFound(
            Detail::new(format!("no queue file at '{}'{empty}", path.display()))
                .remedy("make one with 'keylane queue create', or check --broker"),
        ));
    }
    // Looked at before SQLite touches the file: even reading a stranger's file through SQLite may tidy up its log.
    if !is_new && matches!(purpose, Purpose::NewQueueFile | Purpose::QueueFile) {
        belongs_to_us(path)?;
    }
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if matches!(purpose, Purpose::NewQueueFile | Purpose::Store) {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let mut connection = Connection::open_with_flags(path, flags).map_err(|e| sorted(&doing, e))?;
    if purpose == Purpose::StoreToRead {
        set_up_to_read(&mut connection, patience).map_err(|e| sorted(&doing, e))?;
        return Ok(connection);
    }
    set_up(&mut connection, purpose, patience).map_err(|e| sorted(&doing, e))?;
    if connection.is_readonly("main").map_err(|e| sorted(&doing, e))? {
        return Err(Error::Refused(Detail::new(format!("'{}' can only be read", path.display())).remedy(WRITABLE)));
    }
    Ok(connection)
}

/// `None` if there is no such file.
fn size_of(path: &Path) -> Result<Option<u64>, Error> {
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty() && !f.is_dir()) {
        return Err(Error::NotFound(
            Detail::new(format!("no folder '{}' for the file '{}'", folder.display(), path.display()))
                .remedy("make the folder, or check the path"),
        ));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(Error::Invalid(
            Detail::new(format!("'{}' is a folder: a queue lives in one file", path.display()))
                .remedy("name a file in it"),
        )),
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Refused(
            Detail::new(format!("cannot look at '{}'", path.display())).remedy(WRITABLE).because(error),
        )),
    }
}

/// Refuses a file that is not marked as ours, by its first 100 bytes: the mark is there before anything else is.
fn belongs_to_us(path: &Path) -> Result<(), Error> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    const MARK: std::ops::Range<usize> = 68..72;
    let mut header = [0; 100];
    let mut length = 0;
    let mut file = File::open(path).map_err(|error| {
        Error::Refused(Detail::new(format!("cannot read '{}'", path.display())).remedy(WRITABLE).because(error))
    })?;
    while length < header.len() {
        match file.read(&mut header[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let detail = Detail::new(format!("cannot read '{}'", path.display()));
                return Err(Error::Unavailable(detail.remedy(DISK_ERROR).because(error)));
            }
        }
    }
    let another = "name another file with --broker sqlite:FILE; to keep effects in this one, use --store sqlite:FILE";
    if length > 0 && (length < header.len() || !header.starts_with(MAGIC)) {
        return Err(Error::Corrupt(
            Detail::new(format!("'{}' is not an SQLite file: it is left as it is", path.display()))
                .remedy("restore it from a copy, or name another file with --broker sqlite:FILE"),
        ));
    }
    if header[MARK] == QUEUE_FILE.to_be_bytes() {
        return Ok(());
    }
    Err(Error::Invalid(
        Detail::new(format!("'{}' is not a Keylane queue file: it is left as it is", path.display())).remedy(another),
    ))
}

/// The mark, the write-ahead log and the sizes. Two processes may do this to one new file at once.
fn set_up(connection: &mut Connection, purpose: Purpose, patience: Patience) -> rusqlite::Result<()> {
    let wait = patience.handler();
    connection.busy_handler(Some(wait))?;
    if purpose == Purpose::NewQueueFile
        && !connection.query_row("PRAGMA application_id", [], |r| r.get(0).map(|mark: i32| mark == QUEUE_FILE))?
    {
        connection.execute_batch(&format!("PRAGMA page_size={PAGE_BYTES}"))?;
        connection.pragma_update(None, "application_id", QUEUE_FILE)?;
    }
    // SQLite does not ask the busy handler while the mode changes, so it is asked here.
    let mut tries = 0;
    while let Err(error) = connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())) {
        if error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) || !wait(tries) {
            return Err(error);
        }
        tries += 1;
    }
    connection.execute_batch(&format!(
        "PRAGMA synchronous=FULL; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16000; \
         PRAGMA journal_size_limit=67108864; PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES};"
    ))?;
    // Else SQLite looks at the values bound to a prepared statement and prepares it again when they change: a third of
    // the time of a fenced write.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Whatever is asked of the connection, nothing changes.
fn set_up_to_read(connection: &mut Connection, patience: Patience) -> rusqlite::Result<()> {
    connection.busy_handler(Some(patience.handler()))?;
    connection.execute_batch("PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16000; PRAGMA query_only=1;")
}

/// Of a queue file; what an existing file has, it keeps. Measured: docs/decisions/0002.
const PAGE_BYTES: u32 = 4_096;

/// The write-ahead log goes into the file when it has this many pages. Measured: docs/decisions/0002.
const CHECKPOINT_PAGES: u32 = 4_000;

const WRITABLE: &str = "file and folder must be writable: SQLite makes two files beside it";
const DISK_ERROR: &str = "the disk answered with an error: see the system's log";

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
    use rusqlite::Error as E;
    let detail = Detail::new(doing);
    let Some(code) = error.sqlite_error_code() else {
        return match error {
            E::FromSqlConversionFailure(..) | E::IntegralValueOutOfRange(..) | E::InvalidColumnType(..) => {
                Error::Corrupt(
                    detail.remedy("a row was changed by something else: restore the file from a copy").because(error),
                )
            }
            _ => Error::Bug(detail.because(error)),
        };
    };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            Error::Unavailable(
                detail
                    .remedy("another process holds the file's write lock; if it is frozen or stuck, end it")
                    .because(error),
            )
        }
        ErrorCode::DiskFull => Error::Unavailable(
            detail.remedy("the disk is full: free some space; nothing that was acknowledged is lost").because(error),
        ),
        ErrorCode::SystemIoFailure => Error::Unavailable(detail.remedy(DISK_ERROR).because(error)),
        ErrorCode::CannotOpen
        | ErrorCode::ReadOnly
        | ErrorCode::PermissionDenied
        | ErrorCode::AuthorizationForStatementDenied => Error::Refused(detail.remedy(WRITABLE).because(error)),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Corrupt(
            detail
                .remedy("the file is damaged or no SQLite file: restore it from a copy, or name another one")
                .because(error),
        ),
        ErrorCode::TooBig => Error::Invalid(detail.remedy("make the record smaller").because(error)),
        _ => Error::Bug(detail.because(error)),
    }
}
