//! The program on a real Kafka of three brokers: the demo with its twin, and the operator's way.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

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

#[test]
fn with_kafka_the_store_must_be_named() {
    let refused = place().run(&["work", "--builtin", "discard"]).expect(2);
    assert!(refused.stderr.contains("--store"), "{}", refused.stderr);
}
