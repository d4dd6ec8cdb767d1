//! A whole worker whose database has no room left: really, on a small disk of its own.

use std::time::Duration;

use keylane_testing::postgres::{Options, Pooler, Server};

use super::{
    Database, Limits,
    away::{Flow, outage},
};

/// A server whose tables and log of writes share a disk of 64 MB.
fn on_a_small_disk() -> &'static Server {
    let options = Options::default().disk(64).setting("max_wal_size", "8MB").setting("min_wal_size", "2MB");
    Box::leak(Box::new(Server::start(&options).unwrap()))
}

/// The disk fills while jobs flow, the worker waits, and there is room again.
fn flows_through_a_full_disk(server: &'static Server, database: Database) {
    let mut flow = Flow::begin(database);
    flow.on_until_it_flows();
    server.fill_disk().unwrap();
    flow.on_until_told("away");
    flow.on_for(outage());
    server.free_disk().unwrap();
    // Without room for its log a server may end by itself; then whoever looks after it starts it again.
    if server.ended_within(Duration::from_secs(1)).unwrap() {
        server.restart().unwrap();
    }
    flow.on_until_told("back");
    let log = server.log();
    assert!(log.contains("No space left on device"), "the disk was full:\n{log}");
    flow.end();
}

#[test]
fn a_worker_goes_on_by_itself_when_a_full_disk_has_room_again() {
    let server = on_a_small_disk();
    flows_through_a_full_disk(server, Database::on(server, |name| server.url(name)));
}

#[test]
fn a_worker_behind_a_pooler_goes_on_by_itself_when_a_full_disk_has_room_again() {
    let server = on_a_small_disk();
    let pooler = Pooler::start(server).unwrap();
    let s = Duration::from_secs;
    let limits = Limits { statement: s(2), lock: s(1), idle: s(2), answer: s(3) };
    let database = Database::on(server, |name| pooler.url(name)).with(|store| store.with_limits(limits));
    flows_through_a_full_disk(server, database);
}
