//! The worker's own work: lanes, starts, ends, watermarks, with the group in memory and a store that answers at once.
//! What is left when broker and store cost nothing, so what a job costs in a worker on any of them.

mod answering;
mod memory;

use keylane_consumer::store::sqlite::SqliteStore;

pub(super) use self::answering::Answering;
use self::memory::InMemory;
use super::{
    Bench,
    measure::Spread,
    noop,
    observed::{Observed, Watch},
    queue::{self, Queue},
    row::Row,
};
use crate::exit::Failure;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let count = bench.sizes.round;
    let round = || {
        let corner = bench.place.corner()?;
        let mut queue = Queue::make(&corner.file("queue.db"))?;
        queue.fill(&bench.jobs, count)?;
        let watch = Watch::until(queue.ends()?);
        let group = Observed { group: InMemory::holding(queue.records()?), watch: std::sync::Arc::clone(&watch) };
        queue::run(&queue, group, Answering { claims: SqliteStore::new(queue.file()) }, None, noop::nothing)?;
        queue::worked(&watch, count)
    };
    let rounds = (0..bench.rounds).map(|_| round()).collect::<Result<Vec<_>, Failure>>()?;
    let rates = Spread::of(rounds.iter().map(|worked| worked.jobs_a_second));
    let cpu = Spread::of(rounds.iter().map(|worked| worked.cpu_seconds_a_million));
    Ok(vec![
        Row::alone("desk", "jobs through a worker, group and store in memory", "jobs/s", rates),
        Row::alone("desk", "processor time of a million of them", "s", cpu),
    ])
}
