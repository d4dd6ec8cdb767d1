//! A whole worker whose handler does nothing: fetch, lanes, handler, fenced write, commit.

use keylane_consumer::{FencedStore, JobContext, Outcome};

use super::{
    Bench, bare,
    measure::{Pair, Spread, side_by_side},
    queue::Queue,
    row::{Aim, Row},
};
use crate::exit::Failure;

pub(super) async fn nothing<S: FencedStore>(_: JobContext) -> Outcome<S> {
    Outcome::done()
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let count = bench.sizes.round;
    let ours = || {
        let corner = bench.place.corner()?;
        let mut queue = Queue::make(&corner.file("queue.db"))?;
        queue.fill(&bench.jobs, count)?;
        queue.work(count, nothing)
    };
    let rounds = side_by_side(bench.rounds, ours, || bare::insert(&bench.place, &bench.jobs, count))?;
    let rates: Vec<_> = rounds.iter().map(|(ours, theirs)| (ours.jobs_a_second, *theirs)).collect();
    let row = Row::pair("noop", "fenced jobs that do nothing", "jobs/s", "bare inserts", Pair::of(&rates));
    let cpu = Spread::of(rounds.iter().map(|(ours, _)| ours.cpu_seconds_a_million));
    Ok(vec![row.aiming(Aim::RatioAtLeast(0.5)), Row::alone("noop", "processor time of a million of them", "s", cpu)])
}
