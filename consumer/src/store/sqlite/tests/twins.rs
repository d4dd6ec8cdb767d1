//! Each guard taken away, and the failure that it holds off.

use std::sync::{Arc, Mutex};

use super::{File, FileRig, Twin};
use crate::{
    fence::{Fenced, Guards},
    store::{
        LineAct, LineOrder, StoreSession, Write,
        conformance::{P0, Place, candidate, job, letters, stop},
        sqlite::SqliteStore,
    },
};

fn with(twin: Twin) -> FileRig {
    FileRig::at(File::fresh().with(|mut store| {
        store.rules.twin = twin;
        store
    }))
}

#[test]
fn without_the_row_a_zombie_writes() {
    let guards = Guards { row: false, ..Guards::default() };
    let rig = FileRig::at(File::fresh().with(|store| SqliteStore::without(&*store.path, guards)));
    let mut zombie = rig.claim("a", 1, P0);
    let _new = rig.claim("b", 2, P0);
    assert_eq!(letters(&zombie.write(vec![rig.job("untouched", 0)]).unwrap()), "a");
    assert_eq!(rig.place.told(), ["untouched:0"]);
}

#[test]
fn without_the_strict_claim_two_claimants_take_turns() {
    let rig = with(Twin { equal_generation_wins: true, ..Twin::default() });
    let mut a = rig.claim("a", 3, P0);
    let mut b = rig.try_claim(&candidate("b", 3, P0)).expect("the wrong rule grants it");
    assert_eq!(a.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    let _turn = rig.try_claim(&candidate("a", 3, P0)).expect("and takes it back");
    assert_eq!(b.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
}

#[test]
fn an_act_without_its_condition_drops_a_job_that_nobody_saw() {
    let rig = with(Twin { acts_unconditionally: true, ..Twin::default() });
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![job("k", 0, stop("x"))]).unwrap();
    let seen = a.session.overview().unwrap().swap_remove(0).stopped.remove(0);
    a.write(vec![job("k", 1, Write::Park)]).unwrap();
    let order = LineOrder {
        last: Some(seen.last),
        act: LineAct::Drop,
        ..LineOrder::replay(P0, seen.key.clone(), seen.version)
    };
    assert!(rig.session().act_on_line(&order).unwrap());
    assert!(a.session.line(P0, &seen.key).unwrap().jobs.is_empty(), "the second job is gone, and nobody looked at it");
}

type Act = Box<dyn FnOnce() + Send>;

/// A claim comes between the writer's look at its local fence and its BEGIN.
fn with_a_claim_before_begin(looks_outside: bool) -> (Result<String, Fenced>, Vec<String>) {
    let act: Arc<Mutex<Option<Act>>> = Arc::default();
    let once = act.clone();
    let before_begin: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        let act = once.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
    });
    let rig = with(Twin { looks_outside, before_begin: Some(before_begin), ..Twin::default() });
    let mut frozen = rig.claim("a", 1, P0);
    let store = SqliteStore::new(&*rig.place.store.path);
    *act.lock().unwrap() = Some(Box::new(move || {
        use crate::store::{FencedStore, StoreSession, conformance};
        let mut session = store.open(&conformance::queue(), &conformance::group()).unwrap();
        session.claim(&candidate("b", 2, P0)).unwrap();
    }));
    let written = frozen.write(vec![rig.job("k", 0)]).map(|written| letters(&written));
    (written, rig.place.told())
}

#[test]
fn a_writer_frozen_between_its_look_and_its_transaction_is_fenced() {
    assert_eq!(with_a_claim_before_begin(false), (Err(Fenced::NewerClaim), vec![]));
}

#[test]
fn a_row_that_is_read_outside_of_the_transaction_lets_a_frozen_writer_through() {
    assert_eq!(with_a_claim_before_begin(true), (Ok("a".into()), vec!["k:0".into()]));
}
