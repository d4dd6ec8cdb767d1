//! The transaction as an effect sees it, and the savepoint that it runs in.
//!
//! 1. At first effects share the transaction without savepoints, which cost as much as a small effect. If one fails after
//!    it said something, the transaction is rolled back and done again with them, and so are the next ones ([`Care`]).
//! 2. A savepoint costs no round trip: it goes ahead of the effect's first statement, together with the release of the one
//!    before.
//! 3. Effects that are one statement go together as long as there are no savepoints ([`Statement`]).
//! 4. An effect fails alone, unless what failed is the database: then the whole write is tried again.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};

use super::{
    PostgresStore,
    fault::{Kind, SqlError, of_the_store},
    statement::Statement,
    wire::{Transaction, Wire},
    words,
};
use crate::{
    error::{Detail, Error},
    store::{Effect, EffectError, Written, panicked},
};

const DOING: &str = "cannot write an effect to the store";

/// The fenced transaction, for an effect: one statement at a time, each waited for.
///
/// Statements whose parameters come with their types (`*_typed`) take one round trip, others two. A statement that failed
/// fails the effect, also if the effect goes on.
pub struct PostgresTx<'t> {
    wire: &'t mut Wire,
    /// The first statement that failed.
    failed: Option<(Kind, String)>,
    /// Whether the database was sent anything.
    spoke: bool,
    /// Whether a statement that nobody waits for goes together with others.
    together: bool,
}

impl<'t> PostgresTx<'t> {
    pub(super) fn in_transaction(tx: &'t mut Transaction<'_>) -> Self {
        Self { wire: tx.wire(), failed: None, spoke: false, together: false }
    }
}

impl PostgresTx<'_> {
    /// Runs a statement; how many rows it changed.
    ///
    /// # Errors
    /// [`SqlError`], as with all of these.
    pub fn execute(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, SqlError> {
        self.speak(sql, async |client| client.execute(sql, params).await)
    }

    /// Runs a statement; the rows that it returns.
    ///
    /// # Errors
    /// [`SqlError`].
    pub fn query(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, SqlError> {
        self.speak(sql, async |client| client.query(sql, params).await)
    }

    /// As [`PostgresTx::query`], for at most one row.
    ///
    /// # Errors
    /// [`SqlError`], also if there are more.
    pub fn query_opt(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, SqlError> {
        self.speak(sql, async |client| client.query_opt(sql, params).await)
    }

    /// As [`PostgresTx::query`], for exactly one row.
    ///
    /// # Errors
    /// [`SqlError`], also if there is none or more.
    pub fn query_one(&mut self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, SqlError> {
        self.speak(sql, async |client| client.query_one(sql, params).await)
    }

    /// As [`PostgresTx::execute`], with the types of the parameters.
    ///
    /// # Errors
    /// [`SqlError`].
    pub fn execute_typed(&mut self, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<u64, SqlError> {
        self.speak(sql, async |client| client.execute_typed(sql, params).await)
    }

    /// As [`PostgresTx::query`], with the types of the parameters.
    ///
    /// # Errors
    /// [`SqlError`].
    pub fn query_typed(&mut self, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<Vec<Row>, SqlError> {
        self.speak(sql, async |client| client.query_typed(sql, params).await)
    }

    /// Runs a statement whose answer nobody waits for, if it may go together with others.
    pub(super) fn send(&mut self, statement: &Arc<Statement>) -> Result<(), EffectError> {
        if let Some(unfit) = &statement.unfit {
            return Err(unfit.as_ref().into());
        }
        if !self.together {
            return Ok(self.execute_typed(&statement.sql, &statement.params()).map(drop)?);
        }
        if let Some(rule) = words::denied(&statement.sql) {
            return Err(SqlError::Denied(rule).into());
        }
        self.spoke = true;
        let sent = self.wire.pipe(statement);
        Ok(self.note(sent)?)
    }

    fn speak<T>(
        &mut self,
        sql: &str,
        ask: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, SqlError> {
        if let Some(rule) = words::denied(sql) {
            return Err(SqlError::Denied(rule));
        }
        self.spoke = true;
        let answer = self.wire.ask(ask);
        self.note(answer)
    }

    fn note<T>(&mut self, answer: Result<T, SqlError>) -> Result<T, SqlError> {
        if let (Err(fault), None) = (&answer, &self.failed) {
            self.failed = Some((fault.kind(), fault.to_string()));
        }
        answer
    }
}

const SAVEPOINT: &str = "SAVEPOINT keylane_effect";
const RELEASE: &str = "RELEASE SAVEPOINT keylane_effect";
const ROLL_BACK: &str = "ROLLBACK TO SAVEPOINT keylane_effect";

/// Whether effects run behind savepoints: for a while after one failed.
#[derive(Default)]
pub(super) struct Care {
    transactions: u32,
}

/// Where effects fail again and again, one transaction in so many is done twice.
const CAREFUL_FOR: u32 = 64;

impl Care {
    pub(super) fn is_due(&self) -> bool {
        self.transactions > 0
    }

    /// An effect failed where no savepoint was.
    pub(super) fn take(&mut self) {
        self.transactions = CAREFUL_FOR;
    }

    /// A transaction has committed.
    pub(super) fn relax(&mut self) {
        self.transactions = self.transactions.saturating_sub(1);
    }
}

/// The one savepoint of a transaction, used by effect after effect; or none.
pub(super) struct Savepoint {
    state: State,
    used: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    /// It stands, and nothing was done behind it.
    Fresh,
    /// An effect was applied behind it.
    Used,
}

impl Savepoint {
    pub(super) fn new(used: bool) -> Self {
        Self { state: State::None, used }
    }

    /// Runs an effect behind a fresh savepoint, or behind none. `None`: it failed, and took the transaction with it.
    pub(super) fn run(
        &mut self,
        tx: &mut Transaction<'_>,
        effect: &mut Effect<PostgresStore>,
    ) -> Result<Option<Written>, Error> {
        let wire = tx.wire();
        match self.state {
            _ if !self.used => {}
            State::None => wire.ahead(SAVEPOINT),
            State::Used => {
                wire.ahead(RELEASE);
                wire.ahead(SAVEPOINT);
            }
            State::Fresh => {}
        }
        if self.used {
            self.state = State::Fresh;
        }
        let mut shared = PostgresTx { wire, failed: None, spoke: false, together: !self.used };
        let outcome =
            catch_unwind(AssertUnwindSafe(|| (effect.0)(&mut shared))).unwrap_or_else(|panic| Err(panicked(&*panic)));
        let PostgresTx { failed, spoke, .. } = shared;
        if let Some((Kind::Passes, why)) = &failed {
            return Err(Error::Unavailable(Detail::new(DOING).because(why.clone())));
        }
        let failure: EffectError = match (outcome, failed) {
            (Ok(()), None) => {
                // One that said nothing leaves the savepoint as it is, perhaps still to be sent.
                if self.used && !tx.wire().has_ahead() {
                    self.state = State::Used;
                }
                return Ok(Some(Written::Applied));
            }
            (Ok(()), Some((_, why))) => format!("a statement of the effect failed, and it went on: {why}").into(),
            (Err(cause), _) => cause,
        };
        if let Some(fault) = of_the_store(&*failure) {
            return Err(Error::Unavailable(Detail::new(DOING).because(fault.to_string())));
        }
        if spoke && !self.used {
            return Ok(None);
        }
        if self.used && !tx.wire().has_ahead() {
            tx.wire().ahead(ROLL_BACK);
        }
        Ok(Some(Written::EffectFailed(failure)))
    }

    /// What follows is no effect's any more; the release goes ahead of it.
    pub(super) fn close(&mut self, tx: &mut Transaction<'_>) {
        if std::mem::take(&mut self.state) != State::None {
            tx.wire().ahead(RELEASE);
        }
    }
}
