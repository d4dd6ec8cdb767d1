//! Making the tables, from many workers at once.

use std::{
    sync::{Arc, Barrier},
    thread,
};

use super::Database;
use crate::store::{
    FencedStore, ResultsOf,
    conformance::{Place, group, queue},
};

#[test]
fn many_that_open_a_new_database_at_once_all_succeed() {
    for _ in 0..3 {
        let place: Database = Place::fresh();
        let start = Arc::new(Barrier::new(8));
        let openers: Vec<_> = (0..8)
            .map(|_| {
                let (start, store) = (start.clone(), place.store());
                thread::spawn(move || {
                    start.wait();
                    store.open(&queue(), &group()).map(drop)
                })
            })
            .collect();
        openers.into_iter().for_each(|opener| opener.join().unwrap().unwrap());
        assert_eq!(place.sql("SELECT count(*) FROM keylane.fence"), "4");
        assert_eq!(place.sql("SELECT count(*) FROM keylane.migration"), "6");
    }
}

#[test]
fn who_only_looks_makes_nothing() {
    let place: Database = Place::fresh();
    assert!(place.store().look(&queue(), &group()).unwrap().is_none());
    assert!(place.store().fence_rows().unwrap().is_empty());
    place.store().results(&ResultsOf::Everything, &mut |_| unreachable!("there is none")).unwrap();
    assert_eq!(place.sql("SELECT to_regnamespace('keylane') IS NULL"), "t");
}

#[test]
fn the_database_s_clock_is_compared_with_this_machine_s() {
    let place: Database = Place::fresh();
    let (skew, within) = place.store().clock_skew().unwrap();
    let limit = i64::try_from(within.as_millis()).unwrap() + 2;
    assert!(skew.abs() <= limit, "one machine, one clock: {skew} ms, known within {within:?}");
}
