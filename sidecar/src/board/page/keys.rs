//! Keys that are parked or hot: how many in which partition, and which ones as far as their workers show them.

use std::fmt::Write as _;

use super::{Scene, html::Text};
use crate::{
    snapshot::PartitionView,
    words::phrase::{counted, number},
};

/// Partitions that are shown.
const MOST: usize = 20;

/// Nothing if no key is known to be parked or hot.
pub(super) fn draw(scene: &Scene<'_>) -> String {
    let stands = |p: &&PartitionView| p.keys_parked.is_some_and(|parked| parked > 0) || !p.keys.is_empty();
    let mut partitions: Vec<_> = scene.view.partitions.iter().filter(stands).collect();
    if partitions.is_empty() {
        return String::new();
    }
    partitions.sort_by_key(|p| std::cmp::Reverse(p.keys_parked));
    let mut html = "<h2>Parked and hot keys</h2><ul class=\"keys\">".to_owned();
    for partition in partitions.iter().take(MOST) {
        let link = scene.asked.with_partition(Some(partition.partition));
        let parked = partition.keys_parked.map_or_else(|| "unknown".to_owned(), number);
        let _ = write!(html, "<li><a href=\"{link}\">Partition {}</a>: {parked} parked", partition.partition);
        list(partition, &mut html);
        html.push_str("</li>");
    }
    html.push_str("</ul>");
    if partitions.len() > MOST {
        let _ = write!(html, "<p>And {} more.</p>", counted((partitions.len() - MOST) as u64, "partition"));
    }
    html
}

/// Only what a worker was told to show.
pub(super) fn list(partition: &PartitionView, html: &mut String) {
    if partition.keys.is_empty() {
        return;
    }
    html.push_str("<ul class=\"keys\">");
    for key in &partition.keys {
        let what = match (key.parked, key.waiting) {
            (true, _) => "parked".to_owned(),
            (false, Some(0) | None) => "takes much time".to_owned(),
            (false, Some(jobs)) => format!("{} waiting", counted(jobs, "job")),
        };
        let _ = write!(html, "<li><bdi><code>{}</code></bdi> {what}</li>", Text(&key.shown));
    }
    html.push_str("</ul>");
}
