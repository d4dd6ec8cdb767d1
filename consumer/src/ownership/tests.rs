use super::*;

mod model;

const P0: Partition = Partition(0);
const P1: Partition = Partition(1);

const LIMITS: OwnershipLimits = OwnershipLimits {
    session: Duration::from_secs(10),
    margin: Duration::from_millis(500),
    drain: Duration::from_secs(5),
    claim_again: Duration::from_millis(200),
};

fn generation(number: u64) -> Generation {
    Generation::new(number).unwrap()
}

fn member(name: &str) -> MemberId {
    MemberId::new(name).unwrap()
}

fn at(seconds: u64) -> BootTime {
    BootTime::ZERO.plus(Duration::from_secs(seconds))
}

fn assigned(ownership: &mut Ownership, number: u64, partitions: &[Partition], replaces_all: bool) -> Vec<Action> {
    ownership.assigned(&Assignment {
        member: member("me"),
        generation: generation(number),
        partitions: partitions.to_vec(),
        replaces_all,
    })
}

/// A worker that holds these partitions since this generation; the last tenure is the number of partitions.
fn holding(number: u64, partitions: &[Partition]) -> Ownership {
    let mut ownership = Ownership::new(LIMITS);
    for action in assigned(&mut ownership, number, partitions, false) {
        let Action::Claim { partition, tenure, .. } = action else { panic!("{action:?}") };
        assert_eq!(ownership.claim_granted(partition, tenure), [Action::Open(partition, tenure), Action::Prove]);
    }
    ownership
}

fn claim(partition: Partition, tenure: u64, number: u64, after: Duration) -> Action {
    let (tenure, generation) = (Tenure(tenure), generation(number));
    Action::Claim { partition, tenure, member: member("me"), generation, after }
}

#[test]
fn a_retained_partition_keeps_its_tenure_when_the_generation_moves_on() {
    let mut ownership = holding(3, &[P0]);
    ownership.moved_on(member("me"), generation(4));
    assert_eq!(assigned(&mut ownership, 5, &[P1], false), [claim(P1, 2, 5, Duration::ZERO)]);
    assert_eq!(ownership.holding(P0, Tenure(1)), Some(Holding::Held));
}

#[test]
fn an_eager_assignment_takes_what_is_not_in_it() {
    let mut ownership = holding(3, &[P0, P1]);
    let actions = assigned(&mut ownership, 4, &[P1], true);
    let expected = [Action::Abandon(P0, Tenure(1)), Action::Abandon(P1, Tenure(2)), claim(P1, 3, 4, Duration::ZERO)];
    assert_eq!(actions, expected);
}

#[test]
fn of_two_claimants_with_an_equal_generation_the_refused_one_rejoins() {
    let mut ownership = Ownership::new(LIMITS);
    assigned(&mut ownership, 3, &[P0], false);
    let refused = ownership.claim_refused(at(1), P0, Tenure(1), ClaimRefused::EqualGeneration);
    assert_eq!(refused, [Action::Prove]);
    let (_, actions) = ownership.proved(at(2), generation(3));
    assert_eq!(actions, [Action::Rejoin(LIMITS.claim_again)]);
    let (_, actions) = ownership.proved(at(3), generation(3));
    assert_eq!(actions, [], "it is under way");
}

#[test]
fn lost_and_regained_by_the_same_process_is_another_tenure() {
    let mut ownership = holding(3, &[P0]);
    assert_eq!(ownership.lost(&[P0]), [Action::Abandon(P0, Tenure(1))]);
    assert_eq!(assigned(&mut ownership, 4, &[P0], false), [claim(P0, 2, 4, Duration::ZERO)]);
    for late in [
        ownership.claim_granted(P0, Tenure(1)),
        ownership.claim_failed(P0, Tenure(1)),
        ownership.claim_refused(at(1), P0, Tenure(1), ClaimRefused::RowAhead),
        ownership.drained(P0, Tenure(1)),
        ownership.closed(P0, Tenure(1)),
        ownership.fenced(P0, Tenure(1)),
        ownership.not_owner(P0, Tenure(1)),
    ] {
        assert_eq!(late, []);
    }
    assert_eq!(ownership.holding(P0, Tenure(2)), Some(Holding::Claiming));
}

#[test]
fn a_partition_that_the_group_calls_anothers_is_lost_and_the_others_stay() {
    let mut ownership = holding(3, &[P0, P1]);
    assert_eq!(ownership.not_owner(P1, Tenure(2)), [Action::Abandon(P1, Tenure(2))]);
    assert_eq!(ownership.holding(P0, Tenure(1)), Some(Holding::Held));
}

#[test]
fn a_fenced_worker_claims_again_as_another_and_a_refusal_makes_it_rejoin() {
    let mut ownership = holding(3, &[P0]);
    let again = [Action::Abandon(P0, Tenure(1)), claim(P0, 2, 3, Duration::ZERO)];
    assert_eq!(ownership.fenced(P0, Tenure(1)), again);
    assert_eq!(ownership.claim_refused(at(1), P0, Tenure(2), ClaimRefused::OtherEpoch), [Action::Prove]);
    assert_eq!(ownership.proved(at(2), generation(3)).1, [Action::Rejoin(LIMITS.claim_again)]);
}

#[test]
fn a_store_that_lost_the_last_claim_is_claimed_again() {
    let mut ownership = holding(3, &[P0]);
    ownership.fenced(P0, Tenure(1));
    assert_eq!(ownership.claim_granted(P0, Tenure(2)), [Action::Open(P0, Tenure(2)), Action::Prove]);
}

#[test]
fn a_fenced_worker_that_was_asked_for_the_partition_releases_it() {
    let mut ownership = holding(3, &[P0]);
    ownership.revoking(at(1), &[P0]);
    let cut = [Action::Abandon(P0, Tenure(1)), Action::Close { partition: P0, tenure: Some(Tenure(1)), clean: false }];
    assert_eq!(ownership.fenced(P0, Tenure(1)), cut);
    assert_eq!(ownership.fenced(P0, Tenure(1)), [], "the last acts are under way");
}

#[test]
fn a_row_ahead_and_a_commit_that_succeeds_mean_that_the_group_began_anew() {
    let mut ownership = Ownership::new(LIMITS);
    assigned(&mut ownership, 2, &[P0], false);
    ownership.claim_refused(at(1), P0, Tenure(1), ClaimRefused::RowAhead);
    let (_, actions) = ownership.proved(at(2), generation(2));
    assert_eq!(actions, [Action::FenceIsAhead(P0), claim(P0, 2, 2, LIMITS.claim_again)]);

    let actions = ownership.claim_refused(at(3), P0, Tenure(2), ClaimRefused::RowAhead);
    assert_eq!(actions, [claim(P0, 3, 2, LIMITS.claim_again)], "told once, asked for ever");
    assert_eq!(ownership.holding(P0, Tenure(3)), Some(Holding::FenceAhead));
    assert_eq!(ownership.claim_granted(P0, Tenure(3)), [Action::Open(P0, Tenure(3)), Action::Prove], "after the reset");
}

#[test]
fn a_proof_that_began_before_the_refusal_does_not_tell_that_the_group_began_anew() {
    let mut ownership = Ownership::new(LIMITS);
    assigned(&mut ownership, 2, &[P0], false);
    ownership.claim_refused(at(5), P0, Tenure(1), ClaimRefused::RowAhead);
    let (_, actions) = ownership.proved(at(4), generation(2));
    assert_eq!(actions, [], "the next owner may have claimed between this commit and the refusal");
    assert_eq!(ownership.holding(P0, Tenure(1)), Some(Holding::Refused(ClaimRefused::RowAhead)));
}

#[test]
fn a_row_ahead_under_a_generation_that_moved_on_is_simply_stale() {
    let mut ownership = Ownership::new(LIMITS);
    assigned(&mut ownership, 2, &[P0], false);
    ownership.claim_refused(at(1), P0, Tenure(1), ClaimRefused::RowAhead);
    ownership.moved_on(member("me"), generation(3));
    let (_, actions) = ownership.proved(at(2), generation(3));
    assert_eq!(actions, [Action::Rejoin(LIMITS.claim_again)]);
}

#[test]
fn a_late_proof_counts_from_its_start() {
    let mut ownership = holding(3, &[P0]);
    let (until, _) = ownership.proved(at(100), generation(3));
    assert_eq!(until, at(100).plus(LIMITS.session - LIMITS.margin), "whenever the answer came: dead on arrival");
}

#[test]
fn a_proof_of_an_earlier_membership_proves_nothing() {
    let mut ownership = holding(3, &[P0]);
    ownership.disowned();
    assert_eq!(ownership.proved(at(100), generation(3)), (BootTime::ZERO, vec![]), "no member now");
    ownership.assigned(&Assignment {
        member: member("me again"),
        generation: generation(5),
        partitions: vec![P0],
        replaces_all: false,
    });
    assert_eq!(ownership.proved(at(100), generation(3)), (BootTime::ZERO, vec![]));
    assert!(ownership.proved(at(100), generation(5)).0 > at(100));
}

#[test]
fn a_claim_without_an_answer_is_asked_again_as_the_same_one() {
    let mut ownership = Ownership::new(LIMITS);
    assigned(&mut ownership, 3, &[P0], false);
    ownership.moved_on(member("me"), generation(9));
    assert_eq!(ownership.claim_failed(P0, Tenure(1)), [claim(P0, 1, 3, LIMITS.claim_again)]);
}

#[test]
fn a_partition_is_released_when_it_is_drained_or_its_bound_is_over() {
    let mut ownership = holding(3, &[P0, P1]);
    let drains = [Action::Drain(P0, Tenure(1)), Action::Drain(P1, Tenure(2))];
    assert_eq!(ownership.revoking(at(10), &[P0, P1]), drains);
    assert_eq!(ownership.revoking(at(12), &[P0]), [], "asked again: the bound stays");
    assert_eq!(ownership.next_tick(), Some(at(15)));
    let closed = [Action::Close { partition: P0, tenure: Some(Tenure(1)), clean: true }];
    assert_eq!(ownership.drained(P0, Tenure(1)), closed);
    assert_eq!(ownership.tick(at(14)), []);
    let cut = [Action::Abandon(P1, Tenure(2)), Action::Close { partition: P1, tenure: Some(Tenure(2)), clean: false }];
    assert_eq!(ownership.tick(at(15)), cut);
    assert_eq!(ownership.next_tick(), None);
}

#[test]
fn a_worker_that_ends_leaves_once_and_last() {
    let mut ownership = holding(3, &[P0]);
    assert_eq!(ownership.end(at(1)), [Action::Drain(P0, Tenure(1))]);
    assert_eq!(ownership.end(at(2)), []);
    ownership.drained(P0, Tenure(1));
    assert_eq!(ownership.closed(P0, Tenure(1)), [Action::Leave]);
    assert_eq!(ownership.end(at(3)), []);
    assert_eq!(ownership.lost(&[P0]), []);
}

#[test]
fn a_partition_given_anew_to_an_ending_worker_is_not_released_under_its_running_jobs() {
    let mut ownership = holding(3, &[P0]);
    ownership.end(at(1));
    let actions = assigned(&mut ownership, 4, &[P0], false);
    let expected =
        [Action::Abandon(P0, Tenure(1)), Action::Close { partition: P0, tenure: None, clean: true }, Action::Leave];
    assert_eq!(actions, expected);
}
