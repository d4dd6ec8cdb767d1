//! The primary dies in the middle of writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use keylane_testing::postgres::Server;

use super::{BaseRig, Database, endless, part, server_of_its_own, tell, until};
use crate::{
    fence::Fence,
    store::{
        StoreSession, Write,
        conformance::{P0, Place, job, letters},
    },
};

const JOBS: u64 = 2_000;

/// One writer, which tries each batch until it is answered, while `fall` happens several times.
fn written_through(fall: impl Fn(&Server)) {
    let server = server_of_its_own();
    let rig = BaseRig::at(Database::on(server, |name| server.url(name)));
    let fence = Fence::raise(P0, rig.claim("a", 1, P0).claimed.token, endless());
    let mut session = rig.session();
    let (written, failures) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (count, failed) = (written.clone(), failures.clone());
    let writer = thread::spawn(move || {
        for first in (0..JOBS).step_by(5) {
            let jobs = (first..first + 5).map(|n| job("k", n, Write::Effect(tell(&n.to_string())))).collect();
            let mut batch = [part(&fence, jobs)];
            loop {
                match session.write(&mut batch) {
                    Ok(answers) => {
                        let letters = letters(answers[0].jobs.as_ref().unwrap());
                        assert!(letters == "aaaaa" || letters == "ddddd", "a batch is whole: {letters}");
                        break;
                    }
                    Err(error) => {
                        assert!(error.is_transient(), "{error:?}");
                        failed.fetch_add(1, Ordering::Relaxed);
                        thread::park_timeout(std::time::Duration::from_millis(10));
                    }
                }
            }
            count.store(first + 5, Ordering::Relaxed);
        }
    });
    for round in 1..=3 {
        until(|| written.load(Ordering::Relaxed) >= round * 100);
        let before = failures.load(Ordering::Relaxed);
        fall(server);
        until(|| failures.load(Ordering::Relaxed) > before || writer.is_finished());
        server.restart().unwrap();
    }
    writer.join().unwrap();
    let expected: Vec<String> = (0..JOBS).map(|n| n.to_string()).collect();
    assert_eq!(rig.place.told(), expected, "once, in order, none lost");
    assert!(failures.load(Ordering::Relaxed) >= 3, "the falls were felt");
    assert_eq!(rig.claim("b", 2, P0).claimed.done.floor, JOBS);
}

#[test]
fn a_primary_that_is_killed_in_the_middle_of_writes_loses_and_repeats_nothing() {
    written_through(|server| server.kill().unwrap());
}

#[test]
fn a_primary_that_is_shut_down_in_the_middle_of_writes_loses_and_repeats_nothing() {
    written_through(|server| server.stop().unwrap());
}

#[test]
fn a_connection_that_was_lost_while_nobody_looked_is_made_anew_without_an_error() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![rig.job("k", 0)]).unwrap();
    rig.place.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    assert_eq!(letters(&a.write(vec![rig.job("k", 1)]).unwrap()), "a");
    assert!(a.session.changed().is_ok());
}
