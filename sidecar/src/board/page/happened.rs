//! What happened, newest first, in sentences; what belongs together is one, with its parts below.

use std::fmt::Write as _;

use super::{Scene, html::Text};
use crate::words::fold::fold;

/// Sentences that are shown; the text and the lines have all.
const MOST: usize = 40;
/// Events that are looked at for them.
const MOST_EVENTS: usize = 400;
/// Parts of one sentence that are shown.
const MOST_PARTS: usize = 20;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let mut html = "<div class=\"bar\"><h2>What happened</h2><p><a href=\"/v1/timeline.txt\">As text</a> \
                    <a href=\"/v1/events.ndjson\">As NDJSON</a></p></div>"
        .to_owned();
    let mut events: Vec<_> = scene.history.events().rev().take(MOST_EVENTS).collect();
    events.reverse();
    let folded = fold(events);
    if folded.is_empty() {
        html.push_str("<p class=\"empty\">Nothing since the board started.</p>");
        return html;
    }
    html.push_str("<ol class=\"events\">");
    for one in folded.iter().rev().take(MOST) {
        let _ = write!(
            html,
            "<li class=\"{}\"><span class=\"level\">{}</span> {}",
            one.severity.as_str(),
            one.severity.as_str(),
            Text(&one.text)
        );
        if one.parts.len() > 1 {
            let _ =
                write!(html, "<details id=\"e-{}\"><summary>{} parts</summary><ol>", one.parts[0].id, one.parts.len());
            for part in one.parts.iter().take(MOST_PARTS) {
                let _ = write!(html, "<li>{}</li>", Text(&part.text));
            }
            html.push_str("</ol></details>");
        }
        html.push_str("</li>");
    }
    html.push_str("</ol>");
    html
}
