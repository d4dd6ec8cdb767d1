//! Effects that are one statement: what other effects promise, and that they go together.

use std::time::Duration;

use super::{Database, Direct, Pooled, PostgresStore, PostgresTx, Twin, Way, sql, tell};
use crate::{
    error::Error,
    fence::Fenced,
    store::{
        Effect, EffectError, JobWrite, StoreSession, Write, Written,
        conformance::{P0, Place, Rig, job, letters, then_fail},
        postgres::{Limits, types::Type},
    },
};

/// Whose effects are statements.
pub(super) struct Stated;

/// The same by way of a pooler.
pub(super) struct StatedAndPooled;

impl Way for Stated {
    fn url(database: &str) -> String {
        Direct::url(database)
    }

    fn tell(line: &str) -> Effect<PostgresStore> {
        stated(line)
    }

    fn sql(text: &str) -> Effect<PostgresStore> {
        Effect::statement(text, &[])
    }
}

impl Way for StatedAndPooled {
    fn url(database: &str) -> String {
        Pooled::url(database)
    }

    fn tell(line: &str) -> Effect<PostgresStore> {
        stated(line)
    }

    fn sql(text: &str) -> Effect<PostgresStore> {
        Effect::statement(text, &[])
    }
}

/// An effect that writes a line to the user's table.
fn stated(line: &str) -> Effect<PostgresStore> {
    Effect::statement("INSERT INTO told (line) VALUES ($1)", &[(&line, Type::TEXT)])
}

fn one(key: &str, offset: u64, effect: Effect<PostgresStore>) -> JobWrite<PostgresStore> {
    job(key, offset, Write::Effect(effect))
}

type StatedRig = Rig<Database<Stated>>;

fn with_twin(twin: Twin) -> StatedRig {
    StatedRig::at(Database::fresh().with(|mut store| {
        store.rules.twin = twin;
        store
    }))
}

/// Writes two jobs around this one, and returns why it failed; the others must have applied.
fn why_it_failed(effect: Effect<PostgresStore>) -> String {
    let rig = StatedRig::new();
    let mut a = rig.claim("a", 1, P0);
    let written = a.write(vec![rig.job("k", 0), one("bad", 1, effect), rig.job("l", 2), rig.job("bad", 3)]).unwrap();
    assert_eq!(letters(&written), "afaf");
    assert_eq!(rig.place.told(), ["k:0", "l:2"]);
    let Written::EffectFailed(cause) = &written[1] else { unreachable!("its letter is f") };
    cause.to_string()
}

#[test]
fn a_statement_that_fails_fails_alone_with_its_reason() {
    for (text, reason) in [
        ("SELECT 1 / 0", "division by zero"),
        ("SELEC", "syntax error"),
        ("SELECT * FROM nowhere", "does not exist"),
        ("INSERT INTO told VALUES (DEFAULT, NULL)", "null value"),
        ("DO $$ BEGIN RAISE EXCEPTION 'no right' USING ERRCODE = '42501'; END $$", "no right"),
    ] {
        let why = why_it_failed(Effect::statement(text, &[]));
        assert!(why.contains(reason), "{text}: {why}");
    }
}

#[test]
fn a_parameter_that_does_not_fit_its_type_fails_its_job_alone() {
    let why = why_it_failed(Effect::statement("SELECT $1::int4", &[(&"one", Type::INT4)]));
    assert!(why.contains("parameter $1 does not fit its type int4"), "{why}");
    // The database is the one that knows how many there are to be.
    let why = why_it_failed(Effect::statement("SELECT $1::int4, $2::int4", &[(&1, Type::INT4)]));
    assert!(why.contains("bind message supplies 1 parameters"), "{why}");
    let function = Effect::new(|tx: &mut PostgresTx<'_>| -> Result<(), EffectError> {
        tx.execute_typed("SELECT $1::int4, $2::int4", &[(&1, Type::INT4)])?;
        Ok(())
    });
    assert_eq!(why_it_failed(function), why, "as of a function");
}

#[test]
fn a_statement_cannot_end_the_transaction_of_postgres() {
    for text in ["COMMIT", "/* now */ rollback", "SAVEPOINT mine", "RELEASE keylane_effect"] {
        assert_eq!(why_it_failed(Effect::statement(text, &[])), "an effect may not begin or end a transaction");
    }
    assert!(why_it_failed(Effect::statement("SELECT 1; COMMIT", &[])).contains("multiple commands"));
    let block = why_it_failed(Effect::statement("DO $$ BEGIN COMMIT; END $$", &[]));
    assert!(block.contains("invalid transaction termination"), "{block}");
}

/// More than go together at once, by number and by size, with parameters of each kind.
#[test]
fn many_statements_apply_in_the_order_of_their_jobs() {
    let rig = StatedRig::new();
    rig.place.sql("CREATE TABLE wide (id bigint GENERATED ALWAYS AS IDENTITY, n bigint, bytes bytea, none text)");
    let mut a = rig.claim("a", 1, P0);
    let big = vec![7_u8; 10_000];
    let wide = |n: u64| {
        let (at, none) = (i64::try_from(n).unwrap(), None::<String>);
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&at, Type::INT8), (&big, Type::BYTEA), (&none, Type::TEXT)];
        Effect::statement("INSERT INTO wide (n, bytes, none) VALUES ($1, $2, $3) RETURNING bytes", &params)
    };
    let written = a.write((0..700).map(|n| one(&format!("k{}", n % 7), n, wide(n))).collect()).unwrap();
    assert!(written.iter().all(|job| matches!(job, Written::Applied)));
    let rows = "SELECT count(*), count(none), sum(length(bytes)), bool_and(n = id - 1) FROM wide";
    assert_eq!(rig.place.sql(rows), "700|0|7000000|t");
}

/// Those that are parsed once, directly and through the pooler: their faults are told as the others', and nothing of them is
/// left in a session.
fn many_alike<W: Way>() {
    let rig = Rig::<Database<W>>::new();
    rig.place.sql("ALTER TABLE told ADD CHECK (line <> 'bad')");
    let mut a = rig.claim("a", 1, P0);
    let line = |n: u64| if n == 450 { "bad".to_owned() } else { format!("{n}") };
    for from in [0, 300, 600, 900] {
        let jobs = (from..from + 300).map(|n| one(&format!("k{n}"), n, stated(&line(n)))).collect();
        let written = letters(&a.write(jobs).unwrap());
        assert_eq!(written.find('f'), (from == 300).then_some(150), "from {from}");
        assert_eq!(written.matches('a').count(), if from == 300 { 299 } else { 300 });
        let left = Effect::new(|tx: &mut PostgresTx<'_>| -> Result<(), EffectError> {
            let of_told = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%told%'";
            let left: i64 = tx.query_typed(of_told, &[])?[0].get(0);
            if left == 0 { Ok(()) } else { Err(format!("{left} are left").into()) }
        });
        assert_eq!(letters(&a.write(vec![one("left", 2_000 + from, left)]).unwrap()), "a");
        // After one that failed each is waited for; this is another connection, which has seen no fault.
        a.session = rig.session();
    }
    let told: Vec<String> = (0..1_200).map(line).filter(|line| line != "bad").collect();
    assert_eq!(rig.place.told(), told);
}

#[test]
fn statements_that_are_alike_are_applied_in_order_and_fail_alone() {
    many_alike::<Stated>();
}

#[test]
fn statements_that_are_alike_are_applied_in_order_and_fail_alone_behind_a_pooler() {
    many_alike::<StatedAndPooled>();
}

/// A statement, a function and a statement again, of one key.
fn told_by_three(twin: Twin) -> Vec<String> {
    let rig = with_twin(twin);
    let mut a = rig.claim("a", 1, P0);
    let jobs = vec![one("k", 0, stated("first")), one("k", 1, tell("second")), one("k", 2, stated("third"))];
    assert_eq!(letters(&a.write(jobs).unwrap()), "aaa");
    rig.place.told()
}

#[test]
fn a_function_behind_statements_of_its_key_sees_what_they_wrote() {
    assert_eq!(told_by_three(Twin::default()), ["first", "second", "third"]);
}

#[test]
fn without_their_answers_first_a_function_overtakes_a_statement_of_its_key() {
    let told = told_by_three(Twin { sends_late: true, ..Twin::default() });
    assert_eq!(told, ["second", "first", "third"]);
}

/// A statement's fault that comes out when something else is said is not the other's.
#[test]
fn a_statement_s_fault_is_not_told_of_what_is_said_behind_it() {
    let bad = || Effect::<PostgresStore>::statement("SELECT 1 / 0", &[]);
    let rig = StatedRig::new();
    let mut a = rig.claim("a", 1, P0);
    let jobs = vec![rig.job("k", 0), one("bad", 1, bad()), one("f", 2, tell("f:2"))];
    assert_eq!(letters(&a.write(jobs).unwrap()), "afa", "a function");
    let result = job("r", 5, Write::Result(bytes::Bytes::from_static(b"1")));
    let mut b = rig.claim("b", 2, P0);
    assert_eq!(letters(&b.write(vec![rig.job("k", 3), one("bad", 4, bad()), result]).unwrap()), "afa", "a result");
    let mut c = rig.claim("c", 3, P0);
    let stops = job("s", 7, crate::store::conformance::stop("no"));
    assert_eq!(letters(&c.write(vec![one("bad", 6, bad()), stops, rig.job("k", 8)]).unwrap()), "fsa", "a stop");
    assert_eq!(rig.place.told(), ["k:0", "f:2", "k:3", "k:8"]);
}

/// A function's fault takes back statements that wait to be sent, and the others apply once.
#[test]
fn statements_beside_a_function_that_fails_apply_once() {
    let rig = StatedRig::new();
    let mut a = rig.claim("a", 1, P0);
    let silent = Effect::new(|_: &mut PostgresTx<'_>| -> Result<(), EffectError> { Err("it said nothing".into()) });
    let jobs = vec![
        rig.job("k", 0),
        one("silent", 1, silent),
        rig.job("l", 2),
        one("loud", 3, then_fail(tell("never"))),
        one("stated", 4, then_fail(stated("never"))),
        rig.job("m", 5),
    ];
    assert_eq!(letters(&a.write(jobs).unwrap()), "afaffa");
    assert_eq!(rig.place.told(), ["k:0", "l:2", "m:5"]);
}

#[test]
fn a_stale_owner_s_statements_do_not_land() {
    let rig = StatedRig::new();
    let mut a = rig.claim("a", 1, P0);
    let _newer = rig.claim("b", 2, P0);
    let jobs = (0..300).map(|n| rig.job("k", n)).collect();
    assert_eq!(a.write(jobs).unwrap_err(), Fenced::NewerClaim);
    assert!(rig.place.told().is_empty());
}

/// The limits are those of a statement, not of all that are sent together: this takes longer than the limit of an answer.
#[test]
fn the_limits_hold_for_each_statement() {
    let s = Duration::from_secs;
    let limits = Limits { statement: s(4), lock: s(2), answer: s(6), ..Limits::default() };
    let rig = StatedRig::at(Database::fresh().with(|store| store.with_limits(limits)));
    let mut a = rig.claim("a", 1, P0);
    let sleeps = |seconds: &str| Effect::statement(format!("SELECT pg_sleep({seconds})"), &[]);
    let jobs = (0..8).map(|n| one(&format!("k{n}"), n, sleeps("1"))).collect();
    assert_eq!(letters(&a.write(jobs).unwrap()), "aaaaaaaa");
    let jobs = vec![rig.job("k", 8), one("slow", 9, sleeps("30")), rig.job("m", 10)];
    assert_eq!(letters(&a.write(jobs).unwrap()), "afa");
}

#[test]
fn what_passes_by_itself_is_no_statement_s_failure() {
    let rig = StatedRig::new();
    let mut a = rig.claim("a", 1, P0);
    for code in ["40P01", "40001", "53100", "25006", "55P03", "57P01"] {
        let text = format!("DO $$ BEGIN RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}'; END $$");
        let jobs = vec![rig.job("k", 0), one("l", 1, Effect::statement(text, &[])), one("m", 2, sql("SELECT 1"))];
        let error = a.session.write(&mut [a.part(jobs)]).unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{code}: {error:?}");
    }
    assert!(rig.place.told().is_empty());
    assert_eq!(letters(&a.write(vec![rig.job("k", 0)]).unwrap()), "a", "and goes on");
}
