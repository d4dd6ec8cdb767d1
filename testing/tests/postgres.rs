//! The Postgres that tests get is a real one, and each function does what it says. Seen by psql.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use keylane_testing::postgres::{Options, Pooler, Server, shared};

#[test]
fn each_database_is_new_and_empty() {
    let (a, b) = (shared().database().unwrap(), shared().database().unwrap());
    shared().sql(&a, "CREATE TABLE mine (n int); INSERT INTO mine VALUES (7)").unwrap();
    assert_eq!(shared().sql(&a, "SELECT n FROM mine").unwrap(), "7");
    let error = shared().sql(&b, "SELECT n FROM mine").unwrap_err();
    assert!(error.to_string().contains("does not exist"), "{error}");
}

#[test]
fn a_server_is_killed_stopped_frozen_and_brought_back_with_its_data() {
    let server = Server::start(&Options::default()).unwrap();
    let database = server.database().unwrap();
    server.sql(&database, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)").unwrap();

    server.kill().unwrap();
    assert!(server.sql(&database, "SELECT 1").is_err());
    assert!(server.kill().is_err());
    server.restart().unwrap();
    server.sql(&database, "INSERT INTO kept VALUES (2)").unwrap();

    server.stop().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    server.restart().unwrap();

    server.pause().unwrap();
    let mut open = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    open.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(open.read(&mut [0]).is_err(), "nothing answers");
    assert!(server.pause().is_err());
    server.resume().unwrap();
    assert!(server.resume().is_err());
    assert_eq!(server.sql(&database, "SELECT sum(n) FROM kept").unwrap(), "3");
}

#[test]
fn a_pooler_passes_transactions_on() {
    let pooler = Pooler::start(shared()).unwrap();
    assert!(pooler.url("postgres").starts_with("postgres://"));
}

/// The folder in the command lines of processes.
fn processes_of(folder: &Path) -> Vec<String> {
    let output = Command::new("ps").args(["axww", "-o", "args"]).output().unwrap();
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().filter(|line| line.contains(folder.to_str().unwrap())).map(str::to_owned).collect()
}

const VICTIM: &str = "KEYLANE_TESTING_VICTIM";

#[test]
fn no_server_outlives_a_test_process_that_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        let server = Server::start(&Options::default()).unwrap();
        server.pause().unwrap();
        println!("\nstarted");
        // Until it is killed.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "--nocapture", "no_server_outlives_a_test_process_that_is_killed"]);
    victim.env(VICTIM, "1").env("TMPDIR", folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut victim = victim.spawn().unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "started"));
    assert_eq!(processes_of(folder.path()).len(), 2, "a shell and a postmaster");

    victim.kill().unwrap();
    victim.wait().unwrap();
    wait_for("the end of its server", || processes_of(folder.path()).is_empty());
    wait_for("the end of its data", || std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "the limit of a wait in a test")]
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(30));
    }
}
