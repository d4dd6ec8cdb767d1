//! What a worker counts -> the metrics file. As in a snapshot, every number is named where it is copied, and none is of a
//! group, a store or a job.

use keylane_producer::Timestamp;
use keylane_sidecar::metrics::{Metric, catalogue as all, counted::Counted};

use super::{name, own::Speaker};
use crate::{
    clock::BootTime,
    worker::{
        counts::{Commits, Histogram},
        glance::{Finished, Glance},
    },
};

/// Above so many partitions only totals are told: a scrape stays small.
const MOST_PARTITIONS: usize = 256;

/// What the worker counted up to the glance, written `now`, which is `wall` on the clock on the wall.
pub(crate) fn of_worker(speaker: &Speaker, glance: &Glance, now: BootTime, wall: Timestamp) -> Counted {
    let (topic, group) = (name(speaker.queue.name.as_str()), name(speaker.group.as_str()));
    let mut file = File { to: Counted::at(now.millis()), topic: &topic };
    let (counts, load) = (&glance.counts, &glance.load);
    file.one(&all::KEYLANE_WORKER_INFO, &[&group], 1);
    file.of_topic(&all::KEYLANE_JOBS_FETCHED_TOTAL, counts.fetched);
    file.finished(&glance.finished);
    file.spread(&all::KEYLANE_JOB_DURATION_SECONDS, &[&topic, "ok"], &counts.tries.ok);
    file.spread(&all::KEYLANE_JOB_DURATION_SECONDS, &[&topic, "error"], &counts.tries.error);
    file.spread(&all::KEYLANE_JOB_DURATION_SECONDS, &[&topic, "timeout"], &counts.tries.timeout);
    file.spread(&all::KEYLANE_JOB_WAIT_SECONDS, &[&topic], &counts.wait);
    file.spread(&all::KEYLANE_JOB_ATTEMPTS, &[&topic], &counts.attempts);
    file.of_topic(&all::KEYLANE_JOBS_IN_FLIGHT, load.running);
    file.of_topic(&all::KEYLANE_JOBS_BUFFERED, load.buffered);
    file.of_topic(&all::KEYLANE_KEYS_BLOCKED, load.keys_blocked);
    file.one(&all::KEYLANE_WORKER_SLOTS, &[], load.slots);
    file.one(&all::KEYLANE_WORKER_SLOTS_BUSY, &[], load.slots_busy);
    let refused = &counts.rejections;
    for (stage, count) in [("claim", refused.claim), ("database", refused.database), ("offset", refused.offset)] {
        file.one(&all::KEYLANE_FENCE_REJECTIONS_TOTAL, &[&topic, stage], count);
    }
    file.oldest_waiting(glance, wall);
    file.of_topic(&all::KEYLANE_PARTITIONS_STALLED, load.stalled);
    let met = &counts.rebalances;
    for (reason, count) in
        [("assigned", met.assigned), ("revoked", met.revoked), ("lost", met.lost), ("unchanged", met.unchanged)]
    {
        file.one(&all::KEYLANE_REBALANCES_TOTAL, &[reason], count);
    }
    let moved = &counts.moved;
    for (direction, count) in [("acquired", moved.acquired), ("released", moved.released), ("lost", moved.lost)] {
        file.one(&all::KEYLANE_PARTITIONS_MOVED_TOTAL, &[direction], count);
    }
    file.spread(&all::KEYLANE_TAKEOVER_DURATION_SECONDS, &[], &counts.takeover);
    file.spread(&all::KEYLANE_DRAIN_DURATION_SECONDS, &["clean"], &counts.drains.clean);
    file.spread(&all::KEYLANE_DRAIN_DURATION_SECONDS, &["timed_out"], &counts.drains.timed_out);
    let places = [("database", &counts.database), ("offsets", &counts.offsets)];
    places.iter().for_each(|(target, commits)| file.commits(target, commits));
    for (target, commits) in places {
        file.spread(&all::KEYLANE_COMMIT_DURATION_SECONDS, &[target], &commits.took);
    }
    file.to.add(&all::KEYLANE_SESSION_TIMEOUT_SECONDS, &[], speaker.session.as_secs_f64());
    let polled = wall.0.saturating_sub(i64::try_from(now.since(load.polled).as_millis()).unwrap_or(i64::MAX));
    file.to.add(&all::KEYLANE_POLL_LAST_TIMESTAMP_SECONDS, &[], seconds(polled.max(0)));
    file.to
}

struct File<'a> {
    to: Counted,
    topic: &'a str,
}

impl File<'_> {
    fn one(&mut self, metric: &Metric, labels: &[&str], count: u64) {
        self.to.add(metric, labels, count as f64);
    }

    fn of_topic(&mut self, metric: &Metric, count: u64) {
        self.one(metric, &[self.topic], count);
    }

    fn spread(&mut self, metric: &Metric, labels: &[&str], histogram: &Histogram) {
        self.to.add_distribution(metric, labels, histogram.written());
    }

    fn finished(&mut self, finished: &Finished) {
        for (outcome, count) in [
            ("completed", finished.completed),
            ("retried", finished.retried),
            ("parked", finished.parked),
            ("dead_lettered", finished.dead_lettered),
            ("skipped", finished.skipped),
            ("refused", finished.refused),
            ("abandoned", finished.abandoned),
        ] {
            self.one(&all::KEYLANE_JOBS_FINISHED_TOTAL, &[self.topic, outcome], count);
        }
    }

    fn commits(&mut self, target: &str, commits: &Commits) {
        for (outcome, count) in [("ok", commits.ok), ("error", commits.error), ("refused", commits.refused)] {
            self.one(&all::KEYLANE_COMMITS_TOTAL, &[target, outcome], count);
        }
    }

    /// A job's own time is its producer's word: one that is not between the epoch and now is told as that.
    fn oldest_waiting(&mut self, glance: &Glance, wall: Timestamp) {
        if glance.held.len() > MOST_PARTITIONS {
            return;
        }
        for held in &glance.held {
            if let Some(at) = held.oldest {
                let labels = [self.topic, &held.partition.to_string()];
                let at = seconds(at.0.clamp(0, wall.0.max(0)));
                self.to.add(&all::KEYLANE_PARTITION_OLDEST_WAITING_TIMESTAMP_SECONDS, &labels, at);
            }
        }
    }
}

fn seconds(unix_ms: i64) -> f64 {
    unix_ms as f64 / 1_000.0
}
