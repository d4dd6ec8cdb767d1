//! The grid: one cell a partition, and above 256 one group a worker.

use std::{collections::BTreeMap, fmt::Write as _};

use super::{
    STATES, Scene, glyph,
    html::{Text, ms, short},
    trouble,
};
use crate::{
    snapshot::{Freshness, PartitionState, PartitionView},
    words::phrase::{counted, duration, number},
};

/// More cells than this are grouped by worker.
const MOST_CELLS: usize = 256;
/// Cells of partitions in trouble beside groups; the counts above them have all.
const MOST_TROUBLED: usize = 96;

pub(super) fn draw(scene: &Scene<'_>) -> String {
    let shown: Vec<&PartitionView> =
        scene.view.partitions.iter().filter(|p| scene.asked.state.is_none_or(|state| p.state == state)).collect();
    let mut html = String::from(
        "<div class=\"bar\"><h2>Partitions</h2><label class=\"filter\" hidden>Filter \
         <input type=\"search\" id=\"filter\" autocomplete=\"off\" placeholder=\"number, worker or state\"></label>\
         <p class=\"hint\">Colour: worker. Sign: state.</p></div>",
    );
    if shown.is_empty() {
        let none = scene
            .asked
            .state
            .map_or("No partition is known yet.".to_owned(), |s| format!("No partition is {}.", s.as_str()));
        let _ = write!(html, "<p class=\"empty\">{none}</p>");
    } else if shown.len() > MOST_CELLS {
        groups(scene, &shown, &mut html);
    } else {
        cells(scene, &shown, &mut html);
    }
    html
}

fn cells(scene: &Scene<'_>, partitions: &[&PartitionView], html: &mut String) {
    html.push_str("<ul class=\"grid\">");
    for partition in partitions {
        cell(scene, partition, html);
    }
    html.push_str("</ul>");
}

fn cell(scene: &Scene<'_>, p: &PartitionView, html: &mut String) {
    let colour = owner(p).map_or_else(|| "none".to_owned(), |name| format!("w{}", scene.history.place(name) % 8));
    let chosen = if scene.asked.partition == Some(p.partition) { " aria-current=\"true\"" } else { "" };
    let link = scene.asked.with_partition(Some(p.partition));
    let left = match (p.session_remaining_ms, p.state) {
        (Some(left), PartitionState::Held | PartitionState::Draining) => {
            format!(" <span class=\"left\" data-left=\"{left}\">{}</span>", duration(ms(left)))
        }
        _ => String::new(),
    };
    let names: Vec<String> = match p.claimants.as_slice() {
        [] => owner(p).map(|name| short(name)).into_iter().collect(),
        claimants => claimants.iter().take(2).map(|name| short(name)).collect(),
    };
    let sign = glyph(p.state);
    let _ = write!(
        html,
        "<li><a class=\"cell {} {colour}\" href=\"{link}\"{chosen} title=\"{}\"><b>{}</b> \
         <span class=\"sign\" aria-hidden=\"true\">{sign}</span> <span class=\"sr\">{} </span>\
         <span class=\"who\">{}{left}</span></a></li>",
        p.state.as_str(),
        Text(&told(p)),
        p.partition,
        p.state.as_str(),
        Text(&names.join("|")),
    );
}

/// What a screen reader says of a partition.
pub(super) fn told(p: &PartitionView) -> String {
    let who = match (&p.worker, &p.last_known_worker, p.claimants.as_slice()) {
        (Some(worker), ..) => format!(" by {worker}"),
        (None, _, claimants @ [_, ..]) => format!(" between {}", claimants.join(" and ")),
        (None, Some(last), _) => format!(", last {last}"),
        (None, None, _) => String::new(),
    };
    format!("Partition {}: {}{who}", p.partition, p.state.as_str())
}

fn owner(p: &PartitionView) -> Option<&String> {
    p.worker.as_ref().or(p.last_known_worker.as_ref())
}

/// Too many for one grid: the ones in trouble as cells, the others by worker, opened on demand.
fn groups(scene: &Scene<'_>, partitions: &[&PartitionView], html: &mut String) {
    let (quiet, mut troubled): (Vec<&PartitionView>, Vec<&PartitionView>) =
        partitions.iter().partition(|p| p.state == PartitionState::Held);
    troubled.sort_by_key(|p| (trouble(p), p.partition));
    let all = troubled.len();
    troubled.truncate(MOST_TROUBLED);
    if !troubled.is_empty() {
        cells(scene, &troubled, html);
        if all > troubled.len() {
            let _ = write!(html, "<p>And {} more that are not held.</p>", number((all - troubled.len()) as u64));
        }
    }
    let mut by_worker: BTreeMap<&str, Vec<&PartitionView>> = BTreeMap::new();
    for partition in quiet {
        by_worker.entry(partition.worker.as_deref().unwrap_or("")).or_default().push(partition);
    }
    for (worker, partitions) in by_worker {
        let colour = scene.history.place(worker) % 8;
        let lag: Option<u64> = partitions.iter().map(|p| p.lag.jobs).sum();
        let lag = lag.map_or_else(|| "waiting: unknown".to_owned(), |jobs| format!("{} waiting", number(jobs)));
        let _ = write!(
            html,
            "<details class=\"group\" id=\"g-{}\"><summary class=\"w{colour}\"><b>{}</b> holds {}, {lag}</summary>",
            Text(worker),
            Text(worker),
            counted(partitions.len() as u64, "partition")
        );
        html.push_str("<ul class=\"numbers\">");
        for p in partitions {
            let _ = write!(
                html,
                "<li><a href=\"{}\">{}</a></li>",
                scene.asked.with_partition(Some(p.partition)),
                p.partition
            );
        }
        html.push_str("</ul></details>");
    }
    if scene.view.freshness != Freshness::Fresh {
        let signs: Vec<String> = STATES.iter().map(|(_, word, sign)| format!("{sign} {word}")).collect();
        let _ = write!(html, "<p class=\"hint\">{}</p>", signs.join(", "));
    }
}
