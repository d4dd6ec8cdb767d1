//! `keylane config`: each setting with its source, and no secret, nor anywhere else; what a command would refuse.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use process::{Ended, Place};

const MARKER: &str = "MARKER-hunter2-MARKER";

/// Everything that could be a secret, each at its marker; the brokers are nobody.
fn secrets(place: &Place) {
    place.write("password", format!("{MARKER}\n"));
    place.write(
        "kafka.properties",
        format!(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password={MARKER}\n\
             ssl.key.password={MARKER}\n"
        ),
    );
}

fn run(place: &Place, args: &[&str]) -> Ended {
    let mut command = place.command(args);
    command.env("KEYLANE_BROKER", "kafka://127.0.0.1:1").env("KEYLANE_STORE", "sqlite:store.db");
    command.env("SECRET", MARKER);
    Ended::of(command.spawn().unwrap())
}

fn without_marker(ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains(MARKER), "{text}");
    }
}

#[test]
fn each_setting_is_shown_with_where_it_came_from() {
    let place = Place::new();
    secrets(&place);
    let args = ["config", "show", "-o", "json", "--queue", "billing", "--kafka-properties", "kafka.properties"];
    let shown = run(&place, &args).expect(0);
    without_marker(&shown);
    let shown = shown.json();
    let setting = |name: &str| {
        let all = shown["settings"].as_array().unwrap();
        let found = all.iter().find(|setting| setting["name"] == name).unwrap();
        format!("{} {}", found["value"].as_str().unwrap_or_default(), found["from"].as_str().unwrap())
    };
    assert_eq!(setting("queue"), "billing flag");
    assert_eq!(setting("broker"), "kafka://127.0.0.1:1 KEYLANE_BROKER");
    assert_eq!(setting("group"), "workers default");
    let properties = shown["kafka_properties"].to_string();
    assert!(properties.contains("alice") && properties.contains("(hidden, 21 bytes)"), "{properties}");
    assert_eq!(shown["codecs"], serde_json::json!(["gzip", "snappy", "lz4", "zstd"]));
}

#[test]
fn a_secret_by_reference_shows_the_reference() {
    let place = Place::new();
    secrets(&place);
    let args = ["config", "show", "--kafka-property", "sasl.password=file:password"];
    let shown = run(&place, &args).expect(0);
    without_marker(&shown);
    assert!(shown.stdout.contains("file:password (21 bytes)"), "{}", shown.stdout);
}

/// With everything that the client library can say, and brokers that are not there.
#[test]
fn no_secret_is_in_anything_that_is_said() {
    let place = Place::new();
    secrets(&place);
    let file = ["--kafka-properties", "kafka.properties"];
    let debug = ["--kafka-property", "debug=all", "-vvv"];
    for args in [
        [&["queue", "list"][..], &file, &debug].concat(),
        [&["queue", "list"][..], &["--kafka-property", "sasl.password=env:SECRET"], &debug].concat(),
        [&["queue", "list"][..], &["--kafka-property", "sasl.pasword=env:SECRET"], &debug].concat(),
        [&["queue", "list"][..], &["--kafka-property", &format!("no.such.thing={MARKER}")]].concat(),
        [&["enqueue", "--one", "k", "--body", "b"][..], &file, &debug].concat(),
        [&["status"][..], &file, &debug].concat(),
        [&["work", "--builtin", "discard"][..], &file, &debug].concat(),
    ] {
        let ended = run(&place, &args);
        without_marker(&ended);
        // Else the client library would have had nothing to say.
        let expected = if args.iter().any(|arg| arg.contains("pasword") || arg.contains("no.such")) { 3 } else { 7 };
        assert_eq!(ended.code, Some(expected), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_check_refuses_what_the_command_refuses_and_by_the_same_code() {
    let place = Place::new();
    secrets(&place);
    for (args, code, says) in [
        (&["work"][..], 2, "--exec"),
        (&["wrok", "--builtin", "discard"], 2, "wrok"),
        (&["work", "--builtin", "discard", "--concurrency", "0"], 2, "from 1"),
        (&["work", "--fence-to-handler", "--exec", "./handler"], 2, "Postgres"),
        (&["work", "--exec", "sh -c 'open"], 3, "quote"),
        (&["work", "--builtin", "discard", "--store", "postgres://db"], 3, "user"),
        (&["work", "--builtin", "discard", "--store", "postgres://db", "--kafka-property", "acks=1"], 3, "user"),
        (&["work", "--builtin", "discard", "--kafka-property", "acks=1"], 3, "acks"),
        (&["work", "--builtin", "discard", "--kafka-property", "sasl.password=MARKER-hunter2-MARKER"], 3, "secret"),
        (&["work", "--builtin", "discard", "--kafka-property", "sasl.password=file:none"], 3, "sasl.password"),
        (&["status", "--kafka-property", "acks=1"], 3, "acks"),
        (&["enqueue", "--one", "k", "--kafka-property", "acks=1"], 3, "acks"),
        (&["work", "--builtin", "discard", "--store-connections", "2"], 2, "Postgres"),
        (&["work", "--builtin", "discard", "--session-timeout", "1ms"], 3, "500ms"),
        (&["bench", "postgres"], 2, "needs a database"),
        (&["board", "--sidecar", "nowhere"], 2, "--sidecar"),
        (&["board", "--sidecar", "a:1", "--lost-after", "5s"], 2, "--stale-after"),
    ] {
        for ended in [run(&place, &[&["config", "check", "--"], args].concat()), run(&place, args)] {
            without_marker(&ended);
            assert_eq!((ended.code, ended.stderr.contains(says)), (Some(code), true), "{args:?}: {}", ended.stderr);
        }
    }
    let help = run(&place, &["config", "check", "--", "work", "--help"]).expect(2);
    assert!(help.stderr.contains("no run of a command"), "{}", help.stderr);
}

#[test]
fn a_check_takes_what_the_command_takes_and_what_it_does_not_use() {
    let place = Place::new();
    secrets(&place);
    for args in [
        &["work", "--concurrency", "4", "--exec", "./handler", "--flag-of-its-own"][..],
        &["work", "--builtin", "discard", "--kafka-property", "sasl.password=file:password"],
        &["work", "--builtin", "discard", "--store", "postgres://app@db/shop"],
        &["board", "--sidecar", "workers.prod.svc:9465", "--listen", "0.0.0.0:9470", "--kafka-property", "acks=1"],
        &["work", "--builtin", "discard", "--store", "postgres://app@db/shop", "--store-connections", "2"],
        &["bench", "postgres", "--store", "postgres://app@db/shop", "--figure", "claims", "--kafka-property", "acks=1"],
        &["queue", "create", "jobs", "--if-missing", "--store", "postgres://db"],
        &["timeline", "--store", "postgres://db"],
        &["completions", "bash", "--kafka-property", "acks=1"],
    ] {
        let ended = run(&place, &[&["config", "check", "--"], args].concat());
        without_marker(&ended);
        assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    }
    let told = run(&place, &["-o", "json", "config", "check", "--", "work", "--builtin", "discard"]).expect(0);
    assert_eq!(told.json(), serde_json::json!({ "good": true }));
}

/// R48: a password in the wrong place comes back in no error, in whichever form it was mistyped.
#[test]
fn what_is_mistyped_on_a_command_line_or_in_a_variable_is_not_said_again_if_it_could_be_a_secret() {
    let place = Place::new();
    let given = [
        ("--store", "KEYLANE_STORE", "postgre://ann:MARKER-hunter2-MARKER@h/db"),
        ("--store", "KEYLANE_STORE", "postgres//ann:MARKER-hunter2-MARKER@h/db"),
        ("--store", "KEYLANE_STORE", "ann:MARKER-hunter2-MARKER@h/db"),
        ("--store", "KEYLANE_STORE", "mysql://ann:MARKER-hunter2-MARKER@h/db"),
        ("--broker", "KEYLANE_BROKER", "kafka://one:9092,ann:MARKER-hunter2-MARKER@h:9092"),
        ("--broker", "KEYLANE_BROKER", "http://h/?t=MARKER-hunter2-MARKER"),
    ];
    for (flag, variable, value) in given {
        for output in ["text", "json"] {
            for args in [vec!["status", flag, value], vec!["status", &format!("{flag}={value}")], vec!["status", value]]
            {
                let ended = Ended::of(place.command(&[&args[..], &["-o", output]].concat()).spawn().unwrap());
                assert_ne!(ended.code, Some(0), "{args:?}");
                without_marker(&ended);
                assert!(ended.stderr.contains("[not shown]"), "{}", ended.stderr);
            }
            let mut command = place.command(&["status", "-o", output]);
            let ended = Ended::of(command.env(variable, value).spawn().unwrap());
            assert_ne!(ended.code, Some(0), "{value}");
            without_marker(&ended);
        }
    }
    for args in
        [["status", "sasl.password=MARKER-hunter2-MARKER"], ["status", "https://h/x?token=MARKER-hunter2-MARKER"]]
    {
        without_marker(&place.run(&args).expect(2));
    }
    // What is no secret is named, as it must be: so the search can find what is said.
    let named = place.run(&["status", MARKER]).expect(2);
    assert!(named.stderr.contains(MARKER), "{}", named.stderr);
}
