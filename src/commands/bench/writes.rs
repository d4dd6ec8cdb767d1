//! A whole worker whose jobs leave something in the store: a result, or an effect of one row.

use bytes::Bytes;
use keylane_consumer::{JobContext, Outcome, store::sqlite::SqliteStore};
use keylane_producer::sqlite::{Patience, Purpose, open, sorted};
use rusqlite::Savepoint;

use super::{
    Bench, bare,
    measure::{Pair, side_by_side},
    queue::Queue,
    row::Row,
};
use crate::exit::Failure;

const TABLE: &str = "CREATE TABLE bench_effect (key BLOB, value BLOB)";

async fn result(_: JobContext) -> Outcome<SqliteStore> {
    Outcome::result(Bytes::from_static(br#"{"charged":true}"#))
}

async fn effect(context: JobContext) -> Outcome<SqliteStore> {
    Outcome::effect(move |tx: &mut Savepoint<'_>| {
        let row = (context.job.key.as_bytes(), context.job.payload.as_deref());
        tx.prepare_cached("INSERT INTO bench_effect (key, value) VALUES (?1, ?2)")?.execute(row)?;
        Ok(())
    })
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let count = bench.sizes.round;
    let filled = || {
        let corner = bench.place.corner()?;
        let file = corner.file("queue.db");
        let mut queue = Queue::make(&file)?;
        queue.fill(&bench.jobs, count)?;
        let user = open(&file, Purpose::QueueFile, Patience::Patient)?;
        user.execute_batch(TABLE).map_err(|e| Failure::from(sorted("cannot make the effects' table", e)))?;
        Ok::<_, Failure>((corner, queue))
    };
    let theirs = || bare::insert(&bench.place, &bench.jobs, count);
    let results = || {
        let (_corner, mut queue) = filled()?;
        Ok(queue.work(count, result)?.jobs_a_second)
    };
    let effects = || {
        let (_corner, mut queue) = filled()?;
        Ok(queue.work(count, effect)?.jobs_a_second)
    };
    let results = Pair::of(&side_by_side(bench.rounds, results, theirs)?);
    let effects = Pair::of(&side_by_side(bench.rounds, effects, theirs)?);
    Ok(vec![
        Row::pair("writes", "fenced jobs that leave a result", "jobs/s", "bare inserts", results),
        Row::pair("writes", "fenced jobs with an effect of one row", "jobs/s", "bare inserts", effects),
    ])
}
