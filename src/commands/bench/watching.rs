//! What it costs a worker to be watched, and that the death of its watchers costs nothing.
//!
//! Four sides in each round, in turning order: nobody watches and nothing is shown; it only writes its files; a sidecar, a board
//! and a push watch, polled each second; and the same, killed when half of the jobs have run.

mod watchers;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use keylane_consumer::{JobContext, Outcome, store::sqlite::SqliteStore};

use self::watchers::Watchers;
use super::{
    Bench,
    measure::{Pair, Spread},
    queue::{Queue, Worked},
    row::{Aim, Row},
};
use crate::exit::Failure;

const SIDES: [Side; 4] = [Side::Alone, Side::Shown, Side::Watched, Side::Killed];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Alone,
    Shown,
    Watched,
    Killed,
}

/// What one side of a round came to.
#[derive(Clone, Copy, Default)]
struct Seen {
    jobs_a_second: f64,
    /// Of the worker's own process, in seconds.
    cpu_of_a_million: f64,
    /// The median, in milliseconds.
    commit_ms: f64,
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let mut rounds = Vec::new();
    for round in 0..bench.rounds as usize {
        let mut seen = [Seen::default(); 4];
        for turn in 0..SIDES.len() {
            let at = (round + turn) % SIDES.len();
            seen[at] = run(bench, SIDES[at])?;
        }
        rounds.push(seen);
    }
    let pair = |of: fn(&Seen) -> f64, ours: Side, theirs: Side| {
        let both: Vec<_> = rounds.iter().map(|seen| (of(&seen[ours as usize]), of(&seen[theirs as usize]))).collect();
        Pair::of(&both)
    };
    let rate = |seen: &Seen| seen.jobs_a_second;
    let commit = |seen: &Seen| seen.commit_ms;
    let cpu = |seen: &Seen| seen.cpu_of_a_million;
    let row = |what, against, pair| Row::pair("watching", what, "jobs/s", against, pair);
    let spent = |what, pair| Row::pair("watching", what, "s", "nobody watches, writes none", pair);
    let latency = |what, against, pair| Row::pair("watching", what, "ms", against, pair);
    let watched = row("sidecar, board and push, polled each second", "nobody", pair(rate, Side::Watched, Side::Alone));
    Ok(vec![
        row("counts and writes its files, nobody reads", "writes none", pair(rate, Side::Shown, Side::Alone)),
        watched.aiming(Aim::RatioAtLeast(0.98)),
        row("the watchers are killed half way", "they live", pair(rate, Side::Killed, Side::Watched)),
        spent("the worker's processor time of a million, writing its files", pair(cpu, Side::Shown, Side::Alone)),
        spent("the worker's processor time of a million, watched", pair(cpu, Side::Watched, Side::Alone)),
        latency("a commit, watched", "nobody watches", pair(commit, Side::Watched, Side::Alone)),
        latency("a commit, the watchers are killed half way", "they live", pair(commit, Side::Killed, Side::Watched)),
    ])
}

fn run(bench: &Bench<'_>, side: Side) -> Result<Seen, Failure> {
    let count = bench.sizes.round;
    let corner = bench.place.corner()?;
    let mut queue = Queue::make(&corner.file("queue.db"))?;
    queue.fill(&bench.jobs, count)?;
    let file = corner.file("snapshot.json");
    let watchers = match side {
        Side::Alone | Side::Shown => None,
        Side::Watched | Side::Killed => Some(Watchers::begin(&file, &corner.file("pushed.json"))?),
    };
    let (half, reached) = crossbeam_channel::bounded(1);
    let ended = std::thread::spawn(move || {
        // Half way, or, if they are to live, at the end.
        let _ = reached.recv();
        drop(watchers);
    });
    let half = Arc::new(half);
    let begun = Arc::new(AtomicU64::new(0));
    let handler = {
        let (half, begun) = (Arc::clone(&half), Arc::clone(&begun));
        move |_: JobContext| {
            if begun.fetch_add(1, Ordering::Relaxed) + 1 == count / 2 && side == Side::Killed {
                let _ = half.try_send(());
            }
            std::future::ready(Outcome::<SqliteStore>::done())
        }
    };
    let shown = (side != Side::Alone).then_some(file.as_path());
    let (worked, commits) = queue.work_shown(count, shown, handler)?;
    let _ = half.try_send(());
    // It ends nothing but watchers.
    let _ = ended.join();
    let commit_ms = Spread::of(commits.into_iter().map(|seconds| seconds * 1e3)).median;
    let Worked { jobs_a_second, cpu_seconds_a_million: cpu_of_a_million } = worked;
    Ok(Seen { jobs_a_second, cpu_of_a_million, commit_ms })
}
