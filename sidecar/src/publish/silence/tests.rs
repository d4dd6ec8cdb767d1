use super::*;
use crate::{
    Scope, intake,
    words::testing::{AT, View},
};

/// What worker `w` said at [`AT`]: it holds 0 and 1 for 40 s more, with lag.
fn said() -> Snapshot {
    let mut said = View::at(AT).held(&["w", "w"]).snapshot();
    said.scope = Scope::Worker;
    for partition in &mut said.partitions {
        partition.lag = Lag { jobs: Some(7), as_of: Some(rfc3339(AT)), why_unknown: None };
        partition.last_completed_at = Some(rfc3339(AT - 1_000));
        partition.keys_parked = Some(1);
        partition.keys = vec![crate::KeyView { shown: "k".into(), parked: true, waiting: None }];
    }
    said
}

fn later(said: &Snapshot, age_ms: u64, is_vouched: bool) -> Snapshot {
    let now = Now { boot_ms: 1_000_000 + age_ms, wall_ms: AT + age_ms.cast_signed() };
    as_of(now, &Word { said, age_ms, is_vouched })
}

fn with_session(left_ms: u64) -> Snapshot {
    let mut said = said();
    said.partitions.iter_mut().for_each(|p| p.session_remaining_ms = Some(left_ms));
    said
}

#[test]
fn a_word_grows_old_by_the_millisecond_while_its_worker_speaks() {
    let now = later(&said(), 1_500, true);
    assert_eq!(now.freshness, Freshness::Fresh);
    assert_eq!((now.workers[0].age_ms, now.workers[0].session.remaining_ms), (1_900, Some(38_500)));
    let partition = &now.partitions[0];
    assert_eq!((partition.state, partition.session_remaining_ms), (PartitionState::Held, Some(38_500)));
    assert_eq!((partition.age_ms, partition.lag.jobs), (Some(1_900), Some(7)));
    assert_eq!(now.observed_at, rfc3339(AT + 1_500));
}

#[test]
fn a_silent_workers_partitions_are_unknown_since_its_last_word_and_nobody_owns_them() {
    let now = later(&said(), 10_000, true);
    assert_eq!(now.freshness, Freshness::Stale);
    let worker = &now.workers[0];
    assert_eq!((worker.state, worker.since.as_ref()), (WorkerState::Unknown, Some(&worker.last_seen_at)));
    assert_eq!((worker.partitions_held, worker.jobs_in_flight, worker.session.remaining_ms), (None, None, None));
    for partition in &now.partitions {
        assert_eq!((partition.state, partition.worker.as_ref()), (PartitionState::Unknown, None));
        assert_eq!(partition.last_known_worker.as_deref(), Some("w"));
        assert_eq!(partition.since.as_ref(), Some(&worker.last_seen_at), "unknown since");
        assert_eq!((partition.lag.jobs, partition.jobs_in_flight, partition.token_present), (None, None, None));
        assert_eq!((partition.keys_parked, partition.keys.len()), (None, 0));
        assert_eq!(partition.last_completed_at, Some(rfc3339(AT - 1_000)), "it is past, so it stays");
    }
    assert_eq!((now.totals.held, now.totals.unknown, now.totals.lag_jobs), (0, 2, None));
    assert_eq!(later(&said(), 20_000, true).freshness, Freshness::Lost);
}

/// The twin: the same old word without the rule shows its owner as if it held.
#[test]
fn twin_without_the_rule_of_silence_a_dead_worker_holds_what_it_held() {
    let said = said();
    let late = Late { word: &Word { said: &said, age_ms: 30_000, is_vouched: true }, is_silent: false };
    let partition = late.partition(&said.partitions[0]);
    assert_eq!((partition.state, partition.worker.as_deref()), (PartitionState::Held, Some("w")));
    assert_eq!(partition.lag.jobs, Some(7));
}

#[test]
fn a_session_that_ran_out_is_expired_from_then_on_whoever_is_silent() {
    let said = with_session(4_000);
    for (age, lag) in [(4_000, Some(7)), (30_000, None)] {
        let partition = later(&said, age, true).partitions.remove(0);
        assert_eq!((partition.state, partition.worker.as_deref()), (PartitionState::Expired, Some("w")));
        assert_eq!((partition.session_remaining_ms, partition.token_present), (Some(0), Some(false)));
        assert_eq!(partition.since, Some(rfc3339(AT + 4_000)), "and it is the same moment each time");
        assert_eq!(partition.lag.jobs, lag);
    }
}

#[test]
fn for_a_word_that_nobody_vouches_for_nobody_is_an_owner_at_any_age() {
    let now = later(&said(), 0, false);
    assert_eq!((now.freshness, now.totals.held, now.totals.unknown), (Freshness::Stale, 0, 2));
}

#[test]
fn who_said_that_it_stopped_is_not_silent() {
    let mut said = View::at(AT).worker("w", WorkerState::Stopped, Some(0)).snapshot();
    said.scope = Scope::Worker;
    let worker = later(&said, 3_600_000, true).workers.remove(0);
    assert_eq!((worker.state, worker.jobs_in_flight), (WorkerState::Stopped, Some(0)));
}

#[test]
fn whatever_the_age_is_what_is_served_keeps_the_contract() {
    for left in [0, 1, 5_000, 600_000] {
        for age in [0, 1, 4_999, 5_000, 9_600, 20_000, 86_400_000, u64::MAX / 4] {
            for is_vouched in [true, false] {
                let served = later(&with_session(left), age.min(1 << 40), is_vouched);
                assert!(intake::is_of_worker(&served), "{left} {age} {is_vouched}: {served:?}");
            }
        }
    }
}
