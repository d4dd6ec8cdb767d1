//! The claims that every adapter of the store port passes. Bring a [`Place`] and write, in a module of tests,
//! `store_conformance!(MyPlace)`: each claim is a test of its own, named for what it claims.
//!
//! The suite speaks to the store through the port, and to the user's own table through the [`Place`]: effects write lines
//! to it, in order, and what is told there is what a user would see.
#![allow(clippy::unwrap_used, reason = "a suite of tests, also where it is built for another crate's")]

use std::{sync::Arc, time::Duration};

use keylane_producer::{
    Attempt, GroupName, Incarnation, Job, JobKey, Offset, Partition, PartitionCount, QueueIdentity, queue::KeyHash,
};

use super::{
    Candidate, ClaimError, ClaimRefused, Claimed, Effect, EffectError, FencedStore, JobWrite, MAX_PARKED,
    PartitionWrite, PartitionWritten, Steer, StopReason, StopRule, StoreSession, Write, Written,
};
use crate::{
    clock::Clock,
    fence::{Fence, Fenced, Generation, Lease, MemberId, Owner},
};

pub mod claims;
pub mod dead;
pub mod keys;
pub mod lines;
pub mod markers;
pub mod once;
pub mod steer;

/// Where a store is tested: fresh for each claim, with a table of the user's own beside the store's.
pub trait Place: Sized {
    /// The adapter.
    type Store: FencedStore<Session: Steer>;

    /// A new, empty place.
    fn fresh() -> Self;
    /// The store there; every call means the same place.
    fn store(&self) -> Self::Store;
    /// An effect that writes this line to the user's table.
    fn tell(&self, line: &str) -> Effect<Self::Store>;
    /// An effect that writes nothing itself but leaves the transaction so that the database refuses its COMMIT.
    fn spoil_commit(&self) -> Effect<Self::Store>;
    /// The lines in the user's table, in the order they were written.
    fn told(&self) -> Vec<String>;
    /// What a user reads from the results table with plain SQL: partition, offset, key, JSON text.
    fn results(&self) -> Vec<(u32, u64, Vec<u8>, String)>;
    /// What persons did, as it was written down, in order: the act alone.
    fn acts(&self) -> Vec<String>;
    /// How many rows hold the partition's markers.
    fn marker_rows(&self, partition: Partition) -> usize;
    /// What an operator's `fence reset` does: raises the epoch of every partition.
    fn raise_epoch(&self);
    /// Closes the partition's row.
    fn close(&self, partition: Partition);
    /// Does `lost`, and puts the fence rows back as they were before it: a fail-over to a copy that missed it.
    fn fail_over(&self, lost: &mut dyn FnMut());
}

/// Makes each claim of the suite a test of its own.
#[macro_export]
macro_rules! store_conformance {
    ($place:ty) => {
        $crate::store_conformance!(@tests $place;
            claims: a_claim_reads_what_was_done, the_first_claim_is_clean,
                the_group_says_where_the_first_claim_begins_and_no_later_one, a_lower_generation_is_refused,
                two_claimants_of_one_generation_do_not_take_turns, a_claim_may_be_said_again_when_its_answer_was_lost,
                a_zombie_cannot_write_to_a_key_that_nobody_touched, a_writer_frozen_across_a_claim_is_fenced,
                a_partition_lost_and_regained_has_another_token,
                a_generation_that_moves_on_elsewhere_does_not_fence_a_retained_partition,
                a_fail_over_that_loses_a_claim_revives_no_token, a_reset_fence_refuses_sessions_of_the_old_epoch,
                a_closed_partition_takes_no_claim_and_no_write, each_fact_of_the_identity_is_compared,
                a_claim_is_for_a_partition_of_the_queue, a_refused_write_is_counted_for_its_worker;
            once: an_effect_and_its_marker_commit_together, a_write_said_again_applies_nothing,
                an_unknown_commit_result_tried_again_applies_once, an_effect_that_fails_fails_alone,
                an_effect_that_panics_fails_alone, a_follower_does_not_overtake_a_job_that_failed,
                an_effect_that_spoils_the_commit_fails_alone, one_fenced_partition_does_not_hold_up_the_other,
                a_local_fence_stops_a_write_before_anything_is_touched,
                a_deadline_that_passes_in_the_transaction_stops_the_commit,
                results_are_read_with_plain_sql, effects_of_a_key_are_told_in_order;
            markers: markers_are_exact_at_each_step_and_collapse, markers_below_the_watermark_are_one_row,
                another_partition_s_markers_are_not_touched;
            keys: a_stopped_key_survives_a_new_claim, a_release_is_conditional_on_what_was_read,
                a_key_that_stops_again_is_not_released_by_an_old_picture,
                a_stop_said_again_changes_nothing, a_quarantined_record_is_done_and_counted,
                suspects_count_deaths, a_handed_over_partition_is_clean, a_job_that_is_done_is_suspected_no_more,
                another_session_sees_that_the_store_changed, a_long_reason_is_cut;
            lines: a_line_keeps_its_jobs_as_they_were, a_line_is_in_order_and_each_of_its_jobs_applies_once,
                a_line_that_changed_is_not_acted_on, a_dropped_line_is_empty_and_its_row_goes,
                a_full_line_takes_no_more_until_there_is_room, nothing_is_parked_behind_a_key_that_does_not_stand,
                a_stale_owner_parks_nothing, an_effect_that_fails_leaves_its_job_in_the_line,
                a_job_that_fails_again_stays_first_in_its_line, a_job_of_a_line_that_ran_stays_suspected;
            dead: a_dead_letter_keeps_its_job_as_it_was_and_its_key_goes_on, a_job_that_was_buried_is_done_until_it_is_replayed,
                a_replayed_dead_letter_runs_once_and_before_what_follows, a_dead_letter_joins_the_line_of_a_key_that_stands,
                a_dead_letter_that_fails_again_leaves_its_line, an_act_on_a_dead_letter_is_done_once_and_written_down, a_stale_owner_buries_nothing,
                full_lines_take_no_dead_letter;
            steer: a_paused_key_takes_its_jobs_into_its_line_and_gives_them_back, a_key_that_stands_is_not_paused,
                a_job_to_leave_out_is_told_until_it_is_dealt_with, a_job_that_is_done_is_not_left_out,
                a_job_of_a_standing_line_is_left_out_at_once, a_job_of_a_line_that_runs_is_left_out_by_its_owner,
                each_act_tells_the_owner_to_look_again, a_note_is_its_owners_and_goes_with_the_claim
        );
    };
    (@tests $place:ty; $($module:ident: $($claim:ident),+);+) => {
        $($(
            #[test]
            fn $claim() {
                $crate::store::conformance::$module::$claim::<$place>();
            }
        )+)+
    };
}

/// A place, a clock that a test turns, and a group of one lease.
pub(crate) struct Rig<P: Place> {
    pub(crate) place: P,
    pub(crate) clock: Clock,
    pub(crate) lease: Arc<Lease>,
}

/// One worker's claim of one partition.
pub(crate) struct Holder<S: FencedStore> {
    pub(crate) session: S::Session,
    pub(crate) fence: Arc<Fence>,
    pub(crate) claimed: Claimed,
}

pub(crate) const P0: Partition = Partition(0);
pub(crate) const P1: Partition = Partition(1);

impl<P: Place> Rig<P> {
    pub(crate) fn new() -> Self {
        Self::at(P::fresh())
    }

    pub(crate) fn at(place: P) -> Self {
        let clock = Clock::by_hand();
        let lease = Lease::new(clock.clone(), Duration::from_secs(3_600));
        lease.proved(clock.now().plus(Duration::from_secs(60)));
        Self { place, clock, lease }
    }

    pub(crate) fn session(&self) -> <P::Store as FencedStore>::Session {
        self.place.store().open(&queue(), &group()).unwrap()
    }

    pub(crate) fn claim(&self, worker: &str, generation: u64, partition: Partition) -> Holder<P::Store> {
        self.try_claim(&candidate(worker, generation, partition)).unwrap()
    }

    pub(crate) fn try_claim(&self, candidate: &Candidate) -> Result<Holder<P::Store>, ClaimError> {
        let mut session = self.session();
        let claimed = session.claim(candidate)?;
        let fence = Fence::raise(candidate.partition, claimed.token, self.lease.clone());
        Ok(Holder { session, fence, claimed })
    }

    /// A job whose effect tells its offset.
    pub(crate) fn job(&self, key: &str, offset: u64) -> JobWrite<P::Store> {
        job(key, offset, Write::Effect(self.place.tell(&format!("{key}:{offset}"))))
    }
}

impl<S: FencedStore> Holder<S> {
    pub(crate) fn part(&self, jobs: Vec<JobWrite<S>>) -> PartitionWrite<S> {
        PartitionWrite {
            fence: self.fence.clone(),
            jobs,
            quarantined: Vec::new(),
            watermark: Offset(0),
            resumed: Vec::new(),
            line_room: MAX_PARKED,
        }
    }

    pub(crate) fn write(&mut self, jobs: Vec<JobWrite<S>>) -> Result<Vec<Written>, Fenced> {
        let part = self.part(jobs);
        self.write_part(part)
    }

    pub(crate) fn write_part(&mut self, part: PartitionWrite<S>) -> Result<Vec<Written>, Fenced> {
        let mut answers: Vec<PartitionWritten> = self.session.write(&mut [part]).unwrap();
        answers.pop().expect("one partition, one answer").jobs
    }
}

pub(crate) fn job<S: FencedStore>(key: &str, offset: u64, write: Write<S>) -> JobWrite<S> {
    let job = Arc::new(Job::new(self::key(key), None).expect("no payload is not too long"));
    JobWrite { offset: Offset(offset), job, attempt: Attempt::FIRST, write }
}

pub(crate) fn key(text: &str) -> JobKey {
    JobKey::try_from(text).unwrap()
}

pub(crate) fn stop<S: FencedStore>(text: &str) -> Write<S> {
    Write::Stop(StopReason { rule: StopRule::Rejected, text: text.into() })
}

pub(crate) fn bury<S: FencedStore>(key: &str, offset: u64) -> JobWrite<S> {
    job(key, offset, Write::Bury(StopReason { rule: StopRule::Rejected, text: "no".into() }))
}

/// The effect, and this before it.
pub(crate) fn first<S: FencedStore>(mut act: impl FnMut() + Send + 'static, mut then: Effect<S>) -> Effect<S> {
    Effect::new(move |tx: &mut S::Tx<'_>| {
        act();
        (then.0)(tx)
    })
}

/// The effect, and this error after it.
pub(crate) fn then_fail<S: FencedStore>(mut effect: Effect<S>) -> Effect<S> {
    Effect::new(move |tx: &mut S::Tx<'_>| -> Result<(), EffectError> {
        (effect.0)(tx)?;
        Err("the effect's own error".into())
    })
}

pub(crate) fn candidate(worker: &str, generation: u64, partition: Partition) -> Candidate {
    let member = MemberId::new(worker).unwrap();
    Candidate {
        partition,
        generation: Generation::new(generation).unwrap(),
        owner: Owner::fresh(&member),
        worker: worker.into(),
        begin: None,
    }
}

pub(crate) fn queue() -> QueueIdentity {
    QueueIdentity {
        cluster: "cluster-1".into(),
        name: "jobs".parse().unwrap(),
        incarnation: Incarnation("made-1".into()),
        partitions: "4".parse::<PartitionCount>().unwrap(),
        hash: KeyHash::Murmur2,
    }
}

pub(crate) fn group() -> GroupName {
    "workers".parse().unwrap()
}

pub(crate) fn refused(answer: Result<impl Sized, ClaimError>) -> ClaimRefused {
    match answer {
        Err(ClaimError::Refused(refused)) => refused,
        Err(ClaimError::Failed(error)) => panic!("the claim failed: {error:?}"),
        Ok(_) => panic!("the claim was granted"),
    }
}

/// One letter a job: applied, done already, failed, stopped, parked, buried, no room.
pub(crate) fn letters(written: &[Written]) -> String {
    let letter = |written: &Written| match written {
        Written::Applied => 'a',
        Written::AlreadyDone => 'd',
        Written::EffectFailed(_) => 'f',
        Written::Stopped => 's',
        Written::Parked => 'p',
        Written::Buried => 'b',
        Written::NoRoom => 'n',
    };
    written.iter().map(letter).collect()
}
