//! Effects that are one statement: known before they run, so those of a batch need not wait for each other's answers.
//!
//! 1. Parameters are put into bytes when the effect is made. What is sent later cannot fail on this side.
//! 2. Statements that follow each other go to the server together, in the order of their jobs, up to a bound. Whatever else
//!    is said in the transaction goes behind their answers.
//! 3. A statement that is there many times is parsed once for all of them that go together.
//! 4. If one of them fails, the transaction is done again, each waited for behind a savepoint: the one fails alone.

use std::{collections::HashMap, pin::Pin, sync::Arc, task::Poll, time::Duration};

use bytes::{Bytes, BytesMut};
use futures_util::future::{MaybeDone, maybe_done, poll_fn};
use tokio_postgres::{
    Client,
    types::{Format, IsNull, ToSql, Type},
};

use super::{
    PostgresStore, PostgresTx,
    fault::{Kind, SqlError},
    wire::Param,
};
use crate::{
    handler::{Done, Outcome},
    store::Effect,
};

impl Effect<PostgresStore> {
    /// A statement with its parameters and their types; the rows that it returns or changes are ignored.
    ///
    /// It does what a function with [`PostgresTx::execute_typed`] does, and costs no round trip of its own: up to 256 such
    /// effects of a batch, or 1 MiB of them, are sent together, in the order of their jobs. If one fails, all are done again and
    /// it fails alone. The limits of a statement hold for each by itself.
    ///
    /// A parameter that does not fit its type fails the effect when it is to be written, as a statement that fails does.
    pub fn statement(sql: impl Into<Arc<str>>, params: &[(&(dyn ToSql + Sync), Type)]) -> Self {
        let statement = Arc::new(Statement::new(sql.into(), params));
        Self::new(move |tx: &mut PostgresTx<'_>| tx.send(&statement))
    }
}

impl Outcome<PostgresStore> {
    /// Done, with [`Effect::statement`].
    pub fn statement(sql: impl Into<Arc<str>>, params: &[(&(dyn ToSql + Sync), Type)]) -> Self {
        Self::Done(Done::Effect(Effect::statement(sql, params)))
    }
}

/// As it is sent.
pub(super) struct Statement {
    pub(super) sql: Arc<str>,
    params: Vec<(Raw, Type)>,
    /// The first parameter that does not fit: which one, its type and why.
    pub(super) unfit: Option<Box<str>>,
    bytes: usize,
}

impl Statement {
    fn new(sql: Arc<str>, params: &[(&(dyn ToSql + Sync), Type)]) -> Self {
        let (mut raw, mut unfit, mut buffer) = (Vec::with_capacity(params.len()), None, BytesMut::new());
        let mut bytes = sql.len();
        for (at, (value, of)) in params.iter().enumerate() {
            match value.to_sql_checked(of, &mut buffer) {
                Ok(null) => {
                    let written = buffer.split().freeze();
                    bytes += written.len();
                    let written = matches!(null, IsNull::No).then_some(written);
                    raw.push((Raw { bytes: written, format: value.encode_format(of) }, of.clone()));
                }
                Err(cause) => {
                    unfit = Some(format!("parameter ${} does not fit its type {of}: {cause}", at + 1).into());
                    break;
                }
            }
        }
        Self { sql, params: raw, unfit, bytes }
    }

    pub(super) fn params(&self) -> Vec<Param<'_>> {
        self.params.iter().map(|(raw, of)| (raw as &(dyn ToSql + Sync), of.clone())).collect()
    }

    async fn say(&self, client: &Client, plans: &Plans<'_>) -> Result<(), tokio_postgres::Error> {
        let Some(plan) = plans.get(&*self.sql) else {
            return client.execute_typed(&self.sql, &self.params()).await.map(drop);
        };
        let params: Vec<&(dyn ToSql + Sync)> = self.params.iter().map(|(raw, _)| raw as &(dyn ToSql + Sync)).collect();
        client.execute(plan, &params).await.map(drop)
    }

    fn types(&self) -> impl Iterator<Item = &Type> {
        self.params.iter().map(|(_, of)| of)
    }

    /// Whether preparing it asks the database for no type: the client library would keep the question in the session.
    fn has_known_types(&self) -> bool {
        let known = |of: &Type| *of != Type::UNKNOWN && Type::from_oid(of.oid()).is_some();
        let upper = self.sql.trim_start().to_ascii_uppercase();
        let returns_nothing = ["INSERT", "UPDATE", "DELETE"].iter().any(|word| upper.starts_with(word));
        returns_nothing && !upper.contains("RETURNING") && self.types().all(known)
    }
}

/// A parameter in bytes.
#[derive(Debug)]
struct Raw {
    bytes: Option<Bytes>,
    format: Format,
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let Some(bytes) = &self.bytes else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        // It was checked when it was put into bytes.
        self.to_sql(of, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        self.format
    }
}

const MOST: usize = 256;
const MOST_BYTES: usize = 1 << 20;

/// Statements of effects that are not sent yet.
#[derive(Default)]
pub(super) struct Pipe {
    waiting: Vec<Arc<Statement>>,
    bytes: usize,
    failed: bool,
}

impl Pipe {
    /// A transaction begins or ends.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn add(&mut self, statement: &Arc<Statement>) {
        self.bytes += statement.bytes;
        self.waiting.push(Arc::clone(statement));
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST || self.bytes >= MOST_BYTES
    }

    pub(super) fn take(&mut self) -> Vec<Arc<Statement>> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    pub(super) fn note(&mut self, answer: &Result<(), SqlError>) {
        self.failed |= answer.as_ref().is_err_and(|fault| fault.kind() != Kind::Passes);
    }

    /// One of those that were sent failed, by its own fault.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }
}

/// What the server has parsed already, for as long as these statements take.
type Plans<'s> = HashMap<&'s str, tokio_postgres::Statement>;

/// As often as that a statement must be there to be parsed first, for a round trip.
const WORTH_A_PLAN: usize = 16;

/// Has each statement parsed that is there many times with the same types. Nothing of it outlives the transaction: it is closed
/// when the statements were said.
async fn plan<'s>(client: &Client, statements: &'s [Arc<Statement>], limit: Duration) -> Result<Plans<'s>, SqlError> {
    let mut alike: HashMap<&str, Vec<&Statement>> = HashMap::new();
    for statement in statements {
        alike.entry(&*statement.sql).or_default().push(statement);
    }
    let mut plans = Plans::new();
    for (sql, alike) in alike {
        let same = |of: &&Statement| of.types().eq(alike[0].types());
        if alike.len() < WORTH_A_PLAN || !alike[0].has_known_types() || !alike.iter().all(same) {
            continue;
        }
        let types: Vec<Type> = alike[0].types().cloned().collect();
        let planned = tokio::time::timeout(limit, client.prepare_typed(sql, &types)).await;
        plans.insert(sql, planned.map_err(|_| SqlError::NoAnswer(limit))??);
    }
    Ok(plans)
}

/// Sends them all, then waits for each answer, in order; the first fault. Each may take as long as one that is sent alone.
pub(super) async fn send_all(client: &Client, statements: &[Arc<Statement>], limit: Duration) -> Result<(), SqlError> {
    let plans = plan(client, statements, limit).await?;
    let mut answers: Vec<_> =
        statements.iter().map(|statement| Box::pin(maybe_done(statement.say(client, &plans)))).collect();
    // A request is sent when it is first polled.
    poll_fn(|context| {
        for answer in &mut answers {
            let _ = answer.as_mut().poll(context);
        }
        Poll::Ready(())
    })
    .await;
    for answer in &mut answers {
        wait(answer.as_mut(), limit).await?;
    }
    Ok(())
}

async fn wait<F>(mut answer: Pin<&mut MaybeDone<F>>, limit: Duration) -> Result<(), SqlError>
where
    F: Future<Output = Result<(), tokio_postgres::Error>>,
{
    if tokio::time::timeout(limit, answer.as_mut()).await.is_err() {
        return Err(SqlError::NoAnswer(limit));
    }
    Ok(answer.take_output().expect("it has come, and is taken once")?)
}
