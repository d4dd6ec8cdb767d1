//! Dead letters.
#![allow(missing_docs, reason = "each function's name is its claim")]

use std::sync::Arc;

use bytes::Bytes;
use keylane_producer::{Attempt, Job, JobKey, Offset, Record, Timestamp};

use super::{FencedStore, Holder, JobWrite, P0, Place, Rig, StoreSession, Write, bury, job, key, letters, stop};
use crate::store::{DeadAct, DeadActed, DeadLetter, DeadOrder, LineOrder, Steer, StopReason, StopRule};

pub fn a_dead_letter_keeps_its_job_as_it_was_and_its_key_goes_on<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let binary = JobKey::try_from(&[0, 0, 0, 0, 7, 0xc3, 0x28][..]).unwrap();
    let payloads = [None, Some(Bytes::new()), Some(Bytes::from_static(&[0xff, 0, 0xed, 0xa0, 0x80]))];
    let mut records = Vec::new();
    for (offset, payload) in (0..).zip(payloads) {
        let mut job = Job::new(binary.clone(), payload).unwrap();
        for value in [Some(&[0xff, 0x00][..]), None, Some(&[])] {
            job.headers.push("trace", value.map(Bytes::from_static)).unwrap();
        }
        job.enqueued_at = Timestamp(1_764_000_000_000 + i64::try_from(offset).unwrap());
        records.push(Record::from(job.clone()));
        let why = StopReason { rule: StopRule::OutOfAttempts, text: "no\0pe".into() };
        let write =
            JobWrite { offset: Offset(offset), job: Arc::new(job), attempt: Attempt(5), write: Write::Bury(why) };
        assert_eq!(letters(&a.write(vec![write]).unwrap()), "b");
    }
    let dead = a.session.dead_letters(0, 10).unwrap();
    assert_eq!(dead.iter().map(|letter| letter.offset.0).collect::<Vec<_>>(), [0, 1, 2]);
    for (letter, record) in dead.iter().zip(records) {
        assert_eq!((&letter.key, letter.attempts, letter.partition), (&binary, Attempt(5), P0));
        assert_eq!((letter.reason.rule, letter.outlived), (StopRule::OutOfAttempts, false));
        assert_eq!(letter.size, record.size() as u64);
        let whole = a.session.dead_job(letter.number).unwrap().unwrap();
        assert_eq!((&whole.letter, whole.record), (letter, record), "byte for byte");
    }
    assert_eq!(a.session.dead_letters(dead[0].number, 1).unwrap(), dead[1..2], "page after page");
    let row = a.session.overview().unwrap().swap_remove(0);
    assert_eq!((row.dead, row.done.floor, row.stopped.len()), (3, 3, 0), "nothing of the key stands still");
}

pub fn a_job_that_was_buried_is_done_until_it_is_replayed<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    assert_eq!(letters(&a.write(vec![bury("k", 0), rig.job("k", 1)]).unwrap()), "ba");
    assert_eq!(letters(&a.write(vec![bury("k", 0), rig.job("k", 0)]).unwrap()), "dd", "said again");
    assert_eq!(a.session.dead_letters(0, 10).unwrap().len(), 1, "there is one of it");
    assert_eq!(rig.claim("b", 2, P0).claimed.done.floor, 2);
    assert_eq!(rig.place.told(), ["k:1"]);
}

pub fn a_replayed_dead_letter_runs_once_and_before_what_follows<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![bury("k", 0), bury("k", 1), rig.job("k", 2)]).unwrap();
    let version = |a: &mut Holder<P::Store>| a.session.steering(&[P0]).unwrap().keys[0].1.version;
    assert_eq!(replay(&rig, &mut a, 1), DeadActed::Done);
    let first = version(&mut a);
    assert_eq!(replay(&rig, &mut a, 0), DeadActed::Done);
    assert!(version(&mut a) > first, "its owner is told that something was put there");
    let row = a.session.steering(&[P0]).unwrap().keys.swap_remove(0).1;
    assert!(row.released && row.key == key("k"));
    let line = a.session.line(P0, &key("k")).unwrap();
    assert_eq!(line.jobs.iter().map(|(offset, _)| offset.0).collect::<Vec<_>>(), [0, 1]);
    for _ in 0..2 {
        a.write(vec![rig.job("k", 0), rig.job("k", 1), rig.job("k", 3)]).unwrap();
    }
    assert_eq!(rig.place.told(), ["k:2", "k:0", "k:1", "k:3"]);
    let row = a.session.overview().unwrap().swap_remove(0);
    assert_eq!((row.dead, row.stopped.len(), row.done.floor), (0, 0, 4));
}

pub fn a_dead_letter_joins_the_line_of_a_key_that_stands<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![bury("k", 0), job("k", 1, stop("x"))]).unwrap();
    assert_eq!(replay(&rig, &mut a, 0), DeadActed::InLine);
    let row = a.session.overview().unwrap().swap_remove(0).stopped.remove(0);
    assert!(!row.released, "a person replays it with the others");
    assert_eq!((row.jobs, row.offset), (2, Offset(1)));
    let person = |version| LineOrder::replay(P0, key("k"), version);
    assert!(rig.session().act_on_line(&person(row.version)).unwrap());
    assert_eq!(letters(&a.write(vec![rig.job("k", 0), rig.job("k", 1)]).unwrap()), "aa");
}

pub fn a_dead_letter_that_fails_again_leaves_its_line<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![bury("k", 0), rig.job("k", 1)]).unwrap();
    let before = a.session.dead_letters(0, 10).unwrap()[0].number;
    replay(&rig, &mut a, 0);
    assert_eq!(letters(&a.write(vec![bury("k", 0), rig.job("k", 2)]).unwrap()), "ba");
    let dead = a.session.dead_letters(0, 10).unwrap();
    assert_eq!((dead.len(), dead[0].offset), (1, Offset(0)));
    assert!(dead[0].number > before, "a new one");
    assert!(a.session.overview().unwrap()[0].stopped.is_empty(), "the key goes on");
}

pub fn an_act_on_a_dead_letter_is_done_once_and_written_down<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![bury("k", 0), bury("k", 1)]).unwrap();
    let dead = a.session.dead_letters(0, 10).unwrap();
    let mut person = rig.session();
    assert_eq!(person.act_on_dead(&order(&dead[0], DeadAct::Drop)).unwrap(), DeadActed::Done);
    for act in [DeadAct::Drop, DeadAct::Replay] {
        assert_eq!(person.act_on_dead(&order(&dead[0], act)).unwrap(), DeadActed::Gone);
    }
    assert!(person.dead_job(dead[0].number).unwrap().is_none());
    assert_eq!(a.session.line(P0, &key("k")).unwrap().jobs.len(), 0);
    assert_eq!(person.act_on_dead(&order(&dead[1], DeadAct::Replay)).unwrap(), DeadActed::Done);
    assert_eq!(rig.place.acts(), ["dead drop", "dead replay"]);
}

pub fn a_stale_owner_buries_nothing<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut b = rig.claim("b", 2, P0);
    assert!(a.write(vec![bury("k", 0)]).is_err());
    assert!(b.session.dead_letters(0, 10).unwrap().is_empty());
}

pub fn full_lines_take_no_dead_letter<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let limited = |a: &mut Holder<P::Store>, jobs| {
        let mut part = a.part(jobs);
        part.line_room = 2;
        letters(&a.write_part(part).unwrap())
    };
    assert_eq!(limited(&mut a, vec![bury("k", 0), job("l", 1, stop("x")), bury("k", 2), rig.job("k", 3)]), "bsnf");
    let first = a.session.dead_letters(0, 1).unwrap().remove(0);
    rig.session().act_on_dead(&order(&first, DeadAct::Drop)).unwrap();
    assert_eq!(limited(&mut a, vec![bury("k", 2), rig.job("k", 3)]), "ba", "there is room again");
}

fn order(letter: &DeadLetter, act: DeadAct) -> DeadOrder {
    DeadOrder { number: letter.number, act, who: "a person".into(), why: "the account is there now".into() }
}

/// Replays the dead letter of this offset.
fn replay<P: Place>(rig: &Rig<P>, holder: &mut Holder<P::Store>, offset: u64) -> DeadActed
where
    <P::Store as FencedStore>::Session: Steer,
{
    let dead = holder.session.dead_letters(0, 100).unwrap();
    let letter = dead.iter().find(|letter| letter.offset.0 == offset).unwrap();
    rig.session().act_on_dead(&order(letter, DeadAct::Replay)).unwrap()
}
