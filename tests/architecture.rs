//! Which crate may know which, and who may name a token. The boundary is the dependency graph: Cargo forbids cycles, so as
//! long as `consumer` stands above the other two, they cannot name what it mints.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The crate that only tests may know.
const TESTING: &str = "keylane-testing";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn metadata() -> Value {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The crates of ours that a crate depends on, in any way but those of its tests.
fn ours(metadata: &Value, crate_name: &str) -> BTreeSet<String> {
    let of_ours = dependencies(metadata, crate_name).filter(|(name, _)| name.starts_with("keylane"));
    of_ours.filter(|&(name, kind)| (name, kind) != (TESTING, Some("dev"))).map(|(name, _)| name.to_owned()).collect()
}

/// Name and kind of each dependency; no kind is the normal one.
fn dependencies<'a>(metadata: &'a Value, crate_name: &str) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|p| p["name"] == crate_name).unwrap();
    package["dependencies"].as_array().unwrap().iter().map(|d| (d["name"].as_str().unwrap(), d["kind"].as_str()))
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&n| n.to_owned()).collect()
}

#[test]
fn the_arrows_between_the_crates_never_point_back() {
    let metadata = metadata();
    assert_eq!(ours(&metadata, "keylane-producer"), set(&[]));
    assert_eq!(ours(&metadata, "keylane-sidecar"), set(&[]));
    assert_eq!(ours(&metadata, "keylane-consumer"), set(&["keylane-producer", "keylane-sidecar"]));
    assert_eq!(ours(&metadata, TESTING), set(&[]));
    let program = ours(&metadata, "keylane");
    assert_eq!(program, set(&["keylane-consumer", "keylane-producer", "keylane-sidecar"]));
}

#[test]
fn only_tests_know_the_crate_for_tests() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let names: Vec<_> = packages.iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(names.contains(&TESTING), "the search finds what is there");
    for name in names {
        let kinds: Vec<_> =
            dependencies(&metadata, name).filter(|&(on, _)| on == TESTING).map(|(_, kind)| kind).collect();
        assert!(kinds.iter().all(|&kind| kind == Some("dev")), "{name} knows {TESTING} outside its tests");
    }
}

/// Every source file below the folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found
}

/// The files below these folders in whose code, tests left out, the word stands; as paths from the root.
fn files_with(word: &str, folders: &[&str]) -> BTreeSet<String> {
    let all = folders.iter().flat_map(|folder| sources(&root().join(folder)));
    let with = all.filter(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.split("#[cfg(test)]\nmod tests {").next().unwrap().contains(word)
    });
    with.map(|path| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn producers_and_watchers_do_not_name_the_token() {
    for word in ["FenceToken", "Generation", "keylane_fence"] {
        assert_eq!(files_with(word, &["producer/src", "sidecar/src"]), set(&[]), "{word}");
    }
    assert!(
        files_with("FenceToken", &["consumer/src"]).contains("consumer/src/fence.rs"),
        "the search finds what is there"
    );
}

#[test]
fn tokens_are_minted_by_stores_only() {
    let mut minting = files_with("FenceToken::minted(", &["src", "consumer/src"]);
    minting.retain(|file| !file.contains("/tests") && !file.contains("/simulation/"));
    assert!(minting.iter().all(|file| file.starts_with("consumer/src/store/")), "{minting:?}");
    assert!(!minting.is_empty());
}

#[test]
fn deadlines_are_read_from_one_clock() {
    let reading = files_with("ClockId::Boottime", &["src", "consumer/src", "producer/src", "sidecar/src"]);
    assert_eq!(reading, set(&["consumer/src/clock.rs", "sidecar/src/clock.rs"]));
}

#[test]
fn the_pure_machines_touch_nothing() {
    for machine in ["ownership", "lanes", "watermark", "retry"] {
        let text = std::fs::read_to_string(root().join(format!("consumer/src/{machine}.rs"))).unwrap();
        let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for word in ["std::thread", "std::fs", "tokio", "crossbeam", "async ", "Clock", "SystemTime", "Mutex"] {
            assert!(!code.iter().any(|line| line.contains(word)), "{machine} names {word}");
        }
    }
}

/// Settings of the guards are for twin tests and the demo: no flag and no variable of a real worker reaches them.
#[test]
fn no_flag_of_a_real_worker_takes_a_guard_away() {
    let naming = files_with("Guards", &["src"]);
    assert!(naming.iter().all(|file| file.contains("demo")), "{naming:?}");
}

/// The crates that are linked into this one of ours, with these features.
fn linked(crate_name: &str, features: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{lib}", "-p", crate_name]);
    cargo.args(["--no-default-features", "--features", features]);
    let output = cargo.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Clients of brokers and databases, and what a connection out is usually made with.
const CLIENTS: [&str; 10] = [
    "rdkafka",
    "rdkafka_sys",
    "rusqlite",
    "libsqlite3_sys",
    "tokio_postgres",
    "postgres_protocol",
    "openssl",
    "rustls",
    "reqwest",
    "keylane_consumer",
];
/// What one is called by from outside.
const SERVERS: [&str; 6] = ["axum", "hyper", "h2", "tonic", "tiny_http", "warp"];

fn any_of(linked: &BTreeSet<String>, crates: &[&str]) -> Vec<String> {
    linked.iter().filter(|name| crates.contains(&name.as_str())).cloned().collect()
}

#[test]
fn the_sidecar_links_no_client_of_a_broker_or_a_database() {
    assert_eq!(any_of(&linked("keylane-sidecar", "publish"), &CLIENTS), Vec::<String>::new());
    assert!(any_of(&linked("keylane-consumer", ""), &CLIENTS).len() >= 4, "the search finds what is there");
}

/// No remote call can renew or extend anything: who owns partitions links nothing that could take one.
#[test]
fn whoever_owns_partitions_links_no_server() {
    assert_eq!(any_of(&linked("keylane-consumer", ""), &SERVERS), Vec::<String>::new());
    assert_eq!(any_of(&linked("keylane-sidecar", "publish"), &SERVERS).len(), 2, "the search finds what is there");
}
