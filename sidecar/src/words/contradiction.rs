//! Pure: which report says otherwise than another. It ranks nobody: who is right is the store's to say.

use crate::snapshot::{Freshness, PartitionState, Snapshot, Totals, WorkerState};

use super::phrase::{counted, name, names, partitions as list};

/// A sentence for each contradiction; empty if all reports agree.
pub fn contradictions(view: &Snapshot) -> Vec<String> {
    let mut found = contested(view);
    for worker in &view.workers {
        let theirs = |state: PartitionState| {
            let of_theirs = view.partitions.iter().filter(move |p| p.state == state);
            of_theirs.filter(|p| p.worker.as_deref() == Some(&worker.worker)).map(|p| p.partition).collect::<Vec<_>>()
        };
        let called = name(&worker.worker);
        let held: Vec<u32> = {
            let mut held = theirs(PartitionState::Held);
            held.extend(theirs(PartitionState::Draining));
            held.sort_unstable();
            held
        };
        if worker.state == WorkerState::Stopped && !held.is_empty() {
            found.push(format!("{called} says it stopped, and that it holds {}.", list(&held)));
        }
        if worker.freshness != Freshness::Fresh && !held.is_empty() {
            found.push(format!("{called} is silent, yet {} shown as its own.", is(&held)));
        }
        let claimed = view.partitions.iter().filter(|p| p.claimants.contains(&worker.worker)).count();
        if let Some(said) = worker.partitions_held {
            let listed = held.len() + claimed;
            if said as usize != listed && worker.freshness == Freshness::Fresh {
                let (said, listed) = (counted(u64::from(said), "partition"), counted(listed as u64, "partition"));
                found.push(format!("{called} says it holds {said}; the list of partitions gives it {listed}."));
            }
        }
        if worker.session.remaining_ms == Some(0) && !held.is_empty() {
            found.push(format!("The session of {called} should have run out, and it says it holds {}.", list(&held)));
        }
    }
    if Totals::of(&view.partitions) != view.totals {
        found.push("The counts by state do not agree with the list of partitions.".to_owned());
    }
    found
}

fn contested(view: &Snapshot) -> Vec<String> {
    let mut groups: Vec<(&[String], Vec<u32>)> = Vec::new();
    for partition in view.partitions.iter().filter(|p| p.state == PartitionState::Contested) {
        match groups.iter_mut().find(|(claimants, _)| *claimants == partition.claimants) {
            Some((_, partitions)) => partitions.push(partition.partition),
            None => groups.push((&partition.claimants, vec![partition.partition])),
        }
    }
    let told = groups.iter().map(|(claimants, partitions)| {
        let all = if claimants.len() == 2 { "both" } else { "all" };
        format!("{} {all} say they hold {}.", names(claimants), list(partitions))
    });
    told.collect()
}

fn is(partitions: &[u32]) -> String {
    let verb = if partitions.len() == 1 { "is" } else { "are" };
    // The sentence goes on: no capital letter.
    format!("{} {verb}", list(partitions))
}

#[cfg(test)]
mod tests;
