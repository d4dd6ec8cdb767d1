//! One partition: who has it, for how long, what waits and since when nothing was finished.

use std::fmt::Write as _;

use super::{
    Scene, grid,
    html::{Text, ago, ms},
    keys,
};
use crate::{
    board::history::CURVE,
    snapshot::{PartitionView, WhyUnknown},
    words::phrase::{capitalised, duration, number},
};

/// Events of the partition that are shown.
const MOST_EVENTS: usize = 10;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let Some(number) = scene.asked.partition else { return String::new() };
    let Some(partition) = scene.view.partitions.iter().find(|p| p.partition == number) else {
        return format!("<h2>Partition {number}</h2><p class=\"empty\">It is not known.</p>");
    };
    let mut html = format!(
        "<div class=\"bar\"><h2>Partition {number}</h2><p><a href=\"{}\" data-back>Back</a></p></div><p>{}.</p><dl class=\"facts\">",
        scene.asked.with_partition(None),
        Text(&capitalised(&grid::told(partition)))
    );
    session(scene, partition, &mut html);
    let waiting = match (partition.lag.jobs, partition.lag.why_unknown) {
        (Some(jobs), _) => super::number(jobs),
        (None, why) => format!("unknown: {}", because(why)),
    };
    fact("Waiting", &waiting, &mut html);
    curve(scene, number, &mut html);
    fact("Running now", &partition.jobs_in_flight.map_or_else(|| "unknown".to_owned(), super::number), &mut html);
    let finished = partition.last_completed_at.as_deref();
    fact(
        "Last finished",
        &finished.map_or_else(|| "never seen".to_owned(), |at| ago(Some(at), scene.now_ms)),
        &mut html,
    );
    if let Some(parked) = partition.keys_parked {
        fact("Keys parked", &super::number(parked), &mut html);
    }
    fact("In this state since", &ago(partition.since.as_deref(), scene.now_ms).replace(" ago", ""), &mut html);
    let claim = match partition.token_present {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    fact("Owner has a claim in the store", claim, &mut html);
    html.push_str("</dl>");
    if !partition.keys.is_empty() {
        html.push_str("<h3>Keys</h3>");
        keys::list(partition, &mut html);
    }
    let events: Vec<_> =
        scene.history.events().rev().filter(|e| e.partitions.contains(&number)).take(MOST_EVENTS).collect();
    if !events.is_empty() {
        html.push_str("<h3>What happened to it</h3><ol class=\"events\">");
        for event in events {
            let _ = write!(html, "<li class=\"{}\">{}</li>", event.severity.as_str(), Text(&event.text));
        }
        html.push_str("</ol>");
    }
    html
}

fn session(scene: &Scene<'_>, p: &PartitionView, html: &mut String) {
    let Some(left) = p.session_remaining_ms else { return fact("Session", "unknown", html) };
    if left == 0 {
        return fact("Session", "should have run out", html);
    }
    let of =
        scene.view.workers.iter().find(|w| p.worker.as_ref() == Some(&w.worker)).and_then(|w| w.session.timeout_ms);
    let most = of.unwrap_or(left).max(left);
    let _ = write!(
        html,
        "<dt>Session</dt><dd><span data-left=\"{left}\">{}</span> left <meter min=\"0\" max=\"{most}\" value=\"{left}\" \
         aria-label=\"Session left\">{left} of {most} ms</meter></dd>",
        duration(ms(left))
    );
}

fn fact(name: &str, value: &str, html: &mut String) {
    let _ = write!(html, "<dt>{name}</dt><dd>{}</dd>", Text(value));
}

/// Sixty points; a hole where the number was not known.
fn curve(scene: &Scene<'_>, partition: u32, html: &mut String) {
    let points: Vec<Option<u64>> = scene.history.waiting(partition).collect();
    let Some(most) = points.iter().flatten().max().copied() else { return };
    if points.iter().flatten().count() < 2 {
        return;
    }
    let mut path = String::new();
    let mut down = false;
    for (at, point) in points.iter().enumerate() {
        match point {
            Some(jobs) => {
                let y = 22 - jobs * 20 / most.max(1);
                let _ = write!(path, "{}{} {y}", if down { "L" } else { "M" }, at * 4);
                down = true;
            }
            None => down = false,
        }
    }
    let _ = write!(
        html,
        "<dt>Last {}</dt><dd><svg class=\"curve\" width=\"240\" height=\"24\" role=\"img\" aria-label=\"Waiting jobs, at most {}\">\
         <path d=\"{path}\"/></svg></dd>",
        duration(CURVE),
        number(most)
    );
}

fn because(why: Option<WhyUnknown>) -> &'static str {
    match why {
        Some(WhyUnknown::NoCommitYet) => "the group has finished nothing of it yet",
        Some(WhyUnknown::NoLeader) => "the partition has no leader",
        Some(WhyUnknown::NotPermitted) => "the worker may not ask",
        Some(WhyUnknown::NotReported) | None => "nobody reports it",
    }
}
