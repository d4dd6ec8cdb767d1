//! `keylane queue` and what every command has in common, as real processes.

#![allow(clippy::unwrap_used, reason = "a test may")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{os::unix::fs::PermissionsExt, process::Stdio};

use process::{Ended, Place};

#[test]
fn a_queue_is_made_described_and_listed() {
    let place = Place::new();
    place
        .run(&[
            "queue",
            "create",
            "billing",
            "--partitions",
            "3",
            "--retention-age",
            "36h",
            "--retention-bytes",
            "1GiB",
        ])
        .expect(0);
    let shown = place.run(&["queue", "describe", "billing", "-o", "json"]).expect(0).json();
    assert_eq!(shown["partition_count"], 3);
    assert_eq!(shown["retention_age_seconds"], 36 * 3_600);
    assert_eq!(shown["retention_bytes"], 1 << 30);
    assert_eq!(shown["partitions"][2], serde_json::json!({"partition": 2, "first": 0, "next": 0, "records": 0}));
    let text = place.run(&["queue", "describe", "billing"]).expect(0).stdout;
    assert!(text.contains("retention    36h, 1GiB a partition"), "{text}");
    assert!(text.contains("PARTITION\tFIRST\tNEXT\tRECORDS\n0\t0\t0\t0\n"), "{text}");
    place.run(&["queue", "create", "another"]).expect(0);
    assert_eq!(place.run(&["queue", "list"]).expect(0).stdout, "QUEUE\tPARTITIONS\nanother\t12\nbilling\t3\n");
}

#[test]
fn making_a_queue_again_is_fine_only_when_asked_for_and_with_the_same_count() {
    let place = Place::with_queue();
    place.run(&["queue", "create", "jobs"]).expect(3).says(&["'jobs' is there", "--if-missing"]);
    let again = place.run(&["queue", "create", "jobs", "--if-missing", "-o", "json"]).expect(0).json();
    assert_eq!(again["created"], false);
    place
        .run(&["queue", "create", "jobs", "--if-missing", "--partitions", "13"])
        .expect(3)
        .says(&["12 partitions", "13"]);
}

#[test]
fn what_is_not_there_is_named_with_the_command_that_makes_it() {
    let place = Place::new();
    place.run(&["queue", "describe"]).expect(5).says(&["no queue file", "keylane queue create"]);
    place.run(&["queue", "create", "jobs"]).expect(0);
    place.run(&["queue", "describe", "nope"]).expect(5).says(&["no queue 'nope'", "keylane queue create nope", "jobs"]);
    place.run(&["queue", "create", "jobs", "--broker", "sqlite:no/such/q.db"]).expect(5).says(&["no folder 'no/such'"]);
}

#[test]
fn files_that_are_not_ours_are_refused_and_left_as_they_are() {
    let place = Place::new();
    let folder = place.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    place.run(&["queue", "create", "jobs", "--broker", "sqlite:folder"]).expect(3).says(&["is a folder"]);

    let foreign = rusqlite::Connection::open(place.path().join("foreign.db")).unwrap();
    foreign.execute_batch("CREATE TABLE t (a)").unwrap();
    drop(foreign);
    let before = std::fs::read(place.path().join("foreign.db")).unwrap();
    place
        .run(&["queue", "create", "jobs", "--broker", "sqlite:foreign.db"])
        .expect(3)
        .says(&["not a Keylane queue file"]);
    assert_eq!(std::fs::read(place.path().join("foreign.db")).unwrap(), before);

    place.write("text.db", "this is no database, however long it is".repeat(100));
    place.run(&["queue", "list", "--broker", "sqlite:text.db"]).expect(9);
}

#[test]
fn a_folder_without_rights_is_refused() {
    let place = Place::new();
    let folder = place.path().join("closed");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    if std::fs::write(folder.join("probe"), "").is_ok() {
        // Root may write everywhere: an immutable kernel file system shows the same.
        place.run(&["queue", "create", "jobs", "--broker", "sqlite:/proc/keylane.db"]).expect(4).says(&["try:"]);
        return;
    }
    place.run(&["queue", "create", "jobs", "--broker", "sqlite:closed/q.db"]).expect(4).says(&["try:"]);
}

#[test]
fn usage_errors_end_with_2_and_say_what_there_is() {
    let place = Place::new();
    let unknown = ["queue", "list", "--store", "redis://host"];
    place.run(&unknown).expect(2).says(&["sqlite:FILE", "postgres://USER@HOST/DATABASE"]);
    place.run(&["queue", "list", "--broker", "redis://host"]).expect(2).says(&["sqlite:FILE", "kafka://HOST:PORT"]);
    place.run(&["queue", "list", "--broker", "kafka://a:0"]).expect(2).says(&["1 to 65535"]);
    place.run(&["queue", "create", "jobs", "--partitions", "0"]).expect(2).says(&["1 to 4096"]);
    place.run(&["queue", "create", "a b"]).expect(2).says(&["'.', '_' or '-'"]);
    let ended = place.run(&["queue", "list", "--broker", "redis://host", "-o", "json"]).expect(2);
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    let remedy = "use sqlite:FILE, for instance sqlite:keylane.db";
    assert_eq!((&error["error"]["code"], &error["error"]["remedy"]), (&2.into(), &remedy.into()));
}

#[test]
fn errors_are_json_when_asked_for() {
    let place = Place::with_queue();
    let ended = place.run(&["queue", "describe", "nope", "-o", "json"]).expect(5);
    assert_eq!(ended.stdout, "");
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(error["error"]["code"], 5);
    assert_eq!(error["error"]["what"], "no queue 'nope'");
}

#[test]
fn the_environment_sets_what_no_flag_sets() {
    let place = Place::new();
    let from_env = |name, value| Ended::of(place.command(&["queue", "create", "e"]).env(name, value).spawn().unwrap());
    from_env("KEYLANE_BROKER", "sqlite:env.db").expect(0);
    assert!(place.path().join("env.db").exists());
    assert_eq!(from_env("KEYLANE_OUTPUT", "json").expect(0).json()["created"], true);
}

#[test]
fn a_reader_that_leaves_ends_the_program_quietly() {
    let place = Place::new();
    let mut child = place.command(&["completions", "bash"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(Ended::of(child).expect(0).stderr, "");
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["completions", shell]).expect(0).stdout;
        assert!(script.contains("enqueue"), "{shell}");
    }
}

#[test]
fn help_lists_the_commands_and_the_exit_codes() {
    let place = Place::new();
    let help = place.run(&["--help"]).expect(0).stdout;
    for part in ["enqueue", "queue", "Example:", "Exit codes:", "KEYLANE_BROKER", "sqlite:keylane.db"] {
        assert!(help.contains(part), "'{part}' is missing");
    }
}
