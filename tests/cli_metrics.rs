//! What a worker counts, as its sidecar shows it: right after a real run, and gone with the worker.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::fs;

use process::{Place, sidecar::Sidecar, wait_until, worker::Worker};

const FILE: &str = "snapshot.json";

fn place() -> Place {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "3"]).expect(0);
    place
}

/// The value of a series, `None` if it is not shown.
fn value(page: &str, series: &str) -> Option<f64> {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

#[track_caller]
fn assert_shown(page: &str, all: &[(&str, f64)]) {
    for (series, expected) in all {
        assert_eq!(value(page, series), Some(*expected), "{series} in: {page}");
    }
}

/// 20 jobs are done, one more at its second try; one is rejected, and its follower goes to the line with it.
#[test]
fn a_workers_counts_are_right_after_a_real_run_and_vanish_with_the_worker() {
    let place = place();
    let answer = r#"case "$line" in
*bad*) echo '{"outcome":"reject","reason":"no"}';;
*again*) if [ -e tried ]; then echo '{"outcome":"done"}'; else : > tried; echo '{"outcome":"retry","reason":"later"}'; fi;;
*) echo '{"outcome":"done"}';; esac"#;
    let mut jobs: String = (0..20).map(|n| format!("{{\"k\":\"k{}\"}}\n", n % 7)).collect();
    jobs.push_str("{\"k\":\"again\"}\n{\"k\":\"bad\"}\n{\"k\":\"bad\"}\n");
    place.run_with_input(&["enqueue", "-", "--key", "/k"], jobs).expect(0);
    let sidecar = Sidecar::start(&place, FILE);
    assert_eq!(value(&sidecar.get("/metrics").body, "keylane_worker_slots"), None, "there is no worker yet");
    let worker = Worker::start(&place, "w", &["--snapshot-file", FILE, "--retry-first", "10ms"], answer);
    let finished = |page: &str, outcome| {
        value(page, &format!("keylane_jobs_finished_total{{topic=\"jobs\",outcome=\"{outcome}\"}}"))
    };
    let mut page = String::new();
    wait_until("all is finished and committed", || {
        page = sidecar.get("/metrics").body;
        finished(&page, "completed") == Some(21.0)
            && finished(&page, "parked") == Some(2.0)
            && value(&page, "keylane_lag_jobs{topic=\"jobs\"}") == Some(0.0)
            && value(&page, "keylane_worker_slots_busy") == Some(0.0)
    });
    assert_shown(
        &page,
        &[
            ("keylane_worker_info{group=\"workers\"}", 1.0),
            ("keylane_jobs_fetched_total{topic=\"jobs\"}", 23.0),
            ("keylane_jobs_finished_total{topic=\"jobs\",outcome=\"retried\"}", 1.0),
            ("keylane_jobs_finished_total{topic=\"jobs\",outcome=\"refused\"}", 0.0),
            ("keylane_job_duration_seconds_count{topic=\"jobs\",outcome=\"ok\"}", 21.0),
            ("keylane_job_duration_seconds_count{topic=\"jobs\",outcome=\"error\"}", 2.0),
            ("keylane_job_duration_seconds_count{topic=\"jobs\",outcome=\"timeout\"}", 0.0),
            ("keylane_job_wait_seconds_count{topic=\"jobs\"}", 22.0),
            ("keylane_job_attempts_count{topic=\"jobs\"}", 21.0),
            ("keylane_job_attempts_sum{topic=\"jobs\"}", 22.0),
            ("keylane_jobs_in_flight{topic=\"jobs\"}", 0.0),
            ("keylane_jobs_buffered{topic=\"jobs\"}", 0.0),
            ("keylane_keys_blocked{topic=\"jobs\"}", 0.0),
            ("keylane_worker_slots", 4.0),
            ("keylane_partitions_stalled{topic=\"jobs\"}", 0.0),
            ("keylane_partitions_moved_total{direction=\"acquired\"}", 3.0),
            ("keylane_takeover_duration_seconds_count", 3.0),
            ("keylane_fence_rejections_total{topic=\"jobs\",stage=\"database\"}", 0.0),
            ("keylane_session_timeout_seconds", 15.0),
            ("keylane_redaction_failures_total", 0.0),
        ],
    );
    for target in ["database", "offsets"] {
        let ok = value(&page, &format!("keylane_commits_total{{target=\"{target}\",outcome=\"ok\"}}"));
        let timed = value(&page, &format!("keylane_commit_duration_seconds_count{{target=\"{target}\"}}"));
        assert!(ok >= Some(1.0) && timed >= ok, "{target}: {page}");
    }
    assert_eq!(
        value(&page, "keylane_partition_oldest_waiting_timestamp_seconds{topic=\"jobs\",partition=\"0\"}"),
        None
    );

    drop(worker);
    wait_until("it is gone", || {
        page = sidecar.get("/metrics").body;
        value(&page, "keylane_worker_slots").is_none()
    });
    let of_worker = ["keylane_jobs_", "keylane_job_", "keylane_commit", "keylane_worker_", "keylane_fence_"];
    let left: Vec<&str> = page.lines().filter(|line| of_worker.iter().any(|part| line.contains(part))).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_hostile_file_in_the_place_of_a_workers_counts_is_not_shown() {
    let place = place();
    let sidecar = Sidecar::start(&place, FILE);
    let worker = Worker::start(&place, "w", &["--snapshot-file", FILE], r#"echo '{"outcome":"done"}'"#);
    wait_until("it is shown", || value(&sidecar.get("/metrics").body, "keylane_worker_slots").is_some());
    // It writes on; whoever may write into its folder can win now and then.
    let path = place.path().join("snapshot.metrics.json");
    let hostile = fs::read_to_string(&path).unwrap().replacen("\"completed\"", "\"k-918273645\"", 1);
    wait_until("it was read", || {
        let new = place.path().join("hostile");
        fs::write(&new, &hostile).unwrap();
        fs::rename(&new, &path).unwrap();
        let page = sidecar.get("/metrics").body;
        assert!(!page.contains("918273645"));
        value(&page, "keylane_redaction_failures_total") >= Some(1.0)
    });
    wait_until("its own word is shown again", || {
        value(&sidecar.get("/metrics").body, "keylane_worker_slots").is_some()
    });
    worker.end();
}
