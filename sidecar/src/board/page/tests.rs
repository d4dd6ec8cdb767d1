//! The page as text; how it looks and reads in a browser is tested in `tests/page.rs`.

use super::*;
use crate::words::{
    change::changes,
    event::{Event, fresh_id},
    testing::{AT, View},
};

/// The page of a view that has been so for a while, with what happened before it.
fn page(before: &View, now: &View, asked: &Asked, name: impl Fn(&mut Snapshot)) -> String {
    let (mut before, mut view) = (before.snapshot(), now.snapshot());
    name(&mut before);
    name(&mut view);
    let mut history = History::default();
    let at = crate::words::event::unix_ms(&view.observed_at).unwrap();
    let event = |(at, happening)| Event::new("board", fresh_id(at), at, at, happening);
    let first: Vec<Event> = changes(None, &before).into_iter().map(event).collect();
    let then: Vec<Event> = changes(Some(&before), &view).into_iter().map(event).collect();
    history.keep(&before, &first, at - 1_000);
    history.keep(&view, &then, at);
    document(&Scene { view: &view, history: &history, now_ms: at, age_ms: Some(400), asked })
}

fn plain(before: &View, now: &View, query: &str) -> String {
    page(before, now, &asked(query), |_| ())
}

fn asked(query: &str) -> Asked {
    let uri: axum::http::Uri = format!("/?{query}").parse().unwrap();
    axum::extract::Query::<Asked>::try_from_uri(&uri).unwrap().0
}

fn trouble_of_all_kinds() -> View {
    let six = View::at(AT).held(&["w-0", "w-0", "w-1", "w-2", "w-3", "w-0"]).lag(0, 311);
    six.draining(2).expired(3, "w-2", 6_000).silent("w-3", 12_400).contested(5, &["w-0", "w-1"], 4_000)
}

#[test]
fn the_page_says_all_without_a_script() {
    let before = View::at(AT - 1_000).held(&["w-0", "w-0", "w-1", "w-2", "w-3", "w-0"]);
    let html = plain(&before, &trouble_of_all_kinds(), "partition=5");
    for text in [
        "3 of 6 partitions have a working owner. 1 is contested, 1 is expired, 1 is unknown. w-3 is silent.",
        "Partition 5: contested between w-0 and w-1",
        "Partition 4: unknown, last w-3",
        "w-0 and w-1 both say they hold partition 5.",
        "<meta http-equiv=\"refresh\" content=\"5\">",
        "unknown: nobody reports it",
        "Waiting <b>311</b> <small>1 of 6 known</small>",
    ] {
        assert!(html.contains(text), "'{text}' is missing");
    }
}

#[test]
fn hostile_text_is_shown_as_text() {
    let hostile = "<script>alert(1)</script>\"onmouseover='x'\u{202e}\u{7}";
    let before = View::at(AT - 1_000).held(&["w-0", "w-1"]);
    let html = page(&before, &trouble_of_all_kinds(), &asked("partition=3&lanes=all"), |view| {
        let rename = |name: &mut String| *name = format!("{hostile}{name}");
        view.workers.iter_mut().for_each(|w| rename(&mut w.worker));
        for partition in &mut view.partitions {
            partition.worker.iter_mut().for_each(rename);
            partition.last_known_worker.iter_mut().for_each(rename);
            partition.claimants.iter_mut().for_each(rename);
            partition.keys = vec![crate::KeyView { shown: hostile.into(), parked: true, waiting: None }];
        }
        for name in [&mut view.queue.cluster, &mut view.queue.topic, &mut view.queue.group] {
            rename(name);
        }
        view.notices.push(crate::Notice { code: "x".into(), text: hostile.into() });
    });
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "it is shown");
    assert_eq!(html.matches("<script").count(), 1, "only our own");
    assert!(!html.contains("\"onmouseover") && !html.contains("'x'"), "it closes no attribute");
    assert!(!html.contains('\u{202e}') && !html.contains('\u{7}'), "it turns no line around");
}

#[test]
fn the_page_needs_nothing_that_its_policy_forbids() {
    let html = plain(&View::at(AT - 1_000), &trouble_of_all_kinds(), "");
    for forbidden in [" style=", " onclick", "javascript:", "http://", "https://", "<form", "<iframe", "eval("] {
        assert!(!html.contains(forbidden), "{forbidden}");
        let allowed_in_icon = "http://www.w3.org/2000/svg";
        assert!(!SCRIPT.replace(allowed_in_icon, "").contains(forbidden), "{forbidden} in the script");
        assert!(!STYLE.contains(forbidden), "{forbidden} in the style");
    }
    assert!(SCRIPT.len() < 10_000, "the script is {} bytes", SCRIPT.len());
}

#[test]
fn the_address_says_what_is_shown() {
    let view = trouble_of_all_kinds();
    let html = plain(&View::at(AT - 1_000), &view, "state=contested&since=15m");
    let grid = html.split("<section id=\"partitions\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert_eq!(grid.matches("class=\"cell ").count(), 1);
    assert!(grid.contains("/?state=contested&amp;since=15m&amp;partition=5#details"), "{grid}");
    let wild = plain(&View::at(AT - 1_000), &view, "state=%3Cb%3E&since=9y&partition=x&lanes=1");
    assert_eq!(wild.matches("class=\"cell ").count(), 6, "what is not known is as if it were not there");
}

#[test]
fn a_minute_is_told_to_the_second_and_an_hour_to_the_minute() {
    let view = View::at(AT).held(&["w-0"]);
    let axis = |query| {
        let html = plain(&View::at(AT - 1_000).held(&["w-0"]), &view, query);
        let axis = html.split("class=\"lane axis\"").nth(1).unwrap().split("</svg>").next().unwrap().to_owned();
        axis.split("y=\"12\">").nth(1).unwrap().split('<').next().unwrap().len()
    };
    assert_eq!([axis("since=1m"), axis("since=60m")], ["00:00:00".len(), "00:00".len()]);
}

#[test]
fn a_thousand_partitions_are_grouped_and_folded_and_those_in_trouble_are_not() {
    let owners: Vec<String> = (0..1_000).map(|n| format!("w-{}", n % 6)).collect();
    let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
    let view = View::at(AT).held(&owners).expired(77, "w-5", 1_000).contested(500, &["w-0", "w-1"], 5_000);
    let before = View::at(AT - 1_000).held(&owners);
    let html = plain(&before, &view, "");
    assert_eq!(html.matches("class=\"cell ").count(), 2);
    assert_eq!(html.matches("<details class=\"group\"").count(), 6);
    let lanes = html.split("<section id=\"lanes\"").nth(1).unwrap();
    assert!(lanes.find("Partition 500").unwrap() < lanes.find("Partition 77").unwrap(), "the worst first");
    assert!(lanes.contains("167 partitions (0, 6, 12, 18, 24, 30 and 161 more), all of w-0 and unchanged"), "folded");
}

#[test]
fn parked_and_hot_keys_are_shown_as_far_as_the_worker_shows_them() {
    let view = View::at(AT).held(&["w-0", "w-0"]);
    let with = |keys: Vec<crate::KeyView>| {
        page(&View::at(AT - 1_000).held(&["w-0", "w-0"]), &view, &asked("partition=1"), |view| {
            view.partitions[0].keys_parked = Some(2);
            view.partitions[1].keys_parked = Some(1);
            view.partitions[1].keys = keys.clone();
        })
    };
    let counted = with(Vec::new());
    assert!(counted.contains("Keys parked <b>3</b>") && counted.contains("<dt>Keys parked</dt><dd>1</dd>"));
    assert!(!counted.contains("<h3>Keys</h3>"));
    let key = |shown: &str, parked, waiting| crate::KeyView { shown: shown.into(), parked, waiting };
    let named = with(vec![key("#0123456789ab", true, None), key("customer-42", false, Some(1_234))]);
    assert!(counted.contains("<a href=\"/?partition=0#details\">Partition 0</a>: 2 parked</li>"), "{counted}");
    let list = "<li><bdi><code>#0123456789ab</code></bdi> parked</li><li><bdi><code>customer-42</code></bdi> 1,234 jobs waiting</li>";
    assert!(named.contains(list), "{named}");
    assert!(!plain(&View::at(AT - 1_000), &view, "partition=1").contains("Keys parked"), "not known is not 0");
}

#[test]
fn unknown_numbers_are_words_and_never_zero() {
    let silent = View::at(AT).held(&["w-0"]).silent("w-0", 30_000);
    let html = plain(&View::at(AT - 1_000).held(&["w-0"]), &silent, "partition=0");
    assert!(html.contains("Waiting <b>unknown</b>"));
    let table = html.split("<tbody>").nth(1).unwrap();
    assert!(table.contains("<td>silent</td><td>unknown</td><td>unknown</td><td>unknown</td>"), "{table}");
}
