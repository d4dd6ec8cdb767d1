//! The page: rendered here, whole without a script; the script only fetches it again, part by part.
//!
//! 1. Every text from outside passes `html::Text`: it is shown, never run.
//! 2. Colour says who, pattern and word say what: nothing is said by colour alone.
//! 3. No inline style or script: the policy of the answers forbids them.

mod asked;
mod details;
mod grid;
mod happened;
mod html;
mod keys;
mod lanes;
mod workers;

use std::fmt::Write as _;

use super::history::History;
use crate::{
    snapshot::{Freshness, PartitionState, PartitionView, Snapshot},
    words::{
        self,
        phrase::{duration, number},
    },
};

pub use asked::Asked;
use html::{Text, ms};

/// The style sheet.
pub const STYLE: &str = include_str!("../../assets/board.css");
/// The script.
pub const SCRIPT: &str = include_str!("../../assets/board.js");
/// The icon.
pub const ICON: &str = include_str!("../../assets/icon.svg");

/// What is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// Who holds what.
    pub view: &'a Snapshot,
    /// What was.
    pub history: &'a History,
    /// Unix time in milliseconds.
    pub now_ms: i64,
    /// How old the youngest word is.
    pub age_ms: Option<u64>,
    /// What the reader wants to see.
    pub asked: &'a Asked,
}

/// The states, worst first, with the glyph that says each without colour.
const STATES: [(PartitionState, &str, &str); 6] = [
    (PartitionState::Contested, "Contested", "!"),
    (PartitionState::Absent, "Absent", "∅"),
    (PartitionState::Expired, "Expired", "✕"),
    (PartitionState::Unknown, "Unknown", "?"),
    (PartitionState::Draining, "Draining", "▒"),
    (PartitionState::Held, "Held", "●"),
];

fn glyph(state: PartitionState) -> &'static str {
    STATES.iter().find(|(known, ..)| *known == state).map_or("", |(_, _, glyph)| glyph)
}

/// How bad a state is: 0 is the worst.
fn trouble(partition: &PartitionView) -> usize {
    STATES.iter().position(|(state, ..)| *state == partition.state).unwrap_or(STATES.len())
}

/// The whole document.
pub fn document(scene: &Scene<'_>) -> String {
    let queue = &scene.view.queue;
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>{} / {} - keylane</title>\
         <link rel=\"icon\" href=\"/assets/icon.svg\"><link rel=\"stylesheet\" href=\"/assets/board.css\">\
         <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript>\
         <script src=\"/assets/board.js\" defer></script></head><body>\
         <a class=\"skip\" href=\"#partitions\">Skip to the partitions</a>{HIDDEN_PATTERNS}\
         <main id=\"main\">{}</main>{HELP}<p id=\"say\" class=\"sr\" role=\"status\" aria-live=\"polite\"></p></body></html>",
        Text(&queue.group),
        Text(&queue.topic),
        main(scene)
    )
}

/// What changes from look to look. Each part has an id, so that a script can exchange those that changed.
pub fn main(scene: &Scene<'_>) -> String {
    let parts = [
        ("top", top(scene)),
        ("counts", counts(scene)),
        ("partitions", grid::draw(scene)),
        ("details", details::draw(scene)),
        ("lanes", lanes::draw(scene)),
        ("standing", keys::draw(scene)),
        ("happened", happened::draw(scene)),
        ("workers", workers::draw(scene)),
    ];
    parts.iter().fold(String::with_capacity(64 * 1024), |mut html, (id, part)| {
        let _ = write!(html, "<section id=\"{id}\" class=\"part\">{part}</section>");
        html
    })
}

fn top(scene: &Scene<'_>) -> String {
    let Scene { view, age_ms, .. } = scene;
    let queue = &view.queue;
    let (class, live) = match (view.freshness, age_ms) {
        (_, None) => ("lost", "Nothing heard yet".to_owned()),
        (Freshness::Fresh, Some(age)) => ("fresh", format!("Live, {} ago", duration(ms(*age)))),
        (Freshness::Stale, Some(age)) => ("stale", format!("Some are silent; last word {} ago", duration(ms(*age)))),
        (Freshness::Lost, Some(age)) => ("lost", format!("Last heard {} ago", duration(ms(*age)))),
    };
    let mut html = format!(
        "<header><h1><span class=\"brand\">keylane</span> {} / {} / {}</h1>\
         <p id=\"live\" class=\"live {class}\" data-stale-after=\"{}\"><span aria-hidden=\"true\">●</span> {live}</p>\
         <p class=\"tools\" hidden><button type=\"button\" data-do=\"pause\" aria-pressed=\"false\">Pause</button>\
         <button type=\"button\" data-do=\"theme\">Theme</button><button type=\"button\" data-do=\"help\">Help</button></p></header>\
         <p id=\"headline\">{}</p>",
        Text(&queue.cluster),
        Text(&queue.group),
        Text(&queue.topic),
        view.stale_after_ms,
        Text(&words::headline(view)),
    );
    if !view.notices.is_empty() {
        html.push_str("<ul class=\"notices\" aria-label=\"Notices\">");
        for notice in &view.notices {
            let _ = write!(html, "<li>{}</li>", Text(&notice.text));
        }
        html.push_str("</ul>");
    }
    html
}

fn counts(scene: &Scene<'_>) -> String {
    let totals = &scene.view.totals;
    let mut html = "<h2 class=\"sr\">Counts</h2><ul class=\"counts\">".to_owned();
    for (state, word, glyph) in STATES.iter().rev() {
        let count = match state {
            PartitionState::Held => totals.held,
            PartitionState::Draining => totals.draining,
            PartitionState::Expired => totals.expired,
            PartitionState::Absent => totals.absent,
            PartitionState::Unknown => totals.unknown,
            PartitionState::Contested => totals.contested,
        };
        let chosen = scene.asked.state == Some(*state);
        let link = scene.asked.with_state(if chosen { None } else { Some(*state) });
        let current = if chosen { " aria-current=\"true\"" } else { "" };
        let none = if count == 0 { " none" } else { "" };
        let _ = write!(
            html,
            "<li class=\"{}{none}\"><a href=\"{link}\"{current}><span class=\"glyph\" aria-hidden=\"true\">{glyph}</span> {word} \
             <b>{}</b></a></li>",
            state.as_str(),
            number(u64::from(count))
        );
    }
    let lag = totals.lag_jobs.map_or_else(|| "unknown".to_owned(), number);
    let _ = write!(
        html,
        "<li class=\"lag\"><span>Waiting <b>{lag}</b> <small>{} of {} known</small></span></li>",
        number(u64::from(totals.lag_partitions_known)),
        number(scene.view.partitions.len() as u64)
    );
    let parked: u64 = scene.view.partitions.iter().filter_map(|p| p.keys_parked).sum();
    if parked > 0 {
        let _ = write!(html, "<li class=\"lag\"><span>Keys parked <b>{}</b></span></li>", number(parked));
    }
    html.push_str("</ul>");
    html
}

/// Patterns that the lanes refer to.
const HIDDEN_PATTERNS: &str = "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\
    <pattern id=\"p-draining\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
    <rect width=\"3\" height=\"6\" class=\"ink\"/></pattern>\
    <pattern id=\"p-expired\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\"><path d=\"M1 1l6 6M7 1l-6 6\" class=\"line\"/></pattern>\
    <pattern id=\"p-unknown\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\"><circle cx=\"2\" cy=\"2\" r=\"1\" class=\"ink\"/></pattern>\
    <pattern id=\"p-contested\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(-45)\">\
    <rect width=\"4\" height=\"8\" class=\"alarm\"/></pattern></defs></svg>";

/// Shown by the script only; without it none of these keys does anything.
const HELP: &str = "<dialog id=\"help\" aria-labelledby=\"help-title\"><h2 id=\"help-title\">Keys</h2><dl>\
    <dt><kbd>/</kbd></dt><dd>filter the partitions</dd><dt>arrows, <kbd>h j k l</kbd></dt><dd>move in the grid</dd>\
    <dt><kbd>Enter</kbd></dt><dd>details</dd><dt><kbd>t</kbd></dt><dd>who held what</dd><dt><kbd>p</kbd></dt><dd>pause</dd>\
    <dt><kbd>?</kbd></dt><dd>this help</dd><dt><kbd>Esc</kbd></dt><dd>back</dd></dl>\
    <p><label><input type=\"checkbox\" id=\"keys\" checked> Single letters are keys</label></p>\
    <p><button type=\"button\" data-do=\"close\">Close</button></p></dialog>";

#[cfg(test)]
mod tests;
