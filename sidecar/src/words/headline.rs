//! The first thing to know about a view, worst first.

use crate::snapshot::{Freshness, PartitionState, Snapshot, WorkerState};

use super::{
    event::unix_ms,
    phrase::{capitalised, clock, counted, duration, names, number},
};

/// At most four short sentences.
pub fn headline(view: &Snapshot) -> String {
    if view.workers.is_empty() {
        return "We have not heard from any worker yet. Nothing can be said about who holds what.".to_owned();
    }
    if view.freshness == Freshness::Lost {
        return nobody_speaks(view);
    }
    let totals = &view.totals;
    let all = view.partitions.len() as u64;
    if all == 0 {
        return "No partition is known yet.".to_owned();
    }
    let held = u64::from(totals.held);
    if held == all {
        let jobs = jobs(view);
        return match all {
            1 => format!("The only partition is held; {jobs}."),
            _ => format!("All {} partitions are held; {jobs}.", number(all)),
        };
    }
    let working = held + u64::from(totals.draining);
    let mut sentences = Vec::new();
    if working == all {
        let are = if totals.draining == 1 { "is" } else { "are" };
        sentences.push(match all {
            1 => "The only partition is being handed over.".to_owned(),
            _ => format!(
                "All {} partitions have a working owner; {} {are} being handed over.",
                number(all),
                number(u64::from(totals.draining))
            ),
        });
    } else {
        let has = if working == 1 { "has" } else { "have" };
        let of = counted(all, "partition");
        sentences.push(match working {
            0 => format!("None of {of} has a working owner."),
            _ => format!("{} of {of} {has} a working owner.", number(working)),
        });
    }
    let worst = [
        (totals.contested, PartitionState::Contested),
        (totals.absent, PartitionState::Absent),
        (totals.expired, PartitionState::Expired),
        (totals.unknown, PartitionState::Unknown),
    ];
    let parts: Vec<String> = worst
        .into_iter()
        .filter(|&(count, _)| count > 0)
        .map(|(count, state)| {
            let are = if count == 1 { "is" } else { "are" };
            format!("{} {are} {}", number(u64::from(count)), state.as_str())
        })
        .collect();
    if !parts.is_empty() {
        sentences.push(format!("{}.", parts.join(", ")));
    }
    let silent: Vec<String> =
        view.workers.iter().filter(|w| is_silent(w.freshness, w.state)).map(|w| w.worker.clone()).collect();
    if !silent.is_empty() {
        let are = if silent.len() == 1 { "is" } else { "are" };
        sentences.push(format!("{} {are} silent.", names(&silent)));
    }
    if view.totals.lag_jobs.is_some_and(|jobs| jobs > 0) {
        sentences.push(format!("{}.", capitalised(&jobs(view))));
    }
    sentences.join(" ")
}

fn is_silent(freshness: Freshness, state: WorkerState) -> bool {
    freshness != Freshness::Fresh && state != WorkerState::Stopped
}

fn nobody_speaks(view: &Snapshot) -> String {
    let speaking = view.workers.iter().filter(|w| w.state != WorkerState::Stopped);
    let Some(last) = speaking.min_by_key(|w| w.age_ms) else {
        return "All workers have stopped. Nobody holds a partition.".to_owned();
    };
    let silent = duration(std::time::Duration::from_millis(last.age_ms));
    let from =
        unix_ms(&last.last_seen_at).map_or_else(String::new, |at| format!(" The picture below is from {}.", clock(at)));
    format!("We have not heard from any worker for {silent}.{from}")
}

fn jobs(view: &Snapshot) -> String {
    let totals = &view.totals;
    let all_known = totals.lag_partitions_known as usize == view.partitions.len();
    match (totals.lag_jobs, all_known) {
        (Some(0), true) => "nothing is waiting".to_owned(),
        (Some(1), true) => "1 job is waiting".to_owned(),
        (Some(jobs), true) => format!("{} are waiting", counted(jobs, "job")),
        (Some(0) | None, false) | (None, true) => "how many jobs wait is not known".to_owned(),
        (Some(1), false) => "at least 1 job is waiting".to_owned(),
        (Some(jobs), false) => format!("at least {} are waiting", counted(jobs, "job")),
    }
}

#[cfg(test)]
mod tests;
