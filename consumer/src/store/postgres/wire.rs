//! One connection to the database, made when it is needed and again after it was lost.
//!
//! 1. Nothing waits without a limit: besides the database's own limits there is one here, for a server that is frozen or
//!    a line that swallows everything.
//! 2. No state of a session: no prepared statement outlives its transaction, no setting, lock, listener or temporary
//!    table at all. So a transaction pooler may stand between.
//! 3. A transaction says its isolation itself, and begins on a connection that just worked: one that was lost while nobody
//!    looked is made anew without an error.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::{
    address::PostgresAddress,
    fault::{SqlError, at_begin, cannot},
    rules::Rules,
    statement::{Pipe, Statement, send_all},
};
use crate::error::{Detail, Error};

/// How long the database, and this side, may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One statement, also one that waits for locks, as a claim does for writes in flight. Default 10 s. Longer than
    /// `idle`, so that a claim outlasts a writer that is frozen in its transaction.
    pub statement: Duration,
    /// A statement of a write that waits for a lock of someone else. Default 5 s; shorter than `statement`, by which an
    /// effect that is slow by itself is told from one that waits.
    pub lock: Duration,
    /// A transaction in which nothing is said: a writer that was frozen, or an effect that thinks for long. After it the
    /// database ends the session, and the claim that waited for it goes on. Default 5 s.
    pub idle: Duration,
    /// Any answer, before the connection is given up. Default 20 s.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self { statement: s(10), lock: s(5), idle: s(5), answer: s(20) }
    }
}

/// Said by each transaction itself: what a database or role has as its default does not matter.
const WRITES: &str = "ISOLATION LEVEL READ COMMITTED READ WRITE";

/// A COMMIT of a transaction that has failed is answered as if all were well; the SELECT before it is not.
const COMMIT: &str = "SELECT 1; COMMIT";

/// A parameter and its type: with it a statement needs no preparation, so one round trip and no name.
pub(super) type Param<'p> = (&'p (dyn ToSql + Sync), Type);

/// See the module's docs.
pub(super) struct Wire {
    address: Arc<PostgresAddress>,
    limits: Limits,
    link: Option<Link>,
    /// Sent before the next statement, without waiting for its answer in between.
    ahead: String,
    /// Statements of effects, to be sent together before anything else is said.
    pipe: Pipe,
    rules: Rules,
}

/// A connection that is there. Dropped, its socket is closed with the runtime that drove it.
struct Link {
    client: Client,
    runtime: Runtime,
}

impl Wire {
    pub(super) fn new(address: Arc<PostgresAddress>, limits: Limits, rules: Rules) -> Self {
        Self { address, limits, link: None, ahead: String::new(), pipe: Pipe::default(), rules }
    }

    /// Connects now, so that a wrong password or host is told at once.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        if self.link.is_none() {
            self.link = Some(self.new_link()?);
        }
        Ok(())
    }

    fn new_link(&self) -> Result<Link, Error> {
        let doing = format!("cannot connect to {}", self.address);
        let (config, connector) = (self.address.config()?, self.address.connector()?);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| {
            Error::Unavailable(Detail::new(doing.as_str()).remedy("the system has no descriptor left").because(e))
        })?;
        let connected = within(&runtime, self.limits.answer, config.connect(connector)).map_err(cannot(&doing))?;
        let (client, connection) = connected;
        // Driven while somebody waits for an answer. How it ends, whoever asks next is told.
        runtime.spawn(async move { drop(connection.await) });
        Ok(Link { client, runtime })
    }

    fn writes(&self) -> &'static str {
        if self.rules.says_isolation() { WRITES } else { "READ WRITE" }
    }

    /// Begins a transaction that writes.
    pub(super) fn begin(&mut self, doing: &str) -> Result<Transaction<'_>, Error> {
        self.begin_as(self.writes(), doing)
    }

    /// Begins one that only reads, and sees one picture throughout.
    pub(super) fn begin_picture(&mut self, doing: &str) -> Result<Transaction<'_>, Error> {
        self.begin_as("ISOLATION LEVEL REPEATABLE READ READ ONLY", doing)
    }

    /// Begins a transaction that writes, and asks this in it, in one round trip. It must change nothing: if the database
    /// refuses the BEGIN, it runs outside of any transaction.
    pub(super) fn begin_asking(
        &mut self,
        settings: &str,
        (sql, params): (&str, &[Param<'_>]),
        doing: &str,
    ) -> Result<(Transaction<'_>, Vec<Row>), Error> {
        let words = format!("{}{settings}", self.begin_words(self.writes()));
        self.ahead.clear();
        let was_connected = self.link.is_some();
        self.connect()?;
        let answer = match self.say_begin_and_ask(&words, sql, params) {
            // As with a BEGIN alone.
            Err(fault) if was_connected && fault.ends_the_connection() => {
                self.connect()?;
                self.say_begin_and_ask(&words, sql, params)
            }
            other => other,
        };
        let tx = Transaction { wire: self, open: true };
        let rows = answer.map_err(cannot(doing))?;
        Ok((tx, rows))
    }

    fn say_begin_and_ask(&mut self, words: &str, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, SqlError> {
        self.ahead(words);
        let answer = self.ask(async |client| client.query_typed(sql, params).await);
        self.at_begin(answer)
    }

    fn begin_words(&self, mode: &str) -> String {
        let Limits { statement, lock, idle, .. } = &self.limits;
        format!(
            "BEGIN {mode}; SET LOCAL statement_timeout = {}; SET LOCAL lock_timeout = {}; \
             SET LOCAL idle_in_transaction_session_timeout = {}",
            statement.as_millis(),
            lock.as_millis(),
            idle.as_millis()
        )
    }

    fn begin_as(&mut self, mode: &str, doing: &str) -> Result<Transaction<'_>, Error> {
        let words = self.begin_words(mode);
        self.ahead.clear();
        let was_connected = self.link.is_some();
        self.connect()?;
        match self.say_begin(&words) {
            // It was lost while nobody looked, or is to a server that became a standby. Nothing was sent that could have happened.
            Err(fault) if was_connected && fault.ends_the_connection() => {
                self.connect()?;
                self.say_begin(&words).map_err(cannot(doing))?;
            }
            other => other.map_err(cannot(doing))?,
        }
        Ok(Transaction { wire: self, open: true })
    }

    fn say_begin(&mut self, words: &str) -> Result<(), SqlError> {
        let answer = self.ask(async |client| client.batch_execute(words).await);
        self.at_begin(answer)
    }

    fn at_begin<T>(&mut self, answer: Result<T, SqlError>) -> Result<T, SqlError> {
        answer.map_err(|fault| if self.rules.knows_standbys() { at_begin(fault) } else { fault }).inspect_err(|fault| {
            if matches!(fault, SqlError::Standby) {
                // Another host may be the primary now.
                self.link = None;
            }
        })
    }

    /// A whole transaction of these statements, in one round trip. It may be said twice.
    pub(super) fn say_alone(&mut self, words: &str, doing: &str) -> Result<(), Error> {
        let words = format!("{}; {words}; COMMIT", self.begin_words(self.writes()));
        self.ahead.clear();
        let was_connected = self.link.is_some();
        self.connect()?;
        let answer = match self.say_begin(&words) {
            Err(fault) if was_connected && fault.ends_the_connection() => {
                self.connect()?;
                self.say_begin(&words)
            }
            other => other,
        };
        drop(Transaction { wire: self, open: answer.is_err() });
        answer.map_err(cannot(doing))
    }

    /// Sends these statements ahead of the next one: they cost no round trip of their own.
    pub(super) fn ahead(&mut self, words: &str) {
        if !self.ahead.is_empty() {
            self.ahead.push_str("; ");
        }
        self.ahead.push_str(words);
    }

    /// Whether something was put ahead and not sent yet.
    pub(super) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Sends this statement together with those that follow; waits for none of them before that many are there.
    pub(super) fn pipe(&mut self, statement: &Arc<Statement>) -> Result<(), SqlError> {
        debug_assert!(self.ahead.is_empty(), "savepoints and statements that nobody waits for do not go together");
        self.pipe.add(statement);
        if self.pipe.is_full() { self.flush() } else { Ok(()) }
    }

    /// Sends the statements that wait to be, and waits for their answers.
    fn flush(&mut self) -> Result<(), SqlError> {
        let statements = self.pipe.take();
        if statements.is_empty() {
            return Ok(());
        }
        let Some(Link { client, runtime }) = &self.link else { return Err(SqlError::NotConnected) };
        let answer = runtime.block_on(send_all(client, &statements, self.limits.answer));
        self.pipe.note(&answer);
        self.close_if_useless(answer)
    }

    /// Asks the client, behind what is to be sent ahead. The first fault of the two is told.
    pub(super) fn ask<T>(
        &mut self,
        ask: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, SqlError> {
        if self.rules.keeps_order() {
            self.flush()?;
        }
        let ahead = std::mem::take(&mut self.ahead);
        if ahead.is_empty() {
            return self.wait(ask);
        }
        self.wait(async |client| {
            // Requests are sent in the order in which they are first polled: from left to right.
            let (ahead, answer) = futures_util::future::join(client.batch_execute(&ahead), ask(client)).await;
            ahead.and(answer)
        })
    }

    /// Waits for an answer; a connection that is of no use any more is closed at once.
    fn wait<T>(&mut self, ask: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>) -> Result<T, SqlError> {
        let Some(Link { client, runtime }) = &self.link else { return Err(SqlError::NotConnected) };
        let answer = within(runtime, self.limits.answer, ask(client));
        self.close_if_useless(answer)
    }

    fn close_if_useless<T>(&mut self, answer: Result<T, SqlError>) -> Result<T, SqlError> {
        if answer.as_ref().is_err_and(SqlError::ends_the_connection) {
            self.link = None;
        }
        answer
    }
}

fn within<T>(
    runtime: &Runtime,
    limit: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, SqlError> {
    match runtime.block_on(async { tokio::time::timeout(limit, answer).await }) {
        Ok(answer) => answer.map_err(SqlError::from),
        Err(_) => Err(SqlError::NoAnswer(limit)),
    }
}

/// A transaction that is open. Dropped, it is rolled back.
pub(super) struct Transaction<'w> {
    wire: &'w mut Wire,
    open: bool,
}

impl Transaction<'_> {
    /// For an effect, which shares it.
    pub(super) fn wire(&mut self) -> &mut Wire {
        self.wire
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.wire.rules
    }

    /// All that effects said was sent and answered, when this is.
    pub(super) fn flush(&mut self) -> Result<(), SqlError> {
        self.wire.flush()
    }

    /// A statement failed that was sent with others: an effect's fault, and not of what was asked when it came out.
    pub(super) fn is_lost_to_an_effect(&self) -> bool {
        self.wire.pipe.has_failed()
    }

    pub(super) fn query(&mut self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, SqlError> {
        self.wire.ask(async |client| client.query_typed(sql, params).await)
    }

    pub(super) fn execute(&mut self, sql: &str, params: &[Param<'_>]) -> Result<u64, SqlError> {
        self.wire.ask(async |client| client.execute_typed(sql, params).await)
    }

    /// Statements without parameters, in one round trip.
    pub(super) fn say(&mut self, words: &str) -> Result<(), SqlError> {
        self.wire.ask(async |client| client.batch_execute(words).await)
    }

    /// Ends it. On an error it is not known whether it was committed, unless the database said why not.
    pub(super) fn commit(mut self) -> Result<(), SqlError> {
        self.open = false;
        self.say(COMMIT).inspect_err(|_| self.open = true)
    }

    /// Ends it behind a last statement, in one round trip: if the database refuses the statement, it does not commit. The
    /// outer error is the statement's; the inner one as [`Transaction::commit`]'s.
    pub(super) fn commit_behind(mut self, sql: &str, params: &[Param<'_>]) -> Result<Result<(), SqlError>, SqlError> {
        let mut refused = false;
        self.open = false;
        let outcome = self.wire.ask(async |client| {
            // In this order, as with what is sent ahead.
            let both = futures_util::future::join(client.query_typed(sql, params), client.batch_execute(COMMIT));
            let (statement, commit) = both.await;
            refused = statement.is_err();
            statement.and(commit)
        });
        self.open = outcome.is_err();
        match outcome {
            Err(fault) if refused => Err(fault),
            outcome => Ok(outcome),
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.wire.ahead.clear();
        self.wire.pipe.clear();
        // One that cannot be rolled back ends with its connection.
        if self.open && self.wire.link.is_some() && self.say("ROLLBACK").is_err() {
            self.wire.link = None;
        }
    }
}
