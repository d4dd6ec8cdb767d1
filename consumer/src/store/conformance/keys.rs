//! Keys that stop and go on, records that are no jobs, and jobs that may have killed a worker.
#![allow(missing_docs, reason = "each function's name is its claim")]

use keylane_producer::Offset;

use super::{Holder, P0, P1, Place, Rig, StopRule, StoreSession, Write, job, key, letters, stop};
use crate::store::{MAX_REASON_BYTES, Quarantined, StopReason, StoppedKey};

pub fn a_stopped_key_survives_a_new_claim<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    assert_eq!(letters(&a.write(vec![job("k", 3, stop("no such account")), rig.job("l", 4)]).unwrap()), "sa");
    let b = rig.claim("b", 2, P0);
    let [found] = &b.claimed.stopped[..] else { panic!("one key stopped: {:?}", b.claimed.stopped) };
    assert_eq!((&found.key, found.offset, found.reason.rule), (&key("k"), Offset(3), StopRule::Rejected));
    assert_eq!(&*found.reason.text, "no such account");
}

pub fn a_release_is_conditional_on_what_was_read<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![job("k", 3, stop("x"))]).unwrap();
    let seen = stopped(&mut a);
    let mut person = rig.session();
    assert!(!person.release_key(P0, &key("k"), seen.version + 1).unwrap());
    assert!(!person.release_key(P0, &key("other"), seen.version).unwrap());
    assert!(!person.release_key(P1, &key("k"), seen.version).unwrap());
    assert!(a.session.steering(&[P0, P1]).unwrap().keys.is_empty());
    assert!(person.release_key(P0, &key("k"), seen.version).unwrap());
    assert!(!person.release_key(P0, &key("k"), seen.version).unwrap(), "the row moved on");
    let released = a.session.steering(&[P1, P0]).unwrap().keys;
    assert_eq!((released.len(), released[0].0, &released[0].1.key), (1, P0, &key("k")));
    assert!(released[0].1.version > seen.version);
    assert!(rig.claim("b", 2, P0).claimed.stopped[0].released, "the next owner is told, for it has the line to run");
}

pub fn a_key_that_stops_again_is_not_released_by_an_old_picture<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![job("k", 3, stop("x"))]).unwrap();
    let old = stopped(&mut a);
    let version = release(&rig, &mut a);
    let mut part = a.part(vec![job("k", 3, stop("again"))]);
    part.resumed = vec![(key("k"), version)];
    assert_eq!(letters(&a.write_part(part).unwrap()), "s");
    for stale in [old.version, version] {
        assert!(!rig.session().release_key(P0, &key("k"), stale).unwrap());
    }
    assert_eq!(&*stopped(&mut a).reason.text, "again");
}

pub fn a_stop_said_again_changes_nothing<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut batch = [a.part(vec![job("k", 0, stop("x")), rig.job("k", 1)])];
    for _ in 0..2 {
        let answers = a.session.write(&mut batch).unwrap();
        assert_eq!(letters(answers[0].jobs.as_ref().unwrap()), "sf", "its follower waits, also when it is said again");
    }
    let first = stopped(&mut a);
    assert_eq!(a.session.overview().unwrap()[0].done.floor, 1, "it is in its line");
    a.session.write(&mut batch).unwrap();
    assert_eq!(stopped(&mut a), first, "saying it again changes nothing");
    assert!(rig.place.told().is_empty());
}

pub fn a_quarantined_record_is_done_and_counted<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    for key in [None, Some("k".into())] {
        let mut part = a.part(vec![]);
        part.quarantined.push(Quarantined { offset: Offset(0), key, reason: "its key belongs elsewhere".into() });
        assert!(a.write_part(part).unwrap().is_empty());
    }
    let overview = a.session.overview().unwrap();
    assert_eq!((overview[0].quarantined, overview[0].done.floor, overview[1].quarantined), (1, 1, 0));
}

pub fn suspects_count_deaths<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    start(&mut a, &[4, 5, 6]);
    a.write(vec![rig.job("k", 5)]).unwrap();
    let mut b = rig.claim("b", 2, P0);
    assert_eq!(b.claimed.suspects, [(Offset(4), 1), (Offset(6), 1)]);
    // b runs both for a moment; one fails and waits for its next try when b dies.
    start(&mut b, &[4, 6]);
    start(&mut b, &[6]);
    let mut c = rig.claim("c", 3, P0);
    assert_eq!(c.claimed.suspects, [(Offset(4), 1), (Offset(6), 2)]);
    // The worst one stops its key, which clears it of being a suspect.
    c.write(vec![job("k", 6, stop("workers died"))]).unwrap();
    assert_eq!(rig.claim("d", 4, P0).claimed.suspects, [(Offset(4), 1)]);
}

pub fn a_handed_over_partition_is_clean<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    start(&mut a, &[1]);
    assert_eq!(a.session.hand_over(&a.fence).unwrap(), Ok(()));
    let b = rig.claim("b", 2, P0);
    assert!(b.claimed.clean && b.claimed.suspects.is_empty());
    assert!(!rig.claim("c", 3, P0).claimed.clean, "each owner hands over for itself");
}

pub fn a_job_that_is_done_is_suspected_no_more<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    start(&mut a, &[1, 2, 9]);
    let mut b = rig.claim("b", 2, P0);
    assert_eq!(b.claimed.suspects.len(), 3);
    b.write(vec![rig.job("k", 2)]).unwrap();
    let mut part = b.part(Vec::new());
    part.watermark = Offset(2);
    b.write_part(part).unwrap();
    assert_eq!(rig.claim("c", 3, P0).claimed.suspects, [(Offset(9), 1)]);
}

pub fn another_session_sees_that_the_store_changed<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut watcher = rig.session();
    watcher.changed().unwrap();
    assert!(!watcher.changed().unwrap());
    a.write(vec![job("k", 3, stop("x"))]).unwrap();
    assert!(watcher.changed().unwrap());
    assert!(!watcher.changed().unwrap());
}

pub fn a_long_reason_is_cut<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let text = "é".repeat(MAX_REASON_BYTES).into();
    let reason = Write::Stop(StopReason { rule: StopRule::OutOfAttempts, text });
    a.write(vec![job("k", 0, reason)]).unwrap();
    let kept = stopped(&mut a).reason.text;
    assert!(kept.len() <= MAX_REASON_BYTES && kept.len() > MAX_REASON_BYTES - 16 && kept.ends_with("é… (cut)"));
}

fn start<S: super::FencedStore>(holder: &mut Holder<S>, offsets: &[u64]) {
    let offsets: Vec<_> = offsets.iter().copied().map(Offset).collect();
    holder.session.starting(&holder.fence, &offsets).unwrap().unwrap();
}

/// The one stopped key of partition 0.
fn stopped<S: super::FencedStore>(holder: &mut Holder<S>) -> StoppedKey {
    let mut keys = holder.session.overview().unwrap().swap_remove(0).stopped;
    assert_eq!(keys.len(), 1);
    keys.remove(0)
}

/// A person releases it; the version it has then.
fn release<P: Place>(rig: &Rig<P>, holder: &mut Holder<P::Store>) -> u64 {
    let seen = stopped(holder);
    assert!(rig.session().release_key(P0, &seen.key, seen.version).unwrap());
    holder.session.steering(&[P0]).unwrap().keys[0].1.version
}
