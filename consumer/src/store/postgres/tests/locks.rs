//! A whole worker, and somebody who holds a lock on our rows for longer than anybody waits.

use std::{
    sync::{Arc, atomic::AtomicUsize, mpsc},
    thread,
    time::Duration,
};

use keylane_testing::postgres::{Pooler, shared};

use super::{Database, Limits, PostgresStore, away::Flow, scene::Scene, until};
use crate::{
    Notice,
    fence::Guards,
    store::{FencedStore, conformance::Place},
};

pub(super) const IMPATIENT: Limits = Limits {
    statement: Duration::from_millis(600),
    lock: Duration::from_millis(300),
    idle: Duration::from_secs(2),
    answer: Duration::from_secs(5),
};

/// A session that has said this and keeps its transaction open until it is dropped.
pub(super) struct Holder {
    go_on: Option<mpsc::Sender<()>>,
    session: Option<thread::JoinHandle<()>>,
}

impl Holder {
    pub(super) fn of(database: &Database, words: &'static str) -> Self {
        let patient = Limits { idle: Duration::from_secs(120), ..Limits::default() };
        let store: PostgresStore = PostgresStore::new(database.store().address.as_ref().clone()).with_limits(patient);
        let (go_on, wait) = mpsc::channel::<()>();
        let (says, said) = mpsc::channel();
        let session = thread::spawn(move || {
            let mut wire = store.wire();
            let mut tx = wire.begin("hold").unwrap();
            tx.say(words).unwrap();
            says.send(()).unwrap();
            let _ = wait.recv();
        });
        said.recv().unwrap();
        Self { go_on: Some(go_on), session: Some(session) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.go_on.take());
        let _ = self.session.take().map(thread::JoinHandle::join);
    }
}

pub(super) fn direct() -> Database {
    Database::on(shared(), |name| shared().url(name)).with(|store| store.with_limits(IMPATIENT))
}

fn pooled(pooler: &Pooler) -> Database {
    Database::on(shared(), |name| pooler.url(name)).with(|store| store.with_limits(IMPATIENT))
}

/// All writes wait, and are given up, again and again; then the lock is gone.
fn flows_past_a_lock(database: Database, words: &'static str) {
    let mut flow = Flow::begin(database);
    flow.on_until_it_flows();
    let holder = Holder::of(&flow.scene.database, words);
    flow.on_until_told("away");
    flow.on_for(IMPATIENT.statement * 3);
    drop(holder);
    flow.on_until_told("back");
    flow.end();
}

#[test]
fn a_worker_outlasts_a_lock_on_its_markers() {
    flows_past_a_lock(direct(), "LOCK TABLE keylane.marker IN EXCLUSIVE MODE");
}

#[test]
fn a_worker_outlasts_a_lock_on_its_fence_rows() {
    flows_past_a_lock(direct(), "SELECT FROM keylane.fence FOR UPDATE");
}

#[test]
fn a_worker_behind_a_pooler_outlasts_a_lock_on_its_fence_rows() {
    let pooler = Pooler::start(shared()).unwrap();
    flows_past_a_lock(pooled(&pooler), "SELECT FROM keylane.fence FOR UPDATE");
}

/// What waits for one row holds up what is written over the same connection, and nothing else.
#[test]
fn a_lock_on_one_fence_row_holds_up_its_own_connection_alone() {
    let mut scene = Scene::new("2", direct());
    let ([held], [free]) = (scene.keys_of::<1>(0), scene.keys_of::<1>(1));
    scene.enqueue_of(&[&held, &free]);
    scene.start(2, Guards::default(), |_| {});
    until(|| scene.told().len() == 2);
    let holder = Holder::of(&scene.database, "SELECT FROM keylane.fence WHERE part = 0 FOR UPDATE");
    scene.enqueue_of(&[&held]);
    scene.database.until_one_waits();
    for n in 2..=10 {
        scene.enqueue_of(&[&free]);
        scene.until_told(&free, n);
    }
    assert_eq!(scene.offsets_of(&held).len(), 1);
    drop(holder);
    scene.until_told(&held, 2);
    assert!(scene.end().clean);
    scene.assert_once_in_order(12);
}

/// The claim's own limit passes more than once before the row is free.
#[test]
fn a_worker_outlasts_a_lock_on_the_row_that_it_claims() {
    let mut scene = Scene::new("2", direct());
    scene.enqueue((0..20).map(|n| format!("k{n}")));
    drop(scene.database.store().open(&scene.queue, &"workers".parse().unwrap()).unwrap());
    let holder = Holder::of(&scene.database, "SELECT FROM keylane.fence FOR UPDATE");
    let (away, count) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (told, seen) = (Arc::clone(&away), Arc::clone(&count));
    scene.start(2, Guards::default(), move |notice| match notice {
        Notice::Away { what: "the store", .. } => drop(told.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
        Notice::TookOver { .. } => drop(seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed)),
        _ => {}
    });
    let load = |of: &AtomicUsize| of.load(std::sync::atomic::Ordering::Relaxed);
    until(|| load(&away) == 1);
    assert_eq!(load(&count), 0);
    drop(holder);
    until(|| scene.told().len() == 20);
    assert_eq!((load(&away), load(&count)), (1, 2));
    assert!(scene.end().clean);
    scene.assert_once_in_order(20);
}
