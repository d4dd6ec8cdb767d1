//! A real standby that did not get the last of what its primary committed, and takes over.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use keylane_testing::postgres::{Pooler, Server};

use super::{
    BaseRig, Database, Limits, Twin,
    admit::{handle, pass},
    scene::Scene,
    server_of_its_own, until,
};
use crate::{
    Notice,
    fence::{Fenced, Guards},
    store::{
        StoreSession,
        conformance::{P0, P1, Place, candidate, letters},
    },
};

/// A primary and its standby.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    primary: &'static Server,
    standby: &'static Server,
}

impl Pair {
    pub(super) fn start() -> Self {
        let primary = server_of_its_own();
        Self { primary, standby: Box::leak(Box::new(primary.standby().unwrap())) }
    }

    /// A database on the primary; who is lost connects to whichever of the two takes writes.
    pub(super) fn database(self) -> Database {
        let (one, other) = (self.primary.port(), self.standby.port());
        let hosts = format!("127.0.0.1:{one},127.0.0.1:{other}");
        Database::on(self.primary, |name| format!("postgres://keylane@{hosts}/{name}?target_session_attrs=read-write"))
    }

    /// The standby has all of it, and gets nothing more.
    pub(super) fn part(self) {
        self.standby.catch_up(self.primary).unwrap();
        self.standby.cut_off().unwrap();
    }

    /// The primary is gone, and what it did since they parted.
    pub(super) fn fail_over(self, database: &mut Database) {
        self.primary.kill().unwrap();
        self.standby.promote().unwrap();
        database.server = self.standby;
    }
}

#[test]
fn a_claim_that_a_real_fail_over_lost_is_asked_again_and_no_stale_write_lands() {
    let pair = Pair::start();
    let mut rig = BaseRig::at(pair.database());
    let mut old = rig.claim("a", 1, P0);
    assert_eq!(letters(&old.write(vec![rig.job("k", 0)]).unwrap()), "a");
    pair.part();
    let mut new = rig.claim("b", 2, P0);
    assert_eq!(letters(&new.write(vec![rig.job("k", 1)]).unwrap()), "a");
    pair.fail_over(&mut rig.place);
    let gone = new.session.unknown(&[Arc::clone(&old.fence), Arc::clone(&new.fence)]).unwrap();
    assert_eq!(gone.len(), 2, "an owner that has nothing to write finds out too");
    assert_eq!(new.write(vec![rig.job("k", 2)]).unwrap_err(), Fenced::NewerClaim, "the row does not know this claim");
    assert_eq!(old.write(vec![rig.job("k", 1)]).unwrap_err(), Fenced::NewerClaim, "and the one that it knows is old");
    let mut again = rig.claim("b", 2, P0);
    assert_eq!(again.claimed.done.floor, 1, "the job that was lost is to run again");
    assert_eq!(letters(&again.write(vec![rig.job("k", 1), rig.job("k", 2)]).unwrap()), "aa");
    assert_eq!(new.write(vec![rig.job("k", 3)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(rig.place.told(), ["k:0", "k:1", "k:2"]);
}

/// A claim that the standby knows, and a job behind one that it does not know. What is told there, and how many jobs are done.
fn a_job_behind_a_lost_one(twin: Twin) -> (Vec<String>, u64) {
    let pair = Pair::start();
    let mut rig = BaseRig::at(pair.database().with(|mut store| {
        store.rules.twin = twin;
        store
    }));
    let mut owner = rig.claim("a", 1, P0);
    owner.write(vec![rig.job("k", 0)]).unwrap();
    pair.part();
    assert_eq!(letters(&owner.write(vec![rig.job("k", 1)]).unwrap()), "a");
    pair.fail_over(&mut rig.place);
    match owner.write(vec![rig.job("k", 2)]) {
        Ok(written) => assert_eq!(letters(&written), "a"),
        Err(why) => assert_eq!(why, Fenced::NewerClaim),
    }
    let told = rig.place.told();
    (told, rig.claim("a", 2, P0).claimed.done.floor)
}

#[test]
fn a_claim_from_before_a_fail_over_writes_nothing_after_it_and_the_next_one_reads_what_was_lost() {
    assert_eq!(a_job_behind_a_lost_one(Twin::default()), (vec!["k:0".into()], 1));
}

#[test]
fn without_a_look_at_the_timeline_a_job_lands_behind_one_that_was_lost() {
    let twin = Twin { ignores_timelines: true, ..Twin::default() };
    assert_eq!(a_job_behind_a_lost_one(twin), (vec!["k:0".into(), "k:2".into()], 1));
}

/// A handler's own transaction for a job behind one that a fail-over lost.
fn admitted_behind_a_lost_one(looks: bool) -> Vec<String> {
    let pair = Pair::start();
    let mut rig = BaseRig::at(pair.database());
    let owner = rig.claim("a", 1, P0);
    let store = rig.place.store();
    if !looks {
        super::admit::without(&rig.place, "AND f.timeline IN ('', keylane.timeline())", "");
    }
    pair.part();
    handle(&store, &pass(&owner, 0), "k:0", || {}).unwrap();
    pair.fail_over(&mut rig.place);
    let second = handle(&store, &pass(&owner, 1), "k:1", || {});
    assert_eq!(second.is_err(), looks, "{second:?}");
    rig.place.told()
}

#[test]
fn a_handler_s_own_transaction_from_before_a_fail_over_is_refused_after_it() {
    assert!(admitted_behind_a_lost_one(true).is_empty());
}

#[test]
fn without_a_look_at_the_timeline_a_handler_lands_behind_one_that_was_lost() {
    assert_eq!(admitted_behind_a_lost_one(false), ["k:1"]);
}

/// Whoever reaches a standby that is not promoted yet waits, as for any store that is away.
#[test]
fn a_standby_is_a_store_that_is_away() {
    let pair = Pair::start();
    let mut rig = BaseRig::at(pair.database());
    let mut a = rig.claim("a", 1, P0);
    pair.part();
    let url = pair.standby.url(&rig.place.name);
    let standby = super::PostgresStore::new(url.parse().unwrap());
    let mut session = super::super::PostgresSession { wire: standby.wire(), ..a.session };
    let error = session.write(&mut [super::part(&a.fence, vec![rig.job("k", 0)])]).unwrap_err();
    assert!(error.is_transient() && error.detail().chain().contains("standby"), "{error:?}");
    let error = session.unknown(&[Arc::clone(&a.fence)]).unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    pair.fail_over(&mut rig.place);
    // And when it is promoted, it is the store: the same session goes on.
    a.session = session;
    assert_eq!(a.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    a.session.claim(&candidate("a", 2, P1)).unwrap();
}

/// The twin: a worker that starts there, or whose next write goes there, would end for good.
#[test]
fn without_a_word_for_standbys_one_is_a_fault_that_no_waiting_ends() {
    let pair = Pair::start();
    let rig = BaseRig::at(pair.database());
    let mut a = rig.claim("a", 1, P0);
    pair.part();
    let mut standby = super::PostgresStore::new(pair.standby.url(&rig.place.name).parse().unwrap());
    standby.rules.twin.knows_no_standby = true;
    let mut session = super::super::PostgresSession { wire: standby.wire(), ..a.session };
    let error = session.write(&mut [super::part(&a.fence, vec![rig.job("k", 0)])]).unwrap_err();
    assert!(!error.is_transient(), "{error:?}");
    assert!(!session.unknown(&[Arc::clone(&a.fence)]).unwrap_err().is_transient());
    a.session = session;
}

/// Two workers, the second of which came when nothing reached the standby any more: a fail-over loses its claims, and writes of
/// both.
fn whole_workers(pair: Pair, database: Database, fail_over: impl FnOnce(&mut Database)) {
    let mut scene = Scene::new("8", database);
    let (refused, took) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let notices = || {
        let (refused, took) = (Arc::clone(&refused), Arc::clone(&took));
        move |notice| match notice {
            Notice::Lost(_) | Notice::WriteRefused { .. } => drop(refused.fetch_add(1, Ordering::Relaxed)),
            Notice::TookOver { .. } => drop(took.fetch_add(1, Ordering::Relaxed)),
            _ => {}
        }
    };
    let mut sent = 0;
    let mut more = |scene: &Scene| {
        scene.enqueue((0..40).map(|n| format!("k{n}")));
        sent += 40;
        sent
    };
    let all = more(&scene);
    scene.start_as("one", 4, Guards::default(), notices());
    until(|| scene.told().len() == all);
    pair.part();
    let known = scene.told().len();
    scene.start_as("two", 4, Guards::default(), notices());
    until(|| took.load(Ordering::Relaxed) >= 8 + 4);
    let all = more(&scene);
    until(|| scene.told().len() == all);
    fail_over(&mut scene.database);
    assert_eq!(scene.told().len(), known, "the standby never got the rest");
    let all = more(&scene);
    until(|| scene.told().len() >= all);
    assert!(scene.end().clean && scene.end().clean);
    scene.assert_once_in_order(all);
    assert!(refused.load(Ordering::Relaxed) > 0, "claims from before the fail-over hold no more");
    assert!(scene.begun.load(Ordering::Relaxed) >= all + 40, "what was lost ran again");
}

#[test]
fn whole_workers_go_on_after_a_fail_over_that_lost_claims_and_writes() {
    let pair = Pair::start();
    whole_workers(pair, pair.database(), |database| pair.fail_over(database));
}

#[test]
fn whole_workers_behind_a_pooler_go_on_after_a_fail_over_that_lost_claims_and_writes() {
    let pair = Pair::start();
    let pooler = Pooler::start(pair.primary).unwrap();
    let s = Duration::from_secs;
    let limits = Limits { statement: s(2), lock: s(1), idle: s(2), answer: s(3) };
    let database = Database::on(pair.primary, |name| pooler.url(name)).with(|store| store.with_limits(limits));
    whole_workers(pair, database, |database| {
        // The pooler is pointed at the standby before that takes writes, as it may happen.
        pooler.point_at(pair.standby).unwrap();
        pair.fail_over(database);
    });
}
