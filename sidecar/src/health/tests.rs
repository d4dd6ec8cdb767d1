use std::fs;

use super::*;
use crate::{
    Scope,
    spool::{Health, SCHEMA},
    words::testing::{AT, View},
};

const NOW: Now = Now { boot_ms: 10_000_000, wall_ms: AT };
const WITHIN: Duration = Duration::from_secs(30);

/// What worker `w` wrote just now, in that state.
fn said(state: WorkerState) -> Spooled {
    let mut snapshot = View::at(AT).worker("w", state, Some(2)).snapshot();
    snapshot.scope = Scope::Worker;
    let health = Health { turned_boot_ms: NOW.boot_ms, rebalancing_since_boot_ms: None, stuck_since_boot_ms: None };
    Spooled { schema: SCHEMA, written_boot_ms: NOW.boot_ms, health, snapshot }
}

/// Whether it is live, ready, started.
fn asked(said: &Spooled, now: Now) -> [bool; 3] {
    [Question::Live, Question::Ready, Question::Startup].map(|question| is_well(&answer(question, said, now, WITHIN)))
}

fn words(question: Question, said: &Spooled) -> String {
    answer(question, said, NOW, WITHIN).iter().map(|check| format!("{check}\n")).collect()
}

#[test]
fn a_worker_is_ready_from_its_first_proof_until_it_drains_and_live_until_it_ends() {
    let lives = [
        (WorkerState::Starting, [true, false, true]),
        (WorkerState::Running, [true, true, true]),
        (WorkerState::Draining, [true, false, true]),
        (WorkerState::Stopped, [false, false, false]),
        (WorkerState::Unknown, [false, false, false]),
    ];
    for (state, expected) in lives {
        assert_eq!(asked(&said(state), NOW), expected, "{state:?}");
    }
    assert!(words(Question::Ready, &said(WorkerState::Draining)).contains("[-]drain in progress: 2 jobs left\n"));
}

#[test]
fn a_worker_without_a_partition_is_ready() {
    let said = said(WorkerState::Running);
    assert_eq!(said.snapshot.partitions, []);
    assert_eq!(asked(&said, NOW), [true; 3], "else a worker too many would hold up a roll-out for ever");
}

#[test]
fn a_loop_that_stands_is_not_live_though_its_file_is_written() {
    let mut said = said(WorkerState::Running);
    said.health.turned_boot_ms -= 29_999;
    assert_eq!(asked(&said, NOW), [true; 3]);
    said.health.turned_boot_ms -= 1;
    assert_eq!(asked(&said, NOW), [false; 3]);
    assert!(words(Question::Live, &said).contains("[-]loop stands still, turned 30 s ago\n"));
}

#[test]
fn a_file_that_grows_old_is_not_live_and_one_from_before_the_machine_started_says_nothing() {
    let said = said(WorkerState::Running);
    assert_eq!(asked(&said, NOW.later(30_000)), [false; 3]);
    let restarted = Now { boot_ms: 5_000, ..NOW };
    assert_eq!(asked(&said, restarted), [false; 3]);
}

#[test]
fn a_rebalance_is_no_reason_to_start_it_anew_and_it_stays_ready_for_five_minutes() {
    let mut said = said(WorkerState::Running);
    said.health.rebalancing_since_boot_ms = Some(NOW.boot_ms - 3_000);
    assert_eq!(asked(&said, NOW), [true; 3]);
    assert!(words(Question::Ready, &said).contains("[~]group rebalancing for 3.0 s\n"));
    said.health.rebalancing_since_boot_ms = Some(NOW.boot_ms - 300_000);
    assert_eq!(asked(&said, NOW), [true, false, true]);
    assert!(words(Question::Ready, &said).contains("[-]group rebalancing for 5 min\n"));
}

#[test]
fn work_that_stands_for_no_known_reason_is_a_reason_after_fifteen_minutes() {
    let mut said = said(WorkerState::Running);
    said.health.stuck_since_boot_ms = Some(NOW.boot_ms - 899_000);
    assert_eq!(asked(&said, NOW), [true; 3]);
    assert!(words(Question::Live, &said).contains("[~]work stands still for 14 min\n"));
    said.health.stuck_since_boot_ms = Some(NOW.boot_ms - 900_000);
    assert_eq!(asked(&said, NOW), [false, true, true]);
}

#[test]
fn a_file_that_cannot_be_read_says_nothing_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.json");
    let said = |path: &Path| -> String {
        let checks = ask(Question::Live, path, WITHIN);
        assert!(!is_well(&checks));
        checks.iter().map(|check| format!("{check}\n")).collect()
    };
    assert_eq!(said(&path), "[-]file is not there or cannot be read\n");
    fs::write(&path, "{\"schema\":").unwrap();
    assert_eq!(said(&path), "[-]file is not whole\n");
    fs::write(&path, "{\"schema\":\"keylane.snapshot-file/v2\"}").unwrap();
    assert_eq!(said(&path), "[-]file is of another version\n");
    fs::write(&path, "{\"schema\":\"keylane.snapshot-file/v1\",\"token\":918273645}").unwrap();
    assert_eq!(said(&path), "[-]file breaks the contract\n", "and nothing of it is repeated");
}
