//! `keylane.admit`: a handler's own transaction passes the fence, or is refused by name.

use std::{sync::mpsc, thread, time::Duration};

use bytes::Bytes;
use keylane_producer::Offset;

use super::{BaseRig, Database, tell};
use crate::{
    error::Error,
    store::{
        ClaimError, FencedStore, StoreSession, Write,
        conformance::{Holder, P0, Place, candidate, group, job, letters, queue, stop},
        postgres::{Limits, PostgresStore, PostgresTx, SqlError},
    },
};

/// What a handler gets for a job at this offset.
pub(super) fn pass(holder: &Holder<PostgresStore>, offset: u64) -> String {
    holder.claimed.pass.as_ref().unwrap().of_job(Offset(offset)).reveal().to_owned()
}

/// A handler's own transaction: admitted first, then its row; `meanwhile` it stands still in between.
pub(super) fn handle(store: &PostgresStore, pass: &str, line: &str, meanwhile: impl FnOnce()) -> Result<(), Error> {
    store.connection().transaction(|tx: &mut PostgresTx<'_>| -> Result<(), SqlError> {
        tx.execute("SELECT keylane.admit($1)", &[&pass])?;
        meanwhile();
        tx.execute("INSERT INTO told (line) VALUES ($1)", &[&line]).map(drop)
    })
}

#[track_caller]
fn refused(answer: Result<(), Error>, code: &str) {
    let told = answer.expect_err("refused").detail().chain();
    assert!(told.contains(&format!("({code})")) && !told.contains("fence-v1"), "{told}");
}

/// Takes a guard out of the function.
pub(super) fn without(place: &Database, guard: &str, instead: &str) {
    place.sql(&format!(
        "DO $do$ DECLARE body text := pg_get_functiondef('keylane.admit(text)'::regprocedure); BEGIN
             ASSERT strpos(body, $g${guard}$g$) > 0;
             EXECUTE replace(body, $g${guard}$g$, $g${instead}$g$);
         END $do$"
    ));
}

/// A job that was admitted and then joined to the markers, and a second transaction for it: how that ends, what was told.
fn admitted_again_after_its_marker(looks_at_markers: bool) -> (Result<(), Error>, Vec<String>) {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    if !looks_at_markers {
        without(&rig.place, "IF NOT FOUND OR EXISTS (", "IF NOT FOUND OR false AND EXISTS (");
    }
    let (store, pass) = (rig.place.store(), pass(&a, 5));
    handle(&store, &pass, "first", || {}).unwrap();
    refused(handle(&store, &pass, "while its row is there", || {}), "KL002");
    assert_eq!(letters(&a.write(vec![job("k", 5, Write::Nothing)]).unwrap()), "a", "done by its handler, and counted");
    let rows = "SELECT (SELECT count(*) FROM keylane.admitted), (SELECT count(*) FROM keylane.marker)";
    assert_eq!(rig.place.sql(rows), "0|1");
    assert_eq!(letters(&a.write(vec![job("k", 5, Write::Nothing)]).unwrap()), "d");
    (handle(&store, &pass, "again", || {}), rig.place.told())
}

#[test]
fn a_job_that_was_admitted_and_marked_is_not_admitted_again() {
    let (again, told) = admitted_again_after_its_marker(true);
    refused(again, "KL002");
    assert_eq!(told, ["first"]);
}

#[test]
fn without_a_look_at_the_markers_a_handler_does_a_job_twice() {
    let (again, told) = admitted_again_after_its_marker(false);
    again.unwrap();
    assert_eq!(told, ["first", "again"]);
}

/// A parked job, whose marker says only that it waits, in the hands of a handler with a transaction of its own.
fn a_parked_job_is_handled(guarded: bool) -> Result<(), Error> {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    if !guarded {
        without(
            &rig.place,
            "AND NOT EXISTS (SELECT FROM keylane.parked AS p",
            "AND true OR EXISTS (SELECT FROM keylane.parked AS p",
        );
    }
    let (store, pass) = (rig.place.store(), pass(&a, 5));
    assert_eq!(letters(&a.write(vec![job("k", 5, stop("cannot"))]).unwrap()), "s");
    handle(&store, &pass, "replayed", || {})?;
    // Somebody else's write joins nothing that waits in a line.
    assert_eq!(letters(&a.write(vec![job("other", 6, Write::Nothing)]).unwrap()), "a");
    let rows = "SELECT (SELECT count(*) FROM keylane.admitted), (SELECT count(*) FROM keylane.parked)";
    assert_eq!(rig.place.sql(rows), "1|1");
    refused(handle(&store, &pass, "again", || {}), "KL002");
    assert_eq!(letters(&a.write(vec![job("k", 5, Write::Nothing)]).unwrap()), "a");
    assert_eq!(rig.place.sql(rows), "0|0");
    refused(handle(&store, &pass, "and again", || {}), "KL002");
    assert_eq!(rig.place.told(), ["replayed"]);
    Ok(())
}

#[test]
fn a_job_in_its_key_s_line_is_admitted_when_it_is_replayed_and_once() {
    a_parked_job_is_handled(true).unwrap();
}

#[test]
fn without_a_look_at_the_line_a_replayed_job_is_never_admitted() {
    refused(a_parked_job_is_handled(false), "KL002");
}

#[test]
fn a_stale_owner_s_own_transaction_is_refused_by_name_and_writes_nothing() {
    let rig = BaseRig::new();
    let (a, store) = (rig.claim("a", 1, P0), rig.place.store());
    let b = rig.claim("b", 2, P0);
    refused(handle(&store, &pass(&a, 0), "stale", || {}), "KL001");
    handle(&store, &pass(&b, 0), "new", || {}).unwrap();
    // Announced, and not granted yet: the owner begins nothing more.
    rig.place.sql("UPDATE keylane.fence_intent SET gen = 3");
    refused(handle(&store, &pass(&b, 1), "overtaken", || {}), "KL001");
    let regained = rig.claim("a", 4, P0);
    refused(handle(&store, &pass(&a, 1), "of the claim before", || {}), "KL001");
    handle(&store, &pass(&regained, 1), "regained", || {}).unwrap();
    rig.place.close(P0);
    refused(handle(&store, &pass(&regained, 2), "closed", || {}), "KL001");
    assert_eq!(rig.place.told(), ["new", "regained"]);
    assert_eq!(rig.place.sql("SELECT count(*) FROM keylane.admitted"), "2");
}

/// An admitted transaction stands still while a successor claims. Whether the claim came first, whether it knew of the job,
/// and what was told.
fn a_claim_meets_an_admitted_transaction(locks: bool) -> (bool, bool, Vec<String>) {
    let rig = BaseRig::new();
    let a = rig.claim("a", 1, P0);
    if !locks {
        without(&rig.place, "FOR SHARE OF f", "");
    }
    let (claimed, granted) = mpsc::channel();
    let (claimant, pass) = (rig.place.store(), pass(&a, 5));
    let mut first = None;
    handle(&rig.place.store(), &pass, "k:5", || {
        thread::spawn(move || {
            let mut session = claimant.open(&queue(), &group()).unwrap();
            let _ = claimed.send(session.claim(&candidate("b", 2, P0)).unwrap());
        });
        if locks {
            rig.place.until_one_waits();
        } else {
            first = granted.recv_timeout(Duration::from_secs(4)).ok();
        }
    })
    .unwrap();
    let before = first.is_some();
    let claim = first.unwrap_or_else(|| granted.recv_timeout(Duration::from_secs(60)).unwrap());
    (before, claim.done.contains(5), rig.place.told())
}

#[test]
fn a_claim_waits_for_an_admitted_transaction_and_finds_its_job_done() {
    assert_eq!(a_claim_meets_an_admitted_transaction(true), (false, true, vec!["k:5".to_owned()]));
}

#[test]
fn without_the_lock_an_admitted_transaction_lands_after_the_claim() {
    assert_eq!(a_claim_meets_an_admitted_transaction(false), (true, false, vec!["k:5".to_owned()]));
}

#[test]
fn of_two_transactions_for_one_job_the_second_waits_for_the_first_and_is_refused() {
    let rig = BaseRig::new();
    let a = rig.claim("a", 1, P0);
    let (store, pass) = (rig.place.store(), pass(&a, 0));
    let (second, again) = (store.clone(), pass.clone());
    let mut waits = None;
    handle(&store, &pass, "first", || {
        waits = Some(thread::spawn(move || handle(&second, &again, "second", || {})));
        rig.place.until_one_waits();
    })
    .unwrap();
    refused(waits.unwrap().join().unwrap(), "KL002");
    assert_eq!(rig.place.told(), ["first"]);
}

#[test]
fn a_transaction_that_was_admitted_and_rolled_back_leaves_its_job_to_be_done() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    let (store, pass) = (rig.place.store(), pass(&a, 0));
    let fails = store.connection().transaction(|tx: &mut PostgresTx<'_>| {
        tx.execute("SELECT keylane.admit($1)", &[&pass])?;
        tx.execute("SELECT 1 / 0", &[])
    });
    assert!(fails.is_err());
    handle(&store, &pass, "k:0", || {}).unwrap();
    assert_eq!(letters(&a.write(vec![job("k", 0, Write::Nothing)]).unwrap()), "a");
    assert_eq!(rig.place.told(), ["k:0"]);
}

#[test]
fn a_worker_keeps_what_was_answered_beside_an_admitted_job_and_applies_nothing_late() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    let store = rig.place.store();
    for offset in 0..4 {
        handle(&store, &pass(&a, offset), &format!("own:{offset}"), || {}).unwrap();
    }
    // The fourth was answered by nobody: its worker died, and it is done all the same.
    let result = job("r", 1, Write::Result(Bytes::from_static(br#"{"n":1}"#)));
    let late = job("e", 2, Write::Effect(tell("late")));
    let written = a.write(vec![job("n", 0, stop("given up too early")), result, late]).unwrap();
    assert_eq!(letters(&written), "dad");
    assert_eq!(rig.place.results(), [(0, 1, b"r".to_vec(), r#"{"n":1}"#.to_owned())]);
    assert_eq!(rig.place.told(), ["own:0", "own:1", "own:2", "own:3"]);
    let mut b = rig.claim("b", 2, P0);
    assert_eq!(b.claimed.done.floor, 4, "the new owner skips it");
    b.write_part(crate::store::PartitionWrite { watermark: Offset(4), ..b.part(vec![rig.job("k", 4)]) }).unwrap();
    let rows =
        "SELECT (SELECT count(*) FROM keylane.admitted), string_agg(first || '-' || last, ',') FROM keylane.marker";
    assert_eq!(rig.place.sql(rows), "0|0-4");
}

#[test]
fn what_is_no_fence_and_what_is_not_read_committed_is_refused_by_name() {
    let rig = BaseRig::new();
    let a = rig.claim("a", 1, P0);
    let (store, good) = (rig.place.store(), pass(&a, 0));
    for wrong in ["", "7", &good[..80], &format!("{good}x"), &good.replace("v1", "v2")] {
        refused(handle(&store, wrong, "wrong", || {}), "KL003");
    }
    refused(
        store
            .connection()
            .transaction(|tx: &mut PostgresTx<'_>| tx.execute("SELECT keylane.admit(NULL)", &[]).map(drop)),
        "KL003",
    );
    // Another job's place with this job's digest.
    let (one, other) = (good.as_bytes(), pass(&a, 1).into_bytes());
    let mixed = [&other[..other.len() - 36], &one[one.len() - 36..]].concat();
    refused(handle(&store, std::str::from_utf8(&mixed).unwrap(), "mixed", || {}), "KL001");
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        let text = format!("BEGIN ISOLATION LEVEL {isolation}; SELECT keylane.admit('{good}'); COMMIT");
        let told = rig.place.server.sql(&rig.place.name, &text).unwrap_err().to_string();
        assert!(told.contains("needs a READ COMMITTED transaction"), "{told}");
    }
    assert!(rig.place.told().is_empty());
}

#[test]
fn an_admitted_transaction_that_stands_still_is_ended_by_the_database_unless_it_has_a_limit_of_its_own() {
    let rig = BaseRig::new();
    let a = rig.claim("a", 1, P0);
    let limit = |store: PostgresStore, offset: u64| {
        store.connection().transaction(|tx: &mut PostgresTx<'_>| {
            tx.execute("SELECT keylane.admit($1)", &[&pass(&a, offset)])?;
            Ok(tx.query_one("SHOW idle_in_transaction_session_timeout", &[])?.get::<_, String>(0))
        })
    };
    let idle = |idle: Duration| rig.place.store().with_limits(Limits { idle, ..Limits::default() });
    assert_eq!(limit(idle(Duration::ZERO), 0).unwrap(), "5s");
    assert_eq!(limit(idle(Duration::from_secs(7)), 1).unwrap(), "7s");
    let again = "SHOW idle_in_transaction_session_timeout";
    assert_eq!(rig.place.sql(again), "0", "nothing stays in a session");
}

/// A handler that stands still in its admitted transaction, in a session without any limit of its own, as psql's is. What comes
/// of a claim meanwhile, and of the handler.
fn a_frozen_handler(limited: bool) -> (Result<(), ClaimError>, Result<(), Error>, Vec<String>) {
    let rig = BaseRig::new();
    let a = rig.claim("a", 1, P0);
    if !limited {
        without(&rig.place, "IF current_setting('idle_in_transaction_session_timeout') = '0' THEN", "IF false THEN");
    }
    let endless = rig.place.store().with_limits(Limits { idle: Duration::ZERO, ..Limits::default() });
    let mut claimed = None;
    let handled = handle(&endless, &pass(&a, 0), "frozen", || {
        claimed = Some(rig.session().claim(&candidate("b", 2, P0)).map(drop));
    });
    (claimed.unwrap(), handled, rig.place.told())
}

#[test]
fn a_handler_frozen_in_its_admitted_transaction_is_ended_by_the_database_and_a_claim_goes_on() {
    let (claimed, handled, told) = a_frozen_handler(true);
    claimed.unwrap();
    assert!(handled.unwrap_err().is_transient() && told.is_empty(), "{told:?}");
}

#[test]
fn without_a_limit_a_frozen_handler_holds_up_the_claim_for_as_long_as_it_likes() {
    let (claimed, handled, told) = a_frozen_handler(false);
    assert!(matches!(claimed, Err(ClaimError::Failed(error)) if error.is_transient()));
    handled.unwrap();
    assert_eq!(told, ["frozen"]);
}
