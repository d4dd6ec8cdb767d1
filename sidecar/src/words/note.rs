//! One worker's snapshot in one line: for a file that people read.

use std::time::Duration;

use crate::snapshot::{PartitionState, Snapshot, WorkerState};

use super::phrase::{counted, duration, name, partitions};

/// `2026-12-01T14:02:31.412Z jobs / workers: w-0 holds partitions 0-2. 3 jobs are waiting.`, at most a few hundred bytes.
pub fn note(view: &Snapshot) -> String {
    let queue = &view.queue;
    let mut parts = vec![said(view)];
    parts.extend(view.notices.iter().map(|notice| notice.text.clone()));
    let text = parts.join(" ");
    format!("{} {} / {}: {text}", view.observed_at, queue.topic, queue.group)
}

fn said(view: &Snapshot) -> String {
    let Some(worker) = view.workers.first() else {
        return "No worker has said anything yet.".to_owned();
    };
    let who = name(&worker.worker);
    let of = |states: &[PartitionState]| -> Vec<u32> {
        view.partitions.iter().filter(|p| states.contains(&p.state)).map(|p| p.partition).collect()
    };
    match worker.state {
        WorkerState::Stopped => format!("{who} stopped and holds nothing."),
        WorkerState::Starting => format!("{who} starts and holds nothing yet."),
        WorkerState::Unknown => {
            let silent = duration(Duration::from_millis(worker.age_ms));
            let (open, over) = (of(&[PartitionState::Unknown]), of(&[PartitionState::Expired]));
            let mut text = format!("{who} has not reported for {silent}.");
            if !open.is_empty() {
                text.push_str(&format!(" Whether it still holds {} is not known.", partitions(&open)));
            }
            if !over.is_empty() {
                text.push_str(&format!(" It let its session on {} run out.", partitions(&over)));
            }
            text
        }
        WorkerState::Running | WorkerState::Draining => {
            let verb = if worker.state == WorkerState::Draining { "is finishing" } else { "holds" };
            let held = of(&[PartitionState::Held, PartitionState::Draining]);
            let over = of(&[PartitionState::Expired]);
            let mut text = format!("{who} {verb} {}.", partitions(&held));
            if !over.is_empty() {
                text.push_str(&format!(" It let its session on {} run out.", partitions(&over)));
            }
            let known = view.totals.lag_partitions_known as usize == view.partitions.len();
            if let (Some(jobs), true) = (view.totals.lag_jobs, known) {
                let are = if jobs == 1 { "is" } else { "are" };
                text.push_str(&format!(" {} {are} waiting.", super::phrase::capitalised(&counted(jobs, "job"))));
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(change: impl FnOnce(&mut serde_json::Value)) -> Snapshot {
        let mut value: serde_json::Value =
            serde_json::from_str(include_str!("../../../docs/schemas/snapshot.example.json")).unwrap();
        value["workers"].as_array_mut().unwrap().truncate(1);
        value["workers"][0]["worker"] = "w-0".into();
        value["partitions"].as_array_mut().unwrap().truncate(2);
        value["notices"] = serde_json::json!([]);
        for (at, partition) in value["partitions"].as_array_mut().unwrap().iter_mut().enumerate() {
            partition["partition"] = at.into();
            partition["state"] = "held".into();
        }
        change(&mut value);
        let snapshot: Snapshot = serde_json::from_value(value).unwrap();
        Snapshot { totals: crate::Totals::of(&snapshot.partitions), ..snapshot }
    }

    #[test]
    fn a_note_says_who_holds_what_in_a_line() {
        let lag = serde_json::json!({"jobs": 3, "as_of": "2026-12-01T14:02:31.412Z", "why_unknown": null});
        let said = note(&view(|v| {
            v["workers"][0]["state"] = "running".into();
            v["partitions"][0]["lag"] = lag.clone();
            v["partitions"][1]["lag"] = lag;
        }));
        assert!(said.ends_with(": w-0 holds partitions 0, 1. 6 jobs are waiting."), "{said}");
        let of = |state: &str| {
            note(&view(|v| {
                v["workers"][0]["state"] = state.into();
                v["workers"][0]["age_ms"] = 12_000.into();
                for partition in v["partitions"].as_array_mut().unwrap() {
                    partition["state"] = "unknown".into();
                }
            }))
        };
        let silent = of("unknown");
        let expected = "w-0 has not reported for 12 s. Whether it still holds partitions 0, 1 is not known.";
        assert!(silent.ends_with(expected), "{silent}");
        assert!(of("stopped").ends_with("w-0 stopped and holds nothing."));
        assert!(!said.contains('\n') && !silent.contains('\n'));
    }
}
