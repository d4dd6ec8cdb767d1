//! Whose fault it is: the job's, which fails alone, or the database's, which is waited for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use keylane_producer::Offset;

use super::{BaseRig, Database, sql, tell};
use crate::{
    error::Error,
    store::{
        Effect, EffectError, FencedStore, StoreSession, Write, Written,
        conformance::{P0, Place, first, job, letters, then_fail},
        postgres::{Limits, PostgresTx},
    },
};

fn raising(code: &str) -> String {
    format!("DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}'; END $$")
}

/// Deadlock, serialization, disk full, out of memory, too many connections, read-only, lock not available, shutdown, I/O.
#[test]
fn what_passes_by_itself_is_no_job_s_failure() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    let wrapped = |code: &str| {
        let text = raising(code);
        Effect::new(move |tx: &mut PostgresTx<'_>| -> Result<(), EffectError> {
            tx.execute(&text, &[]).map_err(|e| format!("my own words: {e}"))?;
            Ok(())
        })
    };
    for code in ["40P01", "40001", "53100", "53200", "53300", "25006", "55P03", "57P01", "58030", "08006"] {
        for effect in [sql(&raising(code)), wrapped(code)] {
            let mut batch = [a.part(vec![rig.job("k", 0), job("l", 1, Write::Effect(effect))])];
            let error = a.session.write(&mut batch).unwrap_err();
            assert!(matches!(error, Error::Unavailable(_)), "{code}: {error:?}");
        }
    }
    assert!(rig.place.told().is_empty());
    assert_eq!(letters(&a.write(vec![rig.job("k", 0)]).unwrap()), "a", "and goes on");
}

#[test]
fn a_constraint_a_bad_statement_or_a_missing_right_fails_its_job_alone() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    for (turn, text) in
        ["INSERT INTO told VALUES (DEFAULT, NULL)", "SELECT 1 / 0", "SELEC", "SELECT * FROM nowhere", &raising("42501")]
            .into_iter()
            .enumerate()
    {
        let at = turn as u64 * 3;
        let jobs = vec![rig.job("k", at), job("l", at + 1, Write::Effect(sql(text))), rig.job("m", at + 2)];
        assert_eq!(letters(&a.write(jobs).unwrap()), "afa", "{text}");
    }
    assert_eq!(rig.place.told().len(), 10);
}

/// Else the same slow effect would be tried for ever, with all that shares its batch.
#[test]
fn an_effect_that_takes_too_long_fails_alone_and_one_that_waits_for_a_lock_does_not() {
    let limits = Limits { statement: Duration::from_secs(1), lock: Duration::from_millis(300), ..Limits::default() };
    let rig = BaseRig::at(Database::fresh().with(|store| store.with_limits(limits)));
    let mut a = rig.claim("a", 1, P0);
    let slow = || job("slow", 1, Write::Effect(sql("SELECT pg_sleep(30)")));
    assert_eq!(letters(&a.write(vec![rig.job("k", 0), slow(), rig.job("m", 2)]).unwrap()), "afa");
    let mut holder = rig.place.store.wire();
    let mut held = holder.begin("hold").unwrap();
    held.say("LOCK TABLE told").unwrap();
    let error = a.session.write(&mut [a.part(vec![rig.job("k", 3)])]).unwrap_err();
    assert!(error.is_transient() && error.detail().remedy_text().is_none_or(|r| !r.is_empty()), "{error:?}");
    drop(held);
    assert_eq!(letters(&a.write(vec![rig.job("k", 3)]).unwrap()), "a");
}

#[test]
fn a_result_that_is_no_json_fails_alone_and_one_that_is_there_already_too() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    let result =
        |key: &str, offset, json: &'static [u8]| job(key, offset, Write::Result(bytes::Bytes::from_static(json)));
    let jobs =
        vec![result("k", 0, b"{\"n\":1}"), result("l", 1, b"{n:1}"), result("m", 2, b"3"), result("m", 3, b"nul\0")];
    assert_eq!(letters(&a.write(jobs).unwrap()), "afaf");
    rig.place.sql(
        "INSERT INTO keylane.result (queue, group_name, part, \"offset\", key, job_id, attempt, result)
         SELECT queue, group_name, part, 5, key, 'somebody', 1, '0' FROM keylane.result LIMIT 1",
    );
    let jobs = vec![result("p", 4, b"4"), result("q", 5, b"5"), rig.job("q", 6), rig.job("r", 7)];
    assert_eq!(letters(&a.write(jobs).unwrap()), "affa", "its follower waits");
    assert_eq!(rig.place.results().iter().map(|row| row.1).collect::<Vec<_>>(), [0, 2, 4, 5]);
}

#[test]
fn tables_that_are_gone_or_forbidden_are_told_with_a_remedy() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    rig.place.sql("ALTER TABLE keylane.marker RENAME TO hidden");
    let error = a.session.write(&mut [a.part(vec![rig.job("k", 0)])]).unwrap_err();
    assert!(matches!(error, Error::Corrupt(_)) && error.detail().remedy_text().is_some(), "{error:?}");
    let nowhere = rig.place.server.url("no_such_database").parse().unwrap();
    let store = super::PostgresStore::new(nowhere);
    let error = store.open(&crate::store::conformance::queue(), &crate::store::conformance::group()).err().unwrap();
    assert!(error.detail().remedy_text().is_some_and(|r| r.contains("create the database")), "{error:?}");
}

#[test]
fn why_an_effect_failed_is_told() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    let swallows = Effect::new(|tx: &mut PostgresTx<'_>| -> Result<(), EffectError> {
        let _ = tx.execute("SELECT 1 / 0", &[]);
        Ok(())
    });
    let jobs = vec![job("k", 0, Write::Effect(swallows)), job("l", 1, Write::Effect(tell("l:1")))];
    let written = a.write(jobs).unwrap();
    assert_eq!(letters(&written), "fa");
    let Written::EffectFailed(cause) = &written[0] else { unreachable!("its letter is f") };
    assert!(cause.to_string().contains("division by zero"), "{cause}");
}

/// The first failure costs the transaction, which is done again behind savepoints; the next ones cost nothing but themselves.
#[test]
fn effects_beside_one_that_fails_are_called_again_once_and_applied_once() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    for (offset, calls) in [(0, 2), (2, 1), (4, 1)] {
        let called = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&called);
        let counted = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let good = job("k", offset, Write::Effect(first(counted, tell("good"))));
        let bad = job("l", offset + 1, Write::Effect(then_fail(tell("bad"))));
        assert_eq!(letters(&a.write(vec![good, bad]).unwrap()), "af");
        assert_eq!(called.load(Ordering::Relaxed), calls, "at {offset}");
    }
    assert_eq!(rig.place.told(), ["good"; 3]);
}

/// Writers whom no fence keeps apart leave such rows; a write that took them for one would never be sure of what it changes.
#[test]
fn rows_of_markers_that_touch_are_made_one_by_the_next_write() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    assert_eq!(letters(&a.write(vec![rig.job("k", 0), rig.job("l", 5)]).unwrap()), "aa");
    rig.place.sql(
        "INSERT INTO keylane.marker (scope, part, first, last)
         SELECT scope, part, n, n FROM keylane.marker, generate_series(1, 2) AS n WHERE part = 0 AND first = 0",
    );
    let mut batch = [a.part(vec![rig.job("k", 3)])];
    batch[0].watermark = Offset(4);
    assert!(a.session.write(&mut batch).unwrap()[0].jobs.is_ok());
    let rows = "SELECT first, last FROM keylane.marker WHERE part = 0 ORDER BY first";
    let mut wire = rig.place.store.wire();
    let rows = wire.begin("look").unwrap().query(rows, &[]).unwrap();
    let rows: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows, [(0, 3), (5, 5)]);
}
