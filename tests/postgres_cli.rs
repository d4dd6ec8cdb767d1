//! The program on a real Postgres: two workers through an outage, and the operator's way.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::collections::BTreeMap;

use keylane_testing::postgres::{Options, Server, WrongClock, shared};
use serde_json::Value;

use process::{Place, wait_until, worker::Worker};

const DONE: &str = r#"echo '{"outcome":"done","result":1}'"#;

/// A queue `jobs` in a file, and a database for its store.
fn place_and_store(server: &Server) -> (Place, String) {
    (Place::with_queue(), server.url(&server.database().unwrap()))
}

/// Two workers, a server that is killed while jobs flow, stays away for a while and comes back.
#[test]
fn a_database_that_dies_while_jobs_flow_costs_no_job_and_repeats_none() {
    let server = Server::start(&Options::default()).unwrap();
    let (place, store) = place_and_store(&server);
    let jobs: String = (0..1_500).map(|n| format!("{{\"key\":\"k{}\",\"n\":{n}}}\n", n % 60)).collect();
    place.write("jobs.ndjson", jobs);
    place.run(&["enqueue", "jobs.ndjson"]).expect(0);
    let _workers = ["one", "two"].map(|name| Worker::start(&place, name, &["--store", &store], DONE));
    let database = store.rsplit('/').next().unwrap();
    let results = || {
        let there = server.sql(database, "SELECT to_regclass('keylane.result') IS NOT NULL").is_ok_and(|t| t == "t");
        if there { server.sql(database, "SELECT count(*) FROM keylane.result").unwrap().parse().unwrap() } else { 0 }
    };
    for so_far in [50, 400] {
        wait_until("some jobs are done", || results() >= so_far);
        server.kill().unwrap();
        let away = place.run(&["status", "--store", &store]).expect(7);
        assert!(away.stderr.contains("connect"), "{}", away.stderr);
        server.restart().unwrap();
    }
    wait_until("all jobs are done", || results() >= 1_500);
    let lines = place.run(&["results", "--store", &store]).expect(0).stdout;
    let mut offsets = BTreeMap::<String, Vec<u64>>::new();
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let place = format!("{}", row["partition"]);
        offsets.entry(place).or_default().push(row["offset"].as_u64().unwrap());
    }
    assert_eq!(offsets.values().map(Vec::len).sum::<usize>(), 1_500, "none lost, none twice");
    // Results of a key are written in the order of its jobs.
    let disorder = "SELECT count(*) FROM (SELECT finished_at < lag(finished_at) OVER (PARTITION BY part, key ORDER BY \"offset\") AS wrong
                    FROM keylane.result) AS r WHERE wrong";
    assert_eq!(server.sql(database, disorder).unwrap(), "0");
}

/// By it nothing is decided, and whoever compares times has to know.
#[test]
fn status_tells_how_far_the_database_s_clock_is_off() {
    for (days, words) in [(3, "3 days ahead of"), (-3, "3 days behind")] {
        let server = Server::start(&Options::default().clock(&WrongClock::days(days).unwrap())).unwrap();
        let (place, store) = place_and_store(&server);
        place.run(&["enqueue", "--one", "ann", "--body", "1"]).expect(0);
        let worked = place.run(&["work", "--until-empty", "--store", &store, "--builtin", "discard"]).expect(0);
        assert!(worked.stdout.contains("1 job applied"), "{}", worked.stdout);
        let told = place.run(&["status", "--store", &store]).expect(0).stdout;
        assert!(
            told.contains(&format!("The database's clock is {words} this machine's; nothing depends on it")),
            "{told}"
        );
        let skew =
            place.run(&["status", "-o", "json", "--store", &store]).expect(0).json()["store_clock_skew_ms"].as_i64();
        assert!(skew.is_some_and(|skew| (skew - i64::from(days) * 86_400_000).abs() < 60_000), "{skew:?}");
    }
    let (place, store) = place_and_store(shared());
    place.run(&["work", "--until-empty", "--store", &store, "--builtin", "discard"]).expect(0);
    let told = place.run(&["status", "--store", &store]).expect(0).stdout;
    assert!(!told.contains("clock"), "it is this machine's: {told}");
}

#[test]
fn every_command_takes_a_postgres_store() {
    let (place, store) = place_and_store(shared());
    // Before the command: what stands behind `--exec` is the program's.
    let run = |args: &[&str]| place.run(&[&["--store", &store], args].concat());
    assert!(run(&["fence", "show"]).expect(0).stdout.contains("no fence yet"));
    run(&["enqueue", "--one", "good"]).expect(0);
    run(&["enqueue", "--one", "bad"]).expect(0);
    let script = r#"while read -r line; do case $line in *bad*) echo '{"outcome":"reject","reason":"no"}';; *) echo '{"outcome":"done","result":{"n":1}}';; esac; done"#;
    let worked = run(&["work", "--until-empty", "--exec", "sh", "-c", script]).expect(1);
    assert_eq!(run(&["results"]).expect(0).stdout.lines().count(), 1, "{}{}", worked.stdout, worked.stderr);
    let status: Value = serde_json::from_str(&run(&["status", "-o", "json"]).expect(0).stdout).unwrap();
    assert_eq!(status["stopped_keys"][0]["key"], "bad");
    assert!(status["store_clock_skew_ms"].as_i64().is_some_and(|skew| skew.abs() < 1_000), "{status}");
    assert!(run(&["retry", "bad"]).expect(0).stdout.contains("released bad"));
    run(&["fence", "reset", "--why", "a test", "--who", "somebody", "--execute"]).expect(0);
    assert!(run(&["fence", "log"]).expect(0).stdout.contains("somebody"));
    let done = r#"while read -r line; do echo '{"outcome":"done","result":2}'; done"#;
    run(&["work", "--until-empty", "--exec", "sh", "-c", done]).expect(0);
    assert_eq!(run(&["results"]).expect(0).stdout.lines().count(), 2);
    let shown = run(&["fence", "show"]).expect(0).stdout;
    assert!(!shown.contains("epoch"), "{shown}");
}

#[test]
fn the_demo_holds_on_postgres_and_leaves_nothing_behind() {
    let (place, store) = place_and_store(shared());
    let ended = place.run(&["demo", "-o", "json", "--store", &store]);
    let verdict = ended.stdout.lines().last().unwrap_or_default();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(verdict.contains(r#""verdict":"held""#) && verdict.contains(r#""stale_landed":0"#), "{verdict}");
    let database = store.rsplit('/').next().unwrap();
    let left = "SELECT (SELECT count(*) FROM keylane.scope) + (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'keylane_demo%')";
    assert_eq!(shared().sql(database, left).unwrap(), "0");
}

/// The twin of [`the_demo_holds_on_postgres_and_leaves_nothing_behind`].
#[test]
fn without_the_fence_the_demo_breaks_on_postgres() {
    let (place, store) = place_and_store(shared());
    let ended = place.run(&["demo", "--no-fence", "-o", "json", "--store", &store]);
    let verdict = ended.stdout.lines().last().unwrap_or_default();
    let told = format!("{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(1), "{told}");
    assert!(verdict.contains(r#""verdict":"broken""#), "{told}");
}

#[test]
fn the_bench_measures_on_postgres_and_leaves_nothing_behind() {
    let (place, store) = place_and_store(shared());
    let folder = place.path().to_str().unwrap();
    let tiny = ["--jobs", "200", "--rounds", "2", "--folder", folder, "-o", "json"];
    let ended = place.run(&[&["bench", "postgres", "--store", &store][..], &tiny].concat()).expect(0);
    let rows: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |figure: &str| rows.iter().filter(|row| row["figure"] == figure).count();
    assert_eq!(["effects", "claims", "worker", "peers", "kafka"].map(of), [10, 1, 7, 4, 1]);
    for row in &rows {
        // Programs and brokers that were not named.
        let elsewhere = row["figure"] == "peers" || row["figure"] == "kafka";
        assert_eq!(row["not_measured"].is_string(), elsewhere, "{row}");
        assert_eq!(row["ours"]["median"].as_f64().is_some_and(|number| number > 0.0), !elsewhere, "{row}");
    }
    let database = store.rsplit('/').next().unwrap();
    let left = "SELECT (SELECT count(*) FROM keylane.scope) + (SELECT count(*) FROM keylane.marker)
                     + (SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'keylane_bench%')";
    assert_eq!(shared().sql(database, left).unwrap(), "0");
    place.run(&["bench", "postgres"]).expect(2).says(&["needs a database", "--store postgres://"]);
}

#[test]
fn the_bench_runs_the_peers_that_it_is_given_in_its_own_schema() {
    use std::os::unix::fs::PermissionsExt as _;
    let (place, store) = place_and_store(shared());
    let peers = place.path().join("peers");
    std::fs::create_dir(&peers).unwrap();
    for peer in ["pg_skip_locked", "pg_lease"] {
        let script = "#!/bin/sh\necho \"$@\" >> \"$(dirname \"$0\")/asked\"\necho '{\"jobs_per_s\": 5}'\n";
        std::fs::write(peers.join(peer), script).unwrap();
        std::fs::set_permissions(peers.join(peer), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let args = ["bench", "postgres", "--store", &store, "--figure", "peers", "--jobs", "100", "--rounds", "1"];
    let ended = place.run(&[&args[..], &["--peers", peers.to_str().unwrap()]].concat()).expect(0);
    assert_eq!(ended.stdout.matches("not measured: no --redis").count(), 2, "{}", ended.stdout);
    assert_eq!(ended.stdout.matches("5.00 jobs/s, ").count(), 2, "{}", ended.stdout);
    let asked = std::fs::read_to_string(peers.join("asked")).unwrap();
    assert!(
        asked.lines().all(|line| line.contains("search_path%3Dkeylane_bench_") && line.contains("jobs=100")),
        "{asked}"
    );
}

#[test]
fn several_connections_need_a_store_that_has_several_writers() {
    let place = Place::with_queue();
    let args = ["work", "--builtin", "discard", "--until-empty", "--store-connections"];
    place.run(&[&args[..], &["2"]].concat()).expect(2).says(&["needs a Postgres store"]);
    place.run(&[&args[..], &["1"]].concat()).expect(0);
}

#[test]
fn a_password_in_the_store_s_url_is_refused_and_not_repeated() {
    let place = Place::with_queue();
    let url = "postgres://ann:s3cret@127.0.0.1/shop";
    for args in [
        &["status", "--store", url][..],
        &["work", "--builtin", "discard", "--store", url],
        &["config", "show", "--store", url],
    ] {
        let ended = place.run(args);
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!told.contains("s3cret"), "{args:?}: {told}");
        assert!(args[0] == "config" || (ended.code != Some(0) && told.contains("password")), "{args:?}: {told}");
    }
}
