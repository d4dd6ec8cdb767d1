//! What a worker counts of its own work: plain numbers of the desk's thread, copied when it lets others see them.
//!
//! No number here is of a group, a store or a job: these are counts, durations and times of this process.

use std::time::Duration;

use keylane_sidecar::metrics::{Metric, catalogue, counted::Distribution};

/// Everything that grows, from the start of the process. How jobs ended is in the [`Summary`](super::Summary).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) fetched: u64,
    pub(crate) tries: Tries,
    pub(crate) wait: Histogram,
    pub(crate) attempts: Histogram,
    pub(crate) rejections: Rejections,
    pub(crate) rebalances: Rebalances,
    pub(crate) moved: Moved,
    pub(crate) takeover: Histogram,
    pub(crate) drains: Drains,
    pub(crate) database: Commits,
    pub(crate) offsets: Commits,
}

/// How long handlers took, by what came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tries {
    pub(crate) ok: Histogram,
    pub(crate) error: Histogram,
    pub(crate) timeout: Histogram,
}

/// What was refused because a newer owner was there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rejections {
    pub(crate) claim: u64,
    pub(crate) database: u64,
    pub(crate) offset: u64,
}

/// Changes of the group, as they reached this worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rebalances {
    pub(crate) assigned: u64,
    pub(crate) revoked: u64,
    pub(crate) lost: u64,
    pub(crate) unchanged: u64,
}

/// Partitions that came and went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) acquired: u64,
    pub(crate) released: u64,
    pub(crate) lost: u64,
}

/// How long partitions took to be given back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drains {
    pub(crate) clean: Histogram,
    pub(crate) timed_out: Histogram,
}

/// Commits to one place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Commits {
    pub(crate) ok: u64,
    pub(crate) error: u64,
    pub(crate) refused: u64,
    pub(crate) took: Histogram,
}

impl Counts {
    pub(crate) fn new() -> Self {
        let tries = || Histogram::of(&catalogue::KEYLANE_JOB_DURATION_SECONDS);
        let drains = || Histogram::of(&catalogue::KEYLANE_DRAIN_DURATION_SECONDS);
        let commits = || {
            let took = Histogram::of(&catalogue::KEYLANE_COMMIT_DURATION_SECONDS);
            Commits { ok: 0, error: 0, refused: 0, took }
        };
        Self {
            fetched: 0,
            tries: Tries { ok: tries(), error: tries(), timeout: tries() },
            wait: Histogram::of(&catalogue::KEYLANE_JOB_WAIT_SECONDS),
            attempts: Histogram::of(&catalogue::KEYLANE_JOB_ATTEMPTS),
            rejections: Rejections::default(),
            rebalances: Rebalances::default(),
            moved: Moved::default(),
            takeover: Histogram::of(&catalogue::KEYLANE_TAKEOVER_DURATION_SECONDS),
            drains: Drains { clean: drains(), timed_out: drains() },
            database: commits(),
            offsets: commits(),
        }
    }
}

/// How a commit came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Through,
    ToNothing,
    Refused,
}

impl Commits {
    pub(crate) fn count(&mut self, came: Came, took: Duration) {
        *match came {
            Came::Through => &mut self.ok,
            Came::ToNothing => &mut self.error,
            Came::Refused => &mut self.refused,
        } += 1;
        self.took.add(took);
    }
}

/// How many were at most so large: a fixed number of buckets, found by looking through them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    fn of(metric: &Metric) -> Self {
        Self { bounds: metric.buckets, buckets: vec![0; metric.buckets.len()], count: 0, sum: 0.0 }
    }

    pub(crate) fn add(&mut self, took: Duration) {
        self.add_number(took.as_secs_f64());
    }

    pub(crate) fn add_number(&mut self, number: f64) {
        if let Some(at) = self.bounds.iter().position(|&bound| number <= bound) {
            self.buckets[at] += 1;
        }
        self.count += 1;
        self.sum += number;
    }

    pub(crate) fn written(&self) -> Distribution {
        Distribution { buckets: self.buckets.clone(), count: self.count, sum: self.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_the_smallest_bucket_that_holds_it() {
        let mut attempts = Histogram::of(&catalogue::KEYLANE_JOB_ATTEMPTS);
        for tries in [1.0, 1.0, 4.0, 5.0, 13.0, 14.0] {
            attempts.add_number(tries);
        }
        let written = attempts.written();
        assert_eq!(written, Distribution { buckets: vec![2, 0, 0, 2, 0, 1], count: 6, sum: 38.0 });
    }
}
