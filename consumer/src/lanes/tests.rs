use super::*;

const P0: Partition = Partition(0);
const T1: Tenure = Tenure(1);
const T2: Tenure = Tenure(2);

const SMALL: LaneLimits = LaneLimits { running: 3, held_jobs: 6, held_bytes: 600, known_jobs: 12, lane_jobs: 2 };

fn key(name: &str) -> JobKey {
    JobKey::try_from(name).unwrap()
}

/// Lanes of jobs that are their own offsets, with one partition open.
fn opened(limits: LaneLimits) -> Lanes<u64> {
    let mut lanes = Lanes::new(limits);
    lanes.open(P0, T1);
    lanes
}

fn offer(lanes: &mut Lanes<u64>, offset: u64, name: &str) {
    lanes.offer(P0, T1, Offset(offset), key(name), offset, 10);
}

fn finish(lanes: &mut Lanes<u64>, start: &Start<u64>) {
    assert!(lanes.ended(start.ticket, &start.key));
    lanes.applied(start.ticket, &start.key);
}

#[test]
fn a_pause_that_was_asked_for_an_earlier_tenure_does_not_reach_the_next() {
    let mut lanes = opened(SMALL);
    for offset in 0..6 {
        offer(&mut lanes, offset, &format!("k{offset}"));
    }
    lanes.open(P0, T2);
    assert_eq!(lanes.actions(), [], "nobody would resume it");
}

#[test]
fn closed_partitions_leave_nothing_behind_while_every_slot_hangs() {
    let mut lanes = opened(SMALL);
    for offset in 0..3 {
        offer(&mut lanes, offset, &format!("hangs{offset}"));
    }
    while lanes.start().is_some() {}
    for tenure in 2..1_000 {
        lanes.open(P0, Tenure(tenure));
        lanes.offer(P0, Tenure(tenure), Offset(9), key("k"), 9, 10);
        assert!(lanes.start().is_none(), "no slot is free");
        lanes.close(P0);
    }
    assert_eq!((lanes.ready.len(), lanes.running()), (0, 3));
}
