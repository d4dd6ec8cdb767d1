//! One look after another: reports in, a view and what happened out, all of it kept.

use std::{sync::Arc, time::Duration};

use ulid::Ulid;

use super::{
    Now,
    history::History,
    merge::{Merge, Settings},
};
use crate::{
    snapshot::{Notice, Snapshot},
    words::{Event, EventType, change::changes, event::fresh_id, fold},
};

/// If nobody looked for so long, whoever asks looks first: an old view is never served as if it were new.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(3);

/// As many as the contract allows.
const MOST_NOTICES: usize = 50;

/// The board's memory.
#[derive(Debug)]
pub struct Record {
    /// What each sidecar said.
    pub merge: Merge,
    history: History,
    last: Option<(Arc<Snapshot>, Now)>,
    episode: Option<(Ulid, i64)>,
    observer: String,
    said: Option<Notice>,
    /// What came of asking sidecars.
    pub(super) asked: Asked,
    events_seen: [u64; EventType::ALL.len()],
}

/// How often a sidecar's answer was used, was not there, or was no snapshot of a worker of this group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    pub(super) ok: u64,
    pub(super) missing: u64,
    pub(super) invalid: u64,
}

impl Record {
    /// Nothing seen yet.
    pub fn new(settings: Settings) -> Self {
        let observer = settings.observer.name.clone();
        Self {
            merge: Merge::new(settings),
            history: History::default(),
            last: None,
            episode: None,
            observer,
            said: None,
            asked: Asked::default(),
            events_seen: [0; EventType::ALL.len()],
        }
    }

    /// From now on this stands above what is found: for a program that shows a board of its own doings.
    pub fn say(&mut self, notice: Notice) {
        self.said = Some(notice);
    }

    /// Looks: makes the view of this moment and writes down what happened since the one before.
    pub fn look(&mut self, now: Now) -> Arc<Snapshot> {
        let mut view = self.merge.view(now);
        view.notices = self.said.clone().into_iter().chain(view.notices).take(MOST_NOTICES).collect();
        let view = Arc::new(view);
        let before = self.last.as_ref().map(|(view, _)| &**view);
        // Before the first word there is nothing that could have been before.
        let before = before.filter(|before| !before.workers.is_empty());
        let events: Vec<Event> = changes(before, &view)
            .into_iter()
            .map(|(at_ms, happening)| {
                let episode = episode(&mut self.episode, at_ms);
                Event::new(&self.observer, episode, at_ms, now.wall_ms, happening)
            })
            .collect();
        for event in &events {
            self.events_seen[event.kind as usize] += 1;
        }
        self.history.keep(&view, &events, now.wall_ms);
        self.last = Some((Arc::clone(&view), now));
        view
    }

    /// The view to show now.
    pub fn view(&mut self, now: Now) -> Arc<Snapshot> {
        match &self.last {
            Some((view, at)) if u128::from(now.since(at.boot_ms)) < LOOK_AGAIN_AFTER.as_millis() => Arc::clone(view),
            _ => self.look(now),
        }
    }

    /// What was.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// How many events of each type, in the order of [`EventType::ALL`].
    pub(super) fn events_seen(&self) -> [u64; EventType::ALL.len()] {
        self.events_seen
    }

    /// When the last look was.
    pub fn looked(&self) -> Option<Now> {
        self.last.as_ref().map(|(_, at)| *at)
    }
}

/// What follows within the window of an episode's first event belongs to it.
fn episode(open: &mut Option<(Ulid, i64)>, at_ms: i64) -> Ulid {
    match open {
        Some((id, began)) if u128::from(at_ms.abs_diff(*began)) <= fold::WINDOW.as_millis() => *id,
        _ => open.insert((fresh_id(at_ms), at_ms)).0,
    }
}
