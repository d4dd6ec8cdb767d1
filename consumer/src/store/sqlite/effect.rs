//! Runs one effect in its savepoint, and says whose fault it is if it did not work.

use keylane_producer::sqlite::sorted;
use rusqlite::{ErrorCode, Transaction};

use super::{
    SqliteStore, cannot,
    guard::{Guard, SAVEPOINT},
};
use crate::{
    error::{Detail, Error},
    store::{Effect, EffectError, Written, panicked},
};

const DOING: &str = "cannot write an effect to the store";

/// What became of one job.
pub(super) enum Ran {
    Wrote(Written),
    /// The effect ended the transaction: whatever else it held is gone too.
    Ended(EffectError),
}

impl Ran {
    pub(super) fn failed(cause: impl Into<EffectError>) -> Self {
        Self::Wrote(Written::EffectFailed(cause.into()))
    }
}

pub(super) fn run(tx: &mut Transaction<'_>, guard: &Guard, effect: &mut Effect<SqliteStore>) -> Result<Ran, Error> {
    let sql = cannot(DOING);
    let mut savepoint = tx.savepoint_with_name(SAVEPOINT).map_err(&sql)?;
    let outcome = guard.watch(|| (effect.0)(&mut savepoint)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    let ended = savepoint.is_autocommit();
    match outcome {
        Ok(()) if !ended => {
            savepoint.commit().map_err(&sql)?;
            Ok(Ran::Wrote(Written::Applied))
        }
        Ok(()) => Ok(Ran::Ended("the effect ended the transaction that it ran in".into())),
        Err(cause) => {
            if let Some(error) = fault_of_the_store(&*cause) {
                return Err(error);
            }
            if ended {
                return Ok(Ran::Ended(cause));
            }
            // Said explicitly: an effect can change what its savepoint does when it is dropped.
            savepoint.rollback().and_then(|()| savepoint.commit()).map_err(&sql)?;
            Ok(Ran::failed(match guard.take_denied() {
                Some(rule) => Denied { rule, cause }.into(),
                None => cause,
            }))
        }
    }
}

/// For an effect after which the database refuses to commit.
pub(super) fn left_unfit(cause: rusqlite::Error) -> EffectError {
    Unfit(cause).into()
}

#[derive(Debug, thiserror::Error)]
#[error("{rule}")]
struct Denied {
    rule: &'static str,
    #[source]
    cause: EffectError,
}

#[derive(Debug, thiserror::Error)]
#[error("the database does not commit what the effect left")]
struct Unfit(#[source] rusqlite::Error);

/// A full disk that strikes in an effect is not the effect's failure. Also found when an effect wraps the error in one of
/// its own, and (by SQLite's own words) when it made text of it. Busy is not among them: the write lock is ours by then,
/// so it comes from another database that the effect uses.
fn fault_of_the_store(error: &(dyn std::error::Error + 'static)) -> Option<Error> {
    let chain = || std::iter::successors(Some(error), |e| e.source());
    for link in chain() {
        if let Some(rusqlite::Error::SqliteFailure(failure, text)) = link.downcast_ref()
            && is_the_store_s(failure.code)
        {
            return Some(sorted(DOING, rusqlite::Error::SqliteFailure(*failure, text.clone())).into());
        }
    }
    let words = ["database or disk is full", "disk I/O error"];
    let told = chain().map(ToString::to_string).find(|text| words.iter().any(|word| text.contains(word)))?;
    Some(Error::Unavailable(Detail::new(DOING).remedy("the disk is full or answers with errors").because(told)))
}

fn is_the_store_s(code: ErrorCode) -> bool {
    use ErrorCode as E;
    matches!(
        code,
        E::DiskFull
            | E::SystemIoFailure
            | E::OutOfMemory
            | E::DatabaseCorrupt
            | E::NotADatabase
            | E::CannotOpen
            | E::ReadOnly
    )
}
