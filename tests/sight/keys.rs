//! Parked and hot keys from the worker over its sidecar to the board's page: as far as whoever runs the worker allows.

use serde_json::{Value, json};

use crate::{
    PARKS_BAD_KEYS,
    process::{Place, board::Board, sidecar::Sidecar, wait_until, worker::Worker},
};

const HOSTILE: &str = "bad<b>MARKER</b>";
/// Not UTF-8, and ends with an escape.
const BINARY: &str = "hex:00c3281b";

/// A worker of two parked keys and a hot one, what watches it, and what is seen of its one partition.
struct Watched {
    place: Place,
    worker: Worker,
    sidecar: Sidecar,
    board: Board,
}

impl Watched {
    fn start(flags: &[&str]) -> Self {
        let place = Place::new();
        place.run(&["queue", "create", "jobs", "--partitions", "1"]).expect(0);
        for key in [HOSTILE, BINARY] {
            place.run(&["enqueue", "--one", key, "--body", "1"]).expect(0);
        }
        for n in 0..12 {
            place.run(&["enqueue", "--one", "slow-MARKER", "--body", &n.to_string()]).expect(0);
        }
        let sidecar = Sidecar::start(&place, "w.json");
        let board = Board::start(&place, &[&sidecar]);
        let worker = Worker::start(&place, "w", &[&["--snapshot-file", "w.json"], flags].concat(), PARKS_BAD_KEYS);
        Self { place, worker, sidecar, board }
    }

    /// The board's word on the partition, as soon as it is this.
    fn once(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut seen = Value::Null;
        wait_until(what, || {
            seen = self.board.snapshot()["partitions"].get(0).cloned().unwrap_or_default();
            is(&seen)
        });
        seen
    }

    /// All that anybody can read of it from outside.
    fn everything(&self) -> String {
        let mut all = std::fs::read_to_string(self.place.path().join("w.json")).unwrap();
        for path in ["/v1/snapshot", "/v1/events.ndjson", "/metrics"] {
            all += &self.sidecar.get(path).body;
        }
        for path in
            ["/?partition=0", "/main?partition=0", "/v1/snapshot", "/v1/events.ndjson", "/v1/timeline.txt", "/metrics"]
        {
            all += &self.board.get(path).body;
        }
        all
    }
}

fn shows_the_hot_one(seen: &Value) -> bool {
    seen["keys"].as_array().is_some_and(|keys| keys.len() == 3)
}

#[test]
fn keys_are_counted_and_not_named_unless_somebody_allows_it() {
    let watched = Watched::start(&[]);
    let seen = watched.once("two keys are parked", |seen| seen["keys_parked"] == 2);
    assert_eq!(seen["keys"], Value::Null);
    wait_until("the worker knows the hot one", || {
        watched.place.run(&["hot", "-o", "json"]).expect(0).stdout.contains("slow-MARKER")
    });
    let seen = watched.everything();
    assert!(seen.contains("<dt>Keys parked</dt><dd>2</dd>"), "{seen}");
    for name in ["MARKER", "00c3281b", "<h3>Keys</h3>"] {
        assert!(!seen.contains(name), "{name}: {seen}");
    }
    watched.worker.end();
    let usage = watched.place.run(&["work", "--builtin", "discard", "--show-keys", "text"]).expect(2);
    usage.says(&["--snapshot-file"]);
}

#[test]
fn keys_that_may_be_shown_are_text_on_the_page_and_binary_ones_lose_nothing() {
    let watched = Watched::start(&["--show-keys", "text"]);
    let seen = watched.once("the hot one is told", shows_the_hot_one);
    let expected = json!([
        { "shown": HOSTILE, "parked": true, "waiting": null },
        { "shown": BINARY, "parked": true, "waiting": null },
        { "shown": "slow-MARKER", "parked": false, "waiting": 12 },
    ]);
    assert_eq!(seen["keys"], expected);
    let page = watched.board.get("/?partition=0").body;
    assert!(page.contains("<code>bad&lt;b&gt;MARKER&lt;/b&gt;</code></bdi> parked"), "{page}");
    assert!(page.contains("<code>hex:00c3281b</code></bdi> parked") && !page.contains("<b>MARKER"), "{page}");
    assert!(page.contains("<code>slow-MARKER</code></bdi> 12 jobs waiting"), "{page}");
    assert!(!watched.board.get("/metrics").body.contains("MARKER"), "never a label");
    watched.worker.end();
}

#[test]
fn hashed_keys_are_found_by_who_knows_them_and_read_by_nobody() {
    let watched = Watched::start(&["--show-keys", "hash"]);
    let seen = watched.once("the hot one is told", shows_the_hot_one);
    let shown: Vec<&str> = seen["keys"].as_array().unwrap().iter().map(|key| key["shown"].as_str().unwrap()).collect();
    for key in [&b"slow-MARKER"[..], HOSTILE.as_bytes(), &[0, 0xc3, 0x28, 0x1b]] {
        let digest = openssl::sha::sha256(key);
        let hash: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(shown.contains(&format!("#{hash}").as_str()), "{hash}: {shown:?}");
    }
    let all = watched.everything();
    assert!(all.contains(&format!("<code>{}</code></bdi> parked", shown[0])), "{all}");
    assert!(!all.contains("MARKER") && !all.contains("00c3281b"), "{all}");
    watched.worker.end();
}
