//! What went wrong at the database, sorted by who must act.
//!
//! 1. What passes by itself is [`Error::Unavailable`]: a lost connection, a shutdown, a fail-over that left us with a
//!    read-only server, a full disk, too many connections, deadlocks, waits that took too long.
//! 2. What a person must change is [`Error::Refused`]: rights, passwords, certificates.
//! 3. Anything else in a statement of ours is [`Error::Corrupt`]: the tables are not as we made them.

use std::{error::Error as StdError, fmt, time::Duration};

use tokio_postgres::error::SqlState;

use crate::error::{Detail, Error};

/// A statement that did not succeed.
#[derive(Debug)]
pub enum SqlError {
    /// What the database or the connection said.
    Database(tokio_postgres::Error),
    /// Nothing came back for so long; the connection was given up.
    NoAnswer(Duration),
    /// The connection was lost before.
    NotConnected,
    /// The server is a standby: it takes no writes until it is promoted.
    Standby,
    /// Not sent: an effect may not do this.
    Denied(&'static str),
}

/// How a fault is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Worth another try.
    Passes,
    /// A statement took longer than it may.
    TookTooLong,
    /// Rights, password, certificate.
    Refused,
    /// The data do not fit a rule of the table: of an effect, its own failure.
    Data,
    /// Anything else.
    Other,
}

impl SqlError {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::NoAnswer(_) | Self::NotConnected | Self::Standby => Kind::Passes,
            Self::Denied(_) => Kind::Other,
            Self::Database(error) => match error.code() {
                // Too few parameters for a statement; what a pooler says by this code ends the connection.
                Some(code) if code.code() == "08P01" && !self.ends_the_connection() => Kind::Other,
                Some(code) => kind_of(code),
                None if is_about_certificates(error) => Kind::Refused,
                // A statement that could not be put into bytes or read from them is the caller's.
                None if is_about_the_line(error) => Kind::Passes,
                None => Kind::Other,
            },
        }
    }

    /// Whether the connection is of no use any more.
    pub(super) fn ends_the_connection(&self) -> bool {
        match self {
            Self::NoAnswer(_) | Self::NotConnected | Self::Standby => true,
            Self::Denied(_) => false,
            Self::Database(error) => match error.as_db_error() {
                Some(said) => matches!(said.severity(), "FATAL" | "PANIC"),
                None => is_about_the_line(error),
            },
        }
    }
}

fn kind_of(code: &SqlState) -> Kind {
    match code.code() {
        "57014" => Kind::TookTooLong,
        // Read-only after a fail-over; lock not available; serialization and deadlock; idle too long.
        "25006" | "55P03" | "25P03" | "55006" | "40003" | "25P02" => Kind::Passes,
        "42501" => Kind::Refused,
        code => match code.get(..2) {
            Some("08" | "40" | "53" | "57" | "58") => Kind::Passes,
            Some("28") => Kind::Refused,
            Some("22" | "23" | "21" | "44") => Kind::Data,
            _ => Kind::Other,
        },
    }
}

fn is_about_certificates(error: &tokio_postgres::Error) -> bool {
    chain(error).any(|link| link.is::<openssl::ssl::Error>() || link.is::<openssl::error::ErrorStack>())
}

fn is_about_the_line(error: &tokio_postgres::Error) -> bool {
    error.is_closed() || chain(error).any(<dyn StdError>::is::<std::io::Error>)
}

fn chain<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&link| link.source())
}

/// The fault of the store that an effect failed with, if it was one: also when the effect wraps the error in one of its own.
pub(super) fn of_the_store<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e SqlError> {
    chain(error).find_map(|link| link.downcast_ref::<SqlError>()).filter(|fault| fault.kind() == Kind::Passes)
}

/// Sorts what the database answered: `.map_err(cannot("cannot write to the store"))`.
pub(super) fn cannot(doing: &str) -> impl Fn(SqlError) -> Error + '_ {
    move |fault| {
        let kind = fault.kind();
        let remedy = remedy(&fault);
        let mut detail = Detail::new(doing);
        if let Some(remedy) = remedy {
            detail = detail.remedy(remedy);
        }
        let detail = detail.because(fault);
        match kind {
            Kind::Passes | Kind::TookTooLong => Error::Unavailable(detail),
            Kind::Refused => Error::Refused(detail),
            Kind::Data | Kind::Other => Error::Corrupt(detail),
        }
    }
}

fn remedy(fault: &SqlError) -> Option<&'static str> {
    const READ_ONLY: &str =
        "the server is read-only: a standby, or a primary that was demoted; name all hosts in --store";
    if matches!(fault, SqlError::Standby) {
        return Some(READ_ONLY);
    }
    let SqlError::Database(error) = fault else {
        return Some("the database does not answer: look at its state and at the way there");
    };
    let Some(code) = error.code() else {
        return Some(if is_about_certificates(error) {
            "check the server's certificate, sslrootcert and sslmode"
        } else {
            "the connection failed: look at the database's state and at the way there"
        });
    };
    Some(match code.code() {
        "42501" => "give the role its rights: docs/postgres.md has them",
        "3D000" => "create the database, or check its name in --store",
        "42P01" | "3F000" | "42703" => "the tables are not as this version made them: restore them from a copy",
        "25006" => READ_ONLY,
        "53100" => "the database's disk is full",
        "53300" => "the database has no connection left: raise max_connections, or put a pooler before it",
        "57014" | "55P03" => "another session holds a lock for long: see pg_stat_activity",
        code if code.starts_with("28") => "check the user, its password and the server's pg_hba.conf",
        code if code.starts_with("57P") => "the database is being stopped or started",
        _ => return None,
    })
}

/// A BEGIN that was to write failed: a standby says that it lacks the feature.
pub(super) fn at_begin(fault: SqlError) -> SqlError {
    match &fault {
        SqlError::Database(error) if error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED) => SqlError::Standby,
        _ => fault,
    }
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => match error.as_db_error() {
                // The row's content may be in the detail: it is a user's data, and no line of a log.
                Some(said) => write!(f, "{} ({})", said.message(), said.code().code()),
                None => write!(f, "{error}"),
            },
            Self::NoAnswer(after) => write!(f, "no answer within {} s", after.as_secs()),
            Self::NotConnected => f.write_str("not connected"),
            Self::Standby => f.write_str("the server is a standby"),
            Self::Denied(rule) => f.write_str(rule),
        }
    }
}

impl StdError for SqlError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            // The database's words are in ours; below a failed connection the system's are.
            Self::Database(error) if error.as_db_error().is_none() => error.source(),
            _ => None,
        }
    }
}
