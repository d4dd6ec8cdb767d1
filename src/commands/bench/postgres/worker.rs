//! A whole worker whose jobs are in a file and whose effects go to the database: over one connection, and over more.

use bytes::Bytes;
use keylane_consumer::{
    FencedStore, Handler, JobContext, Outcome,
    store::postgres::{
        PostgresStore, PostgresTx,
        types::{ToSql, Type},
    },
};

use super::{
    super::{
        measure::{Pair, Spread, side_by_side},
        noop::nothing,
        queue::{Queue, Worked},
        row::Row,
    },
    Bench,
    site::count_up,
};
use crate::exit::Failure;

/// Each against one connection.
const CONNECTIONS: [usize; 3] = [2, 4, 8];

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let (count, rounds) = (bench.args.jobs, bench.args.rounds);
    let over = |connections| upserts(bench, count, connections, Effects::Functions).map(|worked| worked.jobs_a_second);
    let mut rows = Vec::new();
    for connections in CONNECTIONS {
        bench.progress.say(&format!("a whole worker over {connections} connections, against one"));
        let seen = side_by_side(rounds, || over(connections), || over(1))?;
        let what = format!("a whole worker, an upsert a job, {connections} connections");
        rows.push(Row::pair("worker", what, "jobs/s", "1 connection", Pair::of(&seen)));
    }
    bench.progress.say("a whole worker whose effects are statements, against functions");
    let side = |effects| move || upserts(bench, count, PostgresStore::CONNECTIONS, effects).map(|w| w.jobs_a_second);
    let seen = side_by_side(rounds, side(Effects::Statements), side(Effects::Functions))?;
    let what = "a whole worker, an upsert a job as a statement";
    rows.push(Row::pair("worker", what, "jobs/s", "the same as a function that waits for it", Pair::of(&seen)));
    bench.progress.say("a whole worker whose jobs leave a result");
    let seen = (0..rounds).map(|_| results(bench, count).map(|w| w.jobs_a_second)).collect::<Result<Vec<_>, _>>()?;
    rows.push(Row::alone("worker", "a whole worker, a result a job", "jobs/s", Spread::of(seen)));
    bench.progress.say("a whole worker that leaves markers only");
    let seen = (0..rounds).map(|_| markers(bench, count)).collect::<Result<Vec<_>, _>>()?;
    let (rate, cpu): (Vec<_>, Vec<_>) = seen.iter().map(|w| (w.jobs_a_second, w.cpu_seconds_a_million)).unzip();
    rows.push(Row::alone("worker", "a whole worker, markers only", "jobs/s", Spread::of(rate)));
    rows.push(Row::alone("worker", "its processor time of a million", "s", Spread::of(cpu)));
    Ok(rows)
}

/// How a job's upsert is written.
#[derive(Clone, Copy)]
pub(super) enum Effects {
    /// By a function that waits for it.
    Functions,
    /// As a statement, which goes together with others.
    Statements,
}

/// Each job counts its key up in the ledger, as the peers' jobs do.
pub(super) fn upserts(bench: &Bench<'_>, count: u64, connections: usize, effects: Effects) -> Result<Worked, Failure> {
    bench.site.empty("ledger")?;
    match effects {
        Effects::Functions => work(bench, count, connections, upsert(bench)),
        Effects::Statements => work(bench, count, connections, upsert_as_a_statement(bench)),
    }
}

/// Each job leaves nothing but that it is done.
pub(super) fn markers(bench: &Bench<'_>, count: u64) -> Result<Worked, Failure> {
    work(bench, count, PostgresStore::CONNECTIONS, nothing::<PostgresStore>)
}

/// Each job leaves a result.
fn results(bench: &Bench<'_>, count: u64) -> Result<Worked, Failure> {
    let result = |_: JobContext| async { Outcome::result(Bytes::from_static(br#"{"charged":true}"#)) };
    work(bench, count, PostgresStore::CONNECTIONS, result)
}

/// The handler of [`upserts`] by functions.
pub(super) fn upsert(bench: &Bench<'_>) -> impl Handler<PostgresStore> + use<> {
    let sql: std::sync::Arc<str> = bench.site.upsert().into();
    move |context: JobContext| {
        let sql = std::sync::Arc::clone(&sql);
        async move {
            Outcome::<PostgresStore>::effect(move |tx: &mut PostgresTx<'_>| {
                count_up(tx, &sql, &context.job.key.to_string(), context.offset)?;
                Ok(())
            })
        }
    }
}

/// The handler of [`upserts`] by statements.
fn upsert_as_a_statement(bench: &Bench<'_>) -> impl Handler<PostgresStore> + use<> {
    let sql: std::sync::Arc<str> = bench.site.upsert().into();
    move |context: JobContext| {
        let last = i64::try_from(context.offset.0).unwrap_or(i64::MAX);
        let params = [(&context.job.key.to_string() as &(dyn ToSql + Sync), Type::TEXT), (&last, Type::INT8)];
        let outcome = Outcome::statement(std::sync::Arc::clone(&sql), &params);
        async { outcome }
    }
}

fn work(
    bench: &Bench<'_>,
    count: u64,
    connections: usize,
    handler: impl Handler<PostgresStore>,
) -> Result<Worked, Failure> {
    let corner = bench.place.corner()?;
    let mut queue = Queue::make_for(&corner.file("queue.db"), bench.site.fresh_group()?)?;
    queue.fill(&bench.jobs, count)?;
    queue.work_with(count, bench.site.store.clone(), Some(connections), handler)
}
