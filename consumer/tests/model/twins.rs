//! Each guard taken away, and the shortest run in which its lack shows, told in plain sentences.

use super::{
    explore::explore,
    holds::{LIMIT, ONE_FAULT, STARVING, cut_off, waits_for_writers},
    progress,
    protocol::{Bounds, Engine, Fault, Protocol, Without},
    story::story,
    world::{Broken, Id},
};

/// The story of the first broken state, which is broken so.
fn breaks(without: Without, bounds: Bounds, broken: Broken) {
    let protocol = Protocol::new(bounds, without);
    let graph = explore(&protocol, LIMIT);
    let at = graph.broken.expect("a guard that nothing needs is none");
    println!("Without {without:?}:\n{}", story(&protocol, &graph.way_to(at), &[]));
    assert_eq!(graph.states[at as usize].broken, Some(broken));
}

#[test]
fn without_the_strict_claim_rule_a_stale_claimant_takes_the_row_back() {
    breaks(Without::StrictClaim, Bounds { kinds: &[Fault::DealTwice], ..ONE_FAULT }, Broken::Stale);
}

#[test]
fn with_a_fence_for_each_key_alone_a_stale_write_to_an_untouched_key_lands() {
    breaks(Without::PartitionFence, Bounds { kinds: &[Fault::Move], ..ONE_FAULT }, Broken::Stale);
}

#[test]
fn with_the_check_outside_of_the_transaction_a_stale_write_lands() {
    breaks(Without::CheckInside, Bounds { kinds: &[Fault::Move], ..ONE_FAULT }, Broken::Stale);
}

#[test]
fn without_a_claim_on_assignment_a_stale_write_lands_under_the_new_owner() {
    breaks(Without::ClaimOnAssignment, Bounds { kinds: &[Fault::Move], ..ONE_FAULT }, Broken::Stale);
}

#[test]
fn with_the_generation_alone_a_write_of_another_claim_in_it_lands() {
    let kinds = &[Fault::DealTwice, Fault::FailOver];
    breaks(Without::ClaimNumber, Bounds { kinds, faults: 2, jobs: [1, 1], ..ONE_FAULT }, Broken::Stale);
}

#[test]
fn with_claim_numbers_that_count_a_failover_revives_a_lost_token() {
    let kinds = &[Fault::DealTwice, Fault::FailOver];
    let bounds = Bounds { kinds, faults: 2, jobs: [1, 1], ..ONE_FAULT };
    breaks(Without::RandomClaimNumber, bounds, Broken::Stale);
}

#[test]
fn without_an_epoch_a_claim_from_before_the_reset_takes_the_row() {
    let kinds = &[Fault::Die, Fault::Move, Fault::Restart];
    breaks(Without::Epoch, Bounds { kinds, faults: 2, jobs: [1, 1], ..ONE_FAULT }, Broken::Stale);
}

#[test]
fn a_worker_that_goes_on_after_a_reset_takes_the_row_with_an_old_generation() {
    let kinds = &[Fault::Die, Fault::Move, Fault::Restart];
    breaks(Without::Ending, Bounds { kinds, faults: 2, jobs: [1, 1], ..ONE_FAULT }, Broken::Stale);
}

#[test]
fn without_markers_a_commit_without_an_answer_is_applied_twice() {
    breaks(Without::Markers, Bounds { kinds: &[Fault::CutCommit], ..ONE_FAULT }, Broken::Twice);
}

#[test]
fn without_an_intent_a_claim_starves_behind_stale_writers() {
    let protocol = Protocol::new(STARVING, Without::Intent);
    let graph = explore(&protocol, LIMIT);
    let run = progress::endless(&graph, cut_off, |world| waits_for_writers(&protocol, world, Id::B));
    let run = run.expect("a guard that nothing needs is none");
    println!("Without Intent:\n{}", story(&protocol, &run.way, &run.circle));
    assert!(!run.circle.is_empty());
}

#[test]
fn without_an_idle_timeout_a_frozen_writer_holds_the_claim_for_ever() {
    let protocol = Protocol::new(Bounds { kinds: &[Fault::Freeze], ..ONE_FAULT }, Without::IdleTimeout);
    let graph = explore(&protocol, LIMIT);
    let run = progress::endless(&graph, |step| step.duty(true), |world| !protocol.all_done(world));
    let run = run.expect("a guard that nothing needs is none");
    println!("Without IdleTimeout:\n{}", story(&protocol, &run.way, &run.circle));
}

/// A limit, no guard of ours: nothing in the store tells the order of two groups until the fence is reset.
#[test]
fn limit_a_group_that_began_anew_before_the_row_was_raised_lets_an_old_claim_win() {
    let kinds = &[Fault::Restart, Fault::Move, Fault::Die];
    let bounds = Bounds { engine: Engine::Sqlite, kinds, faults: 2, jobs: [1, 1], ..ONE_FAULT };
    breaks(Without::Excuse, bounds, Broken::Stale);
}

#[test]
fn without_a_timeline_a_job_lands_behind_one_that_a_failover_lost() {
    breaks(Without::Timeline, Bounds { kinds: &[Fault::LoseWrite], ..ONE_FAULT }, Broken::OutOfOrder);
}

/// A limit of a store without timelines: one that loses acknowledged writes and keeps the claim looks the same to its owner.
#[test]
fn limit_a_sqlite_file_that_is_replaced_by_an_older_copy_under_its_owner_goes_unnoticed() {
    let bounds = Bounds { engine: Engine::Sqlite, kinds: &[Fault::LoseWrite], ..ONE_FAULT };
    breaks(Without::Nothing, bounds, Broken::OutOfOrder);
}
