//! The tables, step by step: from however old a version, to the newest, with what is in them.

use std::{
    fmt::Write as _,
    sync::{Arc, Barrier},
    thread,
};

use super::{BaseRig, Database};
use crate::{
    error::Error,
    store::{
        FencedStore, ResultsOf, StoreSession, Write,
        conformance::{P0, P1, Place, bury, group, job, letters, queue, stop},
        postgres::schema::STEPS,
    },
};

/// What the version of so many steps had made, and what its workers had written: partition 0 has an owner of generation 5 and is done
/// below offset 3 and at 4; in partition 1 a key stands still, with a job in its line from the version that has lines.
fn as_of(steps: usize) -> Database {
    let place: Database = Place::fresh();
    let mut sql = String::from("BEGIN; ");
    for (number, step) in (1..=steps).zip(STEPS) {
        let _ = write!(sql, "{step}; INSERT INTO keylane.migration (version) VALUES ({number}); ");
    }
    place.sql(&(sql + "COMMIT"));
    if steps == 0 {
        return place;
    }
    let identity = queue();
    let _ = identity.name.as_str();
    place.sql(&format!(
        "INSERT INTO keylane.scope (queue, group_name, cluster, incarnation, partitions, hash)
             VALUES ('{}', '{}', '{}', '{}', {}, '{}');
         INSERT INTO keylane.fence (scope, part, epoch) SELECT scope, n, 1 FROM keylane.scope, generate_series(0, partitions - 1) AS n;
         INSERT INTO keylane.fence_intent (scope, part, epoch) SELECT scope, part, epoch FROM keylane.fence;
         UPDATE keylane.fence SET gen = 5, owner = 'old', claim = 77, worker = 'old' WHERE part IN (0, 1);
         UPDATE keylane.fence_intent SET gen = 5 WHERE part IN (0, 1);
         INSERT INTO keylane.marker SELECT scope, 0, 0, 2 FROM keylane.scope;
         INSERT INTO keylane.marker SELECT scope, 0, 4, 4 FROM keylane.scope;
         INSERT INTO keylane.marker SELECT scope, 1, 0, 0 FROM keylane.scope;
         INSERT INTO keylane.stopped (scope, part, key, \"offset\", job_id, attempts, rule, reason, version)
             SELECT scope, 1, 's', 0, '01JD0000000000000000000000', 5, 'out_of_attempts', 'no', 1 FROM keylane.scope;
         INSERT INTO keylane.result (queue, group_name, part, \"offset\", key, job_id, attempt, result)
             VALUES ('{}', '{}', 0, 2, 'r', '01JD0000000000000000000001', 1, '7')",
        identity.name,
        group(),
        identity.cluster,
        identity.incarnation.0,
        identity.partitions.0,
        identity.hash.as_str(),
        identity.name,
        group(),
    ));
    if steps >= 2 {
        place.sql(
            "INSERT INTO keylane.parked (scope, part, \"offset\", key, job_id, value, \"timestamp\", size, attempts)
                 SELECT scope, 1, 0, 's', '01JD0000000000000000000000', 'v', 1, 1, 5 FROM keylane.scope",
        );
    }
    place
}

fn opened_by_many(place: &Database) {
    let start = Arc::new(Barrier::new(8));
    let openers = (0..8).map(|_| {
        let (start, store) = (start.clone(), place.store());
        thread::spawn(move || {
            start.wait();
            store.open(&queue(), &group()).map(drop)
        })
    });
    for opener in openers.collect::<Vec<_>>() {
        opener.join().unwrap().unwrap();
    }
}

#[test]
fn tables_of_each_earlier_version_are_brought_up_to_date_by_many_at_once_with_what_is_in_them() {
    for steps in 0..=STEPS.len() {
        let place = as_of(steps);
        if (1..STEPS.len()).contains(&steps) {
            let error = place.store().look(&queue(), &group()).expect_err("who only looks changes no table");
            assert!(matches!(&error, Error::Invalid(why) if why.remedy_text().is_some()), "{error:?}");
        }
        opened_by_many(&place);
        let versions = place.sql("SELECT string_agg(version::text, ',' ORDER BY version) FROM keylane.migration");
        assert_eq!(versions, (1..=STEPS.len()).map(|n| n.to_string()).collect::<Vec<_>>().join(","), "each once");

        let rig = BaseRig::at(place);
        let mut a = rig.claim("a", 6, P0);
        if steps > 0 {
            assert_eq!((a.claimed.done.floor, a.claimed.done.contains(4)), (3, true), "from version {steps}");
            let refused = rig.try_claim(&crate::store::conformance::candidate("b", 5, P1));
            assert!(refused.is_err(), "the old owner's generation is still there");
        }
        let mut written = letters(&a.write(vec![rig.job("k", 2), rig.job("k", 3), rig.job("l", 4)]).unwrap());
        let result = job("r", 8, Write::Result(bytes::Bytes::from_static(b"8")));
        written += &letters(&a.write(vec![rig.job("k", 6), job("m", 7, stop("no")), result, bury("d", 9)]).unwrap());
        assert_eq!(written, if steps == 0 { "aaaasab" } else { "dadasab" }, "from version {steps}");
        let mut results = 0;
        let mut count = |_| {
            results += 1;
            std::ops::ControlFlow::Continue(())
        };
        rig.place.store().results(&ResultsOf::Everything, &mut count).unwrap();
        assert_eq!(results, if steps == 0 { 1 } else { 2 });
        let b = rig.claim("b", 6, P1);
        assert_eq!(b.claimed.stopped.len(), usize::from(steps > 0), "from version {steps}");
        assert_eq!(rig.session().overview().unwrap().len(), 4);
    }
}

#[test]
fn tables_of_a_newer_version_are_refused_with_a_remedy_and_left_alone() {
    let rig = BaseRig::new();
    drop(rig.session());
    let newer = STEPS.len() + 1;
    rig.place.sql(&format!("INSERT INTO keylane.migration (version) VALUES ({newer})"));
    let store = rig.place.store();
    let answers = [store.open(&queue(), &group()).map(drop), store.look(&queue(), &group()).map(drop)];
    for answer in answers {
        let error = answer.expect_err("refused");
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        let detail = error.detail();
        assert!(detail.chain().contains(&format!("version {newer}")), "{detail:?}");
        assert!(detail.remedy_text().is_some_and(|remedy| remedy.contains("newer")), "{detail:?}");
    }
    assert_eq!(rig.place.sql("SELECT count(*) FROM keylane.migration"), newer.to_string());
}

/// A step that fails half-way leaves nothing of itself: the next one who comes begins where the last whole step ended.
#[test]
fn a_step_that_fails_leaves_the_version_before_it() {
    let place = as_of(2);
    // The third step makes this table.
    place.sql("CREATE TABLE keylane.admitted (x int)");
    assert!(place.store().open(&queue(), &group()).is_err());
    assert_eq!(place.sql("SELECT max(version) FROM keylane.migration"), "2");
    place.sql("DROP TABLE keylane.admitted");
    opened_by_many(&place);
    assert_eq!(place.sql("SELECT max(version) FROM keylane.migration"), STEPS.len().to_string());
}
