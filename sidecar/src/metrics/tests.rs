use std::collections::BTreeSet;

use super::*;
use crate::words::testing::{AT, View};

fn shown(view: &View) -> String {
    let mut page = Page::default();
    ownership(&mut page, &view.snapshot(), AT);
    page.into_text()
}

/// The names of series that have this in them.
fn series<'a>(text: &'a str, part: &str) -> BTreeSet<&'a str> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains(part));
    lines.map(|line| line.rsplit_once(' ').unwrap().0).collect()
}

#[test]
fn series_vanish_with_their_partition() {
    let both = shown(&View::at(AT).held(&["w", "w"]));
    assert!(series(&both, "partition=\"1\"").len() >= 7, "{both}");
    let one = shown(&View::at(AT).held(&["w"]));
    assert_eq!(series(&one, "partition=\"1\""), BTreeSet::new());
    assert!(one.contains("keylane_partitions{topic=\"jobs\",state=\"held\"} 1\n"));
}

#[test]
fn what_is_not_known_has_no_series_and_is_not_zero() {
    let unknown = shown(&View::at(AT).held(&["w"]));
    assert_eq!(series(&unknown, "lag_jobs"), BTreeSet::new(), "{unknown}");
    assert!(unknown.contains("keylane_lag_unknown_partitions{topic=\"jobs\"} 1\n"));
    let silent = shown(&View::at(AT).held(&["w"]).silent("w", 30_000));
    assert_eq!(series(&silent, "session_expiry"), BTreeSet::new());
    assert!(silent.contains("{topic=\"jobs\",partition=\"0\",state=\"unknown\"} 1\n"));
    assert!(silent.contains("{topic=\"jobs\",partition=\"0\",state=\"held\"} 0\n"));
}

#[test]
fn a_large_topic_is_shown_by_its_totals() {
    let owners = vec!["w"; 257];
    let text = shown(&View::at(AT).held(&owners));
    assert_eq!(series(&text, "partition=").len(), 0);
    assert!(text.contains("keylane_partitions{topic=\"jobs\",state=\"held\"} 257\n"));
}

#[test]
fn a_histogram_counts_upwards_and_ends_with_all() {
    let mut page = Page::default();
    let metric = &catalogue::KEYLANE_HTTP_REQUEST_DURATION_SECONDS;
    page.add_histogram(metric, &["/x"], &[1, 0, 2], 4, 1.5);
    let text = page.into_text();
    assert!(text.contains("_bucket{route=\"/x\",le=\"0.005\"} 3\n"), "{text}");
    assert!(text.contains("_bucket{route=\"/x\",le=\"+Inf\"} 4\n") && text.contains("_count{route=\"/x\"} 4\n"));
    assert!(text.contains("_sum{route=\"/x\"} 1.5\n"));
}

#[test]
fn hostile_names_stay_inside_of_their_quotes() {
    let mut page = Page::default();
    page.add(&catalogue::KEYLANE_LAG_JOBS, &["a\"} 1\nevil{x=\"\\"], 1.0);
    assert_eq!(page.into_text().lines().last().unwrap(), r#"keylane_lag_jobs{topic="a\"} 1\nevil{x=\"\\"} 1"#);
}
