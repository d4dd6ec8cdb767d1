//! What a person should know beside the states, in sentences.

use std::time::Duration;

use super::{Merge, Trouble};
use crate::{
    board::Now,
    snapshot::{Freshness, Notice, PartitionState, Snapshot, WorkerState, WorkerView},
    words::phrase::{capitalised, counted, duration, name, names, partitions as list},
};

/// Most notices of one view; the last one says how many are left out.
const MOST: usize = 50;

impl Merge {
    pub(super) fn notices(&self, view: &Snapshot, counts_differ: bool, now: Now) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut note = |code: &str, text: String| notices.push(Notice { code: code.to_owned(), text });
        if self.is_warming_up() {
            let waiting = self.sources.values().filter(|s| !s.answered).count() as u64;
            let all = self.sources.len() as u64;
            note(
                "warming_up",
                format!(
                    "{} of {} did not answer yet, so \"nobody holds it\" cannot be said.",
                    waiting,
                    counted(all, "sidecar")
                ),
            );
        }
        if counts_differ {
            note("partition_count_differs", "Workers disagree on how many partitions the queue has.".to_owned());
        }
        let jumped: Vec<String> =
            self.workers.values().filter(|heard| self.has_jumped(heard, now)).map(|h| h.view.worker.clone()).collect();
        if !jumped.is_empty() {
            note("clock_jump", format!("A clock jumped; since when is not shown for {}.", names(&jumped)));
        }
        for (trouble, code, text) in [
            (Trouble::Away, "sidecar_away", "cannot be reached"),
            (Trouble::Unreadable, "sidecar_unreadable", "answered with something that is no snapshot; it is not used"),
            (Trouble::Elsewhere, "sidecar_elsewhere", "speaks of another queue or group; it is not used"),
        ] {
            let at: Vec<String> = self
                .sources
                .iter()
                .filter(|(_, source)| source.trouble == Some(trouble) && !self.has_ended(source))
                .map(|(at, _)| at.clone())
                .collect();
            if !at.is_empty() {
                note(
                    code,
                    format!("{} of {} {text}.", capitalised(&counted(at.len() as u64, "sidecar")), self.sources.len()),
                );
            }
        }
        let silent = |w: &&WorkerView| w.freshness != Freshness::Fresh && w.state != WorkerState::Stopped;
        for worker in view.workers.iter().filter(silent) {
            let (code, text) = silence(worker, view);
            note(code, text);
        }
        if notices.len() > MOST {
            let more = notices.len() - MOST + 1;
            notices.truncate(MOST - 1);
            notices
                .push(Notice { code: "more_notices".to_owned(), text: format!("{more} more notices are left out.") });
        }
        notices
    }

    /// A sidecar whose worker stopped in order may go.
    fn has_ended(&self, source: &super::Source) -> bool {
        source.worker.as_ref().and_then(|name| self.workers.get(name)).is_some_and(Self::is_stopped)
    }
}

fn silence(worker: &WorkerView, view: &Snapshot) -> (&'static str, String) {
    let of = |state: PartitionState| -> Vec<u32> {
        let theirs = view.partitions.iter().filter(|p| p.state == state);
        let by = theirs.filter(|p| p.worker.as_ref().or(p.last_known_worker.as_ref()) == Some(&worker.worker));
        by.map(|p| p.partition).collect()
    };
    let (unknown, expired) = (of(PartitionState::Unknown), of(PartitionState::Expired));
    let (who, silent) = (name(&worker.worker), duration(Duration::from_millis(worker.age_ms)));
    if !expired.is_empty() {
        let session = worker.session.timeout_ms.map_or_else(
            || "its session".to_owned(),
            |ms| format!("its {} session", duration(Duration::from_millis(ms))),
        );
        let wait = if expired.len() == 1 { "waits" } else { "wait" };
        let (which, owner) = (capitalised(&list(&expired)), "for a new owner");
        return (
            "session_ran_out",
            format!("{who} went silent {silent} ago and {session} has run out. {which} {wait} {owner}."),
        );
    }
    if unknown.is_empty() {
        return (
            "worker_silent",
            format!("{who} has not reported for {silent}. It held no partition that nobody else holds now."),
        );
    }
    let are = if unknown.len() == 1 { "is" } else { "are" };
    let text = format!(
        "{who} has not reported for {silent}. Its session may still be good, so {} {are} shown as unknown.",
        list(&unknown)
    );
    ("worker_silent", text)
}
