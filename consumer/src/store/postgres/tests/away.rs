//! A whole worker whose database goes away while jobs flow, and comes back.

use std::{
    sync::{Arc, Mutex, atomic::Ordering, mpsc},
    time::Duration,
};

use keylane_testing::postgres::{Pooler, Server};

use super::{Database, Limits, scene::Scene, server_of_its_own, until};
use crate::{Notice, clock::Clock, fence::Guards};

const KEYS: usize = 60;

/// Jobs that flow, and what the worker told of its store.
pub(super) struct Flow {
    pub(super) scene: Scene,
    pub(super) sent: usize,
    pub(super) told: Arc<Mutex<Vec<&'static str>>>,
}

impl Flow {
    pub(super) fn begin(database: Database) -> Self {
        Self::begin_without(database, Guards::default())
    }

    fn begin_without(database: Database, guards: Guards) -> Self {
        let mut flow = Self { scene: Scene::new("12", database), sent: 0, told: Arc::default() };
        let told = Arc::clone(&flow.told);
        flow.scene.start(4, guards, move |notice| match notice {
            Notice::Away { what: "the store", .. } => told.lock().unwrap().push("away"),
            Notice::Back { what: "the store", .. } => told.lock().unwrap().push("back"),
            _ => {}
        });
        flow
    }

    /// Some more jobs, and what a test waits between two looks.
    pub(super) fn on(&mut self) {
        let (_never, wait) = mpsc::channel::<()>();
        self.scene.enqueue((0..10).map(|n| format!("k{}", (self.sent + n) % KEYS)));
        self.sent += 10;
        let _ = wait.recv_timeout(Duration::from_millis(50));
    }

    /// Until the first jobs are done.
    pub(super) fn on_until_it_flows(&mut self) {
        until(|| {
            self.on();
            self.scene.told().len() >= 50
        });
    }

    pub(super) fn on_for(&mut self, long: Duration) {
        let clock = Clock::boot();
        let since = clock.now();
        while clock.now().since(since) < long {
            self.on();
        }
    }

    pub(super) fn on_until_told(&mut self, what: &str) {
        let clock = Clock::boot();
        let begun = clock.now();
        while !self.told.lock().unwrap().contains(&what) {
            assert!(clock.now().since(begun) < Duration::from_secs(60), "the store is not told to be {what}");
            self.on();
        }
    }

    pub(super) fn end(mut self) {
        until(|| self.scene.told().len() >= self.sent);
        assert!(self.scene.end().clean);
        self.scene.assert_once_in_order(self.sent);
        let begun = self.scene.begun.load(Ordering::Relaxed);
        assert_eq!(begun, self.sent, "what had ended waited, and ran once");
    }
}

/// As many seconds as `KEYLANE_OUTAGE` says; it is 3 where nobody waits for more.
pub(super) fn outage() -> Duration {
    Duration::from_secs(std::env::var("KEYLANE_OUTAGE").map_or(3, |seconds| seconds.parse().unwrap()))
}

#[test]
fn a_worker_goes_on_by_itself_when_a_store_that_was_away_while_jobs_flow_is_back() {
    let server = server_of_its_own();
    let mut flow = Flow::begin(Database::on(server, |name| server.url(name)));
    flow.on_until_it_flows();
    server.kill().unwrap();
    flow.on_until_told("away");
    flow.on_for(outage());
    assert_eq!(*flow.told.lock().unwrap(), ["away"], "told once");
    server.restart().unwrap();
    flow.on_until_told("back");
    flow.end();
}

#[test]
fn a_worker_behind_a_pooler_outlives_a_restart_of_the_primary_while_jobs_flow() {
    let server: &'static Server = server_of_its_own();
    let pooler = Pooler::start(server).unwrap();
    // A pooler keeps its clients waiting while it has no server.
    let s = Duration::from_secs;
    let limits = Limits { statement: s(2), lock: s(1), idle: s(2), answer: s(3) };
    let database = Database::on(server, |name| pooler.url(name)).with(|store| store.with_limits(limits));
    let mut flow = Flow::begin(database);
    flow.on_until_it_flows();
    server.stop().unwrap();
    flow.on_until_told("away");
    flow.on_for(outage());
    assert_eq!(*flow.told.lock().unwrap(), ["away"], "told once");
    server.restart().unwrap();
    flow.on_until_told("back");
    flow.end();
}

/// It looks at its rows, and the looks tell; no write has to come first, and none has to follow.
#[test]
fn a_worker_without_work_says_that_its_store_is_away_and_that_it_is_back() {
    let server = server_of_its_own();
    let mut flow = Flow::begin(Database::on(server, |name| server.url(name)));
    flow.on_until_it_flows();
    until(|| flow.scene.told().len() == flow.sent);
    server.kill().unwrap();
    until(|| *flow.told.lock().unwrap() == ["away"]);
    server.restart().unwrap();
    until(|| *flow.told.lock().unwrap() == ["away", "back"]);
    flow.end();
}

/// The twin: nobody looks, so nobody knows, until there is work.
#[test]
fn without_a_look_a_worker_without_work_does_not_know_that_its_store_is_away() {
    let server = server_of_its_own();
    let guards = Guards { look: false, ..Guards::default() };
    let mut flow = Flow::begin_without(Database::on(server, |name| server.url(name)), guards);
    flow.on_until_it_flows();
    until(|| flow.scene.told().len() == flow.sent);
    server.kill().unwrap();
    let (_never, wait) = mpsc::channel::<()>();
    // Three times as long as a look takes to come.
    let _ = wait.recv_timeout(Duration::from_secs(3));
    assert!(flow.told.lock().unwrap().is_empty());
    flow.on_until_told("away");
    server.restart().unwrap();
    flow.on_until_told("back");
    flow.end();
}
