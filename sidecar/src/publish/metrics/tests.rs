use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    Scope, WorkerState,
    metrics::counted::{Counted, Distribution},
    publish::files::Files,
    spool::{self, metrics_beside},
    words::testing::{AT, View},
};

const NOW: Now = Now { boot_ms: 500_000, wall_ms: AT };

/// A worker's folder, looked at.
struct Desk {
    folder: TempDir,
    reading: Reading,
}

impl Desk {
    /// Worker `w` holds partition 0 and has finished 7 jobs.
    fn new() -> Self {
        let mut desk = Self { folder: tempfile::tempdir().unwrap(), reading: Reading::new(None) };
        desk.holds(&View::at(AT).held(&["w"]));
        desk.counts(&serde_json::to_value(counted()).unwrap());
        desk
    }

    fn holds(&mut self, view: &View) {
        let mut said = view.snapshot();
        said.scope = Scope::Worker;
        let health =
            json!({ "turned_boot_ms": NOW.boot_ms, "rebalancing_since_boot_ms": null, "stuck_since_boot_ms": null });
        let file =
            json!({ "schema": spool::SCHEMA, "written_boot_ms": NOW.boot_ms, "health": health, "snapshot": said });
        fs::write(self.path(), file.to_string()).unwrap();
    }

    fn counts(&mut self, file: &Value) {
        fs::write(metrics_beside(&self.path()), file.to_string()).unwrap();
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("snapshot.json")
    }

    /// What a scrape at that moment shows after one more look.
    fn shows(&mut self, now: Now) -> String {
        self.reading.take(Files::new(&self.path()).look());
        let mut page = Page::default();
        told(&mut page, &self.reading, now);
        page.into_text()
    }
}

fn counted() -> Counted {
    let mut counted = Counted::at(NOW.boot_ms);
    counted.add(&catalogue::KEYLANE_WORKER_INFO, &["workers"], 1.0);
    counted.add(&catalogue::KEYLANE_JOBS_FINISHED_TOTAL, &["jobs", "completed"], 7.0);
    let took = Distribution { buckets: vec![0, 7], count: 7, sum: 0.07 };
    let took = Distribution { buckets: [took.buckets, vec![0; 13]].concat(), ..took };
    counted.add_distribution(&catalogue::KEYLANE_JOB_DURATION_SECONDS, &["jobs", "ok"], took);
    counted.add(&catalogue::KEYLANE_PARTITION_OLDEST_WAITING_TIMESTAMP_SECONDS, &["jobs", "0"], 1.5);
    counted.add(&catalogue::KEYLANE_WORKER_SLOTS, &[], 16.0);
    counted
}

const FINISHED: &str = "keylane_jobs_finished_total{topic=\"jobs\",outcome=\"completed\"} 7\n";
const OLDEST: &str = "keylane_partition_oldest_waiting_timestamp_seconds{topic=\"jobs\",partition=\"0\"} 1.5\n";
const SLOTS: &str = "keylane_worker_slots 16\n";

#[test]
fn what_a_worker_counts_is_shown_beside_what_it_holds() {
    let page = Desk::new().shows(NOW);
    for line in [
        "# TYPE keylane_jobs_finished_total counter\n",
        "keylane_worker_info{group=\"workers\"} 1\n",
        FINISHED,
        "keylane_job_duration_seconds_bucket{topic=\"jobs\",outcome=\"ok\",le=\"0.005\"} 0\n",
        "keylane_job_duration_seconds_bucket{topic=\"jobs\",outcome=\"ok\",le=\"0.01\"} 7\n",
        "keylane_job_duration_seconds_bucket{topic=\"jobs\",outcome=\"ok\",le=\"+Inf\"} 7\n",
        "keylane_job_duration_seconds_sum{topic=\"jobs\",outcome=\"ok\"} 0.07\n",
        OLDEST,
        SLOTS,
        "keylane_metrics_reads_total{outcome=\"ok\"} 1\n",
    ] {
        assert!(page.contains(line), "{line}{page}");
    }
}

fn has_any(page: &str) -> bool {
    [FINISHED, OLDEST, SLOTS, "keylane_worker_info", "keylane_job_duration"].iter().any(|part| page.contains(part))
}

#[test]
fn what_a_worker_counts_vanishes_with_its_worker() {
    let mut desk = Desk::new();
    assert!(has_any(&desk.shows(NOW.later(9_000))));
    assert!(!has_any(&desk.shows(NOW.later(10_000))), "both files grew old");
    let restarted = Now { boot_ms: 5_000, wall_ms: AT + 60_000 };
    assert!(!has_any(&desk.shows(restarted)), "they are from before the machine started");

    let mut desk = Desk::new();
    fs::remove_file(metrics_beside(&desk.path())).unwrap();
    assert!(!has_any(&desk.shows(NOW)), "the file is gone");

    let mut desk = Desk::new();
    desk.holds(&View::at(AT).worker("w", WorkerState::Running, Some(0)).silent("w", 30_000));
    assert!(!has_any(&desk.shows(NOW)), "its loop stands still, whoever writes the file");
}

#[test]
fn a_series_of_a_partition_vanishes_with_the_partition() {
    let mut desk = Desk::new();
    desk.holds(&View::at(AT).worker("w", WorkerState::Running, Some(0)));
    let page = desk.shows(NOW);
    assert!(!page.contains("oldest_waiting") && page.contains(FINISHED), "{page}");
}

#[test]
fn the_counts_of_another_queue_or_group_are_not_this_workers() {
    let mut desk = Desk::new();
    let text = serde_json::to_string(&counted()).unwrap().replace("\"jobs\"", "\"other\"").replace("workers", "others");
    desk.counts(&serde_json::from_str(&text).unwrap());
    let page = desk.shows(NOW);
    assert!(!page.contains("other") && !page.contains(FINISHED), "{page}");
}

#[test]
fn a_file_that_holds_more_than_the_catalogue_allows_is_refused_whole_and_counted() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change, &str); 5] = [
        ("a token", |f| f["token"] = json!(918_273_645), "invalid"),
        ("a label of nobody", |f| f["families"][1]["series"][0]["labels"][1] = json!("k-918273645"), "invalid"),
        ("a metric of nobody", |f| f["families"][1]["metric"] = json!("keylane_generation"), "invalid"),
        ("text", |f| f["families"][1]["series"][0]["is"] = json!("918273645"), "invalid"),
        ("another version", |f| f["schema"] = json!("keylane.metrics-file/v2"), "version"),
    ];
    for (what, change, outcome) in changes {
        let mut desk = Desk::new();
        assert!(has_any(&desk.shows(NOW)));
        let mut file = serde_json::to_value(counted()).unwrap();
        change(&mut file);
        desk.counts(&file);
        let page = desk.shows(NOW);
        assert!(!has_any(&page) && !page.contains("918273645"), "{what} was shown: {page}");
        assert!(page.contains(&format!("keylane_metrics_reads_total{{outcome=\"{outcome}\"}} 1\n")), "{what}: {page}");
        let failures = u64::from(outcome == "invalid");
        assert!(page.contains(&format!("keylane_redaction_failures_total {failures}\n")), "{what}: {page}");
        assert!(page.contains("keylane_partitions{"), "what it holds is another file");
    }
}

#[test]
fn half_a_file_and_one_that_is_too_large_are_refused_and_alarm_nobody() {
    let mut desk = Desk::new();
    for bytes in [b"{\"schema\":".to_vec(), vec![b' '; (4 << 20) + 1]] {
        fs::write(metrics_beside(&desk.path()), bytes).unwrap();
        let page = desk.shows(NOW);
        assert!(!has_any(&page) && page.contains("keylane_redaction_failures_total 0\n"), "{page}");
    }
}
