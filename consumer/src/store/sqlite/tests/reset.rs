//! An operator's reset: it is safe for whoever wrote before, and forgets only what means nothing any more.

use keylane_producer::{Incarnation, QueueIdentity};

use super::{FileRig, SqliteStore, sql};
use crate::{
    error::Error,
    fence::Fenced,
    store::{
        ClaimRefused, DeadAct, DeadActed, DeadOrder, FencedStore, Progress, Reset, ResetOrder, Steer, StoreSession,
        conformance::{
            Holder, P0, P1, Place, bury, candidate, group, job, letters,
            lines::newer_jobs_of_a_parked_key_wait_in_its_new_place, queue, refused, stop,
        },
    },
};

fn order(dry_run: bool) -> ResetOrder {
    ResetOrder { who: "ann@ops".into(), why: "ticket 4711".into(), dry_run }
}

fn reset(rig: &FileRig, queue: &QueueIdentity) -> Reset {
    rig.place.store().reset(queue, &group(), &order(false)).unwrap()
}

/// Of so many partitions.
fn counting(partitions: u32) -> QueueIdentity {
    QueueIdentity { partitions: partitions.to_string().parse().unwrap(), ..queue() }
}

fn made_anew() -> QueueIdentity {
    QueueIdentity { incarnation: Incarnation("made-2".into()), ..queue() }
}

/// Offset 0 is done and the key of offset 1 stopped, under generation 9.
fn begun() -> (FileRig, Holder<SqliteStore>) {
    let rig = FileRig::new();
    let mut owner = rig.claim("a", 9, P0);
    assert_eq!(letters(&owner.write(vec![rig.job("k", 0), job("bad", 1, stop("no"))]).unwrap()), "as");
    (rig, owner)
}

#[test]
fn after_a_reset_an_old_token_is_refused_whatever_its_generation() {
    let (rig, mut owner) = begun();
    let done = reset(&rig, &queue());
    assert_eq!((done.partitions, done.added, done.forgets_progress), (4, 0, false));
    assert_eq!(owner.write(vec![rig.job("k", 2)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(refused(owner.session.claim(&candidate("a", 10, P0))), ClaimRefused::OtherEpoch);
    assert_eq!(rig.place.told(), ["k:0"]);
    let mut new = rig.claim("b", 1, P0);
    assert_eq!(letters(&new.write(vec![rig.job("k", 2)]).unwrap()), "a", "a group that began anew at 1 goes on");
}

/// Its place is another job's then.
#[test]
fn a_dead_letter_of_an_earlier_making_is_kept_and_not_replayed() {
    let (rig, mut owner) = begun();
    assert_eq!(letters(&owner.write(vec![bury("k", 2)]).unwrap()), "b");
    reset(&rig, &made_anew());
    let mut person = rig.place.store().open(&made_anew(), &group()).unwrap();
    let letter = person.dead_letters(0, 10).unwrap().remove(0);
    assert!(letter.outlived);
    let order = |act| DeadOrder { number: letter.number, act, who: "ann@ops".into(), why: "ticket 4711".into() };
    assert_eq!(person.act_on_dead(&order(DeadAct::Replay)).unwrap(), DeadActed::Outlived);
    assert!(person.dead_job(letter.number).unwrap().is_some(), "nothing was done");
    assert_eq!(person.act_on_dead(&order(DeadAct::Drop)).unwrap(), DeadActed::Done);
}

/// The twin: without the epoch the same reset of the generation lets the stale session take the partition back.
#[test]
fn a_reset_that_does_not_raise_the_epoch_lets_the_old_session_claim() {
    let (rig, mut owner) = begun();
    rig.place.sql().execute_batch("UPDATE keylane_fence SET gen = 0, owner = ''").unwrap();
    let _new = rig.claim("b", 1, P0);
    assert!(owner.session.claim(&candidate("a", 10, P0)).is_ok());
}

#[test]
fn a_reset_of_the_same_queue_keeps_markers_and_stopped_keys() {
    let (rig, _owner) = begun();
    reset(&rig, &queue());
    let mut new = rig.claim("b", 1, P0);
    assert_eq!((new.claimed.done.floor, new.claimed.stopped.len()), (2, 1));
    assert_eq!(letters(&new.write(vec![rig.job("k", 0)]).unwrap()), "d", "it is not applied again");
}

#[test]
fn a_raised_count_is_remembered_so_that_old_jobs_stay_at_home() {
    let (rig, _owner) = begun();
    assert!(rig.place.store().open(&counting(6), &group()).is_err(), "another count is refused before the reset");
    let done = reset(&rig, &counting(6));
    assert_eq!((done.added, done.forgets_progress, done.changed[0].0), (2, false, "partition count"));
    reset(&rig, &counting(8));
    let session = rig.place.store().open(&counting(8), &group()).unwrap();
    let former: Vec<u32> = session.former_counts().iter().map(|count| count.0.get()).collect();
    assert_eq!(former, [4, 6]);
}

/// R37 for lines: the key has another place, and what waits in the old one comes first.
#[test]
fn newer_jobs_of_a_parked_key_wait_in_its_new_place_until_the_older_line_is_through() {
    let rig = FileRig::new();
    newer_jobs_of_a_parked_key_wait_in_its_new_place(&rig, |grown| reset(&rig, grown));
}

#[test]
fn a_queue_that_was_made_anew_begins_without_markers_and_stopped_keys() {
    let (rig, _owner) = begun();
    reset(&rig, &counting(6));
    let anew = QueueIdentity { partitions: counting(6).partitions, ..made_anew() };
    let done = reset(&rig, &anew);
    assert_eq!((done.forgets_progress, done.stopped_forgotten, done.changed[0].0), (true, 1, "incarnation"));
    let mut session = rig.place.store().open(&anew, &group()).unwrap();
    assert!(session.former_counts().is_empty());
    let claimed = session.claim(&candidate("b", 1, P0)).unwrap();
    assert_eq!(
        claimed.done,
        Progress { anew: true, ..Progress::default() },
        "the group's commits are of the earlier one"
    );
    assert_eq!(claimed.stopped.len(), 0);
}

#[test]
fn a_dry_run_tells_the_same_and_changes_nothing() {
    let (rig, mut owner) = begun();
    let store = rig.place.store();
    let markers = rig.place.marker_rows(P0);
    let told = store.reset(&made_anew(), &group(), &order(true)).unwrap();
    assert_eq!(rig.place.marker_rows(P0), markers);
    assert_eq!(letters(&owner.write(vec![rig.job("k", 2)]).unwrap()), "a", "the owner goes on");
    assert!(store.acts(&queue(), &group()).unwrap().is_empty());
    assert_eq!(store.reset(&made_anew(), &group(), &order(false)).unwrap(), told);
}

#[test]
fn fewer_partitions_are_refused_and_nothing_is_fenced() {
    let (rig, mut owner) = begun();
    let refused = rig.place.store().reset(&counting(3), &group(), &order(false)).unwrap_err();
    assert!(
        matches!(refused, Error::Invalid(_)) && refused.detail().what().contains("fewer than the 4"),
        "{refused:?}"
    );
    assert_eq!(letters(&owner.write(vec![rig.job("k", 2)]).unwrap()), "a");
}

#[test]
fn a_reset_is_written_down_with_who_and_why() {
    let (rig, _owner) = begun();
    let _other = rig.claim("b", 1, P1);
    reset(&rig, &queue());
    reset(&rig, &counting(5));
    let acts = rig.place.store().acts(&queue(), &group()).unwrap();
    assert_eq!(acts.len(), 2);
    assert!(acts.iter().all(|act| (&*act.who, &*act.why, &*act.act) == ("ann@ops", "ticket 4711", "fence reset")));
    assert!(acts[0].detail.contains("same queue") && acts[1].detail.contains("partition count: 4 -> 5"), "{acts:?}");
}

#[test]
fn an_effect_cannot_write_down_what_an_operator_did() {
    let rig = FileRig::new();
    let mut owner = rig.claim("a", 1, P0);
    let effect = sql("DELETE FROM keylane_audit");
    assert_eq!(letters(&owner.write(vec![job("k", 0, crate::store::Write::Effect(effect))]).unwrap()), "f");
}
