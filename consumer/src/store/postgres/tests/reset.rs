//! An operator's reset.

use keylane_producer::{Incarnation, QueueIdentity};

use super::BaseRig;
use crate::{
    error::Error,
    fence::Fenced,
    store::{
        ClaimRefused, FencedStore, Progress, Reset, ResetOrder, StoreSession,
        conformance::{
            P0, Place, candidate, group, job, letters, lines::newer_jobs_of_a_parked_key_wait_in_its_new_place, queue,
            refused, stop,
        },
    },
};

fn reset(rig: &BaseRig, queue: &QueueIdentity, dry_run: bool) -> Result<Reset, Error> {
    let order = ResetOrder { who: "ann@ops".into(), why: "ticket 4711".into(), dry_run };
    rig.place.store().reset(queue, &group(), &order)
}

fn counting(partitions: u32) -> QueueIdentity {
    QueueIdentity { partitions: partitions.to_string().parse().unwrap(), ..queue() }
}

#[test]
fn after_a_reset_of_postgres_old_tokens_and_sessions_are_refused_and_progress_stays() {
    let rig = BaseRig::new();
    let mut owner = rig.claim("a", 9, P0);
    owner.write(vec![rig.job("k", 0)]).unwrap();
    assert_eq!(reset(&rig, &queue(), true).unwrap(), reset(&rig, &queue(), false).unwrap(), "a dry run tells the same");
    assert_eq!(owner.write(vec![rig.job("k", 1)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(refused(owner.session.claim(&candidate("a", 10, P0))), ClaimRefused::OtherEpoch);
    let mut new = rig.claim("b", 1, P0);
    assert_eq!(letters(&new.write(vec![rig.job("k", 0), rig.job("k", 1)]).unwrap()), "da");
    let acts = rig.place.store().acts(&queue(), &group()).unwrap();
    assert_eq!((acts.len(), &*acts[0].who, &*acts[0].why), (1, "ann@ops", "ticket 4711"));
}

#[test]
fn newer_jobs_of_a_parked_key_wait_in_its_new_place_until_the_older_line_is_through_on_postgres() {
    let rig = BaseRig::new();
    newer_jobs_of_a_parked_key_wait_in_its_new_place(&rig, |grown| reset(&rig, grown, false).unwrap());
}

#[test]
fn a_reset_of_postgres_accepts_more_partitions_and_a_queue_made_anew() {
    let rig = BaseRig::new();
    let mut owner = rig.claim("a", 9, P0);
    owner.write(vec![rig.job("k", 0), job("bad", 1, stop("no"))]).unwrap();
    assert!(matches!(reset(&rig, &counting(3), false), Err(Error::Invalid(_))));
    assert_eq!(reset(&rig, &counting(6), false).unwrap().added, 2);
    let session = rig.place.store().open(&counting(6), &group()).unwrap();
    assert_eq!(session.former_counts().iter().map(|count| count.0.get()).collect::<Vec<_>>(), [4]);
    let anew = QueueIdentity { incarnation: Incarnation("made-2".into()), ..counting(6) };
    let done = reset(&rig, &anew, false).unwrap();
    assert_eq!((done.forgets_progress, done.stopped_forgotten), (true, 1));
    let claimed = rig.place.store().open(&anew, &group()).unwrap().claim(&candidate("b", 1, P0)).unwrap();
    assert_eq!(claimed.done, Progress { anew: true, ..Progress::default() });
}
