//! What an effect may not do to the transaction that it shares, and what it may.

use super::{BaseRig, sql};
use crate::store::{
    Effect, EffectError, Write, Written,
    conformance::{P0, Place, job, letters},
    postgres::{PostgresTx, types::Type},
};

/// Writes two jobs around one whose effect is this SQL, and returns why that failed; the others must have applied.
fn refused(text: &str) -> String {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    let written = a.write(vec![rig.job("k", 0), job("bad", 1, Write::Effect(sql(text))), rig.job("l", 2)]).unwrap();
    assert_eq!(letters(&written), "afa", "{text}");
    assert_eq!(rig.place.told(), ["k:0", "l:2"]);
    let Written::EffectFailed(cause) = &written[1] else { unreachable!("its letter is f") };
    cause.to_string()
}

#[test]
fn an_effect_cannot_end_the_transaction_of_postgres() {
    for text in ["COMMIT", "/* now */ rollback", "SAVEPOINT mine", "RELEASE keylane_effect"] {
        assert_eq!(refused(text), "an effect may not begin or end a transaction");
    }
    assert!(refused("SELECT 1; COMMIT").contains("multiple commands"), "one statement at a time");
    assert!(refused("DO $$ BEGIN COMMIT; END $$").contains("invalid transaction termination"));
    assert!(refused("LISTEN jobs").contains("session") && refused("SET statement_timeout = 0").contains("SET LOCAL"));
}

#[test]
fn an_effect_may_do_what_a_user_of_postgres_does() {
    let rig = BaseRig::new();
    let mut a = rig.claim("a", 1, P0);
    let effect = Effect::new(|tx: &mut PostgresTx<'_>| -> Result<(), EffectError> {
        tx.execute("CREATE TABLE mine (x int PRIMARY KEY)", &[])?;
        tx.execute_typed("INSERT INTO mine SELECT unnest($1)", &[(&vec![1, 2, 3], Type::INT4_ARRAY)])?;
        tx.execute("SET LOCAL work_mem = '1MB'", &[])?;
        let sum: i64 = tx.query_one("SELECT sum(x) FROM mine", &[])?.get(0);
        let rows = tx.query("SELECT x FROM mine WHERE x > $1", &[&1])?;
        let none = tx.query_opt("SELECT x FROM mine WHERE x > $1", &[&9])?;
        let typed = tx.query_typed("SELECT $1::text", &[(&"t", Type::TEXT)])?;
        assert_eq!((sum, rows.len(), none.is_none(), typed.len()), (6, 2, true, 1));
        Ok(())
    });
    let silent = || Effect::new(|_: &mut PostgresTx<'_>| -> Result<(), EffectError> { Ok(()) });
    let jobs = vec![
        job("s", 0, Write::Effect(silent())),
        job("k", 1, Write::Effect(effect)),
        job("s", 2, Write::Effect(silent())),
        rig.job("m", 3),
    ];
    let written = a.write(jobs).unwrap();
    assert_eq!(letters(&written), "aaaa", "{written:?}");
    assert_eq!(rig.place.sql("SELECT sum(x) FROM mine"), "6");
}
