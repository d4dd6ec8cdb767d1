//! The program on a real Kafka of three brokers: the demo with its twin, and the operator's way.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use keylane_producer::partition_of;
use keylane_testing::kafka::shared;

use process::Place;

fn place() -> Place {
    Place::on(&format!("kafka://{}", shared(3).bootstrap()))
}

#[test]
fn the_demo_holds_on_kafka() {
    let ended = place().run(&["demo", "-o", "json"]);
    let verdict = ended.stdout.lines().last().unwrap_or_default();
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(verdict.contains(r#""verdict":"held""#) && verdict.contains(r#""stale_landed":0"#), "{verdict}");
}

/// The twin of [`the_demo_holds_on_kafka`].
#[test]
fn without_the_fence_the_demo_breaks_on_kafka() {
    let ended = place().run(&["demo", "--no-fence", "-o", "json"]);
    let verdict = ended.stdout.lines().last().unwrap_or_default();
    assert_eq!(ended.code, Some(1), "{}\n{}", ended.stdout, ended.stderr);
    assert!(verdict.contains(r#""verdict":"broken""#), "{verdict}");
}

#[test]
fn jobs_go_in_and_results_come_out_and_nothing_is_left_but_a_marker() {
    let place = place();
    place
        .write("jobs.ndjson", (0..300).map(|n| format!("{{\"key\":\"k{}\",\"n\":{n}}}\n", n % 40)).collect::<String>());
    let of = |args: &[&'static str]| {
        [args, &["--queue", "through", "--group", "through", "--store", "sqlite:s.db"]].concat()
    };
    place.run(&["queue", "create", "through", "--partitions", "6"]).expect(0);
    // With a checkpoint: a transaction, so each partition ends with a marker that is no job.
    place.run(&of(&["enqueue", "jobs.ndjson"])).expect(0);
    let again = place.run(&of(&["enqueue", "jobs.ndjson"])).expect(3);
    assert!(again.stderr.contains("was sent before"), "{}", again.stderr);
    let script = r#"while read -r line; do echo '{"outcome":"done","result":1}'; done"#;
    let mut work = of(&["work", "--until-empty"]);
    work.extend(["--exec", "sh", "-c", script]);
    place.run(&work).expect(0);
    assert_eq!(place.run(&of(&["results"])).expect(0).stdout.lines().count(), 300);
    let status = place.run(&of(&["status"])).expect(0);
    assert!(status.stdout.contains("Nothing is waiting"), "{}", status.stdout);
}

#[test]
fn a_reset_of_the_fence_is_dry_until_it_is_executed_and_keeps_what_was_done() {
    let place = place();
    let of =
        |args: &[&'static str]| [args, &["--queue", "reset", "--group", "reset", "--store", "sqlite:s.db"]].concat();
    place.run(&["queue", "create", "reset", "--partitions", "2"]).expect(0);
    place.run(&of(&["enqueue", "--one", "k"])).expect(0);
    place.run(&of(&["work", "--until-empty", "--builtin", "discard"])).expect(0);
    let dry = place.run(&of(&["fence", "reset", "--why", "a test"])).expect(0);
    assert!(dry.stdout.contains("nothing was changed"), "{}", dry.stdout);
    assert!(place.run(&of(&["fence", "log"])).expect(0).stdout.contains("nobody has acted on the store"));
    place.run(&of(&["fence", "reset", "--why", "a test", "--who", "somebody", "--execute"])).expect(0);
    let log = place.run(&of(&["fence", "log"])).expect(0).stdout;
    assert!(log.contains("somebody") && log.contains("a test"), "{log}");
    place.run(&of(&["enqueue", "--one", "k"])).expect(0);
    let after = place.run(&of(&["work", "--until-empty", "--builtin", "discard", "-o", "json"])).expect(0);
    assert!(after.stdout.contains(r#""applied":1"#), "what was done before is done: {}", after.stdout);
}

/// What a person sees of it, from the first parked job to the last replay.
#[test]
fn a_key_that_is_parked_when_its_queue_gets_more_partitions_keeps_its_order() {
    let place = place();
    let of =
        |args: &[&'static str]| [args, &["--queue", "grows", "--group", "grows", "--store", "sqlite:s.db"]].concat();
    let run = |args: &[&'static str]| place.run(&of(args));
    place.run(&["queue", "create", "grows", "--partitions", "2"]).expect(0);
    let moves = |key: &String| {
        let at = |count: &str| partition_of(key.as_bytes(), count.parse().unwrap());
        at("2") != at("5")
    };
    let key: &'static str = (0..).map(|n| format!("key-{n}")).find(moves).unwrap().leak();
    let work = |answer: &'static str, code: i32| {
        let script = format!("while read -r line; do echo '{answer}'; done").leak();
        let mut command = of(&["work", "--until-empty"]);
        command.extend(["--exec", "sh", "-c", script]);
        place.run(&command).expect(code)
    };
    let done = r#"{"outcome":"done","result":1}"#;
    for body in ["1", "2"] {
        run(&["enqueue", "--one", key, "--body", body]).expect(0);
    }
    work(r#"{"outcome":"reject","reason":"no account"}"#, 1);

    shared(3).add_partitions("grows", 5).unwrap();
    let dry = run(&["fence", "reset", "--why", "grown"]).expect(0).stdout;
    assert!(dry.contains("1 parked key would be held in the new place too"), "{dry}");
    run(&["fence", "reset", "--why", "grown", "--execute"]).expect(0);
    run(&["enqueue", "--one", key, "--body", "3"]).expect(0);
    work(done, 1);
    assert_eq!(run(&["results"]).expect(0).stdout, "", "the newer job waits too");
    let listed = run(&["parked", "list"]).expect(0).stdout;
    assert_eq!(listed.matches(key).count(), 2, "{listed}");

    // The older line first, whether it is named or not.
    let both = run(&["parked", "replay", "--all", "--why", "there is one", "--execute"]).expect(1).stdout;
    assert!(both.contains("2 jobs") && both.contains("older jobs wait in another partition"), "{both}");
    work(done, 1);
    assert_eq!(run(&["results"]).expect(0).stdout.lines().count(), 2);
    run(&["parked", "replay", key, "--why", "there is one", "--execute"]).expect(0);
    work(done, 0);
    assert_eq!(run(&["results"]).expect(0).stdout.lines().count(), 3);
}

#[test]
fn with_kafka_the_store_must_be_named() {
    let refused = place().run(&["work", "--builtin", "discard"]).expect(2);
    assert!(refused.stderr.contains("--store"), "{}", refused.stderr);
}
