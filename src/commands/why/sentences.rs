//! Pure: the answer in words, the weightiest first.

use keylane_producer::Timestamp;
use keylane_sidecar::PartitionState;

use super::{Found, Place, State};
use crate::{
    output::{counted, grouped, printable},
    time,
};

pub(super) fn of(found: &Found<'_>, place: Option<&Place>) -> Vec<String> {
    let mut said = vec![verdict(found)];
    said.extend(line(found));
    said.extend(retry(found));
    said.extend(owner(found));
    said.extend(backlog(found));
    said.extend(place.map(stands));
    said
}

fn verdict(found: &Found<'_>) -> String {
    let (key, partition) = (&found.key, found.partition);
    match found.state() {
        State::Parked => format!("{key} stands still: it is parked until a person acts (partition {partition})."),
        State::Paused => {
            format!("{key} stands still: it is paused until a person lets it go on (partition {partition}).")
        }
        State::Retrying => format!("{key} waits: its first job failed and is tried again (partition {partition})."),
        State::NoOwner => format!("{key} stands still: nobody works on its partition {partition}."),
        State::Replaying => {
            format!("{key} is replayed: its parked jobs run before newer ones (partition {partition}).")
        }
        State::Working => format!("{key} is worked on: its jobs run one at a time (partition {partition})."),
        State::Done => format!("Nothing of {key} waits: each of its jobs is done (partition {partition})."),
    }
}

fn retry(found: &Found<'_>) -> Option<String> {
    let retry = found.retry?;
    let (offset, attempts, reason) = (retry.offset, retry.attempts, printable(&retry.reason));
    let next = time::rfc3339(Timestamp(retry.next_try));
    Some(format!("The job at offset {offset} failed at try {attempts}: {reason}. The next try: {next}."))
}

fn line(found: &Found<'_>) -> Option<String> {
    let line = found.line?;
    let Some(id) = &line.id else {
        let (since, text) = (time::rfc3339(line.since), printable(&line.reason.text));
        let jobs = are(line.jobs, "job");
        return Some(format!(
            "Paused {since} by {text}. {jobs} in its line. The way out: keylane resume {} --why TEXT.",
            found.key
        ));
    };
    let (rule, text) = (line.reason.rule.as_str(), printable(&line.reason.text));
    let (job, attempt) = (id.as_str(), line.attempts.0);
    let mut said = format!(
        "Job {job} was parked {} ({rule} at try {attempt}): {text}. {} in its line.",
        time::rfc3339(line.since),
        match line.jobs {
            1 => "Nothing is behind it".to_owned(),
            more => format!("{} behind it", are(more - 1, "job")),
        }
    );
    if !line.released {
        said += &format!(" The ways out: keylane parked replay {0}, keylane parked drop {0}.", found.key);
    }
    Some(said)
}

fn owner(found: &Found<'_>) -> Option<String> {
    let partition = found.partition;
    let since = found.view.since.as_deref().map(|since| format!(" since {since}")).unwrap_or_default();
    let worker = found.view.worker.as_deref().unwrap_or("somebody unnamed");
    match found.view.state {
        PartitionState::Held => Some(format!("{worker} holds partition {partition}{since}.")),
        PartitionState::Draining => {
            Some(format!("{worker} is asked to give partition {partition} back: what runs ends, nothing new begins."))
        }
        PartitionState::Expired => {
            Some(format!("{worker} let its session run out: start a worker, or see what stopped that one."))
        }
        PartitionState::Absent if found.state() == State::Done => None,
        _ => {
            let last = found.view.last_known_worker.as_deref();
            let last = last.map_or_else(|| "Nobody had it yet.".to_owned(), |last| format!("{last} had it last."));
            Some(match found.state() {
                State::Parked | State::Paused => format!("Nobody has the partition now. {last}"),
                _ => format!("{last} It goes on when a worker starts: keylane work."),
            })
        }
    }
}

fn backlog(found: &Found<'_>) -> Option<String> {
    let backlog = found.backlog;
    if backlog.jobs == Some(0) {
        return None;
    }
    let Some(first) = &backlog.first else {
        let looked = grouped(backlog.looked_through);
        return Some(format!("Among the first {looked} unfinished records of the partition is none of this key."));
    };
    let jobs = backlog.jobs.map_or_else(|| "More than it could count".to_owned(), |jobs| counted(jobs, "job"));
    let before = match backlog.before {
        0 => "nothing else unfinished is before it".to_owned(),
        more => format!(
            "{} of other keys {} before it, which it waits for only if all hands are busy",
            counted(more, "job"),
            if more == 1 { "is" } else { "are" }
        ),
    };
    Some(format!(
        "On the log: {jobs}; the first is {} at offset {}, enqueued {}; {before}.",
        first.job, first.offset, first.enqueued_at
    ))
}

fn stands(place: &Place) -> String {
    match place {
        Place::Parked { offset, position } => format!("Offset {offset} is number {position} of its parked line."),
        Place::Waiting { offset, position } => {
            format!("Offset {offset} is number {position} of the key's jobs on the log.")
        }
        Place::Done { offset } => format!("Offset {offset} is dealt with."),
    }
}

fn are(count: u64, noun: &str) -> String {
    format!("{} {}", counted(count, noun), if count == 1 { "is" } else { "are" })
}
