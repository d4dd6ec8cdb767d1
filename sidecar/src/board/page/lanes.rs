//! Who held what over time: one lane a partition, the troubled ones first. Lanes where nothing changed are folded into one a
//! worker once there are many.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    Scene,
    asked::RANGES,
    html::{Text, short},
    trouble,
};
use crate::{
    board::history::Span,
    snapshot::{PartitionState, PartitionView},
    words::phrase::{clock, counted, names, ranges},
};

/// More lanes than this are folded.
const MOST_LANES: usize = 64;
/// Below this part of the width no name fits.
const NAME_FITS: f64 = 9.0;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let minutes = scene.asked.range();
    let window = Window { from_ms: scene.now_ms - i64::from(minutes) * 60_000, until_ms: scene.now_ms };
    let mut html =
        "<div class=\"bar\"><h2>Who held what</h2><ul class=\"ranges\" aria-label=\"Time range\">".to_owned();
    for (range, name) in RANGES {
        let current = if range == minutes { " aria-current=\"true\"" } else { "" };
        let _ = write!(html, "<li><a href=\"{}\"{current}>{name}</a></li>", scene.asked.with_minutes(range));
    }
    html.push_str("</ul></div>");
    let mut shown: Vec<&PartitionView> =
        scene.view.partitions.iter().filter(|p| scene.asked.state.is_none_or(|state| p.state == state)).collect();
    if shown.is_empty() {
        html.push_str("<p class=\"empty\">Nothing seen yet.</p>");
        return html;
    }
    let mut folded: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    if shown.len() > MOST_LANES && !scene.asked.all_lanes {
        shown.retain(|p| {
            let quiet = quiet(scene, p, window);
            if let Some(worker) = quiet {
                folded.entry(worker).or_default().push(p.partition);
            }
            quiet.is_none()
        });
    }
    shown.sort_by_key(|p| (trouble(p), p.partition));
    let all = shown.len();
    if !scene.asked.all_lanes {
        shown.truncate(MOST_LANES);
    }
    html.push_str("<div class=\"lanes\">");
    axis(window, &mut html);
    for partition in &shown {
        let spans: Vec<&Span> =
            scene.history.lane(partition.partition).filter(|s| s.until_ms >= window.from_ms).collect();
        let number = partition.partition.to_string();
        lane(scene, &number, &format!("Partition {number}"), &spans, window, &mut html);
    }
    for (worker, partitions) in &folded {
        let spans: Vec<&Span> = scene.history.lane(partitions[0]).filter(|s| s.until_ms >= window.from_ms).collect();
        let label = format!("{}×", partitions.len());
        let what = format!("{} ({})", counted(partitions.len() as u64, "partition"), ranges(partitions));
        lane(scene, &label, &format!("{what}, all of {worker} and unchanged"), &spans, window, &mut html);
    }
    html.push_str("</div>");
    let left_out = all - shown.len();
    if left_out > 0 || !folded.is_empty() {
        let more = if left_out > 0 {
            format!("{} with changes are left out. ", counted(left_out as u64, "lane"))
        } else {
            String::new()
        };
        let _ = write!(
            html,
            "<p class=\"hint\">{more}<a href=\"{}\">Show every lane</a></p>",
            scene.asked.with_all_lanes(true)
        );
    }
    html
}

#[derive(Clone, Copy)]
struct Window {
    from_ms: i64,
    until_ms: i64,
}

impl Window {
    /// Where in the window that is, in percent.
    #[allow(clippy::cast_precision_loss, reason = "a place on a screen")]
    fn at(self, ms: i64) -> f64 {
        let part = (ms - self.from_ms) as f64 / (self.until_ms - self.from_ms).max(1) as f64;
        (part * 100.0).clamp(0.0, 100.0)
    }
}

/// Its owner, if it had no other one and no trouble in that time.
fn quiet<'a>(scene: &Scene<'_>, p: &'a PartitionView, window: Window) -> Option<&'a str> {
    let mut spans = scene.history.lane(p.partition).filter(|s| s.until_ms >= window.from_ms);
    let first = spans.next()?;
    let worker = p.worker.as_deref()?;
    let same = first.state == PartitionState::Held && first.who.len() == 1 && first.who[0] == worker;
    (same && spans.next().is_none()).then_some(worker)
}

fn axis(window: Window, html: &mut String) {
    html.push_str("<div class=\"lane axis\" aria-hidden=\"true\"><span></span><svg width=\"100%\" height=\"16\">");
    for quarter in 0..4_i64 {
        let at = window.from_ms + (window.until_ms - window.from_ms) * quarter / 4;
        let clock = moment(at, window.until_ms - window.from_ms);
        // On a narrow screen it would lie under "now".
        let late = if quarter == 3 { " class=\"late\"" } else { "" };
        let _ = write!(html, "<text x=\"{}%\" y=\"12\"{late}>{clock}</text>", quarter * 25);
    }
    html.push_str("<text x=\"100%\" y=\"12\" text-anchor=\"end\">now, UTC</text></svg></div>");
}

fn lane(scene: &Scene<'_>, label: &str, name: &str, spans: &[&Span], window: Window, html: &mut String) {
    let mut story: Vec<String> = spans.iter().rev().take(6).map(|s| told(s)).collect();
    story.reverse();
    if spans.len() > story.len() {
        story.insert(0, format!("{} earlier", spans.len() - story.len()));
    }
    let _ = write!(
        html,
        "<div class=\"lane\"><span class=\"label\" aria-hidden=\"true\">{label}</span>\
         <svg width=\"100%\" height=\"18\" role=\"img\" aria-label=\"{}: {}\">",
        Text(name),
        Text(&story.join("; "))
    );
    for span in spans {
        bar(scene, span, window, html);
    }
    html.push_str("</svg></div>");
}

fn bar(scene: &Scene<'_>, span: &Span, window: Window, html: &mut String) {
    let (from, until) = (window.at(span.from_ms), window.at(span.until_ms));
    // What lasted a moment is still seen.
    let width = (until - from).max(0.15);
    let colour = span.who.first().map_or_else(|| "none".to_owned(), |who| format!("w{}", scene.history.place(who) % 8));
    let place = format!("x=\"{from:.2}%\" width=\"{width:.2}%\"");
    let _ = write!(
        html,
        "<g><title>{}</title><rect class=\"{colour} {}\" {place} y=\"1\" height=\"16\"/>",
        Text(&told(span)),
        span.state.as_str()
    );
    if matches!(
        span.state,
        PartitionState::Draining | PartitionState::Expired | PartitionState::Unknown | PartitionState::Contested
    ) {
        let _ = write!(html, "<rect fill=\"url(#p-{})\" {place} y=\"1\" height=\"16\"/>", span.state.as_str());
    }
    if width > NAME_FITS {
        let who: Vec<String> = span.who.iter().take(2).map(|who| short(who)).collect();
        let text = match span.state {
            PartitionState::Held => who.join("|"),
            PartitionState::Absent => "absent".to_owned(),
            state => format!("{} {}", who.join("|"), state.as_str()),
        };
        let _ = write!(
            html,
            "<text class=\"{colour} {}\" x=\"{:.2}%\" dx=\"5\" y=\"13\">{}</text>",
            span.state.as_str(),
            from,
            Text(&text)
        );
    }
    html.push_str("</g>");
}

fn told(span: &Span) -> String {
    let who = if span.who.is_empty() { "nobody".to_owned() } else { names(&span.who) };
    let at = |at_ms| moment(at_ms, span.until_ms - span.from_ms);
    format!("{who}, {} to {}, {}", at(span.from_ms), at(span.until_ms), span.state.as_str())
}

/// Within what lasts this long: to the second if minutes would say too little.
fn moment(at_ms: i64, length_ms: i64) -> String {
    const SHORT_MS: i64 = 5 * 60_000;
    let shown = if length_ms < SHORT_MS { 8 } else { 5 };
    clock(at_ms).get(..shown).unwrap_or("").to_owned()
}
