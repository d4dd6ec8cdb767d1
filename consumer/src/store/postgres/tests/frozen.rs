//! Who stands still, and for how long others wait for it: a writer in its transaction, and the server.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use super::{BaseRig, Database, Limits, Twin, endless, part, server_of_its_own, tell};
use crate::{
    fence::{Fence, Fenced},
    store::{
        FencedStore, StoreSession, Write,
        conformance::{P0, Place, candidate, group, job, letters, queue},
        postgres::PostgresStore,
    },
};

#[test]
fn a_writer_frozen_in_its_transaction_is_ended_by_the_database_and_a_claim_goes_on() {
    let (go_on, wait) = mpsc::channel::<()>();
    let (tell_frozen, frozen) = mpsc::channel::<()>();
    let (wait, tell_frozen) = (Mutex::new(Some(wait)), Mutex::new(Some(tell_frozen)));
    let checked: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        if let Some(tell) = tell_frozen.lock().unwrap().take() {
            tell.send(()).unwrap();
            let wait = wait.lock().unwrap().take().unwrap();
            let _ = wait.recv_timeout(Duration::from_secs(60));
        }
    });
    let rig = BaseRig::at(Database::fresh().with(|mut store| {
        store.rules.twin = Twin { checked: Some(checked), ..Twin::default() };
        store.with_limits(Limits { idle: Duration::from_millis(500), ..Limits::default() })
    }));
    let fence = Fence::raise(P0, rig.claim("a", 1, P0).claimed.token, endless());
    let mut session = rig.session();
    let writer = thread::spawn(move || {
        let mut batch = [part(&fence, vec![job("k", 0, Write::Effect(tell("frozen")))])];
        let first = session.write(&mut batch).map(|_| ()).unwrap_err();
        let then = session.write(&mut batch).unwrap();
        (first, then)
    });
    frozen.recv_timeout(Duration::from_secs(60)).unwrap();
    let successor = PostgresStore::new((*rig.place.store.address).clone());
    successor.open(&queue(), &group()).unwrap().claim(&candidate("b", 2, P0)).unwrap();
    go_on.send(()).unwrap();
    let (first, then) = writer.join().unwrap();
    assert!(first.is_transient(), "{first:?}");
    assert_eq!(*then[0].jobs.as_ref().unwrap_err(), Fenced::NewerClaim);
    assert!(rig.place.told().is_empty());
}

#[test]
fn a_frozen_server_is_given_up_and_used_again_when_it_goes_on() {
    let server = server_of_its_own();
    let rig = BaseRig::at(
        Database::on(server, |name| server.url(name))
            .with(|store| store.with_limits(Limits { answer: Duration::from_secs(1), ..Limits::default() })),
    );
    let mut a = rig.claim("a", 1, P0);
    let mut batch = [a.part(vec![rig.job("k", 0)])];
    server.pause().unwrap();
    for _ in 0..2 {
        let error = a.session.write(&mut batch).unwrap_err();
        assert!(error.is_transient() && error.detail().remedy_text().is_some(), "{error:?}");
    }
    server.resume().unwrap();
    let mut answers = a.session.write(&mut batch);
    for _ in 0..20 {
        if answers.is_ok() {
            break;
        }
        answers = a.session.write(&mut batch);
    }
    assert_eq!(letters(answers.unwrap()[0].jobs.as_ref().unwrap()), "a");
    assert_eq!(rig.place.told(), ["k:0"]);
}
