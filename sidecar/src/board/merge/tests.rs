//! The rules of the merge, each beside its twin; then whatever may happen to three workers.

use proptest::prelude::*;

use super::*;
use crate::{
    intake,
    snapshot::{Lag, PartitionState, PartitionView, WhyUnknown},
};
use PartitionState::{Absent, Contested, Draining, Expired, Held, Unknown};

const START: Now = Now { boot_ms: 7_200_000, wall_ms: 1_764_597_751_000 };

fn settings() -> Settings {
    Settings {
        queue: "jobs".into(),
        group: "workers".into(),
        observer: Observer { name: "board".into(), version: "0.1.0".into() },
        stale_after_ms: 10_000,
        lost_after_ms: 20_000,
    }
}

fn merge() -> Merge {
    Merge::new(settings())
}

/// What a worker says of itself: of four partitions it has these; its session has 15 s left.
fn report(worker: &str, partitions: &[(u32, PartitionState)], now: Now) -> Snapshot {
    let view = |&(partition, state): &(u32, PartitionState)| PartitionView {
        partition,
        state,
        worker: Some(worker.to_owned()),
        claimants: Vec::new(),
        last_known_worker: None,
        since: Some(rfc3339(now.wall_ms - 60_000)),
        session_remaining_ms: Some(if state == Expired { 0 } else { 15_000 }),
        lag: Lag { jobs: Some(7), as_of: Some(rfc3339(now.wall_ms)), why_unknown: None },
        last_completed_at: Some(rfc3339(now.wall_ms - 500)),
        jobs_in_flight: Some(1),
        age_ms: Some(0),
        token_present: Some(true),
        keys_parked: Some(1),
        keys: vec![crate::KeyView { shown: "k".into(), parked: true, waiting: None }],
    };
    let partitions: Vec<_> = partitions.iter().map(view).collect();
    Snapshot {
        schema: SCHEMA,
        scope: Scope::Worker,
        observed_at: rfc3339(now.wall_ms),
        observer: Observer { name: worker.into(), version: "0.1.0".into() },
        queue: QueueView {
            cluster: "here".into(),
            topic: "jobs".into(),
            group: "workers".into(),
            partition_count: Some(4),
        },
        freshness: Freshness::Fresh,
        stale_after_ms: 10_000,
        workers: vec![WorkerView {
            worker: worker.to_owned(),
            state: WorkerState::Running,
            since: Some(rfc3339(now.wall_ms - 90_000)),
            last_seen_at: rfc3339(now.wall_ms),
            age_ms: 0,
            freshness: Freshness::Fresh,
            partitions_held: Some(partitions.len() as u32),
            jobs_in_flight: Some(2),
            session: WorkerSession { timeout_ms: Some(20_000), remaining_ms: Some(15_000), basis: "heartbeat" },
        }],
        totals: Totals::of(&partitions),
        partitions,
        notices: Vec::new(),
    }
}

fn stopped(worker: &str, now: Now) -> Snapshot {
    let mut said = report(worker, &[], now);
    said.workers[0].state = WorkerState::Stopped;
    said
}

/// Workers `a` and `b` have been heard: `a` holds 0 and 1, `b` 2 and 3.
fn both(merge: &mut Merge, now: Now) {
    merge.expect(["sa", "sb"], now);
    merge.hear("sa", report("a", &[(0, Held), (1, Held)], now), now);
    merge.hear("sb", report("b", &[(2, Held), (3, Held)], now), now);
}

fn only_a(merge: &mut Merge, now: Now) {
    merge.hear("sa", report("a", &[(0, Held), (1, Held)], now), now);
    merge.miss("sb", Trouble::Away);
}

fn states(view: &Snapshot) -> Vec<PartitionState> {
    view.partitions.iter().map(|p| p.state).collect()
}

fn codes(view: &Snapshot) -> Vec<&str> {
    view.notices.iter().map(|n| n.code.as_str()).collect()
}

#[test]
fn what_fresh_workers_hold_is_held() {
    let mut merge = merge();
    both(&mut merge, START);
    let view = merge.view(START.later(400));
    assert_eq!(states(&view), [Held; 4]);
    assert_eq!(view.partitions[2].worker.as_deref(), Some("b"));
    assert_eq!((view.partitions[2].age_ms, view.partitions[2].session_remaining_ms), (Some(400), Some(14_600)));
    assert_eq!((view.freshness, view.totals.lag_jobs), (Freshness::Fresh, Some(28)));
    assert_eq!(codes(&view), Vec::<&str>::new());
}

/// `b` went silent: after 11 s its session may still run, after 16 s it cannot.
fn silence(mut merge: Merge) -> [Snapshot; 2] {
    both(&mut merge, START);
    [11_000, 16_000].map(|later| {
        let now = START.later(later);
        only_a(&mut merge, now);
        merge.view(now)
    })
}

#[test]
fn a_silent_owner_is_unknown_while_its_session_may_run_and_then_expired() {
    let [unknown, expired] = silence(merge());
    assert_eq!(states(&unknown), [Held, Held, Unknown, Unknown]);
    let b = &unknown.partitions[2];
    assert_eq!((b.worker.as_deref(), b.last_known_worker.as_deref()), (None, Some("b")));
    assert_eq!((b.lag.jobs, b.lag.why_unknown, b.jobs_in_flight), (None, Some(WhyUnknown::NotReported), None));
    assert!(b.last_completed_at.is_some(), "a fact of the past stays");
    let worker = &unknown.workers[1];
    assert_eq!((worker.state, worker.freshness), (WorkerState::Unknown, Freshness::Stale));
    assert_eq!((worker.session.remaining_ms, worker.partitions_held, worker.jobs_in_flight), (None, None, None));
    assert_eq!((unknown.freshness, unknown.totals.lag_jobs), (Freshness::Stale, Some(14)));
    assert_eq!(
        unknown.notices[1].text,
        "b has not reported for 11 s. Its session may still be good, so partitions 2, 3 are shown as unknown."
    );

    assert_eq!(states(&expired), [Held, Held, Expired, Expired]);
    let b = &expired.partitions[2];
    assert_eq!((b.worker.as_deref(), b.session_remaining_ms), (Some("b"), Some(0)));
    assert_eq!(b.since.as_deref(), Some(rfc3339(START.wall_ms + 15_000).as_str()));
    assert_eq!(
        expired.notices[1].text,
        "b went silent 16 s ago and its 20 s session has run out. Partitions 2, 3 wait for a new owner."
    );
}

#[test]
fn twin_without_the_rule_of_silence_the_last_owner_is_shown_as_fresh() {
    let without = Merge { rules: Rules { silence_ends_ownership: false, ..ALL }, ..merge() };
    assert_eq!(states(&silence(without)[1]), [Held; 4]);
}

#[test]
fn twin_without_the_rule_of_null_old_lag_is_shown_as_if_it_were_known() {
    let without = Merge { rules: Rules { unknown_is_null: false, ..ALL }, ..merge() };
    assert_eq!(silence(without)[0].partitions[2].lag.jobs, Some(7));
}

#[test]
fn a_short_session_that_is_over_ends_ownership_before_staleness_does() {
    let mut merge = merge();
    let mut said = report("a", &[(0, Held)], START);
    said.workers[0].session.remaining_ms = Some(2_000);
    said.partitions[0].session_remaining_ms = Some(2_000);
    merge.expect(["sa"], START);
    merge.hear("sa", said, START);
    assert_eq!(states(&merge.view(START.later(4_000)))[0], Held, "its next word is not due yet");
    assert_eq!(states(&merge.view(START.later(5_001)))[0], Expired);
}

fn nobody(mut merge: Merge) -> [Snapshot; 2] {
    merge.expect(["sa", "sb"], START);
    merge.hear("sa", report("a", &[(0, Held), (1, Held)], START), START);
    let warming = merge.view(START);
    merge.hear("sb", report("b", &[(2, Held)], START), START);
    [warming, merge.view(START)]
}

#[test]
fn nobody_holds_it_is_said_only_when_all_have_spoken() {
    let [warming, seen] = nobody(merge());
    assert_eq!(states(&warming), [Held, Held, Unknown, Unknown]);
    assert_eq!((warming.freshness, codes(&warming)), (Freshness::Stale, vec!["warming_up"]));
    assert_eq!(warming.notices[0].text, "1 of 2 sidecars did not answer yet, so \"nobody holds it\" cannot be said.");
    assert_eq!(states(&seen), [Held, Held, Held, Absent]);
    assert_eq!(seen.freshness, Freshness::Fresh);
}

#[test]
fn twin_without_coverage_a_partition_is_called_absent_that_somebody_holds() {
    let without = Merge { rules: Rules { absence_needs_coverage: false, ..ALL }, ..merge() };
    assert_eq!(states(&nobody(without)[0])[2], Absent, "b holds it, and was only not heard yet");
}

#[test]
fn a_silent_worker_leaves_nothing_absent() {
    let mut merge = merge();
    merge.expect(["sa", "sb"], START);
    merge.hear("sa", report("a", &[(0, Held)], START), START);
    merge.hear("sb", report("b", &[(1, Held)], START), START);
    assert_eq!(states(&merge.view(START)), [Held, Held, Absent, Absent]);
    let now = START.later(12_000);
    merge.hear("sa", report("a", &[(0, Held)], now), now);
    assert_eq!(states(&merge.view(now)), [Held, Unknown, Unknown, Unknown], "it may have taken what nobody had");
}

fn two_owners(mut merge: Merge) -> Snapshot {
    both(&mut merge, START);
    merge.hear("sb", report("b", &[(1, Held), (2, Held), (3, Held)], START), START);
    merge.view(START)
}

#[test]
fn two_fresh_owners_are_contested_and_nobody_is_ranked() {
    let view = two_owners(merge());
    assert_eq!(states(&view), [Held, Contested, Held, Held]);
    let contested = &view.partitions[1];
    assert_eq!(contested.claimants, ["a", "b"]);
    assert_eq!(
        (contested.worker.as_deref(), contested.session_remaining_ms, contested.token_present),
        (None, None, None)
    );
    assert_eq!(contested.jobs_in_flight, Some(2));
}

#[test]
fn twin_without_the_rule_of_two_owners_one_of_them_is_believed() {
    let without = Merge { rules: Rules { two_owners_contest: false, ..ALL }, ..merge() };
    assert_eq!(states(&two_owners(without))[1], Held);
}

#[test]
fn an_owner_goes_before_one_that_hands_over_and_that_before_an_expired_one() {
    let mut merge = merge();
    merge.expect(["sa", "sb"], START);
    merge.hear("sa", report("a", &[(0, Draining), (1, Expired), (2, Expired)], START), START);
    merge.hear("sb", report("b", &[(0, Held), (1, Draining)], START), START);
    let view = merge.view(START);
    assert_eq!(states(&view), [Held, Draining, Expired, Absent]);
    let workers: Vec<_> = view.partitions.iter().map(|p| p.worker.as_deref()).collect();
    assert_eq!(workers, [Some("b"), Some("b"), Some("a"), None]);
}

#[test]
fn who_stopped_in_order_is_not_missed() {
    let mut merge = merge();
    both(&mut merge, START);
    merge.view(START);
    let now = START.later(1_000);
    merge.hear("sb", stopped("b", now), now);
    let later = START.later(60_000);
    only_a(&mut merge, later);
    let view = merge.view(later);
    assert_eq!(states(&view), [Held, Held, Absent, Absent]);
    assert_eq!(view.partitions[2].last_known_worker.as_deref(), Some("b"));
    assert_eq!((view.freshness, codes(&view)), (Freshness::Fresh, Vec::<&str>::new()));
}

#[test]
fn a_sidecar_is_expected_for_an_hour_and_then_forgotten() {
    let mut merge = merge();
    both(&mut merge, START);
    let hour = START.later(3_600_001);
    merge.expect(["sa"], hour);
    only_a(&mut merge, hour.later(0));
    merge.sources.remove("sb");
    let view = merge.view(hour);
    assert_eq!((view.workers.len(), states(&view)), (1, vec![Held, Held, Absent, Absent]));
}

#[test]
fn a_clock_that_jumped_is_told_and_its_times_are_not_shown() {
    let mut merge = merge();
    both(&mut merge, START);
    merge.view(START);
    let now = START.later(1_000);
    let ahead = Now { wall_ms: now.wall_ms + 3_600_000, ..now };
    merge.hear("sb", report("b", &[(2, Held), (3, Held)], ahead), now);
    merge.hear("sa", report("a", &[(0, Held), (1, Held)], now), now);
    let view = merge.view(now);
    assert_eq!(states(&view), [Held; 4], "ages are counted on our clock");
    assert_eq!(codes(&view), ["clock_jump"]);
    assert_eq!(view.notices[0].text, "A clock jumped; since when is not shown for b.");
    assert_eq!((view.workers[1].since.as_deref(), view.partitions[2].since.as_deref()), (None, None));
    assert!(view.workers[0].since.is_some() && view.partitions[0].since.is_some());
}

#[test]
fn our_own_clock_that_jumped_is_told_of_everybody() {
    let mut merge = merge();
    both(&mut merge, START);
    merge.view(START);
    let jumped = Now { wall_ms: START.wall_ms + 7_200_000, ..START.later(1_000) };
    let view = merge.view(jumped);
    assert_eq!((codes(&view), states(&view)), (vec!["clock_jump"], vec![Held; 4]));
    assert!(view.workers.iter().all(|w| w.since.is_none()));
}

#[test]
fn after_a_machines_sleep_nobody_is_fresh() {
    let mut merge = merge();
    both(&mut merge, START);
    merge.view(START);
    let view = merge.view(START.later(3_000_000));
    assert_eq!((states(&view), view.freshness), (vec![Expired; 4], Freshness::Lost));
    assert_eq!(view.totals.lag_jobs, None);
}

#[test]
fn reports_of_others_and_unreadable_ones_are_not_used_and_told() {
    let mut merge = merge();
    merge.expect(["sa", "sb", "sc"], START);
    let mut other = report("z", &[(0, Held)], START);
    other.queue.group = "another".into();
    merge.hear("sa", other, START);
    merge.miss("sb", Trouble::Unreadable);
    merge.miss("sc", Trouble::Away);
    let view = merge.view(START);
    assert!(view.workers.is_empty() && view.partitions.is_empty());
    assert_eq!(codes(&view), ["warming_up", "sidecar_away", "sidecar_unreadable", "sidecar_elsewhere"]);
}

#[test]
fn an_older_answer_does_not_undo_a_younger_one() {
    let mut merge = merge();
    merge.expect(["sa"], START);
    merge.hear("sa", report("a", &[(1, Held)], START.later(2_000)), START.later(2_000));
    merge.hear("sa", report("a", &[(0, Held)], START), START);
    let view = merge.view(START.later(2_000));
    assert_eq!(view.partitions[1].state, Held);
}

#[derive(Clone, Debug)]
enum Step {
    /// A worker takes these partitions (a bit each), in that state, and says so at once.
    Says {
        worker: usize,
        holds: u8,
        draining: bool,
        late_ms: u64,
    },
    Stops {
        worker: usize,
    },
    IsAway {
        worker: usize,
    },
    Passes {
        ms: u64,
    },
    WallJumps {
        ms: i64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize, any::<u8>(), any::<bool>(), 0..4_000_u64)
            .prop_map(|(worker, holds, draining, late_ms)| Step::Says { worker, holds, draining, late_ms }),
        1 => (0..3_usize).prop_map(|worker| Step::Stops { worker }),
        1 => (0..3_usize).prop_map(|worker| Step::IsAway { worker }),
        4 => (0..9_000_u64).prop_map(|ms| Step::Passes { ms }),
        1 => (-4_000_000..4_000_000_i64).prop_map(|ms| Step::WallJumps { ms }),
    ]
}

const WORKERS: [&str; 3] = ["a", "b", "c"];

fn holds_whatever_happened(view: &Snapshot) -> Result<(), TestCaseError> {
    let fresh = |name: &String| view.workers.iter().any(|w| w.worker == *name && w.freshness == Freshness::Fresh);
    for p in &view.partitions {
        let owned = matches!(p.state, Held | Draining);
        prop_assert!(!owned || p.worker.as_ref().is_some_and(fresh), "an owner on old word: {p:?}");
        prop_assert!(p.state != Contested || p.claimants.iter().all(fresh), "a claim on old word: {p:?}");
        let known = owned || p.state == Contested;
        prop_assert!(known || (p.lag.jobs, p.jobs_in_flight) == (None, None), "told by nobody: {p:?}");
        prop_assert_eq!((p.keys_parked, p.keys.len()), if owned { (Some(1), 1) } else { (None, 0) }, "{:?}", p);
        prop_assert!(p.lag.jobs.is_some() != p.lag.why_unknown.is_some());
        let silent = view.workers.iter().any(|w| w.freshness != Freshness::Fresh && w.state != WorkerState::Stopped);
        prop_assert!(p.state != Absent || !silent, "absent, and a worker is silent: {p:?}");
    }
    prop_assert_eq!(view.workers.is_empty() && view.freshness == Freshness::Fresh, false);
    let written = serde_json::to_value(view).unwrap();
    let errors: Vec<_> = contract().iter_errors(&written).map(|e| e.to_string()).collect();
    prop_assert!(errors.is_empty(), "{:?}", errors);
    prop_assert_eq!(&intake::read(written.to_string().as_bytes()).unwrap(), view);
    Ok(())
}

fn contract() -> &'static jsonschema::Validator {
    static CONTRACT: std::sync::OnceLock<jsonschema::Validator> = std::sync::OnceLock::new();
    CONTRACT.get_or_init(|| {
        let schema = serde_json::from_str(include_str!("../../../../docs/schemas/snapshot.schema.json")).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_view_shows_an_owner_on_old_word_whatever_happens(steps in proptest::collection::vec(step(), 1..60)) {
        let mut merge = merge();
        let mut now = START;
        for step in steps {
            merge.expect(["s0", "s1", "s2"], now);
            match step {
                Step::Says { worker, holds, draining, late_ms } => {
                    let state = if draining { Draining } else { Held };
                    let partitions: Vec<_> = (0..4).filter(|p| holds >> p & 1 == 1).map(|p| (p, state)).collect();
                    let mut said = report(WORKERS[worker], &partitions, now);
                    said.workers[0].age_ms = late_ms;
                    merge.hear(&format!("s{worker}"), said, now);
                }
                Step::Stops { worker } => merge.hear(&format!("s{worker}"), stopped(WORKERS[worker], now), now),
                Step::IsAway { worker } => merge.miss(&format!("s{worker}"), Trouble::Away),
                Step::Passes { ms } => now = now.later(ms),
                Step::WallJumps { ms } => now.wall_ms += ms,
            }
            holds_whatever_happened(&merge.view(now))?;
        }
    }
}
