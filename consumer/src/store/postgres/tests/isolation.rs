//! Databases and roles whose default is another isolation than ours. Each transaction says its own.

use std::{
    sync::{OnceLock, mpsc},
    thread,
};

use keylane_testing::postgres::{Pooler, shared};

use super::{
    BaseRig, Database, Direct, PostgresStore, PostgresTx, Twin, Way,
    admit::{handle, pass},
    until,
};
use crate::store::{
    Claimed, Effect, FencedStore, StoreSession, Write,
    conformance::{P0, Place, candidate, group, job, letters, queue},
};

/// Where the default is the strictest.
pub(super) struct Strict;

impl Way for Strict {
    const SETTINGS: &str = "ALTER DATABASE DATABASE_NAME SET default_transaction_isolation = 'serializable'";

    fn url(database: &str) -> String {
        Direct::url(database)
    }
}

/// Who has another default.
const OF_THE_DATABASE: &str = "ALTER DATABASE DATABASE_NAME SET default_transaction_isolation = ";
const OF_THE_ROLE: &str = "ALTER ROLE keylane IN DATABASE DATABASE_NAME SET default_transaction_isolation = ";

fn with_default(setting: &str, level: &str, url: fn(&str) -> String, twin: Twin) -> BaseRig {
    let place: Database = Database::on(shared(), url);
    place.sql(&format!("{} '{level}'", setting.replace("DATABASE_NAME", &place.name)));
    BaseRig::at(place.with(|mut store| {
        store.rules.twin = twin;
        store
    }))
}

/// What a new owner knows is done, that waited for a writer which was checked before it came.
fn claimed_behind_a_writer(rig: &BaseRig) -> Claimed {
    let mut a = rig.claim("a", 1, P0);
    // Settled, as it is for most of its life.
    assert_eq!(letters(&a.write(vec![rig.job("k", 0)]).unwrap()), "a");
    let (wrote, has_written) = mpsc::channel::<()>();
    let (go_on, waits) = mpsc::channel::<()>();
    let effect = Effect::new(move |tx: &mut PostgresTx<'_>| {
        tx.execute("INSERT INTO told (line) VALUES (current_setting('transaction_isolation'))", &[])?;
        wrote.send(()).unwrap();
        let _ = waits.recv();
        Ok(())
    });
    let store: PostgresStore = rig.place.store();
    thread::scope(|scope| {
        let writer = scope.spawn(|| letters(&a.write(vec![job("k", 5, Write::Effect(effect))]).unwrap()));
        has_written.recv().unwrap();
        let claimant = scope.spawn(move || store.open(&queue(), &group()).unwrap().claim(&candidate("b", 2, P0)));
        until(|| rig.place.one_waits());
        go_on.send(()).unwrap();
        assert_eq!(writer.join().unwrap(), "a");
        claimant.join().unwrap().unwrap()
    })
}

fn pooled(database: &str) -> String {
    // Sessions of a pooler take a database's setting when they begin: this one has met none of these databases.
    static POOLER: OnceLock<Pooler> = OnceLock::new();
    POOLER.get_or_init(|| Pooler::start(shared()).unwrap()).url(database)
}

#[test]
fn a_default_of_the_database_or_the_role_changes_no_transaction_of_ours() {
    for setting in [OF_THE_DATABASE, OF_THE_ROLE] {
        for level in ["repeatable read", "serializable"] {
            for url in [Direct::url, pooled] {
                let rig = with_default(setting, level, url, Twin::default());
                let shown = rig.place.store().connection().transaction(|tx| {
                    Ok(tx
                        .query_one("SELECT current_setting('default_transaction_isolation')", &[])?
                        .get::<_, String>(0))
                });
                assert_eq!(shown.unwrap(), level, "the default is another");
                assert!(claimed_behind_a_writer(&rig).done.contains(5), "{setting}{level}");
                assert_eq!(rig.place.told(), ["k:0", "read committed"], "{setting}{level}");
            }
        }
    }
}

/// The twin: a claim whose picture is from before its wait does not see what the writer did that it waited for.
#[test]
fn without_an_isolation_of_its_own_a_claim_does_not_see_what_it_waited_for() {
    for url in [Direct::url, pooled] {
        let twin = Twin { leaves_isolation: true, ..Twin::default() };
        let rig = with_default(OF_THE_DATABASE, "repeatable read", url, twin);
        let claimed = claimed_behind_a_writer(&rig);
        assert_eq!(rig.place.told(), ["k:0", "repeatable read"]);
        assert!(!claimed.done.contains(5), "the new owner would run it again");
    }
}

/// A handler's own transaction is the handler's to begin: the call refuses another isolation by name, also as a default.
#[test]
fn a_handler_in_another_isolation_is_refused_by_name() {
    let rig = with_default(OF_THE_DATABASE, "serializable", Direct::url, Twin::default());
    let a = rig.claim("a", 1, P0);
    let pass = pass(&a, 1);
    let own = rig.place.server.sql(&rig.place.name, &format!("BEGIN; SELECT keylane.admit('{pass}'); COMMIT"));
    let error = format!("{:?}", own.unwrap_err());
    assert!(error.contains("keylane.admit needs a READ COMMITTED transaction"), "{error}");
    handle(&rig.place.store(), &pass, "k:1", || {}).unwrap();
    assert_eq!(rig.place.told(), ["k:1"]);
}
