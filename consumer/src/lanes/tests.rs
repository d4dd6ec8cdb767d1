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
    assert!(lanes.ended(start.ticket));
    lanes.applied(start.ticket);
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

fn start_all(lanes: &mut Lanes<u64>) -> Vec<Start<u64>> {
    std::iter::from_fn(|| lanes.start()).collect()
}

fn partition_of(lanes: &Lanes<u64>) -> &PartitionLanes<u64> {
    &lanes.partitions[&P0]
}

#[test]
fn a_slot_that_holds_a_job_of_an_earlier_claim_at_the_same_offset_is_not_this_one() {
    let mut lanes = opened(SMALL);
    offer(&mut lanes, 5, "a");
    let old = lanes.start().unwrap();
    lanes.open(P0, T2);
    lanes.offer(P0, T2, Offset(5), key("a"), 5, 10);
    lanes.offer(P0, T2, Offset(6), key("a"), 6, 10);
    let new = lanes.start().unwrap();
    assert_eq!((old.ticket.offset, new.ticket.offset, lanes.running()), (Offset(5), Offset(5), 2));

    lanes.wait(old.ticket);
    lanes.due(old.ticket);
    lanes.park(old.ticket);
    lanes.applied(old.ticket);
    assert!(!lanes.release(P0, T1, &old.key));
    assert_eq!(lanes.reread(P0, T1, &old.key, &[Offset(5)], vec![]), []);
    lanes.offer(P0, T1, Offset(7), key("a"), 7, 10);
    assert!(lanes.start().is_none(), "the new claim's job runs still");
    assert_eq!(lanes.counts(P0), (2, 0));
    assert!(!lanes.ended(old.ticket), "its word does not count");
    assert_eq!(lanes.running(), 1, "but its slot is free");

    finish(&mut lanes, &new);
    assert_eq!(lanes.start().unwrap().ticket.offset, Offset(6));
}

#[test]
fn word_of_a_job_that_was_applied_says_nothing_about_the_next_one_of_its_key() {
    let mut lanes = opened(SMALL);
    (0..3).for_each(|offset| offer(&mut lanes, offset, "k"));
    let first = lanes.start().unwrap();
    finish(&mut lanes, &first);
    let second = lanes.start().unwrap();
    assert!(!lanes.ended(first.ticket));
    lanes.applied(first.ticket);
    lanes.park(first.ticket);
    assert_eq!((lanes.counts(P0), lanes.start()), ((2, 0), None));
    lanes.ended(second.ticket);
    lanes.wait(second.ticket);
    lanes.due(first.ticket);
    assert_eq!(lanes.start(), None, "the second job's wait is not over");
}

#[test]
fn what_is_held_back_starts_in_its_place_once_it_may() {
    let other = Partition(1);
    let mut lanes = opened(LaneLimits { running: 3, ..LaneLimits::default() });
    lanes.open(other, T1);
    (0..2).for_each(|offset| offer(&mut lanes, offset, &format!("k{offset}")));
    lanes.offer(other, T1, Offset(0), key("o"), 7, 10);
    let held_back = |partition| partition == P0;
    assert_eq!(lanes.start_unless(held_back).unwrap().job, 7);
    offer(&mut lanes, 2, "k2");
    assert_eq!(lanes.start_unless(held_back), None);
    lanes.go_on();
    assert_eq!(start_all(&mut lanes).iter().map(|start| start.job).collect::<Vec<_>>(), [0, 1], "three run");
    lanes.close(P0);
    assert!(lanes.held_back.is_empty() && lanes.ready.is_empty());
}

#[test]
fn nothing_of_a_draining_partition_starts_and_the_others_go_on() {
    let other = Partition(1);
    let mut lanes = opened(LaneLimits { running: 1, ..LaneLimits::default() });
    lanes.open(other, T2);
    for offset in 0..3 {
        offer(&mut lanes, offset, "slow");
        lanes.offer(other, T2, Offset(offset), key("k"), offset, 10);
    }
    let first = lanes.start().unwrap();
    assert_eq!(first.ticket.partition, P0);
    lanes.drain(P0);
    assert!(!lanes.is_idle(P0));
    finish(&mut lanes, &first);
    assert!(lanes.is_idle(P0));
    for offset in 0..3 {
        let start = lanes.start().unwrap();
        assert_eq!((start.ticket.partition, start.ticket.offset), (other, Offset(offset)));
        finish(&mut lanes, &start);
    }
    assert!(lanes.start().is_none());
}

#[test]
fn a_draining_partition_is_not_resumed() {
    let mut lanes = opened(SMALL);
    (0..6).for_each(|offset| offer(&mut lanes, offset, &format!("k{offset}")));
    let running = start_all(&mut lanes);
    assert_eq!(lanes.actions(), [LaneAction::Pause(P0)]);
    lanes.drain(P0);
    running.iter().for_each(|start| finish(&mut lanes, start));
    lanes.close(P0);
    assert_eq!(lanes.actions(), []);
}

#[test]
fn a_failing_job_keeps_its_place_in_its_lane() {
    let mut lanes = opened(SMALL);
    (0..3).for_each(|offset| offer(&mut lanes, offset, "k"));
    offer(&mut lanes, 3, "other");
    let first = lanes.start().unwrap();
    lanes.ended(first.ticket);
    lanes.wait(first.ticket);
    let other = lanes.start().unwrap();
    assert_eq!(other.ticket.offset, Offset(3), "only the key waits");
    assert!(lanes.start().is_none());
    lanes.due(first.ticket);
    assert_eq!(lanes.start().unwrap().ticket, first.ticket);
}

#[test]
fn a_hot_key_with_large_jobs_leaves_room_for_the_others() {
    let mut lanes = opened(LaneLimits { held_bytes: 8_000, ..LaneLimits::default() });
    for offset in 0..100 {
        lanes.offer(P0, T1, Offset(offset), key("hot"), offset, 900);
    }
    assert_eq!(lanes.actions(), [], "not full: the tail keeps its offsets only");
    lanes.offer(P0, T1, Offset(100), key("other"), 100, 900);
    assert_eq!(start_all(&mut lanes).last().unwrap().ticket.offset, Offset(100));
}

#[test]
fn a_hot_key_does_not_hold_its_partition_paused() {
    let mut lanes = opened(LaneLimits::default());
    for offset in 0..2_000 {
        offer(&mut lanes, offset, "hot");
    }
    let hot = lanes.start().unwrap();
    for round in 0..3_000 {
        let offset = 2_000 + round;
        offer(&mut lanes, offset, &format!("k{round}"));
    }
    assert_eq!(lanes.actions(), [LaneAction::Pause(P0)]);
    while let Some(start) = lanes.start() {
        finish(&mut lanes, &start);
    }
    assert_eq!(lanes.actions(), [LaneAction::Resume(P0)], "the hot key's job runs still");
    finish(&mut lanes, &hot);
}

/// A key's line, as the store keeps it.
#[derive(Default)]
struct Store(HashMap<JobKey, Vec<Offset>>);

impl Store {
    /// Parks what a job's key holds, until nothing of it is left to move.
    fn moves(&mut self, lanes: &mut Lanes<u64>) {
        loop {
            let moves = lanes.moves();
            for Start { ticket, key, .. } in &moves {
                self.0.entry(key.clone()).or_default().push(ticket.offset);
                lanes.applied(*ticket);
            }
            if moves.is_empty() && !answer(lanes, self) {
                return;
            }
        }
    }

    fn line(&self, name: &str) -> Vec<u64> {
        self.0.get(&key(name)).into_iter().flatten().map(|offset| offset.0).collect()
    }
}

/// Answers what the lanes ask of log and store; whether they asked.
fn answer(lanes: &mut Lanes<u64>, store: &mut Store) -> bool {
    let actions = lanes.actions();
    for action in &actions {
        match action {
            LaneAction::Reread { partition, tenure, key, offsets, from_line } => {
                let line = store.0.get(key).map(Vec::as_slice).unwrap_or_default();
                assert!(offsets[..*from_line].iter().all(|offset| line.contains(offset)));
                let found = offsets.iter().map(|&offset| (offset, offset.0, 10)).collect();
                assert_eq!(lanes.reread(*partition, *tenure, key, offsets, found), []);
            }
            LaneAction::Return { partition, tenure, key } => {
                let line: Vec<_> = store.0.get(key).into_iter().flatten().map(|&offset| (offset, 10)).collect();
                lanes.line(*partition, *tenure, key, &line);
            }
            LaneAction::Pause(_) | LaneAction::Resume(_) => {}
        }
    }
    !actions.is_empty()
}

#[test]
fn a_parked_key_keeps_nothing_here_and_its_jobs_come_back_in_order_before_newer_ones() {
    let mut lanes = opened(LaneLimits { held_jobs: 20, held_bytes: 20_000, known_jobs: 1_000, ..SMALL });
    let mut store = Store::default();
    for offset in 0..200 {
        offer(&mut lanes, offset, &format!("k{}", offset % 20));
        for start in start_all(&mut lanes) {
            lanes.ended(start.ticket);
            store.0.entry(start.key.clone()).or_default().push(start.ticket.offset);
            lanes.park(start.ticket);
        }
        store.moves(&mut lanes);
    }
    assert_eq!((partition_of(&lanes).held_jobs, partition_of(&lanes).held_bytes), (0, 0));
    assert_eq!(lanes.counts(P0), (0, 20));
    assert!(lanes.only_parked_left());
    assert_eq!(store.line("k7"), (0..10).map(|n| 7 + 20 * n).collect::<Vec<_>>());

    assert!(lanes.release(P0, T1, &key("k7")));
    offer(&mut lanes, 207, "k7");
    assert!(lanes.moves().is_empty() && lanes.start().is_none(), "its line is being read");
    let mut order = Vec::new();
    loop {
        while answer(&mut lanes, &mut store) {}
        let Some(start) = lanes.start() else { break };
        order.push(start.job);
        finish(&mut lanes, &start);
        if order.len() == 3 {
            offer(&mut lanes, 227, "k7");
        }
    }
    assert_eq!(order, (0..12).map(|n| 7 + 20 * n).collect::<Vec<_>>());
    assert_eq!((lanes.counts(P0), partition_of(&lanes).line_jobs), ((0, 19), 0));
}

#[test]
fn a_line_is_not_read_back_while_a_job_is_on_its_way_to_it() {
    let mut lanes = opened(SMALL);
    lanes.parked(P0, T1, key("k"));
    (0..2).for_each(|offset| offer(&mut lanes, offset, "k"));
    let moves = lanes.moves();
    assert_eq!(moves.iter().map(|start| start.job).collect::<Vec<_>>(), [0, 1]);
    assert!(!lanes.is_idle(P0) && lanes.start().is_none());
    assert!(lanes.release(P0, T1, &key("k")) && !lanes.release(P0, T1, &key("k")));
    lanes.applied(moves[0].ticket);
    assert_eq!(lanes.actions(), []);
    lanes.applied(moves[1].ticket);
    assert!(matches!(&lanes.actions()[..], [LaneAction::Return { .. }]) && lanes.is_idle(P0));
}

#[test]
fn a_line_that_fails_again_keeps_its_place_and_what_came_since_follows_it() {
    let mut lanes = opened(SMALL);
    lanes.parked(P0, T1, key("k"));
    assert!(lanes.release(P0, T1, &key("k")));
    let mut store = Store(HashMap::from([(key("k"), [1, 2, 3].map(Offset).to_vec())]));
    offer(&mut lanes, 7, "k");
    answer(&mut lanes, &mut store);
    answer(&mut lanes, &mut store);
    let first = lanes.start().unwrap();
    finish(&mut lanes, &first);
    store.0.get_mut(&key("k")).unwrap().remove(0);
    answer(&mut lanes, &mut store);
    let second = lanes.start().unwrap();
    assert_eq!((first.job, second.job), (1, 2));
    lanes.ended(second.ticket);
    lanes.park(second.ticket);
    store.moves(&mut lanes);
    assert_eq!(store.line("k"), [2, 3, 7]);
    assert_eq!((lanes.counts(P0), partition_of(&lanes).line_jobs), ((0, 1), 0));
}

#[test]
fn what_has_no_room_in_its_line_is_kept_for_the_next_owner() {
    let mut lanes = opened(SMALL);
    lanes.parked(P0, T1, key("k"));
    (0..2).for_each(|offset| offer(&mut lanes, offset, "k"));
    let moves = lanes.moves();
    lanes.drain(P0);
    moves.iter().for_each(|start| lanes.kept(start.ticket));
    assert!(lanes.is_idle(P0) && lanes.moves().is_empty());
    assert_eq!(lanes.close(P0), 2);
}

#[test]
fn a_full_line_is_read_back_before_what_has_no_room_in_it() {
    let mut lanes = opened(SMALL);
    lanes.parked(P0, T1, key("k"));
    (0..2).for_each(|offset| offer(&mut lanes, offset + 5, "k"));
    let moves = lanes.moves();
    assert!(lanes.release(P0, T1, &key("k")) && lanes.is_released(P0, &key("k")));
    moves.iter().for_each(|start| lanes.kept(start.ticket));
    let mut store = Store(HashMap::from([(key("k"), [1, 2].map(Offset).to_vec())]));
    let mut order = Vec::new();
    loop {
        while answer(&mut lanes, &mut store) {}
        let Some(start) = lanes.start() else { break };
        order.push(start.job);
        finish(&mut lanes, &start);
    }
    assert_eq!(order, [1, 2, 5, 6]);
}

/// A store that failed over may have in a line what an owner whose claim it lost holds already.
#[test]
fn what_is_in_the_line_and_in_the_lane_is_there_once() {
    let mut lanes = opened(SMALL);
    for offset in [4, 5, 6] {
        offer(&mut lanes, offset, "k");
    }
    let first = lanes.start().unwrap();
    assert!(lanes.stand(P0, T1, &key("k")) && lanes.release(P0, T1, &key("k")));
    assert!(lanes.ended(first.ticket));
    lanes.wait(first.ticket);
    lanes.line(P0, T1, &key("k"), &[(Offset(2), 10), (Offset(4), 10), (Offset(5), 10)]);
    assert_eq!(lanes.known(), 4);
    let mut ran = Vec::new();
    for _ in 0..20 {
        for action in lanes.actions() {
            let LaneAction::Reread { offsets, .. } = action else { continue };
            let found = offsets.iter().map(|offset| (*offset, offset.0, 10)).collect();
            assert_eq!(lanes.reread(P0, T1, &key("k"), &offsets, found), []);
        }
        while let Some(start) = lanes.start() {
            ran.push(start.ticket.offset.0);
            finish(&mut lanes, &start);
        }
    }
    assert_eq!((ran, lanes.known()), (vec![2, 4, 5, 6], 0));
}

#[test]
fn a_long_line_does_not_hold_the_partition_paused() {
    let mut lanes = opened(SMALL);
    lanes.parked(P0, T1, key("k"));
    assert!(lanes.release(P0, T1, &key("k")));
    lanes.actions();
    let line: Vec<_> = (0..1_000).map(|offset| (Offset(offset), 10)).collect();
    lanes.line(P0, T1, &key("k"), &line);
    assert!(!lanes.actions().contains(&LaneAction::Pause(P0)));
    offer(&mut lanes, 1_000, "other");
    assert_eq!(lanes.start().unwrap().job, 1_000);
}

#[test]
fn a_second_answer_to_a_reread_changes_nothing() {
    let mut lanes = opened(LaneLimits { lane_jobs: 1, ..SMALL });
    (0..5).for_each(|offset| offer(&mut lanes, offset, "k"));
    while let Some(start) = lanes.start() {
        finish(&mut lanes, &start);
    }
    let asked = lanes.actions();
    let [LaneAction::Reread { offsets, .. }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(lanes.reread(P0, T1, &key("k"), offsets, vec![]), *offsets, "expired: counts as finished");
    assert_eq!(lanes.reread(P0, T1, &key("k"), offsets, vec![]), [], "the lane asks for others now");
    assert_eq!(lanes.counts(P0).0, 5 - 2 - offsets.len());
}

#[test]
fn a_lane_without_a_share_still_runs() {
    let mut lanes = opened(LaneLimits { lane_jobs: 0, ..SMALL });
    (0..6).for_each(|offset| offer(&mut lanes, offset, "k"));
    let mut ran = 0;
    loop {
        for action in lanes.actions() {
            if let LaneAction::Reread { partition, tenure, key, offsets, .. } = action {
                let found = offsets.iter().map(|&offset| (offset, offset.0, 10)).collect();
                lanes.reread(partition, tenure, &key, &offsets, found);
            }
        }
        let Some(start) = lanes.start() else { break };
        finish(&mut lanes, &start);
        ran += 1;
    }
    assert_eq!(ran, 6);
}

#[test]
fn a_hundred_thousand_jobs_leave_nothing_behind() {
    let mut lanes = opened(SMALL);
    let mut offset = 0;
    for tenure in 2..2_000 {
        lanes.open(P0, Tenure(tenure));
        let mut left = Vec::new();
        for _ in 0..50 {
            lanes.offer(P0, Tenure(tenure), Offset(offset), key(&format!("k{}", offset % 7)), offset, 10);
            offset += 1;
            for action in lanes.actions() {
                if let LaneAction::Reread { partition, tenure, key, offsets, .. } = action {
                    let found = offsets.iter().map(|&offset| (offset, offset.0, 10)).collect();
                    lanes.reread(partition, tenure, &key, &offsets, found);
                }
            }
            if let Some(start) = lanes.start() {
                if offset % 5 == 0 && left.len() < 2 {
                    left.push(start);
                } else {
                    finish(&mut lanes, &start);
                }
            }
        }
        lanes.close(P0);
        assert!(left.iter().all(|start| !lanes.ended(start.ticket)));
    }
    assert!(offset >= 99_000);
    assert_eq!((lanes.ready.len(), lanes.running.len(), lanes.partitions.len(), lanes.actions.len()), (0, 0, 0, 0));
    assert!(lanes.ready.capacity() < 1_000 && lanes.running.capacity() < 1_000);
}

mod model;
