//! The least rights that each kind of user needs, as `docs/postgres.md` grants them.

use std::ops::ControlFlow;

use super::{
    BaseRig, Database, PostgresStore,
    admit::{handle, pass},
};
use crate::{
    error::Error,
    store::{
        DeadAct, DeadActed, DeadOrder, FencedStore, Note, ResetOrder, ResultsOf, Skipping, Steer, SteerOrder,
        StoreSession, Write,
        conformance::{P0, Place, bury, group, job, key, letters, queue, stop},
    },
};

/// The statements of the documented block, for roles of this database's own.
fn granted(place: &Database, after_the_tables: bool) {
    let text = include_str!("../../../../../docs/postgres.md");
    let block = |name: &str| {
        let start = text.find(&format!("-- {name}")).expect("the page has this block");
        text[start..].split("```").next().unwrap().to_owned()
    };
    let sql = block(if after_the_tables { "after the first start" } else { "before the first start" });
    let ours = |role: &str| format!("{role}_{}", place.name);
    let roles = ["keylane_owner", "keylane_worker", "keylane_operator", "keylane_reader", "keylane_handler"];
    let sql = roles.iter().fold(sql, |sql, role| sql.replace(role, &ours(role)));
    place.sql(&sql.replace("DATABASE shop", &format!("DATABASE {}", place.name)));
}

fn as_role(place: &Database, role: &str) -> PostgresStore {
    PostgresStore::new(place.server.url_of(&format!("{role}_{}", place.name), &place.name).parse().unwrap())
}

#[test]
fn each_role_can_do_its_work_and_no_more() {
    let place: Database = Place::fresh();
    granted(&place, false);
    let worker = as_role(&place, "keylane_worker");
    let error = worker.open(&queue(), &group()).err().expect("a worker makes no tables");
    assert!(matches!(error, Error::Refused(_)) && error.detail().remedy_text().is_some(), "{error:?}");
    drop(as_role(&place, "keylane_owner").open(&queue(), &group()).unwrap());
    granted(&place, true);
    place.sql(&format!("GRANT INSERT ON told TO keylane_worker_{}", place.name));

    let reader = as_role(&place, "keylane_reader");
    let operator = as_role(&place, "keylane_operator");
    let rig = BaseRig::at(place.with(|_| worker.clone()));
    let mut a = rig.claim("a", 1, P0);
    a.session.starting(&a.fence, &[keylane_producer::Offset(0)]).unwrap().unwrap();
    let result = job("r", 2, Write::Result(bytes::Bytes::from_static(b"1")));
    assert_eq!(letters(&a.write(vec![rig.job("k", 0), job("bad", 1, stop("no")), result]).unwrap()), "asa");
    assert_eq!(letters(&a.write(vec![bury("d", 3), bury("d", 4)]).unwrap()), "bb");
    a.session.note(&a.fence, Some(&Note::default())).unwrap().unwrap();
    let mut b = rig.claim("b", 2, P0);
    assert!(a.write(vec![rig.job("k", 5)]).is_err(), "refused, and counted");
    b.session.hand_over(&b.fence).unwrap().unwrap();

    // Who looks sees all but the token.
    let overview = reader.look(&queue(), &group()).unwrap().unwrap();
    assert_eq!((overview[0].done.floor, overview[0].stopped.len(), overview[0].refused.len()), (5, 1, 1));
    let mut results = 0;
    let count = &mut |_| {
        results += 1;
        ControlFlow::Continue(())
    };
    reader.results(&ResultsOf::Everything, count).unwrap();
    assert_eq!(results, 1);
    assert!(matches!(reader.fence_rows(), Err(Error::Refused(_))), "no right to the token");
    let order = ResetOrder { who: "w".into(), why: "w".into(), dry_run: false };
    assert!(matches!(reader.reset(&queue(), &group(), &order), Err(Error::Refused(_))));
    assert!(matches!(worker.reset(&queue(), &group(), &order), Err(Error::Refused(_))));

    let stopped = &overview[0].stopped[0];
    let mut person = operator.open(&queue(), &group()).unwrap();
    assert!(person.release_key(P0, &stopped.key, stopped.version).unwrap());
    let dead = person.dead_letters(0, 10).unwrap();
    for (letter, act) in dead.iter().zip([DeadAct::Replay, DeadAct::Drop]) {
        let order = DeadOrder { number: letter.number, act, who: "w".into(), why: "w".into() };
        assert_eq!(person.act_on_dead(&order).unwrap(), DeadActed::Done);
    }
    let steer = |of: &str| SteerOrder { partition: P0, key: key(of), who: "w".into(), why: "w".into() };
    assert!(person.pause(&steer("p")).unwrap());
    assert_eq!(person.skip(&steer("q"), keylane_producer::Offset(9)).unwrap(), Skipping::Ordered);
    assert_eq!(operator.fence_rows().unwrap().len(), 4);
    operator.reset(&queue(), &group(), &order).unwrap();
    assert_eq!(operator.acts(&queue(), &group()).unwrap().len(), 6);
}

#[test]
fn a_role_that_may_only_call_admit_passes_the_fence_and_can_do_nothing_else() {
    let place: Database = Place::fresh();
    granted(&place, false);
    drop(as_role(&place, "keylane_owner").open(&queue(), &group()).unwrap());
    granted(&place, true);
    let role = format!("keylane_handler_{}", place.name);
    // What a role can do with names of its own changes nothing in the function.
    place.sql(&format!(
        "GRANT INSERT ON told TO {role}; CREATE SCHEMA mine AUTHORIZATION {role};
         CREATE FUNCTION mine.sha224(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea';
         ALTER ROLE {role} SET search_path = mine, pg_catalog, public"
    ));
    let (worker, handler) = (as_role(&place, "keylane_worker"), as_role(&place, "keylane_handler"));
    let rig = BaseRig::at(place.with(|_| worker));
    let mut a = rig.claim("a", 1, P0);
    handle(&handler, &pass(&a, 0), "admitted", || {}).unwrap();
    assert_eq!(
        letters(&a.write(vec![job("k", 0, Write::Nothing)]).unwrap()),
        "a",
        "a worker may join it to its markers"
    );
    assert_eq!(
        rig.place.sql("SELECT (SELECT count(*) FROM keylane.admitted), (SELECT count(*) FROM keylane.marker)"),
        "0|1"
    );
    drop(rig.claim("b", 2, P0));
    let stale = handle(&handler, &pass(&a, 1), "stale", || {}).unwrap_err().detail().chain();
    assert!(stale.contains("KL001"), "{stale}");
    assert_eq!(rig.place.told(), ["admitted"]);
    let (server, database) = (rig.place.server, &rig.place.name);
    let open = format!(
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'keylane'::regnamespace AND relkind = 'r'
           AND (has_table_privilege('{role}', oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
                OR has_any_column_privilege('{role}', oid, 'SELECT, INSERT, UPDATE'))"
    );
    assert_eq!(server.sql(database, &open).unwrap(), "0");
    let told = server.sql_as(&role, database, "SELECT claim FROM keylane.fence").unwrap_err().to_string();
    assert!(told.contains("permission denied"), "{told}");
    // And nobody may call it who was not told to.
    let reader = format!("keylane_reader_{database}");
    let told = server.sql_as(&reader, database, "SELECT keylane.admit('x')").unwrap_err().to_string();
    assert!(told.contains("permission denied for function admit"), "{told}");
}

/// The net under all: outside of our transactions, the role of the workers writes nothing.
#[test]
fn a_statement_of_a_worker_outside_of_a_fenced_transaction_is_refused_by_its_role() {
    let place: Database = Place::fresh();
    granted(&place, false);
    drop(as_role(&place, "keylane_owner").open(&queue(), &group()).unwrap());
    granted(&place, true);
    place.sql(&format!("GRANT INSERT ON told TO keylane_worker_{}", place.name));
    let role = format!("keylane_worker_{}", place.name);
    let error = place.server.sql_as(&role, &place.name, "INSERT INTO told (line) VALUES ('unfenced')").unwrap_err();
    assert!(error.to_string().contains("read-only transaction"), "{error}");
}
