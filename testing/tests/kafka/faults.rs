//! Brokers that are killed, frozen and brought back; and that none is left behind.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use keylane_testing::kafka::{Cluster, Options, Produce, Record};

use super::client::{LIMIT, brokers_named, client, committed_values, wait_for};

/// Longer than a running broker takes to answer.
const SHORT: Duration = Duration::from_secs(3);

#[test]
fn a_broker_is_killed_frozen_and_brought_back_with_its_data() {
    let cluster = Cluster::start(&Options::new(3)).unwrap();
    let second = cluster.bootstrap().split(',').nth(1).unwrap();
    cluster.create_topic("kept", 1, &[]).unwrap();
    cluster.java_produce("kept", &[Record::new("k", "before")], Produce::default()).unwrap();

    cluster.kill(1).unwrap();
    assert!(brokers_named(&client(second), SHORT).is_err());
    assert!(cluster.kill(1).is_err());
    assert!(cluster.wait_ready().unwrap_err().to_string().contains("broker 1 is killed"));
    // Two of three are enough.
    cluster.java_produce("kept", &[Record::new("k", "meanwhile")], Produce::default()).unwrap();
    cluster.restart(1).unwrap();
    cluster.wait_ready().unwrap();
    assert_eq!(brokers_named(&client(second), LIMIT).unwrap(), 3);

    cluster.pause(1).unwrap();
    assert!(std::net::TcpStream::connect(second).is_ok(), "its port stays open");
    assert!(brokers_named(&client(second), SHORT).is_err());
    assert!(cluster.pause(1).is_err());
    cluster.resume(1).unwrap();
    assert!(cluster.resume(1).is_err());
    cluster.wait_ready().unwrap();
    assert_eq!(brokers_named(&client(second), LIMIT).unwrap(), 3);
    assert_eq!(committed_values(second, "kept", 1), [b"before".to_vec(), b"meanwhile".to_vec()]);

    // One that runs is killed first; a paused one too.
    cluster.pause(0).unwrap();
    cluster.restart(0).unwrap();
    cluster.restart(2).unwrap();
    cluster.wait_ready().unwrap();
}

/// The folder in the command lines of processes.
fn processes_of(folder: &Path) -> Vec<String> {
    let output = Command::new("ps").args(["axww", "-o", "args"]).output().unwrap();
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().filter(|line| line.contains(folder.to_str().unwrap())).map(str::to_owned).collect()
}

const VICTIM: &str = "KEYLANE_TESTING_VICTIM";

#[test]
fn no_broker_outlives_a_test_process_that_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        let cluster = Cluster::start(&Options::new(3)).unwrap();
        cluster.pause(2).unwrap();
        println!("\nstarted");
        // Until it is killed.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "--nocapture", "kafka::faults::no_broker_outlives_a_test_process_that_is_killed"]);
    victim.env(VICTIM, "1").env("TMPDIR", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut victim = victim.spawn().unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "started"));
    // A shell and a JVM each.
    assert_eq!(processes_of(folder.path()).len(), 6);

    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_for("the end of its brokers", || processes_of(folder.path()).is_empty());
    wait_for("the end of their data", || std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
