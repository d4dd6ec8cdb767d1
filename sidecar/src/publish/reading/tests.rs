use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    Freshness, PartitionState, Scope,
    publish::files::Files,
    spool,
    words::{event::rfc3339, testing::View},
};

/// A worker's folder, looked at.
struct Desk {
    folder: TempDir,
    reading: Reading,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), reading: Reading::new(None) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("snapshot.json")
    }

    fn look(&mut self) {
        self.reading.take(Files::new(&self.path()).look());
    }

    fn reads(&mut self, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(), bytes).unwrap();
        self.look();
    }

    fn served(&self, now: Now) -> Snapshot {
        self.reading.served(now).unwrap().0
    }
}

/// What worker `w` writes at that moment: it holds partition 0.
fn file(at: Now) -> Value {
    let mut said = View::at(at.wall_ms).held(&["w"]).snapshot();
    said.scope = Scope::Worker;
    let health =
        json!({ "turned_boot_ms": at.boot_ms, "rebalancing_since_boot_ms": null, "stuck_since_boot_ms": null });
    json!({ "schema": spool::SCHEMA, "written_boot_ms": at.boot_ms, "health": health, "snapshot": said })
}

const NOW: Now = Now { boot_ms: 500_000, wall_ms: crate::words::testing::AT };

fn held(snapshot: &Snapshot) -> bool {
    snapshot.freshness == Freshness::Fresh && snapshot.partitions[0].state == PartitionState::Held
}

#[test]
fn what_a_worker_wrote_is_served_with_its_age() {
    let mut desk = Desk::new();
    assert!(desk.reading.served(NOW).is_none());
    desk.look();
    desk.reads(file(NOW).to_string());
    assert!(held(&desk.served(NOW)));
    assert_eq!(desk.reading.served(NOW.later(1_234)).unwrap().1, 1_234);
    assert_eq!((desk.reading.counts().ok, desk.reading.counts().missing), (1, 1));
}

#[test]
fn a_file_that_holds_more_than_it_may_is_counted_and_nobody_vouches_for_the_one_before() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change, u64); 8] = [
        ("no word of its health", |f| f["health"] = json!(null), 1),
        ("a token in it", |f| f["health"]["token"] = json!(918_273_645), 1),
        ("a generation", |f| f["snapshot"]["generation"] = json!(918_273_645), 1),
        ("a token beside it", |f| f["token"] = json!(918_273_645), 1),
        ("markup in a name", |f| f["snapshot"]["workers"][0]["worker"] = json!("<b>"), 1),
        ("another worker's partition", |f| f["snapshot"]["partitions"][0]["worker"] = json!("v"), 1),
        ("a group's view", |f| f["snapshot"]["scope"] = json!("group"), 1),
        ("another version", |f| f["schema"] = json!("keylane.snapshot-file/v2"), 0),
    ];
    for (what, change, failures) in changes {
        let mut desk = Desk::new();
        desk.reads(file(NOW).to_string());
        let mut broken = file(NOW.later(1_000));
        change(&mut broken);
        desk.reads(broken.to_string());
        let now = NOW.later(1_000);
        let served = desk.served(now);
        assert!(!held(&served), "{what}");
        assert_eq!(served.partitions[0].state, PartitionState::Unknown, "{what}");
        assert_eq!((desk.reading.counts().redaction_failures, served.notices.len()), (failures, 1), "{what}");
        assert!(!serde_json::to_string(&served).unwrap().contains("918273645"), "{what}");
        desk.reads(file(now).to_string());
        assert!(held(&desk.served(now)), "a good one is believed again after {what}");
    }
}

#[test]
fn a_torn_a_huge_or_a_strange_file_is_refused_and_alarms_nobody() {
    let whole = file(NOW).to_string();
    let huge = " ".repeat(5 << 20) + &whole;
    for bytes in [&whole[..whole.len() / 2], "", "\u{0}\u{ff}", &huge, "{\"a\":{\"a\":{"] {
        let mut desk = Desk::new();
        desk.reads(&whole);
        desk.reads(bytes);
        let counts = desk.reading.counts();
        assert_eq!((counts.ok, counts.missing + counts.invalid), (1, 1), "{}", bytes.len());
        assert_eq!(counts.redaction_failures, 0, "{}", bytes.len());
    }
}

#[test]
fn a_file_that_is_gone_is_believed_as_long_as_its_word_is_young() {
    let mut desk = Desk::new();
    desk.reads(file(NOW).to_string());
    fs::remove_file(desk.path()).unwrap();
    desk.look();
    assert!(held(&desk.served(NOW.later(2_000))));
    assert!(!held(&desk.served(NOW.later(11_000))));
    assert_eq!(desk.reading.bytes(), None, "its size is not known");
}

/// Opened, a pipe that nobody writes would hold whoever reads for ever.
#[test]
fn a_pipe_or_a_link_is_no_file_of_a_workers() {
    let mut desk = Desk::new();
    assert!(std::process::Command::new("mkfifo").arg(desk.path()).status().unwrap().success());
    desk.look();
    fs::remove_file(desk.path()).unwrap();
    let elsewhere = desk.folder.path().join("elsewhere");
    fs::write(&elsewhere, file(NOW).to_string()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, desk.path()).unwrap();
    desk.look();
    assert_eq!((desk.reading.counts().ok, desk.reading.counts().missing), (0, 2));
}

#[test]
fn a_file_from_before_the_machines_last_start_is_no_word_until_a_newer_one_comes() {
    for stamp in [NOW.boot_ms, NOW.boot_ms + 3_600_000] {
        let mut desk = Desk::new();
        // Written an hour ago by the wall; the machine's own clock began anew since.
        let mut old = file(Now { boot_ms: stamp, wall_ms: NOW.wall_ms - 3_600_000 });
        desk.reads(old.to_string());
        let served = desk.served(NOW);
        assert_eq!((served.freshness, served.partitions[0].worker.as_ref()), (Freshness::Lost, None));
        old["written_boot_ms"] = json!(NOW.boot_ms);
        old["snapshot"]["observed_at"] = json!(rfc3339(NOW.wall_ms));
        desk.reads(old.to_string());
        assert!(held(&desk.served(NOW)));
    }
}

#[test]
fn a_clock_on_the_wall_that_was_set_is_told_and_ages_stay_right() {
    let mut desk = Desk::new();
    desk.reads(file(NOW).to_string());
    desk.reads(file(NOW.later(1_000)).to_string());
    let now = Now { wall_ms: NOW.wall_ms + 7_200_000, ..NOW.later(2_000) };
    let (served, age_ms) = desk.reading.served(now).unwrap();
    assert!(held(&served));
    assert_eq!((age_ms, served.notices[0].code.as_str()), (1_000, "clock_jump"));
}

#[test]
fn of_events_only_those_are_passed_on_that_keep_the_contract() {
    let mut desk = Desk::new();
    let good = |id: &str| {
        json!({"schema": "keylane.ownership-event/v1", "id": id, "at": "2026-12-01T14:02:31.006Z",
            "recorded_at": "2026-12-01T14:02:31.006Z", "observer": "w", "type": "worker.started", "severity": "info",
            "partitions": [], "worker": "w", "text": "14:02:31: w started."})
    };
    let mut with_token = good("01KBCZR2V8M7X1V8J5T4W9Y2AD");
    with_token["generation"] = json!(918_273_645);
    let mut with_escape = good("01KBCZR2V8M7X1V8J5T4W9Y2AE");
    with_escape["text"] = json!("\u{1b}[2J");
    let kept = good("01KBCZR2V8M7X1V8J5T4W9Y2AF").to_string();
    let text = format!("{with_token}\n{with_escape}\n{kept}\n{{\"schema\":");
    fs::write(desk.folder.path().join("snapshot.events.ndjson"), text).unwrap();
    desk.look();
    desk.look();
    assert_eq!(desk.reading.events().iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), [kept]);
    assert_eq!(desk.reading.events_seen().iter().sum::<u64>(), 1, "it is counted once");
}
