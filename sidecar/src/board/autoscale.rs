//! Pure: how much of what waits more workers could really remove.
//!
//! A partition has one owner, so a worker that has only one cannot be helped by another worker. Of a worker with many, all
//! but the largest backlog could go elsewhere; of a partition without an owner, all of it.

use serde::Serialize;

use crate::{
    snapshot::{Freshness, PartitionState, Snapshot, WorkerState},
    words::{change::stuck_since, event::unix_ms},
};

/// For an autoscaler. Numbers that are not known are `null`, and an autoscaler must then leave things as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Autoscale {
    /// Jobs that wait where their number is known.
    pub lag_jobs: Option<u64>,
    /// Of these, jobs that would have another worker if there were more.
    pub removable_lag_jobs: Option<u64>,
    /// Whether the number is known of every partition.
    pub complete: bool,
    /// Workers that take part now.
    pub workers: u32,
    /// More workers than this have nothing to do.
    pub most_useful_workers: Option<u32>,
    /// How old the picture is.
    pub freshness: Freshness,
}

/// What more workers would change.
pub fn autoscale(view: &Snapshot) -> Autoscale {
    let mut removable = 0;
    let mut by_worker: std::collections::BTreeMap<&str, Vec<u64>> = std::collections::BTreeMap::new();
    let now = unix_ms(&view.observed_at).unwrap_or(0);
    for partition in &view.partitions {
        let Some(jobs) = partition.lag.jobs else { continue };
        match (&partition.worker, partition.state) {
            // Its jobs do not wait for a worker.
            (Some(_), PartitionState::Held) if stuck_since(partition, now).is_some() => {}
            (Some(worker), PartitionState::Held | PartitionState::Draining) => {
                by_worker.entry(worker).or_default().push(jobs);
            }
            (_, PartitionState::Contested) => {}
            _ => removable += jobs,
        }
    }
    for jobs in by_worker.values() {
        removable += jobs.iter().sum::<u64>() - jobs.iter().max().copied().unwrap_or(0);
    }
    let takes_part = |state| matches!(state, WorkerState::Starting | WorkerState::Running | WorkerState::Draining);
    Autoscale {
        lag_jobs: view.totals.lag_jobs,
        removable_lag_jobs: view.totals.lag_jobs.map(|_| removable),
        complete: view.totals.lag_partitions_known as usize == view.partitions.len()
            && view.queue.partition_count.is_some(),
        workers: view.workers.iter().filter(|w| takes_part(w.state)).count() as u32,
        most_useful_workers: view.queue.partition_count,
        freshness: view.freshness,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::testing::{AT, View};

    fn of(view: &View) -> Option<u64> {
        autoscale(&view.snapshot()).removable_lag_jobs
    }

    #[test]
    fn one_partitions_backlog_calls_no_second_worker() {
        assert_eq!(of(&View::at(AT).held(&["a"]).lag(0, 5_000)), Some(0));
        assert_eq!(of(&View::at(AT).held(&["a", "b"]).lag(0, 5_000).lag(1, 10)), Some(0));
    }

    #[test]
    fn what_waits_behind_a_busy_worker_can_go_elsewhere() {
        let view = View::at(AT).held(&["a", "a", "a", "b"]).lag(0, 500).lag(1, 40).lag(2, 2).lag(3, 9);
        let view = (0..4).fold(view, |view, partition| view.completed(partition, AT));
        assert_eq!(of(&view), Some(42));
    }

    #[test]
    fn unknown_lag_is_null_and_not_zero() {
        let view = View::at(AT).held(&["a", "a"]);
        assert_eq!(of(&view), None);
        let scale = autoscale(&view.lag(0, 3).snapshot());
        assert_eq!((scale.lag_jobs, scale.removable_lag_jobs, scale.complete), (Some(3), Some(0), false));
    }

    #[test]
    fn jobs_that_nobody_finishes_call_no_worker() {
        let view = View::at(AT).held(&["a", "a"]).lag(0, 500).lag(1, 40).later(90_000).completed(0, AT + 89_000);
        assert_eq!(of(&view.completed(1, AT)), Some(0));
    }
}
