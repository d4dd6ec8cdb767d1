//! Whether a file with many jobs is slower than one with few.

use super::{
    Bench,
    measure::{Pair, side_by_side},
    noop,
    place::Corner,
    queue::Queue,
    row::{Aim, Row},
};
use crate::{cli::bytes_text, exit::Failure, output::grouped};

/// What a job takes on the disk, with a third to spare.
const BYTES_A_JOB: u64 = 400;
/// Jobs in one step of filling: what progress is told by.
const STEP: u64 = 500_000;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let (few, many, count) = (bench.sizes.few, bench.sizes.many, bench.sizes.round);
    let bytes = (many + u64::from(bench.rounds) * count + few + count) * BYTES_A_JOB;
    let (needed, folder) = (bytes_text(bytes.div_ceil(1 << 20) << 20), bench.place.path().display());
    bench.progress.say(&format!("growth: {} jobs need about {needed} in {folder}", grouped(many)));
    bench.place.has_room(bytes)?;

    let corner = bench.place.corner()?;
    let mut grown = filled(bench, &corner, many)?;
    let large = || append_and_work(bench, &mut grown, count);
    let small = || {
        let corner = bench.place.corner()?;
        append_and_work(bench, &mut filled(bench, &corner, few)?, count)
    };
    let rounds = side_by_side(bench.rounds, large, small)?;
    let pair = |rate: fn(&Rates) -> f64| Pair::of(&rounds.iter().map(|(l, s)| (rate(l), rate(s))).collect::<Vec<_>>());
    let row = |what: &str, pair| {
        let what = format!("{what} with {} in the file, against {}", grouped(many), grouped(few));
        Row::pair("growth", what, "jobs/s", "the small file", pair).aiming(Aim::RatioAtLeast(0.8))
    };
    Ok(vec![row("appends", pair(|r| r.appends)), row("fenced jobs", pair(|r| r.works))])
}

struct Rates {
    appends: f64,
    works: f64,
}

/// A queue with so many jobs, all of them finished.
fn filled(bench: &Bench<'_>, corner: &Corner, jobs: u64) -> Result<Queue, Failure> {
    let mut queue = Queue::make(&corner.file("queue.db"))?;
    let mut left = jobs;
    while left > 0 {
        let step = left.min(STEP);
        queue.fill(&bench.jobs, step)?;
        left -= step;
        if jobs > STEP {
            bench.progress.say(&format!("growth: {} of {} jobs", grouped(jobs - left), grouped(jobs)));
        }
    }
    queue.pass_over()?;
    Ok(queue)
}

fn append_and_work(bench: &Bench<'_>, queue: &mut Queue, count: u64) -> Result<Rates, Failure> {
    let appends = queue.fill(&bench.jobs, count)?;
    Ok(Rates { appends, works: queue.work(count, noop::nothing)?.jobs_a_second })
}
