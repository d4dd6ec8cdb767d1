//! Wall 6: with numbers and names that can be recognised in the fence and the group, no default output has them, in any
//! form.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use process::{
    Place,
    secrets::{self, number_forms, text_forms},
    wait_until,
    worker::Worker,
};

const EPOCH: u64 = 7_172_635_445;
const GENERATION: u64 = 918_273_645;
const CLAIM: u64 = 8_182_736_455;
const MEMBER: &str = "SENTINEL-MEMBER-77";
const OWNER: &str = "SENTINEL-MEMBER-77/SENTINEL-NONCE-88";

fn sentinels() -> Vec<Vec<u8>> {
    let numbers = [EPOCH, GENERATION, CLAIM].into_iter().flat_map(|n| [n - 1, n, n + 1]).flat_map(number_forms);
    numbers.chain(text_forms(MEMBER)).chain(text_forms(OWNER)).chain(text_forms("SENTINEL-NONCE-88")).collect()
}

fn found(output: &[u8]) -> Vec<String> {
    secrets::found(output, &sentinels())
}

/// A worker that holds everything, with a stopped key and a result; then the sentinels in every row that has a number of
/// the token or a name of a member. The worker stands still, so it cannot change them back.
fn marked() -> (Place, Worker) {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "2"]).expect(0);
    for key in ["bad", "bad", "good"] {
        place.run(&["enqueue", "--one", key, "--body", "1"]).expect(0);
    }
    let answer = r#"case "$line" in *bad*) echo '{"outcome":"reject","reason":"no"}';;
        *) echo '{"outcome":"done","result":1}';; esac"#;
    let worker = Worker::start(&place, "worker-1", &["--session-timeout", "10m"], answer);
    wait_until("it held, finished and stopped", || {
        let seen = place.run(&["status", "-o", "json"]).expect(0).json();
        let stopped = seen["stopped_keys"].as_array().is_some_and(|keys| keys.len() == 1);
        seen["snapshot"]["totals"]["held"] == 2 && seen["snapshot"]["totals"]["lag_jobs"] == 0 && stopped
    });
    let rows = rusqlite::Connection::open(place.path().join("keylane.db")).unwrap();
    rows.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
    // Whoever has the write lock now, it is not the worker that will stand still.
    rows.execute_batch("BEGIN IMMEDIATE").unwrap();
    worker.freeze();
    rows.execute_batch(&format!(
        "
         UPDATE keylane_scope SET epoch = {EPOCH};
         UPDATE keylane_fence SET epoch = {EPOCH}, gen = {GENERATION}, claim = {CLAIM}, owner = '{OWNER}';
         UPDATE keylane_group SET generation = {GENERATION};
         UPDATE keylane_assignment SET generation = {GENERATION}, member = '{MEMBER}';
         UPDATE keylane_member SET member = '{MEMBER}';
         INSERT INTO keylane_suspect SELECT scope, 0, 1, 1, {CLAIM} FROM keylane_scope;
         INSERT INTO keylane_refused SELECT scope, 0, 'worker-2', 3, 12, 0 FROM keylane_scope;
         INSERT INTO keylane_quarantine SELECT scope, 1, 7, NULL, 'no_key', 0 FROM keylane_scope;
         COMMIT;"
    ))
    .unwrap();
    (place, worker)
}

#[test]
fn no_default_output_has_a_number_of_the_token_or_a_name_of_a_member() {
    let (place, _worker) = marked();
    let seen = place.run(&["status"]).expect(0).stdout;
    for part in ["held", "worker-2: 3 writes with 12 jobs refused", "In quarantine", "1 key stands still"] {
        assert!(seen.contains(part), "'{part}' is missing: the search below would find less in {seen}");
    }
    let commands: [&[&str]; 7] = [
        &["status"],
        &["results"],
        &["fence", "show"],
        &["queue", "describe"],
        &["retry", "bad", "--dry-run"],
        &["retry", "nope", "bad"],
        &["retry", "nope"],
    ];
    for command in commands {
        for more in [&[][..], &["-o", "json"], &["-vvv"], &["-vvv", "--log-format", "json"]] {
            let ended = place.run(&[command, more].concat());
            for output in [&ended.stdout, &ended.stderr] {
                assert_eq!(found(output.as_bytes()), Vec::<String>::new(), "{command:?} {more:?}: {output}");
            }
        }
    }
}

#[test]
fn the_numbers_are_shown_when_asked_for_with_a_warning() {
    let (place, _worker) = marked();
    let shown = place.run(&["fence", "show", "--show-token"]).expect(0).says(&["warning:", "are the fence"]);
    let decimal = [EPOCH, GENERATION, CLAIM].map(|n| n.to_string());
    assert_eq!(found(shown.stdout.as_bytes()), decimal, "so the search above can find them; and the owner never comes");
    let json = place.run(&["fence", "show", "--show-token", "-o", "json"]).expect(0);
    let token = &json.json()["partitions"][1]["token"];
    assert_eq!(*token, serde_json::json!({ "epoch": EPOCH, "generation": GENERATION, "claim": CLAIM }));
    assert!(json.stderr.contains("warning:"));
}

#[test]
fn the_fence_says_who_claimed_what() {
    let place = Place::with_queue();
    let none = place.run(&["fence", "show"]).expect(0).stdout;
    assert!(none.contains("no worker of group 'workers' was ever there"), "{none}");
    let (place, worker) = marked();
    let shown = place.run(&["fence", "show", "-o", "json"]).expect(0).json();
    let row = &shown["partitions"][0];
    assert_eq!((&row["claimed"], &row["handed_over"], &row["closed"]), (&true.into(), &false.into(), &false.into()));
    assert_eq!((&row["worker"], row.get("token")), (&"worker-1".into(), None));
    drop(worker);
    let rows = rusqlite::Connection::open(place.path().join("keylane.db")).unwrap();
    rows.execute_batch("UPDATE keylane_fence SET handed_over = 1; UPDATE keylane_fence SET closed = 1 WHERE part = 1")
        .unwrap();
    let text = place.run(&["fence", "show"]).expect(0).stdout;
    assert!(text.contains("0\thanded over\tworker-1\t") && text.contains("1\tclosed\tworker-1\t"), "{text}");
}
