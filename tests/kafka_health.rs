//! R50 on a real Kafka: what a new process would not cure turns no probe red. `KEYLANE_R50=s` has each part take that many seconds;
//! the report's own are 300 of rebalances, and 120 without an answer of a broker.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::time::Duration;

use keylane_consumer::clock::Clock;
use keylane_testing::kafka::{Cluster, Options};
use process::{Place, pause, wait_until, worker::Worker};
use rustix::process::Pid;
use serde_json::Value;

const FILE: &str = "snapshot.json";
const ANSWER: &str = r#"echo '{"outcome":"done","result":1}'"#;

fn held(place: &Place, file: &str) -> u64 {
    let text = std::fs::read(place.path().join(file)).unwrap_or_default();
    serde_json::from_slice::<Value>(&text).map_or(0, |file| file["snapshot"]["totals"]["held"].as_u64().unwrap())
}

/// The process is live at every look for so long.
fn stays_live(place: &Place, lasts: Duration, mut meanwhile: impl FnMut()) {
    let clock = Clock::boot();
    let until = clock.now().plus(lasts);
    while clock.now() < until {
        let ended = place.run(&["health", "live", "--snapshot-file", FILE, "--within", "10s", "-v"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stdout);
        meanwhile();
        pause(Duration::from_millis(200));
    }
}

#[test]
fn a_worker_is_live_while_its_group_rebalances_and_while_its_brokers_are_away_and_goes_on_by_itself() {
    let part = std::env::var("KEYLANE_R50").ok().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let cluster = Cluster::start(&Options::new(1)).unwrap();
    let place = Place::on(&format!("kafka://{}", cluster.bootstrap()));
    place.run(&["queue", "create", "jobs", "--partitions", "4", "--replication", "1", "--unsafe"]).expect(0);
    let flags = ["--snapshot-file", FILE, "--store", "sqlite:store.db", "--session-timeout", "6s"];
    let worker = Worker::start(&place, "w", &flags, ANSWER);
    wait_until("it holds all", || held(&place, FILE) == 4);

    let clock = Clock::boot();
    let mut other: Option<(Worker, _)> = None;
    let mut joins = 0;
    stays_live(&place, part.unwrap_or(Duration::from_secs(30)), || match other.take() {
        None => {
            joins += 1;
            let flags = ["--snapshot-file", "other.json", "--store", "sqlite:store.db", "--session-timeout", "6s"];
            let next = clock.now().plus(Duration::from_secs(5));
            other = Some((Worker::start(&place, &format!("v{joins}"), &flags, ANSWER), next));
        }
        Some((leaves, at)) if clock.now() >= at => leaves.end(),
        stays => other = stays,
    });
    if let Some((leaves, _)) = other {
        leaves.end();
    }
    assert!(joins >= 3, "{joins} joins are no rebalances");
    wait_until("it holds all again", || held(&place, FILE) == 4);

    cluster.pause(0).unwrap();
    stays_live(&place, part.map_or(Duration::from_secs(15), |part| part.min(Duration::from_secs(120))), || {});
    cluster.resume(0).unwrap();
    // A broker that was just let go may not answer the first one in time.
    wait_until("a job is enqueued", || place.run(&["enqueue", "--one", "k", "--body", "1"]).code == Some(0));
    let results = || place.run(&["results", "--store", "sqlite:store.db"]).stdout.lines().count();
    wait_until("it does a job again by itself", || results() >= 1);

    // With nobody there every try to connect fails at once: it must not try without a pause.
    cluster.kill(0).unwrap();
    let (lasts, before) = (Duration::from_secs(10), processor_time(worker.pid()));
    stays_live(&place, lasts, || {});
    let took = processor_time(worker.pid()) - before;
    assert!(took < lasts / 3, "{took:?} of processor in {lasts:?} without a broker");
    cluster.restart(0).unwrap();
    wait_until("a job is enqueued again", || place.run(&["enqueue", "--one", "k", "--body", "2"]).code == Some(0));
    wait_until("it does that job too", || results() >= 2);
    worker.end();
}

/// What all threads of a process took until now.
fn processor_time(pid: Pid) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    // The name may hold anything; the fields behind it do not: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_secs(ticks) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap()
}
