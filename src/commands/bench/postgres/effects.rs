//! Fenced once-only effects, against the same statements without fence and marker: in the same batches, and in a transaction
//! for each job; the same as statements that go together; and fenced results, which go as one statement. Through one session, and through several at once, each with a partition of its own.

use std::{sync::Arc, thread};

use bytes::Bytes;
use keylane_consumer::{
    FencedStore,
    store::{
        JobWrite, PartitionWrite, StoreSession, Write, Written,
        postgres::{PostgresSession, PostgresStore},
    },
};
use keylane_producer::{Attempt, Offset, Partition};

use super::{
    super::{
        measure::{Pair, rate, side_by_side},
        row::{Aim, Row},
    },
    Bench,
    site::{Site, insert},
};
use crate::exit::{Code, Failure};

/// As a worker writes them, and what one under less load has.
const BATCHES: [u64; 2] = [500, 100];
/// A transaction a job is slow: fewer of them say as much.
const SHARE_ONE_BY_ONE: u64 = 20;
/// As many as a worker has.
const SEVERAL: u64 = PostgresStore::CONNECTIONS as u64;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let (count, rounds) = (bench.args.jobs, bench.args.rounds);
    let alone = (count / SHARE_ONE_BY_ONE).max(1);
    let mut rows = Vec::new();
    for connections in [1, SEVERAL] {
        let over = if connections == 1 { "1 connection".to_owned() } else { format!("{connections} connections") };
        for size in BATCHES {
            bench.progress.say(&format!("fenced effects over {over}, {size} a transaction, against the same plain"));
            let ours = || fenced(bench, count, size, connections, Leaves::Effect);
            let seen = side_by_side(rounds, ours, || plain(bench, count, size, connections))?;
            let what = format!("fenced effects of one row, {size} a transaction, {over}");
            let pair = Pair::of(&seen);
            let row = Row::pair("effects", what, "jobs/s", "the same batches without fence and marker", pair);
            rows.push(row.aiming(Aim::RatioAtLeast(0.9)));
        }
        for (leaves, name) in [
            (Leaves::Effect, "effects of one row"),
            (Leaves::Statement, "statements of one row"),
            (Leaves::Result, "results"),
        ] {
            bench.progress.say(&format!("fenced {name} over {over}, against a transaction a job"));
            let ours = || fenced(bench, count, BATCHES[0], connections, leaves);
            let seen = side_by_side(rounds, ours, || plain(bench, alone, 1, connections))?;
            let what = format!("fenced {name}, {} a transaction, {over}", BATCHES[0]);
            let row = Row::pair("effects", what, "jobs/s", "a transaction a job, unfenced, as many", Pair::of(&seen));
            rows.push(row.aiming(Aim::RatioAtLeast(20.0)));
        }
    }
    Ok(rows)
}

/// What a job leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaves {
    /// A row, by a function that waits for its statement.
    Effect,
    /// A row, by a statement that goes together with others.
    Statement,
    /// A result.
    Result,
}

/// The batches of so many jobs.
fn batches(jobs: u64, size: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..jobs.div_ceil(size)).map(move |batch| batch * size..jobs.min((batch + 1) * size))
}

/// Jobs a second of all these at once.
fn all_at_once<T: Send>(
    count: u64,
    parts: Vec<T>,
    work: impl Fn(T) -> Result<(), Failure> + Sync,
) -> Result<f64, Failure> {
    let work = &work;
    rate(count, || {
        thread::scope(|scope| {
            let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || work(part))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a side of the bench does not panic"))
        })
    })
}

fn fenced(bench: &Bench<'_>, count: u64, size: u64, connections: u64, leaves: Leaves) -> Result<f64, Failure> {
    bench.site.empty("effect")?;
    let parts =
        (0..connections).map(|n| batches_of(bench, count / connections, size, n, leaves)).collect::<Result<_, _>>()?;
    all_at_once(count / connections * connections, parts, |(mut session, mut parts)| {
        for part in &mut parts {
            let written = session.write(std::slice::from_mut(part))?;
            let applied = |jobs: &Vec<Written>| jobs.iter().all(|job| matches!(job, Written::Applied));
            if !written.iter().all(|part| part.jobs.as_ref().is_ok_and(applied)) {
                let what = "a fenced effect was not applied: the figure would say nothing";
                return Err(Failure::new(Code::Failed, what));
            }
        }
        Ok(())
    })
}

/// A session, and what it writes for a partition of its own.
fn batches_of(
    bench: &Bench<'_>,
    count: u64,
    size: u64,
    partition: u64,
    leaves: Leaves,
) -> Result<(PostgresSession, Vec<PartitionWrite<PostgresStore>>), Failure> {
    let mut session = bench.site.session()?;
    let fence = bench.site.claim(&mut session, Partition(u32::try_from(partition).unwrap_or_default()))?;
    // A claim does not forget what is done, so each round goes on behind the last one.
    let base = bench.site.next_offsets(count);
    let result = Bytes::from(format!("\"{}\"", "x".repeat(bench.jobs.payload().len())));
    let insert: Arc<str> = bench.site.insert().into();
    let write = |n: u64| -> Result<JobWrite<PostgresStore>, Failure> {
        let job = Arc::new(bench.jobs.job(n)?);
        let write = match leaves {
            Leaves::Effect => {
                Write::Effect(bench.site.effect(job.key.as_bytes().to_vec(), bench.jobs.payload().clone()))
            }
            Leaves::Statement => Write::Effect(Site::statement(&insert, job.key.as_bytes(), bench.jobs.payload())),
            Leaves::Result => Write::Result(result.clone()),
        };
        Ok(JobWrite { offset: Offset(base + n), job, attempt: Attempt::FIRST, write })
    };
    let part = |batch: std::ops::Range<u64>| {
        Ok::<_, Failure>(PartitionWrite {
            fence: Arc::clone(&fence),
            watermark: Offset(base + batch.start),
            jobs: batch.map(write).collect::<Result<_, _>>()?,
            quarantined: Vec::new(),
            resumed: Vec::new(),
            line_room: 0,
        })
    };
    Ok((session, batches(count, size).map(part).collect::<Result<_, _>>()?))
}

fn plain(bench: &Bench<'_>, count: u64, size: u64, connections: u64) -> Result<f64, Failure> {
    bench.site.empty("effect")?;
    let (sql, each) = (bench.site.insert(), (count / connections).max(1));
    let mut parts = Vec::new();
    for _ in 0..connections {
        let mut connection = bench.site.connection();
        connection.transaction(|tx| tx.query("SELECT 1", &[]))?;
        parts.push(connection);
    }
    all_at_once(each * connections, parts, |mut connection| {
        for batch in batches(each, size) {
            connection.transaction(|tx| {
                for n in batch {
                    insert(tx, &sql, bench.jobs.key(n).as_bytes(), bench.jobs.payload())?;
                }
                Ok(())
            })?;
        }
        Ok(())
    })
}
