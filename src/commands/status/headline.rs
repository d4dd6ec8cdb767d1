//! Pure: the first sentence, worst first.

use keylane_sidecar::{PartitionState, PartitionView, Snapshot};

use crate::{
    output::{counted, grouped},
    time,
};

/// What a person on call must know before anything else.
pub(super) fn of(snapshot: &Snapshot, stopped_keys: usize) -> String {
    let stand = if stopped_keys == 1 { "stands" } else { "stand" };
    let still = (stopped_keys > 0).then(|| format!("{} {stand} still.", counted(stopped_keys as u64, "key")));
    let jobs = jobs(snapshot);
    let all = snapshot.partitions.len() as u64;
    let sentences: Vec<String> = if u64::from(snapshot.totals.held) == all {
        let held = match all {
            1 => format!("The only partition is held; {jobs}."),
            _ => format!("All {} partitions are held; {jobs}.", grouped(all)),
        };
        still.into_iter().chain([held]).collect()
    } else {
        ownership(snapshot).into_iter().chain(still).chain([format!("{}.", capitalised(&jobs))]).collect()
    };
    sentences.join(" ")
}

/// What is not as it should be with the owners.
fn ownership(snapshot: &Snapshot) -> Vec<String> {
    let totals = &snapshot.totals;
    let all = snapshot.partitions.len() as u32;
    let working = totals.held + totals.draining;
    if snapshot.workers.is_empty() {
        let (queue, group) = (&snapshot.queue.topic, &snapshot.queue.group);
        return vec![format!("Nobody works on queue '{queue}': group '{group}' has no worker.")];
    }
    if working == all {
        let are = if totals.draining == 1 { "is" } else { "are" };
        let draining = grouped(u64::from(totals.draining));
        return vec![match all {
            1 => "The only partition is being handed over.".to_owned(),
            _ => format!("All {} have a working owner; {draining} {are} being handed over.", partitions(all)),
        }];
    }
    let has = if working == 1 { "has" } else { "have" };
    let mut sentences = vec![match working {
        0 => format!("None of {} has a working owner.", partitions(all)),
        _ => format!("{} of {} {has} a working owner.", grouped(u64::from(working)), partitions(all)),
    }];
    let mut silent: Vec<&str> =
        of_state(snapshot, PartitionState::Expired).filter_map(|p| p.worker.as_deref()).collect();
    silent.sort_unstable();
    silent.dedup();
    for worker in silent.iter().take(MOST_NAMES) {
        let theirs = of_state(snapshot, PartitionState::Expired).filter(|p| p.worker.as_deref() == Some(worker));
        sentences.push(format!("{worker} let its session on {} run out.", list(theirs)));
    }
    if silent.len() > MOST_NAMES {
        sentences.push(format!("So did {} other workers.", silent.len() - MOST_NAMES));
    }
    if totals.absent > 0 {
        sentences.push(format!("Nobody holds {}.", list(of_state(snapshot, PartitionState::Absent))));
    }
    sentences
}

/// Workers that are named; the table has all.
const MOST_NAMES: usize = 3;

fn of_state(snapshot: &Snapshot, state: PartitionState) -> impl Iterator<Item = &PartitionView> {
    snapshot.partitions.iter().filter(move |p| p.state == state)
}

fn jobs(snapshot: &Snapshot) -> String {
    let totals = &snapshot.totals;
    let known_of_all = totals.lag_partitions_known as usize == snapshot.partitions.len();
    match (totals.lag_jobs, known_of_all) {
        (Some(0), true) => "nothing is waiting".to_owned(),
        (Some(1), true) => "1 job is not finished".to_owned(),
        (Some(jobs), true) => format!("{} are not finished", counted(jobs, "job")),
        (Some(jobs), false) => format!("at least {} are not finished", counted(jobs, "job")),
        (None, _) => "how many jobs wait is not known".to_owned(),
    }
}

/// "partition 3", "partitions 0-2, 7", "12 partitions (0-11)".
fn list<'a>(found: impl Iterator<Item = &'a PartitionView>) -> String {
    let numbers: Vec<u32> = found.map(|p| p.partition).collect();
    let ranges = time::ranges(&numbers);
    match numbers.len() {
        1 => format!("partition {ranges}"),
        2..10 => format!("partitions {ranges}"),
        many => format!("{many} partitions ({ranges})"),
    }
}

fn partitions(count: u32) -> String {
    counted(u64::from(count), "partition")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use keylane_sidecar::{Freshness, Lag, Observer, QueueView, Scope, Totals, WorkerSession, WorkerState, WorkerView};

    use super::*;
    use PartitionState::{Absent, Draining, Expired, Held};

    /// One partition for each state, with that many jobs each.
    fn seen(states: &[PartitionState], jobs: Option<u64>) -> Snapshot {
        let view = |(partition, &state): (usize, &PartitionState)| PartitionView {
            partition: partition as u32,
            state,
            worker: (state != Absent).then(|| "w1".to_owned()),
            claimants: vec![],
            last_known_worker: None,
            since: None,
            session_remaining_ms: None,
            lag: Lag { jobs, as_of: None, why_unknown: None },
            last_completed_at: None,
            jobs_in_flight: None,
            age_ms: None,
            token_present: None,
            keys_parked: None,
            keys: Vec::new(),
        };
        let partitions: Vec<_> = states.iter().enumerate().map(view).collect();
        let text = String::new;
        let worker = WorkerView {
            worker: "w1".into(),
            state: WorkerState::Running,
            since: None,
            last_seen_at: text(),
            age_ms: 0,
            freshness: Freshness::Fresh,
            partitions_held: None,
            jobs_in_flight: None,
            session: WorkerSession { timeout_ms: None, remaining_ms: None, basis: "none" },
        };
        Snapshot {
            schema: "",
            scope: Scope::Group,
            observed_at: text(),
            observer: Observer { name: text(), version: text() },
            queue: QueueView { cluster: text(), topic: "jobs".into(), group: "workers".into(), partition_count: None },
            freshness: Freshness::Fresh,
            stale_after_ms: 1_000,
            workers: if states.iter().all(|&s| s == Absent) { vec![] } else { vec![worker] },
            totals: Totals::of(&partitions),
            partitions,
            notices: vec![],
        }
    }

    #[test]
    fn the_headline_says_the_worst_first() {
        for (states, jobs, stopped, text) in [
            (&[Held][..], Some(0), 0, "The only partition is held; nothing is waiting."),
            (&[Held; 12], Some(0), 0, "All 12 partitions are held; nothing is waiting."),
            (&[Held; 2], Some(2_000), 0, "All 2 partitions are held; 4,000 jobs are not finished."),
            (&[Held; 2], Some(1), 2, "2 keys stand still. All 2 partitions are held; 2 jobs are not finished."),
            (&[Held; 2], None, 0, "All 2 partitions are held; how many jobs wait is not known."),
            (
                &[Held, Draining],
                Some(0),
                0,
                "All 2 partitions have a working owner; 1 is being handed over. Nothing is waiting.",
            ),
            (
                &[Held, Expired, Absent, Expired],
                Some(3),
                1,
                "1 of 4 partitions has a working owner. w1 let its session on partitions 1, 3 run out. Nobody holds \
                 partition 2. 1 key stands still. 12 jobs are not finished.",
            ),
            (
                &[Expired; 12],
                Some(0),
                0,
                "None of 12 partitions has a working owner. w1 let its session on 12 partitions (0-11) run out. Nothing is \
                 waiting.",
            ),
            (
                &[Absent; 2],
                Some(6),
                0,
                "Nobody works on queue 'jobs': group 'workers' has no worker. 12 jobs are not finished.",
            ),
        ] {
            assert_eq!(of(&seen(states, jobs), stopped), text);
        }
    }
}
