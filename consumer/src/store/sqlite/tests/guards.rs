//! What an effect may not do to the transaction that it shares, and what it may.

use rusqlite::Savepoint;

use super::{FileRig, sql, tell};
use crate::store::{
    Effect, EffectError, StoreSession, Write, Written,
    conformance::{P0, Place, job, letters},
    sqlite::SqliteStore,
};

/// Writes two jobs around one whose effect is `effect`, and returns why that failed; the others must have applied.
fn refused(effect: Effect<SqliteStore>) -> String {
    let rig = FileRig::new();
    let mut a = rig.claim("a", 1, P0);
    let written = a.write(vec![rig.job("k", 0), job("bad", 1, Write::Effect(effect)), rig.job("l", 2)]).unwrap();
    assert_eq!(letters(&written), "afa");
    assert_eq!(rig.place.told(), ["k:0", "l:2"]);
    let done = rig.claim("b", 2, P0).claimed.done;
    assert_eq!((done.floor, done.ranges), (1, vec![(2, 2)]));
    let Written::EffectFailed(cause) = &written[1] else { unreachable!("its letter is f") };
    cause.to_string()
}

#[test]
fn an_effect_cannot_end_the_transaction() {
    for text in ["COMMIT", "END", "ROLLBACK", "BEGIN", "BEGIN IMMEDIATE"] {
        assert_eq!(refused(sql(text)), "an effect may not begin or end a transaction", "{text}");
    }
    for text in ["RELEASE keylane_effect", "ROLLBACK TO keylane_effect", "SAVEPOINT Keylane_Effect"] {
        assert_eq!(refused(sql(text)), "an effect may not touch the savepoint it runs in", "{text}");
    }
}

#[test]
fn an_effect_cannot_touch_our_tables() {
    for text in [
        "DELETE FROM keylane_marker",
        "UPDATE keylane_fence SET closed = 1",
        "INSERT INTO keylane_suspect VALUES (1, 0, 0, 9, 9)",
        "DROP TABLE keylane_result",
        "ALTER TABLE keylane_result RENAME TO mine",
        "CREATE INDEX mine ON keylane_result (result)",
        "CREATE TABLE keylane_mine (x)",
        "CREATE TRIGGER mine AFTER INSERT ON keylane_marker BEGIN SELECT 1; END",
        "CREATE TRIGGER mine AFTER INSERT ON told BEGIN DELETE FROM keylane_marker; END; INSERT INTO told (line) VALUES ('x')",
    ] {
        assert_eq!(refused(sql(text)), "an effect may not change Keylane's tables", "{text}");
    }
}

#[test]
fn an_effect_cannot_read_the_token() {
    for column in ["epoch", "gen", "claim", "owner", "*"] {
        let text = format!("SELECT {column} FROM keylane_fence");
        assert_eq!(refused(sql(&text)), "an effect may not read the fence token");
    }
    for text in ["CREATE VIEW v AS SELECT * FROM keylane_fence; SELECT * FROM v", "SELECT started FROM keylane_suspect"]
    {
        assert_eq!(refused(sql(text)), "an effect may not read the fence token");
    }
}

#[test]
fn an_effect_cannot_change_the_connection_or_another_file() {
    for pragma in ["journal_mode = DELETE", "synchronous = OFF", "writable_schema = ON", "user_version = 7"] {
        let why = refused(sql(&format!("PRAGMA {pragma}")));
        assert_eq!(why, "an effect may not use a pragma that changes the connection or the file", "{pragma}");
    }
    assert_eq!(refused(sql("ATTACH ':memory:' AS other")), "an effect may not attach or detach a file");
}

#[test]
fn an_effect_may_do_what_a_user_of_sqlite_does() {
    let rig = FileRig::new();
    let mut a = rig.claim("a", 1, P0);
    let text = "CREATE TABLE mine (x INTEGER PRIMARY KEY); CREATE INDEX mine_x ON mine (x);
                SAVEPOINT inner; INSERT INTO mine VALUES (1); ROLLBACK TO inner; RELEASE inner;
                INSERT INTO mine VALUES (2); PRAGMA table_info(mine); PRAGMA defer_foreign_keys = ON;
                CREATE VIRTUAL TABLE words USING fts5 (word); INSERT INTO words VALUES ('keylane');
                SELECT worker FROM keylane_fence; SELECT count(*) FROM keylane_marker; SELECT * FROM keylane_result;
                SAVEPOINT left_open; INSERT INTO mine VALUES (3)";
    let nested = Effect::new(|tx: &mut Savepoint<'_>| -> Result<(), EffectError> {
        let inner = tx.savepoint()?;
        inner.execute("INSERT INTO mine VALUES (4)", [])?;
        Ok(inner.commit()?)
    });
    let jobs = vec![job("k", 0, Write::Effect(sql(text))), job("l", 1, Write::Effect(nested)), rig.job("m", 2)];
    let written = a.write(jobs).unwrap();
    assert_eq!(letters(&written), "aaa", "{written:?}");
    let sum: i64 = rig.place.sql().query_row("SELECT sum(x) FROM mine", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 2 + 3 + 4);
}

/// `OR ROLLBACK` ends the transaction without asking the authorizer; what follows would be committed on its own.
#[test]
fn an_effect_that_rolls_the_transaction_back_writes_nothing_unfenced() {
    let swallowing = || {
        Effect::new(|tx: &mut Savepoint<'_>| -> Result<(), EffectError> {
            let _ = tx.execute("INSERT OR ROLLBACK INTO told (id, line) VALUES (1, 'a'), (1, 'b')", []);
            assert!(tx.is_autocommit(), "the transaction is gone");
            let _ = tx.execute("INSERT INTO told (line) VALUES ('unfenced')", []);
            Ok(())
        })
    };
    assert_eq!(refused(swallowing()), "the effect ended the transaction that it ran in");
    let failing = sql("INSERT OR ROLLBACK INTO told (id, line) VALUES (1, 'a'), (1, 'b')");
    assert!(refused(failing).contains("UNIQUE"));
}

/// The twin of the commit hook: without it, what follows the lost transaction is committed on its own.
#[test]
fn without_the_commit_hook_an_unfenced_write_would_land() {
    let rig = FileRig::new();
    let mut a = rig.claim("a", 1, P0);
    a.session.connection.commit_hook(None::<fn() -> bool>).unwrap();
    let effect = Effect::new(|tx: &mut Savepoint<'_>| -> Result<(), EffectError> {
        let _ = tx.execute("INSERT OR ROLLBACK INTO told (id, line) VALUES (1, 'a'), (1, 'b')", []);
        let _ = tx.execute("INSERT INTO told (line) VALUES ('unfenced')", []);
        Ok(())
    });
    a.write(vec![job("k", 0, Write::Effect(effect))]).unwrap();
    assert_eq!(rig.place.told(), ["unfenced"]);
}

/// The authorizer is asked when a statement is prepared. Ours were, with nothing denied, so they must not be found.
#[test]
fn an_effect_does_not_find_our_prepared_statements() {
    let ours = "DELETE FROM keylane_marker WHERE scope = ?1 AND part = ?2 AND first = ?3";
    let effect = Effect::new(move |tx: &mut Savepoint<'_>| -> Result<(), EffectError> {
        tx.prepare_cached(ours)?.execute([1, 0, 0])?;
        Ok(())
    });
    let rig = FileRig::new();
    let mut a = rig.claim("a", 1, P0);
    a.write(vec![rig.job("k", 0)]).unwrap();
    a.write(vec![rig.job("k", 1)]).unwrap();
    assert_eq!(letters(&a.write(vec![job("l", 2, Write::Effect(effect))]).unwrap()), "f");
    assert_eq!(rig.claim("b", 2, P0).claimed.done.floor, 2);

    // The twin: a statement that was prepared under the same text while the guard was off is found and runs.
    let mut b = rig.claim("b", 3, P0);
    drop(b.session.connection.prepare_cached(ours).unwrap());
    let effect = Effect::new(move |tx: &mut Savepoint<'_>| -> Result<(), EffectError> {
        tx.prepare_cached(ours)?.execute([1, 0, 0])?;
        Ok(())
    });
    assert_eq!(letters(&b.write(vec![job("l", 7, Write::Effect(effect))]).unwrap()), "a");
}

#[test]
fn the_guard_is_off_again_after_a_panic() {
    let rig = FileRig::new();
    let mut a = rig.claim("a", 1, P0);
    let panics = Effect::new(|_: &mut Savepoint<'_>| -> Result<(), EffectError> { panic!("a bug of the user's") });
    let jobs = vec![job("k", 0, Write::Effect(panics)), job("l", 1, Write::Effect(tell("l:1")))];
    assert_eq!(letters(&a.write(jobs).unwrap()), "fa");
    assert_eq!(a.session.hand_over(&a.fence).unwrap(), Ok(()));
}

/// One by one, and two of them: the others of the batch commit.
#[test]
fn two_effects_that_end_the_transaction_fail_alone() {
    let rig = FileRig::new();
    let mut a = rig.claim("a", 1, P0);
    let ends = || Write::Effect(sql("INSERT OR ROLLBACK INTO told (id, line) VALUES (1, 'a'), (1, 'b')"));
    let jobs = vec![rig.job("k", 0), job("x", 1, ends()), rig.job("l", 2), job("y", 3, ends()), rig.job("y", 4)];
    assert_eq!(letters(&a.write(jobs).unwrap()), "afaff");
    assert_eq!(rig.place.told(), ["k:0", "l:2"]);
}

#[test]
fn the_token_s_numbers_are_shown_by_reveal_alone() {
    let rig = FileRig::new();
    let a = rig.claim("a", 41, P0);
    let rows = rig.place.store().fence_rows().unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0].worker.as_deref(), Some("a"));
    let numbers = rows[0].reveal();
    assert_eq!((numbers.generation, numbers.claim), (41, a.claimed.token.claim));
    let shown = format!("{:?} {:?}", rows[0], a.claimed);
    assert!(!shown.contains("41") && !shown.contains(&numbers.claim.to_string()), "{shown}");
}
