//! `/metrics` of a board: the group's ownership as it is shown, and itself.

use super::{Board, MOST_STREAMS};
use crate::{
    board::{Now, ask::locked},
    metrics::{self, Page, catalogue, ownership},
    words::EventType,
};

pub(super) fn page(board: &Board) -> String {
    let mut page = Page::default();
    metrics::build(&mut page);
    told(&mut page, board);
    let readers = MOST_STREAMS - board.streams.available_permits();
    page.add(&catalogue::KEYLANE_BOARD_STREAM_CLIENTS, &[], readers as f64);
    board.traffic.add_to(&mut page);
    board.process.add_to(&mut page);
    page.into_text()
}

fn told(page: &mut Page, board: &Board) {
    let now = Now::read();
    let mut record = locked(&board.record);
    let view = record.view(now);
    ownership(page, &view, now.wall_ms);
    for (freshness, count) in ["fresh", "stale", "lost"].iter().zip(record.merge.sidecars(now)) {
        page.add(&catalogue::KEYLANE_BOARD_SIDECARS, &[freshness], count.into());
    }
    let asked = record.asked;
    for (outcome, count) in [("ok", asked.ok), ("missing", asked.missing), ("invalid", asked.invalid)] {
        page.add(&catalogue::KEYLANE_SNAPSHOT_READS_TOTAL, &[outcome], count as f64);
    }
    for (kind, count) in EventType::ALL.into_iter().zip(record.events_seen()) {
        page.add(&catalogue::KEYLANE_EVENTS_TOTAL, &[kind.as_str()], count as f64);
    }
}
