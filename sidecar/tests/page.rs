//! The page in a real browser: read by axe, without and with its script, in both themes, at three sizes, by keyboard.
//!
//! Needs Node and Chromium; axe and the driver come from npm in fixed versions. Pictures are left in `target/tmp/page`. What a first load
//! weighs and when it is painted is printed, and stands in `docs/benchmarks.md`; the time is no part of the verdict.

#![cfg(feature = "board")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod stage;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use keylane_sidecar::board::{Now, http::Board};
use serde_json::Value;
use tokio::{net::TcpListener, sync::watch};

/// A board of `count` partitions that had an hour and goes on; answers its address.
async fn board(count: u32) -> String {
    let (record, group) = stage::an_hour(count, Now::read());
    let record = Arc::new(Mutex::new(record));
    let (look, looked) = watch::channel(0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Board::new(Arc::clone(&record), looked).routes();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    tokio::spawn(async move {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        loop {
            seconds.tick().await;
            let mut record = record.lock().unwrap();
            group.speak(&mut record, Now::read());
            record.look(Now::read());
            look.send_modify(|looks: &mut u64| *looks += 1);
        }
    });
    format!("http://{address}")
}

/// Node with axe and the driver beside it.
fn tools() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-tools");
    std::fs::create_dir_all(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
    for file in ["package.json", "look.mjs"] {
        std::fs::copy(source.join(file), folder.join(file)).unwrap();
    }
    if !folder.join("node_modules/axe-core/axe.min.js").exists()
        || !folder.join("node_modules/playwright-core").exists()
    {
        let npm = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
            .current_dir(&folder)
            .output();
        let npm = npm.expect("npm is installed: apt-get install nodejs npm");
        assert!(npm.status.success(), "npm: {}", String::from_utf8_lossy(&npm.stderr));
    }
    folder
}

fn chromium() -> String {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found =
        names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()));
    found.expect("Chromium is installed: apt-get install chromium").to_owned()
}

/// What the browser found on the boards at these addresses.
async fn look(boards: &[(&str, String)]) -> Value {
    let folder = tools();
    let mut node = tokio::process::Command::new("node");
    node.arg("look.mjs").arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("page")).arg(chromium());
    node.args(boards.iter().map(|(name, url)| format!("{name}={url}"))).current_dir(folder).kill_on_drop(true);
    let found =
        tokio::time::timeout(Duration::from_secs(900), node.output()).await.expect("the browser ends in time").unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let text = String::from_utf8(found.stdout).unwrap();
    eprintln!("{text}");
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_whole_in_a_browser_in_both_themes_with_and_without_its_script() {
    let boards = [("6", board(6).await), ("48", board(48).await), ("1000", board(1_000).await)];
    let found = look(&boards).await;
    let views = found["views"].as_array().unwrap();
    assert_eq!(views.len(), 3 * 2 * 2 + 2, "three sizes, two themes, with and without script; and 320 px twice");
    for view in views {
        let what = &view["what"];
        assert_eq!(view["violations"], serde_json::json!([]), "axe at {what}");
        assert_eq!(view["errors"], serde_json::json!([]), "errors at {what}");
        assert_eq!(view["elsewhere"], serde_json::json!([]), "requests to others at {what}");
        assert!(view["headline"].as_str().unwrap().contains("have a working owner"), "{what}: {}", view["headline"]);
        assert_eq!(view["overflow"], 0, "it scrolls sideways at {what}");
    }
    let live = &found["live"];
    assert_eq!(live["exchanged"], true, "the script brought a newer picture");
    assert_eq!(live["tabStops"], 1, "the grid is one tab stop");
    assert_eq!(live["arrow"], true, "an arrow moves in it");
    assert_eq!(live["kept"], true, "the focus stays where it was when the picture changes");
    assert_eq!(live["filtered"], 1, "the filter leaves what was asked for");
    let stale = &found["stale"];
    assert!(stale["live"].as_str().unwrap().contains("Last heard"), "{stale}");
    assert!(stale["headline"].as_str().unwrap().starts_with("The board has not answered for"), "{stale}");
    assert_eq!(stale["countdown"], "unknown", "no countdown goes on without word");
    // The counter-proof: the same eyes find what is wrong on a bad page.
    assert!(found["bad"]["violations"].as_array().unwrap().len() >= 3, "{}", found["bad"]);
    assert_eq!(found["bad"]["elsewhere"].as_array().unwrap().len(), 1, "{}", found["bad"]);
    for (size, most) in [("48", 60_000), ("1000", 150_000)] {
        let weight = found["weight"][size]["all"].as_u64().unwrap();
        assert!(weight > 1_000 && weight < most, "first load at {size} partitions: {weight} bytes");
        assert!(found["paint"][size]["painted"]["median"].is_u64(), "it is painted at {size}: {}", found["paint"]);
    }
}
