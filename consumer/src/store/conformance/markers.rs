//! That progress is exact whatever order jobs finish in, and small.
#![allow(missing_docs, reason = "each function's name is its claim")]

use std::collections::BTreeSet;

use keylane_producer::Offset;

use super::{P0, P1, Place, Rig, StoreSession, Write, job, letters};

const JOBS: u64 = 10_000;

pub fn markers_are_exact_at_each_step_and_collapse<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let order = shuffled(&mut random);
    let mut done = BTreeSet::<u64>::new();
    let mut floor = 0;
    let mut generation = 1;
    let mut rest = &order[..];
    while !rest.is_empty() {
        let size = usize::try_from(1 + random.below(400)).unwrap().min(rest.len());
        let (batch, later) = rest.split_at(size);
        rest = later;
        let jobs = batch.iter().map(|&offset| job("k", offset, Write::Nothing)).collect();
        let mut part = a.part(jobs);
        done.extend(batch);
        // The worker's own watermark is as of before this batch, and sometimes behind.
        part.watermark = Offset(if random.below(3) == 0 { 0 } else { floor });
        assert!(letters(&a.write_part(part).unwrap()).chars().all(|letter| letter == 'a'));
        while done.contains(&floor) {
            floor += 1;
        }
        let found = a.session.overview().unwrap().swap_remove(0).done;
        assert!((0..JOBS).all(|offset| found.contains(offset) == done.contains(&offset)), "exact: {found:?}");
        if random.below(4) == 0 {
            generation += 1;
            a = rig.claim("b", generation, P0);
            assert_eq!(a.claimed.done, found, "a new owner reads the same");
        }
    }
    assert_eq!(rig.place.marker_rows(P0), 1);
    assert_eq!(a.session.overview().unwrap()[0].done.floor, JOBS);
}

pub fn markers_below_the_watermark_are_one_row<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    // Offsets have gaps that no job fills; the watermark says that they are finished.
    let every_third =
        |from: u64| (from..from + 300).step_by(3).map(|offset| job("k", offset, Write::Nothing)).collect();
    let mut part = a.part(every_third(0));
    a.write_part(part).unwrap();
    assert_eq!(rig.place.marker_rows(P0), 100);
    part = a.part(every_third(1_000));
    part.watermark = Offset(1_000);
    a.write_part(part).unwrap();
    let done = a.session.overview().unwrap().swap_remove(0).done;
    assert_eq!((done.floor, done.ranges.len()), (1_001, 99));
    // A watermark alone, with no jobs, joins as well; one that lags takes nothing back.
    for watermark in [1_298, 5] {
        part = a.part(Vec::new());
        part.watermark = Offset(watermark);
        a.write_part(part).unwrap();
        assert_eq!(rig.place.marker_rows(P0), 1);
        assert_eq!(a.session.overview().unwrap()[0].done.floor, 1_298);
    }
}

pub fn another_partition_s_markers_are_not_touched<P: Place>() {
    let rig = Rig::<P>::new();
    let (mut a, mut b) = (rig.claim("a", 1, P0), rig.claim("a", 1, P1));
    b.write(vec![job("k", 2, Write::Nothing), job("k", 4, Write::Nothing)]).unwrap();
    let mut part = a.part(vec![job("k", 3, Write::Nothing)]);
    part.watermark = Offset(100);
    a.write_part(part).unwrap();
    let overview = a.session.overview().unwrap();
    assert_eq!((overview[0].done.floor, overview[1].done.floor), (100, 0));
    assert_eq!(overview[1].done.ranges, [(2, 2), (4, 4)]);
}

fn shuffled(random: &mut Random) -> Vec<u64> {
    // Mostly in order, as lanes finish: each job goes at most some hundred places astray.
    let mut order: Vec<u64> = (0..JOBS).collect();
    order.sort_by_cached_key(|&offset| offset + random.below(700));
    order
}

/// Xorshift: the same order at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
