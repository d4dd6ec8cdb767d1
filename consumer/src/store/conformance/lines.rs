//! Lines of keys that stand still.
#![allow(missing_docs, reason = "each function's name is its claim")]

use std::sync::Arc;

use bytes::Bytes;
use keylane_producer::{Attempt, Job, JobKey, Offset, Record, Timestamp};

use super::{
    FencedStore, Holder, JobWrite, P0, Place, Rig, StopReason, StopRule, StoreSession, Write, group, job, key, letters,
    queue, stop, then_fail,
};
use crate::store::{LineAct, LineOrder, StoppedKey};
#[cfg(test)]
use crate::{
    fence::Fence,
    store::{MovedKey, Reset, conformance::candidate},
};
#[cfg(test)]
use keylane_producer::{Partition, QueueIdentity, partition_of};

pub fn a_line_keeps_its_jobs_as_they_were<P: Place>() {
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
        job.enqueued_at = Timestamp(1_764_000_000_000 + offset);
        records.push(Record::from(job.clone()));
        let why = StopReason { rule: StopRule::OutOfAttempts, text: "x".into() };
        let write = if offset == 0 { Write::Stop(why) } else { Write::Park };
        let offset = Offset(u64::try_from(offset).unwrap());
        let job = JobWrite { offset, job: Arc::new(job), attempt: Attempt(5), write };
        a.write(vec![job]).unwrap();
    }
    let line = a.session.line(P0, &binary).unwrap();
    let sizes: Vec<_> = records.iter().map(Record::size).collect();
    assert_eq!(line.jobs, [0, 1, 2].map(|at| (Offset(at as u64), sizes[at])));
    let parked = a.session.parked(P0, &binary, &[Offset(0), Offset(1), Offset(2), Offset(9)]).unwrap();
    assert_eq!(parked.iter().map(|job| job.attempts.0).collect::<Vec<_>>(), [5, 0, 0]);
    assert!(parked.into_iter().map(|job| job.stored.record).eq(records));
}

pub fn a_line_is_in_order_and_each_of_its_jobs_applies_once<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    line_of(&mut a, &[0, 1, 3]);
    assert_eq!(letters(&a.write(vec![rig.job("other", 2)]).unwrap()), "a", "the partition flows on");
    let floor = a.session.overview().unwrap()[0].done.floor;
    assert_eq!((floor, rig.place.told()), (4, vec!["other:2".to_owned()]));

    let mut b = rig.claim("b", 2, P0);
    replay(&rig, &mut b);
    for _ in 0..2 {
        b.write(vec![rig.job("k", 0), rig.job("k", 1)]).unwrap();
    }
    assert_eq!(b.session.line(P0, &key("k")).unwrap().jobs.len(), 1);
    assert!(stopped(&mut b).released, "not through its line yet");
    let mut c = rig.claim("c", 3, P0);
    assert!(c.claimed.stopped[0].released, "the next owner goes on");
    assert_eq!(letters(&c.write(vec![rig.job("k", 3), rig.job("k", 4)]).unwrap()), "aa");
    assert!(c.session.overview().unwrap()[0].stopped.is_empty(), "the row goes with the last job");
    assert_eq!(rig.place.told()[1..], ["k:0", "k:1", "k:3", "k:4"]);
    assert_eq!(letters(&c.write(vec![rig.job("k", 3), park("k", 1)]).unwrap()), "dd", "said again");
}

/// R04: an act is conditional on what was read.
pub fn a_line_that_changed_is_not_acted_on<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    line_of(&mut a, &[0, 1]);
    let seen = stopped(&mut a);
    assert_eq!((seen.jobs, seen.last), (2, Offset(1)));
    a.write(vec![park("k", 2)]).unwrap();
    for act in [LineAct::Drop, LineAct::Replay] {
        assert!(!rig.session().act_on_line(&order(&seen, act)).unwrap(), "a job came that nobody saw");
    }
    assert_eq!(a.session.line(P0, &key("k")).unwrap().jobs.len(), 3, "and nothing was done");
    let seen = stopped(&mut a);
    assert!(rig.session().act_on_line(&order(&seen, LineAct::Replay)).unwrap());
    for act in [LineAct::Drop, LineAct::Replay] {
        assert!(!rig.session().act_on_line(&order(&seen, act)).unwrap(), "it is its owner's now");
        let now = stopped(&mut a);
        assert!(!rig.session().act_on_line(&order(&now, act)).unwrap(), "also for one who sees that");
    }
}

pub fn a_dropped_line_is_empty_and_its_row_goes<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    line_of(&mut a, &[0, 1]);
    let seen = stopped(&mut a);
    assert!(rig.session().act_on_line(&order(&seen, LineAct::Drop)).unwrap());
    let line = a.session.line(P0, &key("k")).unwrap();
    assert!(line.jobs.is_empty() && line.version > seen.version);
    assert_eq!(a.session.steering(&[P0]).unwrap().keys.len(), 1, "its owner is told");
    // A job that was on its way to the line when that was dropped is in it, and nothing forgets it.
    a.write(vec![park("k", 2)]).unwrap();
    let mut part = a.part(Vec::new());
    part.resumed = vec![(key("k"), line.version)];
    a.write_part(part).unwrap();
    assert_eq!(stopped(&mut a).jobs, 1);
    let mut part = a.part(vec![rig.job("k", 2)]);
    part.resumed = vec![(key("k"), line.version)];
    assert_eq!(letters(&a.write_part(part).unwrap()), "a");
    assert!(a.session.overview().unwrap()[0].stopped.is_empty());
}

pub fn a_full_line_takes_no_more_until_there_is_room<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut part = a.part(vec![job("k", 0, stop("x")), job("l", 1, stop("x"))]);
    part.line_room = 1;
    assert_eq!(letters(&a.write_part(part).unwrap()), "sn", "the second key does not stop: it waits");
    let limited = |a: &mut Holder<P::Store>, jobs| {
        let mut part = a.part(jobs);
        part.line_room = 2;
        letters(&a.write_part(part).unwrap())
    };
    assert_eq!(limited(&mut a, vec![park("k", 2), park("k", 3), rig.job("m", 4)]), "pna", "others go on");
    assert_eq!(a.session.overview().unwrap()[0].stopped.len(), 1);
    replay(&rig, &mut a);
    assert_eq!(limited(&mut a, vec![rig.job("k", 0), park("k", 3)]), "ap", "there is room again");
}

pub fn nothing_is_parked_behind_a_key_that_does_not_stand<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    let mut batch = [a.part(vec![park("k", 0)])];
    assert!(matches!(a.session.write(&mut batch), Err(crate::error::Error::Corrupt(_))));
    assert_eq!(a.session.overview().unwrap()[0].done.floor, 0, "it would never be seen again");
}

pub fn a_stale_owner_parks_nothing<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    line_of(&mut a, &[0]);
    let mut b = rig.claim("b", 2, P0);
    assert!(a.write(vec![park("k", 1)]).is_err());
    assert_eq!(b.session.line(P0, &key("k")).unwrap().jobs.len(), 1);
    assert_eq!(letters(&b.write(vec![park("k", 1)]).unwrap()), "p");
}

pub fn an_effect_that_fails_leaves_its_job_in_the_line<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    line_of(&mut a, &[0, 1]);
    replay(&rig, &mut a);
    let failing = job("k", 0, Write::Effect(then_fail(rig.place.tell("never"))));
    assert_eq!(letters(&a.write(vec![failing, rig.job("k", 1)]).unwrap()), "ff");
    assert_eq!((a.session.line(P0, &key("k")).unwrap().jobs.len(), rig.place.told().len()), (2, 0));
}

pub fn a_job_that_fails_again_stays_first_in_its_line<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    line_of(&mut a, &[0, 1, 2]);
    replay(&rig, &mut a);
    assert_eq!(letters(&a.write(vec![rig.job("k", 0), job("k", 1, stop("again"))]).unwrap()), "as");
    let row = stopped(&mut a);
    assert_eq!((row.offset, row.released, row.jobs, &*row.reason.text), (Offset(1), false, 2, "again"));
    let line = a.session.line(P0, &key("k")).unwrap();
    assert_eq!(line.jobs.iter().map(|(offset, _)| offset.0).collect::<Vec<_>>(), [1, 2]);
}

/// Its marker says no more than that it is in the line.
pub fn a_job_of_a_line_that_ran_stays_suspected<P: Place>() {
    let rig = Rig::<P>::new();
    let mut a = rig.claim("a", 1, P0);
    line_of(&mut a, &[0, 1]);
    replay(&rig, &mut a);
    a.session.starting(&a.fence, &[Offset(0)]).unwrap().unwrap();
    a.write(vec![rig.job("other", 2)]).unwrap();
    let mut b = rig.claim("b", 2, P0);
    assert_eq!(b.claimed.suspects, [(Offset(0), 1)]);
    b.write(vec![rig.job("k", 0)]).unwrap();
    b.write(vec![rig.job("other", 3)]).unwrap();
    assert_eq!(rig.claim("c", 3, P0).claimed.suspects, []);
}

/// Needs an adapter's own reset to a queue of more partitions.
#[cfg(test)]
pub(crate) fn newer_jobs_of_a_parked_key_wait_in_its_new_place<P: Place>(
    rig: &Rig<P>,
    reset: impl Fn(&QueueIdentity) -> Reset,
) {
    let grown = QueueIdentity { partitions: "6".parse().unwrap(), ..queue() };
    let place = |key: &str, of: &QueueIdentity| partition_of(key.as_bytes(), of.partitions);
    let mut names = (0..).map(|n| format!("key-{n}"));
    let name = names.find(|key| place(key, &queue()) == P0 && place(key, &grown) != P0).unwrap();
    let (home, k) = (place(&name, &grown), key(&name));
    let mut old = rig.claim("a", 1, P0);
    assert_eq!(letters(&old.write(vec![job(&name, 0, stop("x")), park(&name, 1)]).unwrap()), "sp");
    let done = reset(&grown);
    assert_eq!(done.moved, [MovedKey { key: k.clone(), from: P0, to: home }]);
    assert_eq!(reset(&grown).moved.len(), 1, "said again it is the same");

    let holder = |generation, partition| {
        let mut session = rig.place.store().open(&grown, &group()).unwrap();
        let claimed = session.claim(&candidate("b", generation, partition)).unwrap();
        let fence = Fence::raise(partition, claimed.token, rig.lease.clone());
        Holder { session, fence, claimed }
    };
    let (mut before, mut after) = (holder(1, P0), holder(1, home));
    assert_eq!(before.claimed.stopped.len(), 1, "the older line is where it was");
    assert_eq!(after.claimed.stopped[0].key, k, "and its new owner knows that the key stands still");
    assert_eq!(letters(&after.write(vec![park(&name, 0)]).unwrap()), "p");

    let row = |of: &mut Holder<P::Store>, at: Partition| {
        let overview = of.session.overview().unwrap();
        overview.into_iter().find(|row| row.partition == at).unwrap().stopped.remove(0)
    };
    let newer = row(&mut after, home);
    let order = |partition, seen: &StoppedKey, act| LineOrder { partition, ..order(seen, act) };
    for act in [LineAct::Replay, LineAct::Drop] {
        assert!(!after.session.act_on_line(&order(home, &newer, act)).unwrap(), "the older line comes first");
    }
    let older = row(&mut before, P0);
    assert!(before.session.act_on_line(&order(P0, &older, LineAct::Replay)).unwrap());
    assert_eq!(letters(&before.write(vec![rig.job(&name, 0)]).unwrap()), "a");
    assert!(!after.session.act_on_line(&order(home, &newer, LineAct::Replay)).unwrap(), "it is not through yet");
    assert_eq!(letters(&before.write(vec![rig.job(&name, 1)]).unwrap()), "a");
    assert!(after.session.act_on_line(&order(home, &newer, LineAct::Replay)).unwrap());
    assert_eq!(letters(&after.write(vec![rig.job(&name, 0)]).unwrap()), "a");
    assert_eq!(rig.place.told().len(), 3);
}

fn park<S: FencedStore>(key: &str, offset: u64) -> JobWrite<S> {
    job(key, offset, Write::Park)
}

/// Key `k` stops at the first of these, and the others follow.
fn line_of<S: FencedStore>(holder: &mut Holder<S>, offsets: &[u64]) {
    let first = vec![job("k", offsets[0], stop("x"))];
    assert_eq!(letters(&holder.write(first).unwrap()), "s");
    let rest: Vec<_> = offsets[1..].iter().map(|&offset| park("k", offset)).collect();
    assert_eq!(letters(&holder.write(rest).unwrap()), "p".repeat(offsets.len() - 1));
}

/// The one stopped key of partition 0.
fn stopped<S: FencedStore>(holder: &mut Holder<S>) -> StoppedKey {
    let mut keys = holder.session.overview().unwrap().swap_remove(0).stopped;
    assert_eq!(keys.len(), 1);
    keys.remove(0)
}

fn order(seen: &StoppedKey, act: LineAct) -> LineOrder {
    let (who, why) = ("a person".to_owned(), "the account is there now".to_owned());
    LineOrder { partition: P0, key: seen.key.clone(), version: seen.version, last: Some(seen.last), act, who, why }
}

fn replay<P: Place>(rig: &Rig<P>, holder: &mut Holder<P::Store>) {
    let seen = stopped(holder);
    let mut person = rig.place.store().open(&queue(), &group()).unwrap();
    assert!(person.act_on_line(&order(&seen, LineAct::Replay)).unwrap());
}
