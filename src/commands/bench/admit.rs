//! One look at the fence, against one read of the clock and one mutex that nobody else wants.

use std::{hint::black_box, sync::Mutex, time::Duration};

use keylane_consumer::{
    Fence, FencedStore, Generation,
    clock::Clock,
    fence::{Lease, MemberId, Owner},
    store::{Candidate, StoreSession, sqlite::SqliteStore},
};
use keylane_producer::Partition;

use super::{
    Bench,
    measure::{Pair, rate},
    queue::Queue,
    row::{Aim, Row},
};
use crate::exit::{Code, Failure};

/// Enough to make one read of the clock at each end mean nothing.
const LOOKS: u64 = 2_000_000;
/// Longer than any run of this.
const PROVED_FOR: Duration = Duration::from_secs(86_400);

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let corner = bench.place.corner()?;
    let fence = claimed(&Queue::make(&corner.file("queue.db"))?)?;
    let looks = LOOKS.min(bench.sizes.round * 10);
    let (clock, mutex) = (Clock::boot(), Mutex::new(0_u64));
    let mut rounds = Vec::new();
    for _ in 0..bench.rounds {
        let admitted = nanos(looks, || black_box(&fence).check().is_ok())?;
        let read = nanos(looks, || black_box(&clock).now().nanos() > 0)?;
        let locked = nanos(looks, || black_box(&mutex).lock().is_ok_and(|mut n| add(&mut n)))?;
        rounds.push((admitted, read, locked));
    }
    let against_clock = Pair::of(&rounds.iter().map(|&(ours, clock, _)| (ours, clock)).collect::<Vec<_>>());
    let against_mutex = Pair::of(&rounds.iter().map(|&(ours, _, mutex)| (ours, mutex)).collect::<Vec<_>>());
    let row = Row::pair("admit", "one look at the fence", "ns", "one read of the clock", against_clock);
    Ok(vec![
        row.aiming(Aim::OursBelow(50.0)),
        Row::pair("admit", "the same", "ns", "one mutex, locked and unlocked", against_mutex),
    ])
}

/// The fence of a claim that a store granted, proved.
fn claimed(queue: &Queue) -> Result<std::sync::Arc<Fence>, Failure> {
    let refused = |what: &str| Failure::new(Code::Bug, format!("cannot measure the fence: {what}"));
    let mut session = SqliteStore::new(queue.file()).open(queue.identity(), queue.group())?;
    let member = MemberId::new("bench").ok_or_else(|| refused("no member"))?;
    let generation = Generation::new(1).ok_or_else(|| refused("no generation"))?;
    let partition = Partition(0);
    let candidate =
        Candidate { partition, generation, owner: Owner::fresh(&member), worker: "bench".into(), begin: None };
    let claim = session.claim(&candidate).map_err(|e| refused("the claim was not granted").because(&e))?;
    let clock = Clock::boot();
    let lease = Lease::new(clock.clone(), PROVED_FOR);
    lease.proved(clock.now().plus(PROVED_FOR));
    let fence = Fence::raise(partition, claim.token, lease);
    fence.check().map_err(|fenced| refused("it does not hold").because(&fenced))?;
    Ok(fence)
}

/// For each of many calls.
fn nanos(calls: u64, mut call: impl FnMut() -> bool) -> Result<f64, Failure> {
    let a_second = rate(calls, || {
        let all = (0..calls).fold(true, |all, _| all & call());
        if all { Ok(()) } else { Err(Failure::new(Code::Failed, "a look at the fence was refused while measuring")) }
    })?;
    Ok(1e9 / a_second)
}

fn add(number: &mut u64) -> bool {
    *number += 1;
    black_box(*number) > 0
}
