//! `keylane bench local` as a real process: small runs of each figure. Nothing here depends on how fast the machine is.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use process::Place;
use serde_json::Value;

/// A small run of one figure, as JSON.
fn measured(figure: &str) -> Value {
    let place = Place::new();
    let folder = place.path().to_str().unwrap();
    let ended = place.run(&[
        "bench", "local", "--figure", figure, "--jobs", "200", "--rounds", "2", "--folder", folder, "-o", "json",
    ]);
    let answer = ended.expect(0).json();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "what was made is removed");
    answer
}

/// A number above zero.
#[track_caller]
fn is_measured(value: &Value) -> f64 {
    let number = value.as_f64().unwrap_or_else(|| panic!("{value} is no number"));
    assert!(number.is_finite() && number > 0.0, "{number}");
    number
}

#[track_caller]
fn is_spread(value: &Value) {
    let (median, min, max) = (is_measured(&value["median"]), is_measured(&value["min"]), is_measured(&value["max"]));
    assert!(min <= median && median <= max, "{value}");
}

#[track_caller]
fn rows(figure: &str, pairs: usize, alone: usize, aims: usize) {
    let answer = measured(figure);
    let rows = answer["rows"].as_array().unwrap();
    for row in rows {
        assert_eq!(row["figure"], figure);
        assert!(row["what"].is_string() && row["unit"].is_string(), "{row}");
        is_spread(&row["ours"]);
        if row["against"].is_string() {
            is_spread(&row["theirs"]);
            is_spread(&row["ratio"]);
        } else {
            assert!(row["theirs"].is_null() && row["ratio"].is_null(), "{row}");
        }
        assert_eq!(row["aim"].is_null(), row["met"].is_null(), "{row}");
        assert!(row["met"].is_null() || row["met"].is_boolean(), "{row}");
    }
    let compared = rows.iter().filter(|row| row["against"].is_string()).count();
    assert_eq!((compared, rows.len() - compared), (pairs, alone));
    assert_eq!(rows.iter().filter(|row| !row["aim"].is_null()).count(), aims);
}

#[test]
fn enqueue_is_compared_with_bare_inserts() {
    rows("enqueue", 1, 0, 1);
}

#[test]
fn work_is_compared_with_bare_inserts_and_counts_processor_time() {
    rows("noop", 1, 1, 1);
}

#[test]
fn the_desk_is_measured_without_broker_and_store() {
    rows("desk", 0, 2, 0);
}

#[test]
fn a_look_at_the_fence_is_compared_with_a_clock_and_a_mutex() {
    rows("admit", 2, 0, 1);
}

#[test]
fn memory_is_that_of_a_worker_with_few_and_with_many_jobs_waiting() {
    rows("memory", 1, 1, 1);
}

#[test]
fn a_grown_file_is_compared_with_a_small_one() {
    rows("growth", 2, 0, 2);
}

#[test]
fn results_and_effects_are_compared_with_bare_inserts() {
    rows("writes", 2, 0, 0);
}

#[test]
fn a_watched_worker_is_compared_with_one_that_nobody_watches_and_with_one_whose_watchers_are_killed() {
    rows("watching", 5, 0, 1);
    rows("failing", 2, 1, 1);
}

#[test]
fn the_answer_says_what_it_was_measured_on() {
    let answer = measured("enqueue");
    for (field, value) in [("rounds", 2), ("jobs", 200)] {
        assert_eq!(answer[field], value);
    }
    assert_eq!(answer["quick"], false);
    assert!(answer["processors"].as_u64().unwrap() > 0);
    assert!(answer["file_system"].as_str().is_some_and(|kind| !kind.is_empty() && kind != "unknown"), "{answer}");
}

#[test]
fn text_is_a_table_and_progress_is_on_standard_error() {
    let place = Place::new();
    let folder = place.path().to_str().unwrap();
    let args = ["bench", "local", "--figure", "enqueue", "--jobs", "100", "--rounds", "1", "--folder", folder];
    let ended = place.run(&args).expect(0).says(&["measuring enqueue"]);
    assert!(ended.stdout.contains("FIGURE\tWHAT\tOURS"), "{}", ended.stdout);
    let verdict = ["\tmet\n", "\tmissed\n"].iter().any(|verdict| ended.stdout.ends_with(verdict));
    assert!(verdict && ended.stdout.contains("ratio at least 0.50"), "{}", ended.stdout);
    let quiet = place.run(&[&args[..], &["--quiet"]].concat()).expect(0);
    assert!(!quiet.stderr.contains("measuring"), "{}", quiet.stderr);
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let place = Place::new();
    place.run(&["bench", "local", "--folder", "no/such"]).expect(7).says(&["'no/such'", "--folder"]);
}
