//! Each guard taken away, and the failure that it holds off.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use keylane_producer::Offset;

use super::{BaseRig, Database, Twin, endless, part, tell, until};
use crate::{
    fence::{Fence, Fenced, Guards},
    store::{
        ClaimError, FencedStore, Note, Skipping, Steer, SteerOrder, StoreSession, Write,
        conformance::{P0, Place, bury, candidate, group, job, key, letters, queue},
        postgres::{Limits, PostgresStore},
    },
};

fn with(twin: Twin) -> BaseRig {
    BaseRig::at(Database::fresh().with(|mut store| {
        store.rules.twin = twin;
        store
    }))
}

#[test]
fn without_the_row_a_zombie_writes_to_postgres() {
    let guards = Guards { row: false, ..Guards::default() };
    let rig = BaseRig::at(Database::fresh().with(|store| PostgresStore::without((*store.address).clone(), guards)));
    let mut zombie = rig.claim("a", 1, P0);
    let _new = rig.claim("b", 2, P0);
    assert_eq!(letters(&zombie.write(vec![rig.job("untouched", 0)]).unwrap()), "a");
    assert_eq!(rig.place.told(), ["untouched:0"]);
}

#[test]
fn without_the_strict_claim_two_claimants_take_a_row_of_postgres_in_turns() {
    let rig = with(Twin { equal_generation_wins: true, ..Twin::default() });
    let mut a = rig.claim("a", 3, P0);
    let mut b = rig.try_claim(&candidate("b", 3, P0)).expect("the wrong rule grants it");
    assert_eq!(a.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    let _turn = rig.try_claim(&candidate("a", 3, P0)).expect("and takes it back");
    assert_eq!(b.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
}

type Act = Arc<dyn Fn() + Send + Sync>;

/// A writer whose fence was checked stands still while `act` runs, once.
fn stopped_after_its_check(twin: &Twin, act: impl Fn(&PostgresStore) + Send + Sync + 'static) -> (String, Vec<String>) {
    let begun = Mutex::new(false);
    let place: Arc<Mutex<Option<PostgresStore>>> = Arc::default();
    let store = place.clone();
    let checked: Act = Arc::new(move || {
        if !std::mem::replace(&mut *begun.lock().unwrap(), true) {
            act(store.lock().unwrap().as_ref().expect("it is named before anything is written"));
        }
    });
    let rig = with(Twin { checked: Some(checked), ..twin.clone() });
    *place.lock().unwrap() = Some(PostgresStore::new((*rig.place.store.address).clone()));
    let mut frozen = rig.claim("a", 1, P0);
    let written = frozen.write(vec![rig.job("k", 5)]).map(|written| letters(&written));
    (written.unwrap_or_else(|fenced| format!("{fenced:?}")), rig.place.told())
}

/// The claim of a successor, and its look at what is done.
fn succeed(store: &PostgresStore) -> crate::store::Claimed {
    store.open(&queue(), &group()).unwrap().claim(&candidate("b", 2, P0)).unwrap()
}

#[test]
fn a_claim_waits_for_a_writer_that_was_checked_and_sees_what_it_wrote() {
    let claims: Arc<Mutex<Option<thread::JoinHandle<crate::store::Claimed>>>> = Arc::default();
    let claim = claims.clone();
    let (written, told) = stopped_after_its_check(&Twin::default(), move |store| {
        let claimant = store.clone();
        *claim.lock().unwrap() = Some(thread::spawn(move || succeed(&claimant)));
        let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until(|| !store.wire().begin("look").unwrap().query(waits, &[]).unwrap().is_empty());
    });
    assert_eq!((&*written, told), ("a", vec!["k:5".to_owned()]));
    let claimed = claims.lock().unwrap().take().unwrap().join().unwrap();
    assert!(claimed.done.contains(5), "before the claim, so the new owner knows");
}

#[test]
fn a_row_that_is_read_and_not_locked_lets_a_checked_writer_land_after_the_claim() {
    let (written, told) = stopped_after_its_check(&Twin { does_not_lock: true, ..Twin::default() }, |store| {
        assert!(!succeed(store).done.contains(5), "the new owner knows nothing of it");
    });
    assert_eq!((&*written, told), ("a", vec!["k:5".to_owned()]));
}

#[test]
fn a_row_that_is_checked_in_a_transaction_of_its_own_lets_a_checked_writer_land_after_the_claim() {
    let (written, told) = stopped_after_its_check(&Twin { looks_outside: true, ..Twin::default() }, |store| {
        assert!(!succeed(store).done.contains(5));
    });
    assert_eq!((&*written, told), ("a", vec!["k:5".to_owned()]));
}

/// A person wants a job left out while the write that does it is under way: what the person is told, and what was written.
fn skipped_beside_its_write(acts_beside_owners: bool) -> (Skipping, Vec<String>) {
    let skips: Arc<Mutex<Option<thread::JoinHandle<Skipping>>>> = Arc::default();
    let skip = skips.clone();
    let (written, told) = stopped_after_its_check(&Twin::default(), move |store| {
        let mut person = store.clone();
        person.rules.twin.acts_beside_owners = acts_beside_owners;
        let acts = thread::spawn(move || {
            let order = SteerOrder { partition: P0, key: key("k"), who: "w".into(), why: "w".into() };
            person.open(&queue(), &group()).unwrap().skip(&order, Offset(5)).unwrap()
        });
        let waits = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let one_waits = || !store.wire().begin("look").unwrap().query(waits, &[]).unwrap().is_empty();
        until(|| acts.is_finished() || one_waits());
        *skip.lock().unwrap() = Some(acts);
    });
    assert_eq!(&*written, "a");
    let acted = skips.lock().unwrap().take().unwrap().join().unwrap();
    (acted, told)
}

#[test]
fn a_person_s_act_waits_for_a_write_that_is_under_way_and_finds_the_job_done() {
    assert_eq!(skipped_beside_its_write(false), (Skipping::Done, vec!["k:5".to_owned()]));
}

#[test]
fn without_that_wait_a_person_is_told_that_a_job_is_left_out_which_is_just_done() {
    assert_eq!(skipped_beside_its_write(true), (Skipping::Ordered, vec!["k:5".to_owned()]));
}

/// What an owner notes and buries is a write like others.
#[test]
fn without_the_row_a_zombie_notes_and_buries() {
    let guards = Guards { row: false, ..Guards::default() };
    let rig = BaseRig::at(Database::fresh().with(|store| PostgresStore::without((*store.address).clone(), guards)));
    let mut zombie = rig.claim("a", 1, P0);
    let _new = rig.claim("b", 2, P0);
    assert_eq!(letters(&zombie.write(vec![bury("d", 0)]).unwrap()), "b");
    zombie.session.note(&zombie.fence, Some(&Note::default())).unwrap().unwrap();
    assert_eq!(rig.place.sql("SELECT (SELECT count(*) FROM keylane.dead), (SELECT count(*) FROM keylane.note)"), "1|1");
}

/// Writers of one owner relieve each other: none ends its transaction before the next one has been checked.
fn a_claim_against_writers_that_relieve_each_other(does_not_intend: bool) -> Result<(), ClaimError> {
    let (entered, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (enter, ended) = (entered.clone(), over.clone());
    let checked: Act = Arc::new(move || {
        let mine = enter.fetch_add(1, Ordering::SeqCst) + 1;
        until(|| enter.load(Ordering::SeqCst) > mine || ended.load(Ordering::SeqCst) > 0);
    });
    let rig = with(Twin { does_not_intend, checked: Some(checked), ..Twin::default() });
    let fence = Fence::raise(P0, rig.claim("old", 1, P0).claimed.token, endless());
    // A claim alone uses this store: it stops nowhere, and has a limit of its own.
    let mut claims = PostgresStore::new((*rig.place.store.address).clone());
    claims.rules.twin.does_not_intend = does_not_intend;
    let claims = claims.with_limits(Limits { statement: Duration::from_secs(2), ..Limits::default() });
    let mut session = claims.open(&queue(), &group()).unwrap();
    let writers: Vec<_> = (0..3_u64)
        .map(|writer| {
            let (fence, over, mut session) = (fence.clone(), over.clone(), rig.session());
            // Settled before, so that all share the lock.
            session.settled.note(&[(0, P0, fence.check().unwrap().token())]);
            thread::spawn(move || {
                for turn in 0.. {
                    let write = job("k", writer * 1_000_000 + turn, Write::Effect(tell("old")));
                    let refused = session.write(&mut [part(&fence, vec![write])]).is_ok_and(|a| a[0].jobs.is_err());
                    if refused || over.load(Ordering::SeqCst) > 0 {
                        return;
                    }
                }
            })
        })
        .collect();
    until(|| entered.load(Ordering::SeqCst) > 10);
    let answer = session.claim(&candidate("new", 2, P0)).map(drop);
    over.store(1, Ordering::SeqCst);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    answer
}

#[test]
fn an_announced_claim_is_granted_among_writers_that_relieve_each_other() {
    a_claim_against_writers_that_relieve_each_other(false).unwrap();
}

#[test]
fn a_claim_that_is_not_announced_starves_among_writers_that_relieve_each_other() {
    let answer = a_claim_against_writers_that_relieve_each_other(true);
    assert!(matches!(&answer, Err(ClaimError::Failed(error)) if error.is_transient()), "{answer:?}");
}
