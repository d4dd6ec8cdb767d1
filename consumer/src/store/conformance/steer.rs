//! What persons want of an owner, and what an owner tells persons.
#![allow(missing_docs, reason = "each function's name is its claim")]

use keylane_producer::Offset;

use super::{FencedStore, Holder, P0, P1, Place, Rig, StoreSession, Write, bury, job, key, letters, stop};
use crate::store::{
    HotKey, LineAct, LineOrder, Note, NotedRetry, NotedStall, Skipping, Steer, SteerOrder, StopRule, StoppedKey,
};

pub fn a_paused_key_takes_its_jobs_into_its_line_and_gives_them_back<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    assert!(rig.session().pause(&order("k")).unwrap());
    let row = told(&mut a);
    assert_eq!((row.reason.rule, row.released, row.id.is_none(), row.jobs), (StopRule::Paused, false, true, 0));
    assert_eq!(&*row.reason.text, "a person: the bank is closed");
    assert_eq!(letters(&a.write(vec![job("k", 0, Write::Park), job("k", 1, Write::Park)]).unwrap()), "pp");
    assert_eq!(rig.claim("b", 2, P0).claimed.stopped.len(), 1, "the next owner is told");
    let mut b = rig.claim("b", 3, P0);
    let row = told(&mut b);
    let resume = LineOrder { act: LineAct::Resume, ..LineOrder::replay(P0, key("k"), row.version) };
    assert!(rig.session().act_on_line(&resume).unwrap());
    assert!(told(&mut b).released);
    assert_eq!(letters(&b.write(vec![rig.job("k", 0), rig.job("k", 1), rig.job("k", 2)]).unwrap()), "aaa");
    assert!(b.session.overview().unwrap()[0].stopped.is_empty());
    assert_eq!(rig.place.told(), ["k:0", "k:1", "k:2"]);
    assert_eq!(rig.place.acts(), ["pause", "resume"]);
}

pub fn a_key_that_stands_is_not_paused<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![job("k", 0, stop("x"))]).unwrap();
    assert!(!rig.session().pause(&order("k")).unwrap());
    assert_eq!(a.session.overview().unwrap()[0].stopped[0].reason.rule, StopRule::Rejected);
    assert!(rig.session().pause(&order("l")).unwrap());
    assert!(!rig.session().pause(&order("l")).unwrap(), "said again");
    assert_eq!(rig.place.acts(), ["pause"]);
}

pub fn a_job_to_leave_out_is_told_until_it_is_dealt_with<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut person = rig.session();
    assert_eq!(person.skip(&order("k"), Offset(3)).unwrap(), Skipping::Ordered);
    assert_eq!(person.skip(&order("k"), Offset(3)).unwrap(), Skipping::OrderedBefore);
    let told = |a: &mut Holder<P::Store>| a.session.steering(&[P1, P0]).unwrap().skips;
    assert_eq!(told(&mut a)[0].1.offset, Offset(3));
    assert_eq!(&*told(&mut a)[0].1.text, "a person: the bank is closed");
    assert_eq!(rig.claim("b", 2, P0).claimed.skips, [told(&mut a).remove(0).1], "the next owner is told");
    let mut c = rig.claim("c", 3, P0);
    assert_eq!(letters(&c.write(vec![bury("k", 3)]).unwrap()), "b");
    assert!(told(&mut c).is_empty());
    assert_eq!(person.skip(&order("k"), Offset(4)).unwrap(), Skipping::Ordered);
    assert_eq!(letters(&c.write(vec![rig.job("k", 4)]).unwrap()), "a", "it was done before its owner looked");
    assert!(told(&mut c).is_empty(), "then nothing is to be left out");
    assert_eq!(rig.place.acts(), ["skip", "skip"]);
}

pub fn a_job_that_is_done_is_not_left_out<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![rig.job("k", 0), bury("k", 1)]).unwrap();
    for offset in [0, 1] {
        assert_eq!(rig.session().skip(&order("k"), Offset(offset)).unwrap(), Skipping::Done);
    }
    assert_eq!(rig.place.acts(), [""; 0], "nothing was changed");
}

pub fn a_job_of_a_standing_line_is_left_out_at_once<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![job("k", 0, stop("x")), job("k", 1, Write::Park)]).unwrap();
    let seen = a.session.overview().unwrap().swap_remove(0).stopped.remove(0);
    let mut person = rig.session();
    assert_eq!(person.skip(&order("k"), Offset(0)).unwrap(), Skipping::Buried);
    let dead = person.dead_letters(0, 10).unwrap();
    assert_eq!((dead.len(), dead[0].offset, dead[0].reason.rule), (1, Offset(0), StopRule::Skipped));
    assert!(!person.act_on_line(&LineOrder::replay(P0, key("k"), seen.version)).unwrap(), "the line is another one");
    assert!(!a.session.overview().unwrap()[0].stopped[0].released, "one waits in it");
    assert_eq!(person.skip(&order("k"), Offset(1)).unwrap(), Skipping::Buried);
    assert!(told(&mut a).released, "nothing waits in it: the key goes on");
    assert_eq!(person.skip(&order("k"), Offset(1)).unwrap(), Skipping::Done);
    let mut part = a.part(vec![rig.job("k", 2)]);
    part.resumed = vec![(key("k"), told(&mut a).version)];
    assert_eq!(letters(&a.write_part(part).unwrap()), "a");
    assert!(a.session.overview().unwrap()[0].stopped.is_empty());
}

pub fn a_job_of_a_line_that_runs_is_left_out_by_its_owner<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![job("k", 0, stop("x")), job("k", 1, Write::Park)]).unwrap();
    let seen = a.session.overview().unwrap().swap_remove(0).stopped.remove(0);
    let mut person = rig.session();
    assert!(person.act_on_line(&LineOrder::replay(P0, key("k"), seen.version)).unwrap());
    assert_eq!(person.skip(&order("k"), Offset(0)).unwrap(), Skipping::Ordered, "its owner may run it");
    assert_eq!(a.session.steering(&[P0]).unwrap().skips.len(), 1);
    assert_eq!(letters(&a.write(vec![bury("k", 0), rig.job("k", 1)]).unwrap()), "ba");
    assert!(a.session.steering(&[P0]).unwrap().skips.is_empty());
    assert!(a.session.overview().unwrap()[0].stopped.is_empty());
}

pub fn each_act_tells_the_owner_to_look_again<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut person = rig.session();
    a.session.changed().unwrap();
    assert!(!a.session.changed().unwrap());
    person.pause(&order("k")).unwrap();
    assert!(a.session.changed().unwrap() && !a.session.changed().unwrap());
    person.skip(&order("l"), Offset(7)).unwrap();
    assert!(a.session.changed().unwrap() && !a.session.changed().unwrap());
    a.write(vec![bury("m", 0)]).unwrap();
    a.session.changed().unwrap();
    let dead = person.dead_letters(0, 1).unwrap().remove(0);
    let replay = crate::store::DeadOrder {
        number: dead.number,
        act: crate::store::DeadAct::Replay,
        who: "a".into(),
        why: "b".into(),
    };
    person.act_on_dead(&replay).unwrap();
    assert!(a.session.changed().unwrap());
}

pub fn a_note_is_its_owners_and_goes_with_the_claim<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let note = Note {
        stall: Some(NotedStall { since: 5, waiting: 7, cause: "nobody\0knows".into() }),
        retrying: vec![NotedRetry { key: "hex:00".into(), offset: 3, attempts: 2, next_try: 9, reason: "no".into() }],
        hot: vec![HotKey { key: "k".into(), waiting: 1_000, spent_ms: 12 }],
    };
    let read = |a: &mut Holder<P::Store>| a.session.overview().unwrap().swap_remove(0).note;
    a.session.note(&a.fence, Some(&note)).unwrap().unwrap();
    let found = read(&mut a).unwrap();
    assert_eq!((found.note.retrying, found.note.hot), (note.retrying.clone(), note.hot.clone()));
    assert_eq!(found.note.stall.map(|stall| stall.waiting), Some(7));
    a.session.note(&a.fence, None).unwrap().unwrap();
    assert!(read(&mut a).is_none());
    a.session.note(&a.fence, Some(&note)).unwrap().unwrap();
    let mut b = rig.claim("b", 2, P0);
    assert!(read(&mut b).is_none(), "it was of the last owner");
    assert!(a.session.note(&a.fence, Some(&note)).unwrap().is_err(), "whose word counts no more");
    assert!(read(&mut b).is_none());
}

fn order(key: &str) -> SteerOrder {
    SteerOrder { partition: P0, key: super::key(key), who: "a person".to_owned(), why: "the bank is closed".to_owned() }
}

/// The one key that the owner of partition 0 is told of.
fn told<S: FencedStore>(holder: &mut Holder<S>) -> StoppedKey {
    let mut keys = holder.session.steering(&[P0]).unwrap().keys;
    assert_eq!(keys.len(), 1);
    keys.remove(0).1
}
