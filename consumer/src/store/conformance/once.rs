//! That an effect and its marker are one, and that a failure is one job's own.
#![allow(missing_docs, reason = "each function's name is its claim")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;

use super::{Effect, Fenced, P0, P1, Place, Rig, StoreSession, Write, Written, first, job, letters, then_fail};

pub fn an_effect_and_its_marker_commit_together<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let jobs = vec![rig.job("k", 0), job("k", 1, Write::Effect(then_fail(rig.place.tell("k:1"))))];
    assert_eq!(letters(&a.write(jobs).unwrap()), "af");
    assert_eq!(rig.place.told(), ["k:0"]);
    assert_eq!(rig.claim("b", 2, P0).claimed.done.floor, 1);
}

pub fn a_write_said_again_applies_nothing<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut batch = [a.part(vec![rig.job("k", 0), rig.job("l", 7), rig.job("l", 7)])];
    let once = a.session.write(&mut batch).unwrap();
    assert_eq!(letters(once[0].jobs.as_ref().unwrap()), "aad", "also twice in one batch");
    let twice = a.session.write(&mut batch).unwrap();
    assert_eq!(letters(twice[0].jobs.as_ref().unwrap()), "ddd");
    assert_eq!(rig.place.told(), ["k:0", "l:7"]);
}

pub fn an_unknown_commit_result_tried_again_applies_once<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut batch = [a.part(vec![rig.job("k", 0), job("k", 1, Write::Result(Bytes::from_static(b"1")))])];
    // The write commits and its answer is lost: the worker tries again over another connection.
    let _lost = a.session.write(&mut batch);
    let answers = rig.session().write(&mut batch).unwrap();
    assert_eq!(letters(answers[0].jobs.as_ref().unwrap()), "dd");
    assert_eq!(rig.place.told(), ["k:0"]);
    assert_eq!(rig.place.results().len(), 1);
}

pub fn an_effect_that_fails_fails_alone<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let jobs = vec![rig.job("k", 0), job("l", 1, Write::Effect(then_fail(rig.place.tell("never")))), rig.job("m", 2)];
    let written = a.write(jobs).unwrap();
    assert_eq!(letters(&written), "afa");
    let Written::EffectFailed(cause) = &written[1] else { unreachable!("its letter is f") };
    assert_eq!(cause.to_string(), "the effect's own error");
    assert_eq!(rig.place.told(), ["k:0", "m:2"]);
    assert_eq!(letters(&a.write(vec![rig.job("l", 1)]).unwrap()), "a", "and can be tried again");
}

pub fn an_effect_that_panics_fails_alone<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let panics = first(|| panic!("a bug of the user's"), rig.place.tell("never"));
    let written = a.write(vec![rig.job("k", 0), job("l", 1, Write::Effect(panics)), rig.job("m", 2)]).unwrap();
    assert_eq!(letters(&written), "afa");
    let Written::EffectFailed(cause) = &written[1] else { unreachable!("its letter is f") };
    assert!(cause.to_string().contains("a bug of the user's"), "{cause}");
    assert_eq!(rig.place.told(), ["k:0", "m:2"]);
}

pub fn a_follower_does_not_overtake_a_job_that_failed<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let fails = || job("k", 0, Write::Effect(then_fail(rig.place.tell("never"))));
    let written = a.write(vec![fails(), rig.job("k", 1), rig.job("l", 2)]).unwrap();
    assert_eq!(letters(&written), "ffa");
    assert_eq!(rig.place.told(), ["l:2"]);
}

pub fn an_effect_that_spoils_the_commit_fails_alone<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut jobs: Vec<_> = (0..9).map(|offset| rig.job(&format!("k{offset}"), offset)).collect();
    jobs[4] = job("k4", 4, Write::Effect(rig.place.spoil_commit()));
    assert_eq!(letters(&a.write(jobs).unwrap()), "aaaafaaaa");
    assert_eq!(rig.place.told().len(), 8);
    let done = rig.claim("b", 2, P0).claimed.done;
    assert_eq!((done.floor, done.ranges), (4, vec![(5, 8)]), "a marker for each effect, and no other");
}

pub fn one_fenced_partition_does_not_hold_up_the_other<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let also = rig.claim("a", 1, P1);
    let _new = rig.claim("b", 2, P0);
    let mut batch = [a.part(vec![rig.job("k", 0)]), also.part(vec![rig.job("l", 0)])];
    let answers = a.session.write(&mut batch).unwrap();
    assert_eq!((answers[0].partition, answers[1].partition), (P0, P1));
    assert_eq!(*answers[0].jobs.as_ref().unwrap_err(), Fenced::NewerClaim);
    assert_eq!(letters(answers[1].jobs.as_ref().unwrap()), "a");
    assert_eq!(rig.place.told(), ["l:0"]);
}

pub fn a_local_fence_stops_a_write_before_anything_is_touched<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let called = Arc::new(AtomicU32::new(0));
    let count = called.clone();
    let counted = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    rig.clock.advance(Duration::from_secs(61));
    let effect = first(counted, rig.place.tell("k:0"));
    assert_eq!(a.write(vec![job("k", 0, Write::Effect(effect))]).unwrap_err(), Fenced::DeadlinePassed);
    assert_eq!(a.session.hand_over(&a.fence).unwrap(), Err(Fenced::DeadlinePassed));
    a.fence.give_up();
    assert_eq!(a.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::GivenUp);
    assert_eq!(called.load(Ordering::Relaxed), 0);
    assert!(rig.place.told().is_empty());
}

pub fn a_deadline_that_passes_in_the_transaction_stops_the_commit<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let clock = rig.clock.clone();
    let slow: Effect<P::Store> = first(move || clock.advance(Duration::from_secs(61)), rig.place.tell("k:0"));
    assert_eq!(a.write(vec![job("k", 0, Write::Effect(slow))]).unwrap_err(), Fenced::DeadlinePassed);
    assert!(rig.place.told().is_empty());

    // Of two partitions the one that is given up meanwhile is left out, and the other commits.
    let rig = Rig::<P>::new();
    let (mut a, also) = (rig.claim("a", 1, P0), rig.claim("a", 1, P1));
    let lost = a.fence.clone();
    let loses = first(move || lost.give_up(), rig.place.tell("l:0"));
    let mut batch = [a.part(vec![rig.job("k", 0)]), also.part(vec![job("l", 0, Write::Effect(loses))])];
    let answers = a.session.write(&mut batch).unwrap();
    assert_eq!(*answers[0].jobs.as_ref().unwrap_err(), Fenced::GivenUp);
    assert_eq!(letters(answers[1].jobs.as_ref().unwrap()), "a");
    assert_eq!(rig.place.told(), ["l:0"]);
}

pub fn results_are_read_with_plain_sql<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P1);
    let json = |text: &'static str| Write::Result(Bytes::from_static(text.as_bytes()));
    let jobs = vec![job("k", 3, json("{\"n\":1}")), job("ключ", 4, json("null")), job("x", 5, Write::Nothing)];
    assert_eq!(letters(&a.write(jobs).unwrap()), "aaa");
    let expected =
        vec![(1, 3, b"k".to_vec(), "{\"n\":1}".to_owned()), (1, 4, "ключ".as_bytes().to_vec(), "null".to_owned())];
    assert_eq!(rig.place.results(), expected);
    let broken = job("k", 6, Write::Result(Bytes::from_static(b"\xff")));
    assert_eq!(letters(&a.write(vec![broken]).unwrap()), "f", "what is no text is no result");
}

pub fn effects_of_a_key_are_told_in_order<P: Place>() {
    let rig = Rig::<P>::new();
    let mut expected = Vec::new();
    for generation in 1..6 {
        // Each owner begins again at 0, as if it knew nothing: what is done stays done.
        let mut owner = rig.claim("w", generation, P0);
        let jobs = (0..generation * 3).map(|offset| rig.job("k", offset)).collect();
        owner.write(jobs).unwrap();
        expected = (0..generation * 3).map(|offset| format!("k:{offset}")).collect();
    }
    assert_eq!(rig.place.told(), expected);
}
