//! What every adapter of the group port is held to. `group_conformance!(factory)` makes each claim a test; `factory` takes
//! a partition count and makes a [`Bench`]: a fresh queue with a fresh group on it.
//!
//! Written for groups whose rebalances take seconds, come in several steps and skip generations, and whose members must
//! all poll for one to finish. An adapter whose clock is turned by hand runs it in no time.

use std::time::Duration;

use keylane_producer::{Offset, Partition};

use self::stage::Stage;
use super::{CommitError, Group};
use crate::{clock::Clock, fence::Generation};

mod seen;
mod stage;

/// A queue with a group, as the suite needs it.
pub trait Bench {
    /// A member of the adapter.
    type Member: Group + 'static;

    /// Opens one more member; it is not polled yet.
    fn open(&self) -> Self::Member;

    /// Appends this many records to a partition and gives their offsets.
    fn append(&self, partition: Partition, count: usize) -> Vec<Offset>;

    /// What the group's sessions count on. If it is turned by hand, the suite turns it.
    fn clock(&self) -> Clock;

    /// The session timeout of all members.
    fn session_timeout(&self) -> Duration;

    /// How long the slowest rebalance may take on a busy machine, by the machine's clock.
    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Ends a member without a word to the group.
    fn kill(&self, member: Self::Member) {
        drop(member);
    }
}

/// Makes a test of each claim.
#[macro_export]
macro_rules! group_conformance {
    ($factory:expr) => {
        $crate::group_conformance! { @each $factory;
            one_member_gets_every_partition
            two_members_share_without_overlap
            a_newer_owner_has_a_higher_generation
            records_come_in_order_from_where_they_were_resumed
            nothing_comes_before_resume
            nothing_comes_after_release
            a_revoked_partition_moves_only_after_its_release
            a_silent_member_loses_its_partitions_after_its_session_and_not_before
            a_stale_member_cannot_commit
            a_former_self_cannot_commit
            a_stale_generation_cannot_commit
            a_member_cannot_commit_for_a_partition_that_it_does_not_hold
            a_commit_is_read_back
            a_commit_restarts_the_session
            offsets_outlive_all_members
            the_generation_does_not_restart_in_an_empty_group
            leaving_hands_over_before_the_session_ends
            a_paused_partition_does_not_hold_up_the_others
            a_paused_partition_goes_on_where_it_stands
            a_partition_lost_and_regained_has_a_higher_generation
        }
    };
    (@each $factory:expr; $($claim:ident)*) => {
        $(
            #[test]
            fn $claim() {
                $crate::group::conformance::$claim($factory);
            }
        )*
    };
}

const P0: Partition = Partition(0);
const P1: Partition = Partition(1);

fn stage<B: Bench>(make: impl FnOnce(u32) -> B, partitions: u32) -> Stage<B> {
    Stage::new(partitions, make(partitions))
}

/// A lone member owns all, in a generation of at least 1.
pub fn one_member_gets_every_partition<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 5);
    let member = stage.enter_and_settle();
    assert_eq!(stage.holds(member).len(), 5);
}

/// Every partition has exactly one of two owners, and each has a share.
pub fn two_members_share_without_overlap<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 5);
    let first = stage.enter_and_settle();
    let second = stage.enter_and_settle();
    let (of_first, of_second) = (stage.holds(first), stage.holds(second));
    assert!(of_first.keys().all(|p| !of_second.contains_key(p)));
    assert_eq!(of_first.len() + of_second.len(), 5);
}

/// Of two owners of a partition, the newer has the higher generation.
pub fn a_newer_owner_has_a_higher_generation<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 4);
    let first = stage.enter_and_settle();
    let before = stage.holds(first);
    let second = stage.enter_and_settle();
    let after = stage.holds(second);
    assert!(!after.is_empty());
    assert!(after.iter().all(|(p, generation)| *generation > before[p]));
}

/// From the offset of the resume, ascending, none missing; from another offset if resumed again.
pub fn records_come_in_order_from_where_they_were_resumed<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 1);
    let mut offsets = stage.bench.append(P0, 700);
    let member = stage.enter_and_settle();
    stage.resume(member, P0, offsets[3]);
    stage.wait_until("all records have come", |seen| seen.members[member].records.len() >= 697);
    offsets.extend(stage.bench.append(P0, 20));
    stage.wait_until("later records have come", |seen| seen.members[member].records.len() >= 717);
    assert_eq!(stage.offsets(member, P0), offsets[3..]);
}

/// Assigned partitions are paused.
pub fn nothing_comes_before_resume<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 2);
    stage.bench.append(P0, 3);
    let offsets = stage.bench.append(P1, 3);
    let member = stage.enter_and_settle();
    stage.resume(member, P1, offsets[0]);
    stage.wait_until("the resumed partition's records have come", |seen| seen.members[member].records.len() >= 3);
    stage.rounds(5);
    assert_eq!(stage.offsets(member, P0), []);
}

/// A member that released a partition gets no record of it; the new owner gets all.
pub fn nothing_comes_after_release<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 2);
    let firsts: Vec<Offset> = [P0, P1].map(|p| stage.bench.append(p, 1)[0]).to_vec();
    let first = stage.enter_and_settle();
    stage.resume(first, P0, firsts[0]);
    stage.resume(first, P1, firsts[1]);
    stage.wait_until("the first records have come", |seen| seen.members[first].records.len() >= 2);
    let second = stage.enter_and_settle();
    let moved = *stage.holds(second).first_key_value().expect("the second member has a share").0;
    stage.bench.append(moved, 5);
    stage.resume(second, moved, firsts[usize::from(moved == P1)]);
    stage.wait_until("the new owner has all records", |seen| seen.members[second].records.len() >= 6);
    stage.rounds(3);
    assert_eq!(stage.offsets(first, moved).len(), 1);
}

/// As long as the owner has not released it, nobody else gets it.
pub fn a_revoked_partition_moves_only_after_its_release<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 4);
    let first = stage.enter_and_settle();
    stage.hold_back(first);
    let second = stage.enter();
    stage.wait_until("the owner is asked", |seen| !seen.members[first].revoking.is_empty());
    // Not `rounds`: an adapter may wait for the answer inside the owner's poll.
    let polls = stage.look(|seen| seen.members[second].polls);
    stage.wait_until("the other member polls on", |seen| seen.members[second].polls > polls + 5);
    assert!(stage.holds(second).is_empty());
    stage.release_all(first);
    stage.settle();
    assert!(!stage.holds(second).is_empty());
}

/// Death without a word costs a session, no less.
pub fn a_silent_member_loses_its_partitions_after_its_session_and_not_before<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 4);
    let first = stage.enter_and_settle();
    let second = stage.enter_and_settle();
    let owned = stage.holds(first);
    let proved = stage.now();
    stage.try_commit(first, &[]).expect("an owner can prove its membership");
    stage.kill(first);
    stage.settle();
    let gave_way = proved.plus(stage.bench.session_timeout());
    stage.look(|seen| {
        let regained = owned.keys().map(|p| seen.members[second].holds[p].since);
        assert!(regained.min() >= Some(gave_way), "a partition moved before the session was over");
    });
}

/// After another member has its partitions, its commit changes nothing.
pub fn a_stale_member_cannot_commit<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 1);
    let offsets = stage.bench.append(P0, 3);
    let stale = stage.enter_and_settle();
    stage.commit(stale, P0, offsets[1]);
    stage.kill(stale);
    let owner = stage.enter_and_settle();
    assert!(stage.try_commit(stale, &[(P0, offsets[2])]).is_err(), "a stale commit landed");
    assert_eq!(stage.committed(owner, P0), Some(offsets[1]));
}

/// A member that joined anew cannot commit as what it was before.
pub fn a_former_self_cannot_commit<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 1);
    let offsets = stage.bench.append(P0, 3);
    let member = stage.enter_and_settle();
    stage.commit(member, P0, offsets[1]);
    let (former, generation) = (stage.id(member), stage.generation(member));
    stage.rejoin(member);
    stage.settle();
    let answer = stage.commit_as(member, &former, generation, &[(P0, offsets[2])]);
    assert!(answer.is_err(), "a stale commit landed");
    assert_eq!(stage.committed(member, P0), Some(offsets[1]));
}

/// A live owner that commits in a generation gone by is refused; in the current one it is not.
pub fn a_stale_generation_cannot_commit<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 2);
    let member = stage.enter_and_settle();
    let before = stage.generation(member);
    stage.enter_and_settle();
    let kept = *stage.holds(member).first_key_value().expect("the first member keeps a share").0;
    let offsets = stage.bench.append(kept, 2);
    stage.commit(member, kept, offsets[0]);
    let id = stage.id(member);
    let answer = stage.commit_as(member, &id, before, &[(kept, offsets[1])]);
    assert!(answer.is_err(), "a stale commit landed");
    assert_eq!(stage.committed(member, kept), Some(offsets[0]));
    stage.commit(member, kept, offsets[1]);
}

/// A live member commits for what it holds only, also in the current generation.
pub fn a_member_cannot_commit_for_a_partition_that_it_does_not_hold<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 2);
    let first = stage.enter_and_settle();
    let second = stage.enter_and_settle();
    let other = *stage.holds(second).first_key_value().expect("the second member has a share").0;
    let offsets = stage.bench.append(other, 3);
    stage.commit(second, other, offsets[1]);
    let answer = stage.try_commit(first, &[(other, offsets[2])]);
    assert!(matches!(answer, Err(CommitError::NotOwner(p)) if p == other), "a commit for another landed: {answer:?}");
    assert_eq!(stage.committed(second, other), Some(offsets[1]));
}

/// `None` before the first commit, then the offset, then the next.
pub fn a_commit_is_read_back<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 2);
    let offsets = stage.bench.append(P0, 3);
    let member = stage.enter_and_settle();
    assert_eq!(stage.committed(member, P0), None);
    for &offset in &offsets[1..] {
        stage.commit(member, P0, offset);
        assert_eq!(stage.committed(member, P0), Some(offset));
    }
    assert_eq!(stage.committed(member, P1), None);
}

/// A member that commits and does not poll outlives several sessions. (A poll limit of the adapter must be longer.)
pub fn a_commit_restarts_the_session<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 2);
    let member = stage.enter_and_settle();
    let other = stage.enter_and_settle();
    stage.halt(member);
    let until = stage.now().plus(stage.bench.session_timeout() * 2);
    while stage.now() < until {
        stage.try_commit(member, &[]).expect("a member that commits stays one");
        stage.rounds(5);
    }
    assert_eq!(stage.holds(other).len(), 1);
}

/// What is committed stays when the last member has left.
pub fn offsets_outlive_all_members<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 1);
    let offsets = stage.bench.append(P0, 3);
    let member = stage.enter_and_settle();
    stage.commit(member, P0, offsets[2]);
    stage.leave(member);
    let next = stage.enter_and_settle();
    assert_eq!(stage.committed(next, P0), Some(offsets[2]));
}

/// A group that was empty goes on counting (if it has committed something: Kafka may forget one that has not).
pub fn the_generation_does_not_restart_in_an_empty_group<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 1);
    let offsets = stage.bench.append(P0, 1);
    let mut newest: Option<Generation> = None;
    for _ in 0..3 {
        let member = stage.enter_and_settle();
        assert!(Some(stage.generation(member)) > newest);
        newest = Some(stage.generation(member));
        stage.commit(member, P0, offsets[0]);
        stage.leave(member);
    }
}

/// Who leaves in order does not make the others wait for a session.
pub fn leaving_hands_over_before_the_session_ends<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 4);
    let first = stage.enter_and_settle();
    let second = stage.enter_and_settle();
    let owned = stage.holds(first);
    let asked = stage.now();
    stage.leave(first);
    stage.settle();
    let too_late = asked.plus(stage.bench.session_timeout());
    stage.look(|seen| {
        let regained = owned.keys().map(|p| seen.members[second].holds[p].since);
        assert!(regained.max() < Some(too_late), "leaving took as long as dying");
    });
}

/// Nothing of a paused partition, everything of the other; after a resume, from there.
pub fn a_paused_partition_does_not_hold_up_the_others<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 2);
    let [paused, flowing] = [P0, P1].map(|p| stage.bench.append(p, 1)[0]);
    let member = stage.enter_and_settle();
    stage.resume(member, P0, paused);
    stage.resume(member, P1, flowing);
    stage.wait_until("both have come", |seen| seen.members[member].records.len() >= 2);
    stage.pause(member, P0);
    stage.rounds(3);
    stage.bench.append(P0, 10);
    stage.bench.append(P1, 10);
    stage.wait_until("the other partition flows", |seen| seen.members[member].records.len() >= 12);
    stage.rounds(3);
    assert_eq!(stage.offsets(member, P0), [paused]);
    stage.resume(member, P0, paused.next());
    stage.wait_until("the paused partition flows again", |seen| seen.members[member].records.len() >= 22);
}

/// It goes on where it stands, with what came meanwhile.
pub fn a_paused_partition_goes_on_where_it_stands<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 1);
    let first = stage.bench.append(P0, 3)[0];
    let member = stage.enter_and_settle();
    stage.resume(member, P0, first);
    for told in [3, 8, 13] {
        stage.wait_until("all have come", |seen| seen.members[member].records.len() >= told);
        stage.pause(member, P0);
        stage.rounds(3);
        stage.bench.append(P0, 5);
        stage.rounds(3);
        assert_eq!(stage.offsets(member, P0).len(), told, "a paused partition is told more");
        stage.go_on(member, P0);
    }
    stage.wait_until("the last have come", |seen| seen.members[member].records.len() >= 18);
}

/// The same process may own it again; its claim must not be mistaken for the older one.
pub fn a_partition_lost_and_regained_has_a_higher_generation<B: Bench>(make: impl FnOnce(u32) -> B) {
    let mut stage = stage(make, 2);
    let member = stage.enter_and_settle();
    let before = stage.holds(member);
    stage.rejoin(member);
    stage.settle();
    let after = stage.holds(member);
    assert!(after.iter().all(|(p, generation)| *generation > before[p]));
}
