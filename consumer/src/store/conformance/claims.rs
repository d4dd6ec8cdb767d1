//! Who wins a partition, and that nobody else writes to it.
#![allow(missing_docs, reason = "each function's name is its claim")]

use keylane_producer::{Incarnation, Offset, Partition};

use super::{
    Candidate, ClaimRefused, Fence, Fenced, FencedStore, P0, P1, Place, Rig, StoreSession, candidate, group, letters,
    queue, refused,
};

pub fn a_claim_reads_what_was_done<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut part = a.part([0, 1, 2, 5, 6, 9].map(|offset| rig.job("k", offset)).into());
    part.watermark.0 = 3;
    assert_eq!(letters(&a.write_part(part).unwrap()), "aaaaaa");
    let b = rig.claim("b", 2, P0);
    assert_eq!((b.claimed.done.floor, b.claimed.done.ranges), (3, vec![(5, 6), (9, 9)]));
}

pub fn the_first_claim_is_clean<P: Place>() {
    let rig = Rig::<P>::new();
    let first = rig.claim("a", 1, P0);
    assert!(first.claimed.clean);
    assert!(!rig.claim("b", 2, P0).claimed.clean, "a did not hand over");
}

pub fn the_group_says_where_the_first_claim_begins_and_no_later_one<P: Place>() {
    let rig = Rig::<P>::new();
    let at = |worker: &str, generation, partition, begin| {
        let candidate = Candidate { begin: Some(Offset(begin)), ..candidate(worker, generation, partition) };
        let holder = rig.try_claim(&candidate).unwrap();
        (holder.claimed.done.floor, holder.claimed.done.ranges.clone(), holder)
    };
    let (floor, ranges, mut first) = at("a", 1, P0, 7);
    assert_eq!((floor, ranges), (7, vec![]), "another consumer was there before");
    assert_eq!(letters(&first.write(vec![rig.job("k", 6), rig.job("k", 7)]).unwrap()), "da");
    assert_eq!((at("b", 2, P0, 9).0, rig.place.marker_rows(P0)), (8, 1), "and it is written down");
    // Nothing was committed at the first claim; what was done since is lost with an older copy, and runs again.
    assert_eq!(at("a", 1, P1, 0).0, 0);
    assert_eq!((at("b", 2, P1, 9).0, rig.place.marker_rows(P1)), (0, 0));
}

pub fn a_lower_generation_is_refused<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 5, P0);
    assert_eq!(refused(rig.try_claim(&candidate("b", 4, P0))), ClaimRefused::RowAhead);
    assert_eq!(letters(&a.write(vec![rig.job("k", 0)]).unwrap()), "a", "a refusal changes nothing");
}

pub fn two_claimants_of_one_generation_do_not_take_turns<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 3, P0);
    for _ in 0..3 {
        assert_eq!(refused(rig.try_claim(&candidate("b", 3, P0))), ClaimRefused::EqualGeneration);
    }
    // Also the same member with another nonce: it may be a copy of the machine.
    assert_eq!(refused(rig.try_claim(&candidate("a", 3, P0))), ClaimRefused::EqualGeneration);
    assert_eq!(letters(&a.write(vec![rig.job("k", 0)]).unwrap()), "a");
}

pub fn a_claim_may_be_said_again_when_its_answer_was_lost<P: Place>() {
    let rig = Rig::<P>::new();
    let mut last = rig.claim("z", 2, P0);
    last.session.starting(&last.fence, &[keylane_producer::Offset(4)]).unwrap().unwrap();
    let mine = candidate("a", 3, P0);
    let mut lost = rig.try_claim(&mine).unwrap();
    let mut again = rig.try_claim(&mine).unwrap();
    assert_eq!(again.claimed.clean, lost.claimed.clean);
    assert_eq!(again.claimed.suspects, lost.claimed.suspects, "one death, counted once");
    assert_eq!(lost.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(letters(&again.write(vec![rig.job("k", 0)]).unwrap()), "a");
}

pub fn a_zombie_cannot_write_to_a_key_that_nobody_touched<P: Place>() {
    let rig = Rig::<P>::new();
    let mut zombie = rig.claim("a", 1, P0);
    let _new = rig.claim("b", 2, P0);
    assert_eq!(zombie.write(vec![rig.job("untouched", 0)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(zombie.session.hand_over(&zombie.fence).unwrap(), Err(Fenced::NewerClaim));
    assert_eq!(
        zombie.session.starting(&zombie.fence, &[keylane_producer::Offset(0)]).unwrap(),
        Err(Fenced::NewerClaim)
    );
    assert!(rig.place.told().is_empty());
}

pub fn a_writer_frozen_across_a_claim_is_fenced<P: Place>() {
    let rig = Rig::<P>::new();
    let mut frozen = rig.claim("a", 1, P0);
    let mut batch = [frozen.part(vec![rig.job("k", 0), rig.job("l", 1)])];
    // It has checked its fence and stands still; the partition moves, and the new owner does one of the jobs.
    batch[0].fence.check().unwrap();
    let mut new = rig.claim("b", 2, P0);
    assert_eq!(letters(&new.write(vec![rig.job("k", 0)]).unwrap()), "a");
    let answers = frozen.session.write(&mut batch).unwrap();
    assert_eq!(*answers[0].jobs.as_ref().unwrap_err(), Fenced::NewerClaim);
    assert_eq!(rig.place.told(), ["k:0"]);
}

pub fn a_partition_lost_and_regained_has_another_token<P: Place>() {
    let rig = Rig::<P>::new();
    let mut before = rig.claim("a", 1, P0);
    let _between = rig.claim("b", 2, P0);
    let mut after = rig.claim("a", 3, P0);
    assert_eq!(before.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(letters(&after.write(vec![rig.job("k", 0)]).unwrap()), "a");
}

pub fn a_generation_that_moves_on_elsewhere_does_not_fence_a_retained_partition<P: Place>() {
    let rig = Rig::<P>::new();
    let mut retained = rig.claim("a", 1, P0);
    let _other = rig.claim("b", 7, P1);
    assert_eq!(letters(&retained.write(vec![rig.job("k", 0)]).unwrap()), "a");
}

pub fn a_fail_over_that_loses_a_claim_revives_no_token<P: Place>() {
    let rig = Rig::<P>::new();
    let mut old = rig.claim("a", 4, P0);
    let mut owner = None;
    rig.place.fail_over(&mut || owner = Some(rig.claim("b", 5, P0)));
    let mut lost = owner.unwrap();
    assert_eq!(lost.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim, "the row does not know this claim");
    // The owner claims again. Its first token must not pass, though epoch and generation are the same.
    let mut again = rig.claim("b", 5, P0);
    assert_eq!(lost.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(old.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(letters(&again.write(vec![rig.job("k", 0)]).unwrap()), "a");
}

pub fn a_look_tells_which_claims_the_store_does_not_know<P: Place>() {
    let rig = Rig::<P>::new();
    let (mut a, mut b) = (rig.claim("a", 4, P0), rig.claim("b", 4, P1));
    let mut gone = |fences: [&std::sync::Arc<Fence>; 2]| {
        let gone = a.session.unknown(&fences.map(std::sync::Arc::clone)).unwrap();
        gone.iter().map(|fence| fence.partition().0).collect::<Vec<_>>()
    };
    assert!(gone([&a.fence, &b.fence]).is_empty());
    let newer = rig.claim("c", 5, P1);
    assert_eq!(gone([&a.fence, &b.fence]), [1]);
    assert_eq!(b.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim, "it tells what a write would");
    let mut lost = None;
    rig.place.fail_over(&mut || lost = Some(rig.claim("d", 6, P1)));
    assert_eq!(gone([&a.fence, &lost.unwrap().fence]), [1]);
    assert!(gone([&a.fence, &newer.fence]).is_empty(), "the one before it stands again");
    rig.place.raise_epoch();
    assert_eq!(gone([&a.fence, &newer.fence]), [0, 1]);
}

pub fn a_reset_fence_refuses_sessions_of_the_old_epoch<P: Place>() {
    let rig = Rig::<P>::new();
    let mut owner = rig.claim("a", 9, P0);
    rig.place.raise_epoch();
    assert_eq!(owner.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(refused(owner.session.claim(&candidate("a", 10, P0))), ClaimRefused::OtherEpoch);
    assert!(rig.try_claim(&candidate("b", 10, P0)).is_ok(), "a session that knows the new epoch");
}

pub fn a_closed_partition_takes_no_claim_and_no_write<P: Place>() {
    let rig = Rig::<P>::new();
    let mut owner = rig.claim("a", 1, P0);
    rig.place.close(P0);
    assert_eq!(owner.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(refused(rig.try_claim(&candidate("b", 2, P0))), ClaimRefused::Closed);
    assert!(owner.session.overview().unwrap()[0].closed);
}

pub fn each_fact_of_the_identity_is_compared<P: Place>() {
    let rig = Rig::<P>::new();
    drop(rig.session());
    let other = |change: fn(&mut keylane_producer::QueueIdentity)| {
        let mut identity = queue();
        change(&mut identity);
        let error = rig.place.store().open(&identity, &group()).err().expect("another identity is refused");
        assert!(matches!(error, crate::Error::Invalid(_)), "{error:?}");
        assert!(error.detail().remedy_text().is_some(), "{error:?} says what to do");
        error.to_string()
    };
    let cluster = other(|q| q.cluster = "cluster-2".into());
    assert!(cluster.contains("cluster-1") && cluster.contains("cluster-2"), "{cluster}");
    let incarnation = other(|q| q.incarnation = Incarnation("made-2".into()));
    assert!(incarnation.contains("incarnation") && incarnation.contains("made-2"), "{incarnation}");
    let count = other(|q| q.partitions = "5".parse().unwrap());
    assert!(count.contains("partition count") && count.contains('4') && count.contains('5'), "{count}");
    // Another group of the same queue, and another queue, are pinned on their own.
    rig.place.store().open(&queue(), &"others".parse().unwrap()).unwrap();
    let mut elsewhere = queue();
    elsewhere.name = "more".parse().unwrap();
    elsewhere.incarnation = Incarnation("made-9".into());
    rig.place.store().open(&elsewhere, &group()).unwrap();
}

pub fn a_claim_is_for_a_partition_of_the_queue<P: Place>() {
    let rig = Rig::<P>::new();
    let answer = rig.session().claim(&candidate("a", 1, Partition(4)));
    assert!(matches!(answer, Err(super::ClaimError::Failed(crate::Error::Invalid(_)))));
}

pub fn a_refused_write_is_counted_for_its_worker<P: Place>() {
    let rig = Rig::<P>::new();
    // One store, as in one process: it knows the names of its claims.
    let store = rig.place.store();
    let mut zombie = store.open(&queue(), &group()).unwrap();
    let token = zombie.claim(&candidate("old", 1, P0)).unwrap().token;
    let fence = Fence::raise(P0, token, rig.lease.clone());
    let mut new = rig.claim("new", 2, P0);
    for _ in 0..3 {
        let jobs = vec![rig.job("k", 0), rig.job("k", 1)];
        let part = super::PartitionWrite {
            fence: fence.clone(),
            jobs,
            quarantined: vec![],
            watermark: keylane_producer::Offset(0),
            resumed: vec![],
            line_room: 100,
        };
        assert!(zombie.write(&mut [part]).unwrap()[0].jobs.is_err());
    }
    let overview = new.session.overview().unwrap();
    assert_eq!(overview.len(), 4);
    assert_eq!(overview[0].worker.as_deref(), Some("new"));
    let refused = &overview[0].refused[..];
    assert_eq!((refused.len(), &*refused[0].worker, refused[0].writes, refused[0].jobs), (1, "old", 3, 6));
    assert!(overview[1].refused.is_empty() && overview[1].worker.is_none());
}
