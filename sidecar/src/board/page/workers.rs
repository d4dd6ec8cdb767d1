//! The workers.

use std::fmt::Write as _;

use super::{
    Scene,
    html::{Text, ms},
};
use crate::{
    snapshot::{Freshness, WorkerState, WorkerView},
    words::phrase::{duration, number},
};

/// Two words of it are missing.
const LATE_MS: u64 = 5_000;
/// Workers that are shown, those in trouble first.
const MOST: usize = 200;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let mut html = "<h2 id=\"workers-title\">Workers</h2>".to_owned();
    if scene.view.workers.is_empty() {
        html.push_str("<p class=\"empty\">None has been heard.</p>");
        return html;
    }
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"workers-title\"><table><thead><tr>\
         <th scope=\"col\">Name</th><th scope=\"col\">State</th><th scope=\"col\">Holds</th><th scope=\"col\">Running</th>\
         <th scope=\"col\">Session</th><th scope=\"col\">Last word</th></tr></thead><tbody>",
    );
    let mut workers: Vec<&WorkerView> = scene.view.workers.iter().collect();
    workers.sort_by_key(|w| w.freshness == Freshness::Fresh || w.state == WorkerState::Stopped);
    for worker in workers.iter().take(MOST) {
        let known = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), number);
        let session = match worker.session.remaining_ms {
            Some(0) => "should have run out".to_owned(),
            Some(left) => format!("<span data-left=\"{left}\">{}</span>", duration(ms(left))),
            None => "unknown".to_owned(),
        };
        let _ = write!(
            html,
            "<tr class=\"{}\"><th scope=\"row\"><span class=\"dot w{}\" aria-hidden=\"true\"></span>{}</th><td>{}</td><td>{}</td>\
             <td>{}</td><td>{session}</td><td>{} ago</td></tr>",
            if worker.freshness == Freshness::Fresh { "speaks" } else { "silent" },
            scene.history.place(&worker.worker) % 8,
            Text(&worker.worker),
            state(worker),
            known(worker.partitions_held.map(u64::from)),
            known(worker.jobs_in_flight),
            duration(ms(worker.age_ms)),
        );
    }
    html.push_str("</tbody></table></div>");
    if workers.len() > MOST {
        let _ = write!(html, "<p>And {} more.</p>", number((workers.len() - MOST) as u64));
    }
    html
}

fn state(worker: &WorkerView) -> &'static str {
    match worker.state {
        WorkerState::Starting => "starting",
        // It writes every 2 s: what it was is not what it is.
        WorkerState::Running if worker.age_ms >= LATE_MS => "running at its last word",
        WorkerState::Running => "running",
        WorkerState::Draining => "draining",
        WorkerState::Stopped => "stopped",
        WorkerState::Unknown => "silent",
    }
}
