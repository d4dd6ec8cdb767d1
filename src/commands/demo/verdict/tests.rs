//! Ledgers made by hand, each with one thing wrong.

use rusqlite::{Connection, params};

use super::*;
use crate::commands::demo::ledger;

const REFUSED: Refused = Refused { jobs: 3, writes: 2 };

/// Aircraft A flies twice and B once in partition 0; C flies once in partition 1.
fn log() -> Events {
    [((0, 0), "A", "BOS", 100), ((0, 1), "B", "ORD", 200), ((0, 2), "A", "SFO", 300), ((1, 0), "C", "MIA", 400)]
        .map(|((partition, offset), tail, dest, miles)| {
            let flight = Flight { tail: tail.into(), origin: "JFK".into(), dest: dest.into(), miles };
            ((partition, Offset(offset)), flight)
        })
        .into()
}

/// A ledger in which these events were applied in this order, each by worker-1 while the row named `owner_then`.
fn ledger(applied: &[(u32, u64)], owner_then: Option<&str>) -> Connection {
    let file = Connection::open_in_memory().unwrap();
    file.execute_batch(ledger::TABLES).unwrap();
    for &(part, offset) in applied {
        let flight = &log()[&(part, Offset(offset))];
        file.execute(
            "INSERT INTO journal (part, offset, tail, origin, dest, miles, worker, owner_then)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'worker-1', ?7)",
            params![part, offset, flight.tail, flight.origin, flight.dest, flight.miles, owner_then],
        )
        .unwrap();
    }
    for (tail, legs, miles, last) in [("A", 2, 400, "SFO"), ("B", 1, 200, "ORD"), ("C", 1, 400, "MIA")] {
        file.execute("INSERT INTO aircraft VALUES (?1, ?2, ?3, ?4)", params![tail, legs, miles, last]).unwrap();
    }
    file
}

const ALL: [(u32, u64); 4] = [(1, 0), (0, 0), (0, 1), (0, 2)];
const OWNER: Option<&str> = Some("worker-1");

fn judged(file: Connection, refused: Refused) -> Verdict {
    let verdict = Verdict::judge(&log(), &Ledger::read(&mut Books::Sqlite(file)).unwrap(), refused);
    assert_eq!(verdict.verdict, if verdict.holds() { "held" } else { "broken" });
    verdict
}

/// A right ledger after one statement more.
fn after(change: &str) -> Verdict {
    let file = ledger(&ALL, OWNER);
    assert_eq!(file.execute(change, []).unwrap(), 1);
    judged(file, REFUSED)
}

#[test]
fn a_right_ledger_holds() {
    let verdict = judged(ledger(&ALL, OWNER), REFUSED);
    assert!(verdict.holds(), "{verdict:?}");
    assert_eq!((verdict.jobs, verdict.aircraft, verdict.applied_once), (4, 3, 4));
    assert_eq!((verdict.stale_refused, verdict.stale_writes_refused), (3, 2));
}

#[test]
fn a_lost_event_breaks_it() {
    let verdict = judged(ledger(&ALL[..3], OWNER), REFUSED);
    assert_eq!((verdict.holds(), verdict.lost, verdict.applied_once), (false, 1, 3));
}

#[test]
fn an_event_that_was_applied_twice_breaks_it() {
    let verdict = judged(ledger(&[ALL[0], ALL[1], ALL[2], ALL[3], ALL[1]], OWNER), REFUSED);
    assert_eq!((verdict.holds(), verdict.applied_twice, verdict.applied_once), (false, 1, 3));
}

#[test]
fn an_aircraft_out_of_order_breaks_it_and_two_aircraft_have_no_order() {
    let verdict = judged(ledger(&[(0, 2), (0, 0), (0, 1), (1, 0)], OWNER), REFUSED);
    assert_eq!((verdict.holds(), verdict.out_of_order, verdict.applied_once), (false, 1, 4));
    let verdict = judged(ledger(&[(0, 1), (0, 0), (0, 2), (1, 0)], OWNER), REFUSED);
    assert!(verdict.holds(), "{verdict:?}");
}

#[test]
fn a_stale_write_that_landed_breaks_it() {
    let verdict = judged(ledger(&ALL, Some("worker-2")), REFUSED);
    assert_eq!((verdict.holds(), verdict.stale_landed, verdict.applied_once), (false, 4, 4));
    assert_eq!(judged(ledger(&ALL, None), REFUSED).stale_landed, 4, "a row that nobody owned");
}

#[test]
fn totals_that_are_not_the_sum_of_the_events_break_it() {
    for change in [
        "UPDATE aircraft SET legs = 3 WHERE tail = 'A'",
        "UPDATE aircraft SET miles = 401 WHERE tail = 'A'",
        "UPDATE aircraft SET last_airport = 'BOS' WHERE tail = 'A'",
        "DELETE FROM aircraft WHERE tail = 'B'",
        "INSERT INTO aircraft VALUES ('D', 1, 1, 'JFK')",
    ] {
        let verdict = after(change);
        assert_eq!((verdict.holds(), verdict.wrong_totals), (false, 1), "{change}");
    }
}

#[test]
fn a_row_that_is_no_event_breaks_it() {
    let verdict = after("UPDATE journal SET miles = 1 WHERE tail = 'B'");
    assert_eq!((verdict.holds(), verdict.unknown), (false, 1));
    let verdict = after(
        "INSERT INTO journal (part, offset, tail, origin, dest, miles, worker, owner_then)
         VALUES (7, 7, 'A', 'JFK', 'BOS', 1, 'worker-1', 'worker-1')",
    );
    assert_eq!((verdict.holds(), verdict.unknown, verdict.applied_once), (false, 1, 4));
}

#[test]
fn nothing_is_shown_if_no_stale_write_was_refused() {
    let verdict = judged(ledger(&ALL, OWNER), Refused::default());
    assert_eq!((verdict.holds(), verdict.applied_once), (false, 4));
}
