//! What was: events, who held what, how many jobs waited. All of it is bounded, the oldest goes first.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::{
    snapshot::{PartitionState, PartitionView, Snapshot},
    words::{Event, change::GAP_TOLD_AFTER},
};

/// Events that can be read again; about 600 bytes each.
const MOST_EVENTS: usize = 10_000;
/// Spans of all lanes together; about 100 bytes each.
const MOST_SPANS: usize = 50_000;
/// Spans that every lane may have, however many lanes there are.
const FEWEST_SPANS: usize = 16;
/// Longer ago nobody can look.
const KEPT_MS: i64 = 6 * 3_600_000;
/// Points of a curve of waiting jobs.
const POINTS: usize = 60;
/// Milliseconds between two of them: a curve spans a quarter of an hour.
const POINT_MS: i64 = 15_000;
/// Workers whose colour is remembered.
const MOST_COLOURS: usize = 4_096;

/// A time in which a partition was the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Unix time in milliseconds.
    pub from_ms: i64,
    /// Unix time in milliseconds.
    pub until_ms: i64,
    /// What it was.
    pub state: PartitionState,
    /// Who had it, last had it, or claimed it.
    pub who: Vec<String>,
}

/// What was.
#[derive(Clone, Debug, Default)]
pub struct History {
    events: VecDeque<Event>,
    /// How many events were there before the first one that is kept.
    gone: u64,
    lanes: BTreeMap<u32, VecDeque<Span>>,
    waiting: BTreeMap<u32, VecDeque<Option<u64>>>,
    sampled_ms: Option<i64>,
    colours: BTreeMap<String, usize>,
}

impl History {
    /// Keeps a view of that moment and what happened since the one before.
    pub fn keep(&mut self, view: &Snapshot, events: &[Event], at_ms: i64) {
        self.events.extend(events.iter().cloned());
        while self.events.len() > MOST_EVENTS {
            self.events.pop_front();
            self.gone += 1;
        }
        for worker in &view.workers {
            if self.colours.len() < MOST_COLOURS {
                let next = self.colours.len();
                self.colours.entry(worker.worker.clone()).or_insert(next);
            }
        }
        let most = (MOST_SPANS / view.partitions.len().max(1)).max(FEWEST_SPANS);
        for partition in &view.partitions {
            extend(self.lanes.entry(partition.partition).or_default(), partition, at_ms, most);
        }
        self.sample(view, at_ms);
    }

    fn sample(&mut self, view: &Snapshot, at_ms: i64) {
        if self.sampled_ms.is_some_and(|last| (0..POINT_MS).contains(&(at_ms - last))) {
            return;
        }
        self.sampled_ms = Some(at_ms);
        for partition in &view.partitions {
            let points = self.waiting.entry(partition.partition).or_default();
            points.push_back(partition.lag.jobs);
            if points.len() > POINTS {
                points.pop_front();
            }
        }
    }

    /// All events that are kept, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    /// The number of the next event. It is counted from this process's start and leaves it in no answer.
    pub fn next(&self) -> u64 {
        self.gone + self.events.len() as u64
    }

    /// The events from that number on.
    pub fn since(&self, number: u64) -> impl Iterator<Item = &Event> {
        let skip = usize::try_from(number.saturating_sub(self.gone)).unwrap_or(usize::MAX);
        self.events.iter().skip(skip)
    }

    /// The number after the event with this id; `None` if it is not kept.
    pub fn after(&self, id: &str) -> Option<u64> {
        self.events.iter().rposition(|event| event.id == id).map(|at| self.gone + at as u64 + 1)
    }

    /// What a partition was, oldest first.
    pub fn lane(&self, partition: u32) -> impl Iterator<Item = &Span> {
        self.lanes.get(&partition).into_iter().flatten()
    }

    /// How many of its jobs waited, every 15 s, oldest first; `None` where that was not known.
    pub fn waiting(&self, partition: u32) -> impl Iterator<Item = Option<u64>> {
        self.waiting.get(&partition).into_iter().flatten().copied()
    }

    /// A worker's place in the order in which they were first seen: its colour.
    pub fn place(&self, worker: &str) -> usize {
        self.colours.get(worker).copied().unwrap_or(0)
    }
}

fn extend(lane: &mut VecDeque<Span>, partition: &PartitionView, at_ms: i64, most: usize) {
    let who: Vec<String> = match &partition.worker {
        Some(worker) => vec![worker.clone()],
        None if partition.claimants.is_empty() => partition.last_known_worker.iter().cloned().collect(),
        None => partition.claimants.clone(),
    };
    let blind = i64::try_from(GAP_TOLD_AFTER.as_millis()).unwrap_or(i64::MAX);
    match lane.back_mut() {
        // In a gap nobody looked: nothing is drawn there.
        Some(last) if at_ms - last.until_ms < blind => {
            last.until_ms = at_ms.max(last.until_ms);
            if last.state != partition.state || last.who != who {
                let from_ms = last.until_ms;
                lane.push_back(Span { from_ms, until_ms: from_ms, state: partition.state, who });
            }
        }
        _ => lane.push_back(Span { from_ms: at_ms, until_ms: at_ms, state: partition.state, who }),
    }
    while lane.len() > most || lane.front().is_some_and(|first| at_ms - first.until_ms > KEPT_MS) {
        lane.pop_front();
    }
}

/// How far back a curve of waiting jobs goes.
pub const CURVE: Duration = Duration::from_millis(POINTS as u64 * POINT_MS.unsigned_abs());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{
        Happening,
        event::fresh_id,
        testing::{AT, View},
    };

    fn event(at: i64) -> Event {
        Event::new(
            "board",
            fresh_id(at),
            at,
            at,
            Happening::Recovered { partitions: vec![0], after: Duration::from_secs(1) },
        )
    }

    #[test]
    fn a_lane_is_what_was_seen_with_a_hole_where_nobody_looked() {
        let mut history = History::default();
        let held = View::at(AT).held(&["a"]);
        for (view, later) in [
            (held.clone(), 0),
            (held.clone(), 1_000),
            (held.clone().expired(0, "a", 0), 2_000),
            (held.clone(), 40_000),
            (held.clone(), 41_000),
        ] {
            history.keep(&view.snapshot(), &[], AT + later);
        }
        let lane: Vec<_> = history.lane(0).map(|s| (s.from_ms - AT, s.until_ms - AT, s.state)).collect();
        let (held, expired) = (PartitionState::Held, PartitionState::Expired);
        assert_eq!(lane, [(0, 2_000, held), (2_000, 2_000, expired), (40_000, 41_000, held)]);
    }

    #[test]
    fn all_of_it_is_bounded() {
        let mut history = History::default();
        let view = View::at(AT).held(&["a"; 4_000]);
        for round in 0..40 {
            let view = if round % 2 == 0 { view.clone() } else { view.clone().expired(0, "a", 0) };
            let events: Vec<Event> = (0..300).map(|n| event(AT + n)).collect();
            history.keep(&view.snapshot(), &events, AT + round * 1_000);
        }
        assert_eq!((history.events().count(), history.next()), (MOST_EVENTS, 12_000));
        assert_eq!((history.lane(0).count(), history.lane(1).count()), (FEWEST_SPANS, 1));
        assert_eq!(history.waiting(0).count(), 3);
        let oldest = history.events().next().unwrap().id.clone();
        assert_eq!(history.after(&oldest), Some(2_001));
        assert_eq!((history.since(11_999).count(), history.since(0).count()), (1, MOST_EVENTS));
        assert_eq!(history.after("01KBCZQ8R0M7X1V8J5T4W9Y2AB"), None);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_lane_go_back() {
        let mut history = History::default();
        let view = View::at(AT).held(&["a"]);
        for at in [AT, AT + 5_000, AT - 3_600_000, AT + 6_000] {
            history.keep(&view.snapshot(), &[], at);
        }
        assert!(history.lane(0).all(|span| span.from_ms <= span.until_ms));
        assert_eq!(history.lane(0).count(), 1);
    }
}
