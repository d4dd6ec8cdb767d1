//! How long a claim takes while stale writers are in flight.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use keylane_consumer::{
    Fence,
    clock::Clock,
    store::{JobWrite, PartitionWrite, StoreSession, Write, postgres::PostgresSession},
};
use keylane_producer::{Attempt, Offset, Partition};

use super::{
    super::{
        measure::Spread,
        row::{Aim, Row},
    },
    Bench,
};
use crate::exit::Failure;

const WRITERS: usize = 32;
const P0: Partition = Partition(0);
/// Each of them has written that often when the claim comes.
const TURNS: u64 = 3;
/// Offsets of one writer: far from the others', so that none changes a marker of another.
const APART: u64 = 1 << 24;
/// For all of them to have written.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    bench.progress.say("claims while stale writers are in flight");
    let seen = (0..bench.args.rounds).map(|_| claim(bench)).collect::<Result<Vec<_>, _>>()?;
    let row = Row::alone("claims", "a claim with 32 stale writers in flight", "ms", Spread::of(seen));
    Ok(vec![row.aiming(Aim::OursBelow(100.0))])
}

fn claim(bench: &Bench<'_>) -> Result<f64, Failure> {
    let mut session = bench.site.session()?;
    let stale = bench.site.claim(&mut session, P0)?;
    let (running, landed) = (AtomicBool::new(true), AtomicU64::new(0));
    let sessions = (0..WRITERS).map(|_| bench.site.session()).collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        for session in sessions {
            let (stale, running, landed) = (Arc::clone(&stale), &running, &landed);
            scope.spawn(move || write_on(bench, session, &stale, running, landed));
        }
        let clock = Clock::boot();
        let begun = clock.now();
        while landed.load(Ordering::Relaxed) < TURNS * WRITERS as u64 && clock.now().since(begun) < LIMIT {
            thread::yield_now();
        }
        let before = clock.now();
        let claimed = bench.site.claim(&mut session, P0);
        let took = clock.now().since(before);
        running.store(false, Ordering::Relaxed);
        claimed?;
        Ok(took.as_secs_f64() * 1e3)
    })
}

/// Back to back, until it is refused.
fn write_on(
    bench: &Bench<'_>,
    mut session: PostgresSession,
    fence: &Arc<Fence>,
    running: &AtomicBool,
    landed: &AtomicU64,
) {
    let Ok(job) = bench.jobs.job(0).map(Arc::new) else { return };
    let (mut refused, mut offset) = (false, bench.site.next_offsets(APART));
    while running.load(Ordering::Relaxed) || !refused {
        let effect = bench.site.effect(job.key.as_bytes().to_vec(), bench.jobs.payload().clone());
        // Every other one, so that no two markers touch.
        offset += 2;
        let job = JobWrite {
            offset: Offset(offset),
            job: Arc::clone(&job),
            attempt: Attempt::FIRST,
            write: Write::Effect(effect),
        };
        let part = PartitionWrite {
            fence: Arc::clone(fence),
            jobs: vec![job],
            quarantined: Vec::new(),
            watermark: Offset(0),
            resumed: Vec::new(),
            line_room: 0,
        };
        match session.write(&mut [part]) {
            Ok(written) if written[0].jobs.is_ok() => drop(landed.fetch_add(1, Ordering::Relaxed)),
            Ok(_) => refused = true,
            Err(error) if error.is_transient() => {}
            Err(_) => return,
        }
    }
}
