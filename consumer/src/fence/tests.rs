use super::*;

const SESSION: Duration = Duration::from_secs(10);
const POLL_LIMIT: Duration = Duration::from_secs(3);

/// A clock, a lease that is proved for a session from now, and a fence under it.
fn proved() -> (Clock, Arc<Lease>, Arc<Fence>) {
    proved_with(Guards::default())
}

fn proved_with(guards: Guards) -> (Clock, Arc<Lease>, Arc<Fence>) {
    let clock = Clock::by_hand();
    let lease = Lease::with_guards(clock.clone(), POLL_LIMIT, guards);
    lease.proved(clock.now().plus(SESSION));
    let fence = Fence::raise(Partition(3), token(), Arc::clone(&lease));
    (clock, lease, fence)
}

fn token() -> FenceToken {
    FenceToken::minted(7_770_001, Generation::new(7_770_002).unwrap(), 7_770_003)
}

/// Why a check fails; `None` if it does not.
fn refusal(fence: &Fence) -> Option<Fenced> {
    fence.check().err()
}

#[test]
fn nothing_may_be_done_before_the_first_proof() {
    let lease = Lease::new(Clock::by_hand(), POLL_LIMIT);
    let fence = Fence::raise(Partition(0), token(), Arc::clone(&lease));
    assert_eq!(refusal(&fence), Some(Fenced::DeadlinePassed));
    lease.proved(lease.clock().now().plus(SESSION));
    assert_eq!(refusal(&fence), None);
}

#[test]
fn a_permit_names_the_partition_and_the_claim_of_its_fence() {
    let (_, _, fence) = proved();
    let permit = fence.check().unwrap();
    assert_eq!((permit.partition(), permit.token() == token()), (Partition(3), true));
}

#[test]
fn at_the_deadline_it_is_over() {
    let (clock, lease, fence) = proved();
    clock.advance(SESSION - Duration::from_nanos(1));
    lease.polled();
    assert_eq!(refusal(&fence), None);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(refusal(&fence), Some(Fenced::DeadlinePassed));
}

#[test]
fn without_the_deadline_a_worker_that_cannot_prove_goes_on() {
    let (clock, _, fence) = proved_with(Guards { deadline: false, ..Guards::default() });
    clock.advance(SESSION * 1_000);
    assert_eq!(refusal(&fence), None);
}

#[test]
fn a_suspended_machine_wakes_up_fenced() {
    let (clock, lease, fence) = proved();
    let began = clock.now();
    clock.advance(Duration::from_secs(8 * 3_600));
    lease.polled();
    assert_eq!(refusal(&fence), Some(Fenced::DeadlinePassed), "the time asleep counts");
    lease.proved(began.plus(SESSION));
    assert_eq!(refusal(&fence), Some(Fenced::DeadlinePassed), "a commit from before it is dead on arrival");
    lease.proved(clock.now().plus(SESSION));
    assert_eq!(refusal(&fence), None);
}

#[test]
fn a_polling_thread_that_stands_still_stops_the_worker_though_its_proofs_go_on() {
    let (clock, lease, fence) = proved();
    clock.advance(POLL_LIMIT);
    assert_eq!(refusal(&fence), None);
    clock.advance(Duration::from_nanos(1));
    lease.proved(clock.now().plus(SESSION));
    assert_eq!(refusal(&fence), Some(Fenced::PollStalled));
    lease.polled();
    assert_eq!(refusal(&fence), None);
}

#[test]
fn without_a_watchdog_nobody_notices_a_polling_thread_that_stands_still() {
    let clock = Clock::by_hand();
    let lease = Lease::new(clock.clone(), Duration::MAX);
    let fence = Fence::raise(Partition(3), token(), Arc::clone(&lease));
    clock.advance(POLL_LIMIT * 1_000);
    lease.proved(clock.now().plus(SESSION));
    assert_eq!(refusal(&fence), None);
}

#[test]
fn a_deadline_never_moves_back() {
    let (clock, lease, fence) = proved();
    let until = lease.until();
    lease.proved(clock.now());
    assert_eq!((lease.until(), refusal(&fence)), (until, None), "the answer of an earlier commit came later");
}

#[test]
fn a_member_that_is_disproved_may_do_nothing_until_the_next_proof() {
    let (clock, lease, fence) = proved();
    lease.disproved();
    assert_eq!((lease.until(), refusal(&fence)), (BootTime::ZERO, Some(Fenced::DeadlinePassed)));
    lease.proved(clock.now().plus(SESSION));
    assert_eq!(refusal(&fence), None);
}

#[test]
fn what_was_given_up_stays_so_and_touches_no_other_fence() {
    let (clock, lease, fence) = proved();
    let regained = Fence::raise(Partition(3), token(), Arc::clone(&lease));
    fence.give_up();
    lease.proved(clock.now().plus(SESSION));
    assert_eq!((refusal(&fence), refusal(&regained)), (Some(Fenced::GivenUp), None));
}

#[test]
fn a_worker_that_ends_admits_nothing_more() {
    let (clock, lease, fence) = proved_with(Guards { deadline: false, ..Guards::default() });
    lease.end();
    lease.proved(clock.now().plus(SESSION));
    assert_eq!(refusal(&fence), Some(Fenced::Ending));
}

#[test]
fn debug_never_shows_what_would_let_a_reader_write() {
    let (_, lease, fence) = proved();
    let me = MemberId::new("member-7770004").unwrap();
    let owner = Owner::fresh(&me);
    let permit = fence.check().unwrap();
    let shown = format!(
        "{:?} {:?} {:?} {me:?} {owner:?} {fence:?} {permit:?} {fence:#?} {lease:?}",
        token(),
        token().generation,
        Some(token())
    );
    assert!(!shown.contains("777000"), "{shown}");
    assert!(!shown.contains(&owner.as_str()[me.as_str().len()..]), "{shown}");
    assert!(shown.contains("Fence(3, [fence])"), "the partition may be shown: {shown}");
    let bare = format!("{:?}{:?}{me:?}{owner:?}", token(), token().generation);
    assert!(!bare.contains(|c: char| c.is_ascii_digit()), "{bare}");
}

#[test]
fn there_is_no_generation_zero_and_no_empty_member() {
    assert!(Generation::new(0).is_none() && Generation::new(1).is_some());
    assert!(MemberId::new("").is_none());
}

#[test]
fn two_claims_of_one_member_are_two() {
    let me = MemberId::new("me").unwrap();
    assert!(Owner::fresh(&me) != Owner::fresh(&me));
}

/// `implements!(T: Trait)` is a constant: the inherent one where the bound holds, else the trait's.
macro_rules! implements {
    ($type:ty: $($bound:tt)+) => {{
        #[allow(dead_code, reason = "unused exactly where the bound holds")]
        trait Otherwise {
            const ANSWER: bool = false;
        }
        impl<T: ?Sized> Otherwise for T {}
        struct Ask<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "unused exactly where the bound does not hold")]
        impl<T: ?Sized + $($bound)+> Ask<T> {
            const ANSWER: bool = true;
        }
        <Ask<$type>>::ANSWER
    }};
}

/// If one of these held, a token could slip into a text, a snapshot, or come from a number.
const _: () = {
    assert!(!implements!(FenceToken: fmt::Display));
    assert!(!implements!(FenceToken: fmt::LowerHex));
    assert!(!implements!(FenceToken: serde::Serialize));
    assert!(!implements!(FenceToken: From<u64>));
    assert!(!implements!(FenceToken: From<(u64, u64, u64)>));
    assert!(!implements!(FenceToken: Default));
    assert!(!implements!(FenceToken: std::str::FromStr));
    assert!(!implements!(u64: From<FenceToken>));
    assert!(!implements!(Generation: fmt::Display));
    assert!(!implements!(Generation: serde::Serialize));
    assert!(!implements!(Generation: From<u64>));
    assert!(!implements!(Owner: fmt::Display));
    assert!(!implements!(Owner: serde::Serialize));
    assert!(!implements!(MemberId: fmt::Display));
    assert!(!implements!(MemberId: serde::Serialize));
    assert!(!implements!(Permit<'static>: Clone));
    // The question can be answered with yes.
    assert!(implements!(u64: fmt::Display) && implements!(u64: serde::Serialize) && implements!(u64: From<u32>));
};
