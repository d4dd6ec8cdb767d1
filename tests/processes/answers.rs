//! R32: what handlers get and answer is text, and stays as it was written.

use rustix::process::Signal;

use crate::{fleet::Fleet, process::wait_until};

const DEPTH: usize = 100_000;

/// Keeps what it got, and answers what lies in the file of the job's key.
const MIRROR: &str = r#"
while IFS= read -r line; do
    key=${line#*\"key\":\"}; key=${key%%\"*}
    printf '%s\n' "$line" > "got-$key"
    answer=$(/bin/cat "answer-$key")
    printf '%s\n' "{\"outcome\":\"done\",\"result\":$answer}"
done"#;

#[test]
fn payloads_and_results_pass_through_as_they_were_written() {
    let deep = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let cases = [
        ("deep", deep.as_str()),
        ("twice", r#"{"a":1,"a":2}"#),
        ("long", "9007199254740993"),
        ("small", "1e-7"),
        ("zero", "-0.0"),
    ];
    let fleet = Fleet::new(2, &[]);
    for (key, text) in cases {
        fleet.place.write(&format!("answer-{key}"), text);
        fleet.place.run(&["enqueue", "--one", key, "--body", &format!("@answer-{key}")]).expect(0);
    }
    let mut worker = fleet.start("w", MIRROR);
    wait_until("all is done", || fleet.count() == cases.len() as u64);
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait_end(std::time::Duration::from_secs(30)), 0, "{}", fleet.report());
    assert_eq!(worker.told("will_retry"), 0, "{}", fleet.report());
    let store = fleet.store();
    for (key, text) in cases {
        let sql = "SELECT result FROM keylane_result WHERE key = CAST(?1 AS BLOB)";
        let result: String = store.query_row(sql, [key], |row| row.get(0)).unwrap();
        assert!(result == text, "{key}: {}", &result[..result.len().min(200)]);
        let line = std::fs::read_to_string(fleet.file(&format!("got-{key}"))).unwrap();
        let got: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(got["payload"] == text, "{key} was changed on its way to the handler");
    }
}
