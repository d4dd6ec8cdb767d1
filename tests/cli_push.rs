//! `keylane push`: what a host gets, and that nothing that a host does changes anything.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    process::{Child, Stdio},
};

use keylane_sidecar::{PartitionState, Snapshot, WorkerState, intake};
use keylane_testing::tls::Certificates;
use openssl::{pkey::PKey, ssl, x509::X509};
use process::{
    Ended, Place,
    stub::{Manner, Stub},
    wait_until,
    worker::Worker,
};
use rustix::process::{Pid, Signal, kill_process};

const FILE: &str = "snapshot.json";
const SECRET: &str = "MARKER-hunter2-MARKER";

fn place() -> Place {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "3"]).expect(0);
    place.write("bearer", format!("{SECRET}\n"));
    place
}

fn worker(place: &Place) -> Worker {
    Worker::start(place, "w", &["--snapshot-file", FILE], r#"echo '{"outcome":"done","result":1}'"#)
}

/// One whose worker ran and stopped: its file is its last word.
fn place_of_a_stopped_worker() -> Place {
    let place = place();
    let args = ["work", "--name", "w", "--builtin", "discard", "--until-empty", "--snapshot-file", FILE];
    place.run(&args).expect(0);
    place
}

struct Push(Child);

impl Push {
    fn start(place: &Place, args: &[&str]) -> Self {
        let args = [&["push", "--snapshot-file", FILE, "-ojson", "-vvv"], args].concat();
        Self(place.command(&args).spawn().unwrap())
    }

    fn end(mut self) -> Ended {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let (mut out, mut errors) = (self.0.stdout.take().unwrap(), self.0.stderr.take().unwrap());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        out.read_to_string(&mut stdout).unwrap();
        errors.read_to_string(&mut stderr).unwrap();
        let code = self.0.wait().unwrap().code();
        // So that dropping it finds nothing to end.
        Ended { code, stdout, stderr }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The snapshots that came, each held to the contract.
fn received(stub: &Stub) -> Vec<Snapshot> {
    stub.requests().iter().map(|request| intake::read_of_worker(request.body.as_bytes()).unwrap()).collect()
}

fn without_secret(ended: &Ended) {
    assert!(!ended.stdout.contains("MARKER") && !ended.stderr.contains("MARKER"), "{} {}", ended.stdout, ended.stderr);
}

#[test]
fn a_host_gets_exactly_the_snapshot_by_put_at_each_change_and_the_workers_last_word() {
    let place = place();
    let host = Stub::that_says(201, "", "thanks");
    let url = format!("http://{}/up/w-0?sig={SECRET}", host.address);
    let push = Push::start(&place, &["--to", &url, "--bearer-file", "bearer", "--every", "1h"]);
    let worker = worker(&place);
    wait_until("it is told that all is held", || received(&host).last().is_some_and(|s| s.totals.held == 3));
    worker.end();
    wait_until("it is told that the worker stopped", || {
        received(&host).last().is_some_and(|s| s.workers[0].state == WorkerState::Stopped)
    });
    let ended = push.end().expect(0);
    without_secret(&ended);
    let requests = host.requests();
    let head: Vec<&str> = requests.last().unwrap().head.lines().collect();
    assert_eq!(head[0], format!("put /up/w-0?sig={SECRET} http/1.1").to_lowercase());
    let mut names: Vec<&str> = head[1..].iter().map(|line| line.split(':').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["authorization", "connection", "content-length", "content-type", "host", "user-agent"]);
    assert!(head.contains(&format!("authorization: bearer {}", SECRET.to_lowercase()).as_str()));

    let mut last: serde_json::Value = serde_json::from_str(&requests.last().unwrap().body).unwrap();
    let file: serde_json::Value = serde_json::from_slice(&fs::read(place.path().join(FILE)).unwrap()).unwrap();
    let mut own = file["snapshot"].clone();
    for snapshot in [&mut last, &mut own] {
        snapshot["observed_at"].take();
        snapshot["workers"][0]["age_ms"].take();
    }
    assert_eq!(last, own, "what the worker wrote, with its age, and nothing else");
    let report = ended.json();
    assert_eq!(report["to"], format!("http://{}", host.address));
    let count = |field: &str| usize::try_from(report[field].as_u64().unwrap()).unwrap();
    assert_eq!((count("handed_over"), count("failed")), (requests.len(), 0));
}

#[test]
fn it_is_said_again_on_a_timer_though_nothing_changes() {
    let place = place_of_a_stopped_worker();
    let host = Stub::that_says(204, "", "");
    let push = Push::start(&place, &["--to", &format!("http://{}", host.address), "--every", "1s"]);
    wait_until("it was said three times", || host.requests().len() >= 3);
    push.end().expect(0);
}

/// Each of them with a file beside it, which gets its word.
#[test]
fn whatever_a_host_does_it_is_counted_told_and_changes_nothing() {
    let place = place_of_a_stopped_worker();
    let elsewhere = Stub::that_says(200, "", "");
    let location = format!("location: http://{}/stolen\r\n", elsewhere.address);
    let says = |text: &str| Manner::Says(text.to_owned());
    let never = |text: &str| Manner::NeverEnds(text.to_owned());
    let hosts = [
        ("fails", says("HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n"), Some("answered 500")),
        ("redirects", says(&format!("HTTP/1.1 307 x\r\n{location}content-length: 0\r\n\r\n")), Some("answered 307")),
        ("redirects for good", says(&format!("HTTP/1.1 301 x\r\n{location}\r\n")), Some("answered 301")),
        ("says nothing", Manner::Hangs, Some("no answer in time")),
        ("closes", says(""), Some("no answer by HTTP")),
        ("talks nonsense", says("MARKER \x1b[31m\r\n\r\n"), Some("no answer by HTTP")),
        ("has a head without an end", never("HTTP/1.1 200 x\r\n"), Some("no answer by HTTP")),
        ("has a body without an end", never("HTTP/1.1 200 x\r\n\r\n"), None),
        ("promises more than it says", says("HTTP/1.1 200 x\r\ncontent-length: 9999999999\r\n\r\nMARKER"), None),
    ];
    for (what, manner, trouble) in hosts {
        let host = Stub::that(manner);
        let to = format!("http://{}/x?{SECRET}", host.address);
        let args = ["push", "--snapshot-file", FILE, "--once", "--within", "2s", "-vvv"];
        let _ = fs::remove_file(place.path().join("elsewhere.json"));
        let places = ["--to", &to, "--bearer-file", "bearer", "--to-file", "elsewhere.json"];
        let ended = place.run(&[&args[..], &places].concat());
        without_secret(&ended);
        assert_eq!(ended.code, Some(if trouble.is_some() { 7 } else { 0 }), "{what}: {}", ended.stderr);
        assert!(ended.stderr.contains(trouble.unwrap_or_default()), "{what}: {}", ended.stderr);
        assert_eq!(host.requests().len(), 1, "{what}: once is once");
        let file = fs::read(place.path().join("elsewhere.json")).unwrap();
        assert_eq!(intake::read_of_worker(&file).unwrap().workers[0].state, WorkerState::Stopped, "{what}");
    }
    assert_eq!(elsewhere.bytes().len(), 0, "nothing was followed");
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ended = place.run(&["push", "--snapshot-file", FILE, "--once", "--to", &format!("http://{gone}")]);
    ended.expect(7).says(&["cannot connect", "1 place did not take it"]);
}

#[test]
fn a_host_that_hangs_holds_up_no_other_place_and_no_job() {
    let place = place();
    let host = Stub::that(Manner::Hangs);
    let to = format!("http://{}", host.address);
    let args = ["--to", &to, "--to-file", "f.json", "--to-note", "f.txt", "--every", "1s", "--within", "3s"];
    let push = Push::start(&place, &args);
    let worker = worker(&place);
    let told = |name: &str| fs::read_to_string(place.path().join(name)).unwrap_or_default();
    wait_until("the note says who holds what", || told("f.txt").contains("jobs / workers: w holds partitions 0–2."));
    assert_eq!(told("f.txt").lines().count(), 1);
    place.run(&["enqueue", "--one", "k", "--body", "1"]).expect(0);
    wait_until("the job is done", || !place.run(&["results"]).expect(0).stdout.is_empty());
    worker.end();
    wait_until("the file says that it stopped", || {
        intake::read_of_worker(told("f.json").as_bytes()).is_ok_and(|s| s.workers[0].state == WorkerState::Stopped)
    });
    let ended = push.end().expect(0);
    let to_host: serde_json::Value =
        serde_json::from_str(ended.stdout.lines().find(|l| l.contains("http")).unwrap()).unwrap();
    assert!(to_host["failed"].as_u64() >= Some(1) && to_host["handed_over"] == 0, "{}", ended.stdout);
    assert_eq!(ended.stderr.matches("WARN not handed over").count(), 1, "told once: {}", ended.stderr);
}

#[test]
fn a_worker_that_was_killed_is_handed_over_as_unknown_and_never_as_the_owner_on_old_word() {
    let place = place();
    let host = Stub::that_says(200, "", "");
    let _push = Push::start(&place, &["--to", &format!("http://{}", host.address), "--every", "1s"]);
    let worker = worker(&place);
    wait_until("it is told that all is held", || received(&host).last().is_some_and(|s| s.totals.held == 3));
    drop(worker);
    wait_until("it is told that nobody knows", || {
        received(&host).last().is_some_and(|s| s.workers[0].state == WorkerState::Unknown)
    });
    for snapshot in received(&host) {
        let fresh = snapshot.workers[0].age_ms < snapshot.stale_after_ms;
        let held = snapshot.partitions.iter().any(|p| p.state == PartitionState::Held);
        assert!(fresh || !held, "{snapshot:?}");
    }
}

#[test]
fn a_file_that_holds_more_than_it_may_is_not_handed_over() {
    let place = place_of_a_stopped_worker();
    let good = fs::read_to_string(place.path().join(FILE)).unwrap();
    let host = Stub::that_says(200, "", "");
    let to = format!("http://{}", host.address);
    let push = Push::start(&place, &["--to", &to, "--every", "1s"]);
    wait_until("the good one came", || !host.requests().is_empty());
    place.write(FILE, good.replacen("\"scope\"", &format!("\"token\":\"{SECRET}\",\"scope\""), 1));
    wait_until("it says that the file is refused", || {
        received(&host).last().is_some_and(|s| s.notices.iter().any(|n| n.code == "redaction_refused"))
    });
    without_secret(&push.end());
    assert!(host.requests().iter().all(|request| !request.body.contains("MARKER")));
    place.run(&["push", "--snapshot-file", FILE, "--once", "--to", &to]).expect(5).says(&["no snapshot of a worker"]);
}

/// A host with TLS: one request, and its answer.
fn tls_host(place: &Place, at: &str) -> u16 {
    let made = Certificates::make(place.path()).unwrap();
    let pem = fs::read(made.key_store).unwrap();
    let mut acceptor = ssl::SslAcceptor::mozilla_intermediate_v5(ssl::SslMethod::tls_server()).unwrap();
    acceptor.set_certificate(&X509::from_pem(&pem).unwrap()).unwrap();
    acceptor.set_private_key(&PKey::private_key_from_pem(&pem).unwrap()).unwrap();
    let acceptor = acceptor.build();
    let listener = TcpListener::bind((at, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if let Ok(mut stream) = acceptor.accept(stream.unwrap()) {
                let _ = stream.read(&mut [0; 64 << 10]);
                let _ = stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 0\r\n\r\n");
            }
        }
    });
    port
}

#[test]
fn a_host_must_show_a_certificate_that_is_trusted() {
    let place = place_of_a_stopped_worker();
    let to = format!("https://localhost:{}/x", tls_host(&place, "127.0.0.1"));
    let args = ["push", "--snapshot-file", FILE, "--once", "--to", &to];
    place.run(&[&args[..], &["--ca-file", "ca.pem"]].concat()).expect(0);
    place.run(&args).expect(7).says(&["no TLS with a certificate that is trusted"]);
    let of_another_name = format!("https://127.0.0.2:{}/x", tls_host(&place, "127.0.0.2"));
    let other = ["push", "--snapshot-file", FILE, "--once", "--to", &of_another_name, "--ca-file", "ca.pem"];
    place.run(&other).expect(7).says(&["no TLS with a certificate that is trusted"]);
}

#[test]
fn what_cannot_be_right_is_refused_before_anything_is_sent() {
    let place = place_of_a_stopped_worker();
    place.write("two-words", "MARKER two");
    let host = Stub::that_says(200, "", "");
    let here = format!("http://{}", host.address);
    let with_user = format!("http://me:{SECRET}@{}", host.address);
    for (args, code, says) in [
        (&[][..], 2, "--to"),
        (&["--to", "http://status.example/MARKER"], 2, "this machine only"),
        (&["--to", &with_user], 2, "user or password"),
        (&["--to", "MARKER"], 2, "https://HOST/PATH"),
        (&["--to", &here, "--bearer-file", "none"], 5, "none"),
        (&["--to", &here, "--bearer-file", "two-words"], 3, "no bearer secret"),
        (&["--to", &here, "--ca-file", "bearer"], 3, "--ca-file"),
        (&["--to-file", FILE], 2, "the worker's own files"),
        (&["--to-note", "./snapshot.events.ndjson"], 2, "the worker's own files"),
        (&["--to-note", "x", "--to-file", "./x"], 2, "same file"),
    ] {
        let args = [&["push", "--snapshot-file", FILE, "--once"], args].concat();
        for args in [args.clone(), [&["config", "check", "--"], &args[..]].concat()] {
            let ended = place.run(&args);
            without_secret(&ended);
            assert_eq!((ended.code, ended.stderr.contains(says)), (Some(code), true), "{args:?}: {}", ended.stderr);
        }
    }
    assert_eq!(host.bytes().len(), 0);
    let mut command = place.command(&["push", "--snapshot-file", FILE, "--once", "--to", &here]);
    let ended = Ended::of(command.env("KEYLANE_PUSH_BEARER", SECRET).stdout(Stdio::piped()).spawn().unwrap()).expect(0);
    without_secret(&ended);
    assert!(host.requests()[0].head.contains("authorization: bearer marker-hunter2-marker"), "from the environment");
}
