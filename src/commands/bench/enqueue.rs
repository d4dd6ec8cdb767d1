//! Jobs onto the embedded log, against bare inserts.

use super::{
    Bench, bare,
    measure::{Pair, side_by_side},
    queue::Queue,
    row::{Aim, Row},
};
use crate::exit::Failure;

/// Job, record, append: an id is made for each, and its partition found.
pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let count = bench.sizes.round;
    let ours = || {
        let corner = bench.place.corner()?;
        Queue::make(&corner.file("queue.db"))?.fill(&bench.jobs, count)
    };
    let rounds = side_by_side(bench.rounds, ours, || bare::insert(&bench.place, &bench.jobs, count))?;
    let row = Row::pair("enqueue", "jobs onto the log", "jobs/s", "bare inserts", Pair::of(&rounds));
    Ok(vec![row.aiming(Aim::RatioAtLeast(0.5))])
}
