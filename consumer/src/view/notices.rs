//! What a person should know, in sentences of names and counts.

use keylane_producer::Partition;
use keylane_sidecar::Notice;

use super::{Seen, name};

/// Most workers that get a sentence each; the contract allows 50 notices.
const MOST_WORKERS: usize = 20;

/// Worst first.
pub(super) fn of(seen: &Seen<'_>) -> Vec<Notice> {
    let mut notices = Vec::new();
    let gone: Vec<_> = seen.members.members.iter().filter(|m| m.expired).collect();
    for member in gone.iter().take(MOST_WORKERS) {
        let wait = match member.partitions.len() {
            0 => "It held no partition.".to_owned(),
            _ => format!("{} for a new owner.", wait(&member.partitions)),
        };
        let (silent, session) = (member.silent_for.as_secs(), member.session.unwrap_or_default().as_secs_f64());
        let who = name(&member.worker);
        notices.push(notice(
            "session_ran_out",
            &format!("{who} went silent {silent} s ago and its {session} s session has run out. {wait}"),
        ));
    }
    if gone.len() > MOST_WORKERS {
        notices.push(notice("more_sessions_ran_out", &format!("So did {} other workers.", gone.len() - MOST_WORKERS)));
    }
    if seen.members.members.is_empty() {
        notices.push(notice("no_worker", &format!("No worker is in group {}.", seen.group)));
    }
    let rows = seen.store.unwrap_or_default();
    let stopped = rows.iter().flat_map(|row| &row.stopped).filter(|key| !key.released).count();
    if stopped > 0 {
        notices.push(notice("keys_stopped", &format!("{} until someone releases them.", stand_still(stopped))));
    }
    let refused: u64 = rows.iter().flat_map(|row| &row.refused).map(|refused| refused.writes).sum();
    if refused > 0 {
        notices.push(notice(
            "writes_refused",
            &format!("Writes of workers that had lost their partition were refused: {refused} in all."),
        ));
    }
    let quarantined: u64 = rows.iter().map(|row| row.quarantined).sum();
    if quarantined > 0 {
        notices.push(notice(
            "records_quarantined",
            &format!("Records that are no jobs were put in quarantine: {quarantined} in all."),
        ));
    }
    notices
}

/// "Partition 3 waits", "Partitions 3, 5 wait", and not more than fit a sentence.
fn wait(partitions: &[Partition]) -> String {
    const MOST: usize = 20;
    let shown: Vec<String> = partitions.iter().take(MOST).map(Partition::to_string).collect();
    match partitions.len() {
        1 => format!("Partition {} waits", shown[0]),
        many if many > MOST => format!("Partitions {} and {} more wait", shown.join(", "), many - MOST),
        _ => format!("Partitions {} wait", shown.join(", ")),
    }
}

fn stand_still(keys: usize) -> String {
    if keys == 1 { "1 key stands still".to_owned() } else { format!("{keys} keys stand still") }
}

fn notice(code: &str, text: &str) -> Notice {
    Notice { code: code.to_owned(), text: text.chars().take(400).collect() }
}
