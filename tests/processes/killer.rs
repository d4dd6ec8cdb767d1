//! R30: a job that kills its worker.

use std::time::Duration;

use rustix::process::Signal;

use crate::{
    fleet::{Fleet, Worker},
    journal,
    process::{pause, wait_until},
};

/// The job `poison` kills the worker after a moment, the job `slow` runs meanwhile.
const KILLER: &str = r#"
while IFS= read -r line; do
    key=${line#*\"key\":\"}; key=${key%%\"*}
    offset=${line#*\"offset\":}; offset=${offset%%,*}
    echo "begin $key $offset $1" >> journal
    case $line in
        *poisonous*) [ -e harmless ] || { /bin/sleep 0.2; kill -9 $PPID; /bin/sleep 60; };;
        *endless*) while [ ! -e enough ]; do /bin/sleep 0.05; done;;
        *slow*) /bin/sleep 0.6;;
    esac
    echo "end $key $offset $1" >> journal
    ANSWER
done"#;

const ATTEMPTS: usize = 3;
const OPTIONS: [&str; 8] =
    ["--session-timeout", "1500ms", "--drain-timeout", "5s", "--concurrency", "6", "--attempts", "3"];

/// Three workers, each started again when it dies.
struct Supervisor<'f> {
    fleet: &'f Fleet,
    script: String,
    workers: Vec<Worker>,
    deaths: usize,
    started: usize,
}

impl<'f> Supervisor<'f> {
    fn new(fleet: &'f Fleet) -> Self {
        let script = KILLER.replace("ANSWER", journal::ANSWER);
        let mut supervisor = Self { fleet, script, workers: Vec::new(), deaths: 0, started: 0 };
        supervisor.look();
        supervisor
    }

    fn look(&mut self) {
        let before = self.workers.len();
        self.workers.retain_mut(|worker| match worker.ended() {
            None => true,
            Some(code) => {
                assert_eq!(code, 128 + 9, "{}: {}", worker.name, worker.errors());
                false
            }
        });
        self.deaths += before - self.workers.len();
        while self.workers.len() < 3 {
            self.started += 1;
            self.workers.push(self.fleet.start(&format!("w{}", self.started), &self.script));
        }
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, mut holds: impl FnMut(&Fleet) -> bool) {
        let clock = keylane_consumer::clock::Clock::boot();
        let until = clock.now().plus(Duration::from_secs(90));
        while !holds(self.fleet) {
            self.look();
            let (landed, deaths) = (self.fleet.count(), self.deaths);
            assert!(
                clock.now() < until,
                "waited until {what}: {landed} landed, {deaths} deaths\n{}",
                self.fleet.report()
            );
            pause(Duration::from_millis(10));
        }
    }

    fn end(mut self) {
        for worker in &mut self.workers {
            worker.signal(Signal::TERM);
        }
        for worker in &mut self.workers {
            assert_eq!(worker.wait_end(Duration::from_secs(30)), 0, "{}", worker.errors());
        }
    }
}

/// Innocent jobs around one that kills: some slow, so that they run at the moment of each death.
fn lines() -> String {
    let innocent = |n: usize| match n % 10 {
        0 => format!(r#"{{"key":"slow{n}","what":"slow"}}"#),
        _ => format!(r#"{{"key":"k{}","what":"quick"}}"#, n % 40),
    };
    let mut lines: Vec<String> = (0..200).map(innocent).collect();
    lines.insert(60, r#"{"key":"poison","what":"innocent"}"#.into());
    lines.insert(70, r#"{"key":"poison","what":"poisonous"}"#.into());
    lines.insert(80, r#"{"key":"poison","what":"follower"}"#.into());
    lines.join("\n")
}

#[test]
fn a_job_that_kills_its_worker_stops_its_key_after_as_many_deaths_as_attempts_and_one() {
    let fleet = Fleet::new(3, &OPTIONS);
    fleet.place.run_with_input(&["enqueue", "-", "--key", "/key"], lines()).expect(0);
    let mut supervisor = Supervisor::new(&fleet);
    supervisor.wait_until("the key is stopped", |fleet| fleet.number("SELECT count(*) FROM keylane_stopped") > 0);
    // The job itself and its follower stay; everything else is finished.
    supervisor.wait_until("everything else is finished", |fleet| fleet.count() == 201);
    assert!(supervisor.deaths <= ATTEMPTS + 1, "{} deaths\n{}", supervisor.deaths, fleet.report());
    let stopped: Vec<(Vec<u8>, String)> = {
        let store = fleet.store();
        let mut rows = store.prepare("SELECT key, rule FROM keylane_stopped").unwrap();
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(stopped, [(b"poison".to_vec(), "worker_died".to_owned())], "{}", fleet.report());
    // What was wrong with it is put right, and a person lets it go on: the deaths count no more.
    std::fs::write(fleet.file("harmless"), "").unwrap();
    fleet.release("poison");
    supervisor.wait_until("the key goes on", |fleet| fleet.count() == 203);
    supervisor.end();
    fleet.judge().unwrap_or_else(|broken| panic!("{broken}\n{}", fleet.report()));
}

/// A drain that is cut short is no death, however often it happens.
#[test]
fn a_long_job_that_restarts_cut_short_is_not_taken_for_a_killer() {
    let fleet = Fleet::new(1, &["--session-timeout", "1500ms", "--drain-timeout", "100ms", "--attempts", "3"]);
    fleet.place.run_with_input(&["enqueue", "-", "--key", "/key"], r#"{"key":"long","what":"endless"}"#).expect(0);
    let script = KILLER.replace("ANSWER", journal::ANSWER);
    let begins = |name: &str| {
        let worker = fleet.start(name, &script);
        wait_until("the job runs", || journal::begun(&fleet.file("journal"), name) == 1);
        worker
    };
    begins("killed").kill();
    for round in 0..5 {
        let mut worker = begins(&format!("restarted{round}"));
        worker.signal(Signal::TERM);
        assert_eq!(worker.wait_end(Duration::from_secs(30)), 1, "{}", fleet.report());
    }
    std::fs::write(fleet.file("enough"), "").unwrap();
    let _last = begins("last");
    wait_until("it is done", || fleet.count() == 1);
    assert_eq!(fleet.number("SELECT count(*) FROM keylane_stopped"), 0, "{}", fleet.report());
}

/// Jobs are put on record before they start only where an owner ended without handing over.
#[test]
fn nothing_is_recorded_before_a_start_while_owners_hand_over_in_order() {
    let fleet = Fleet::new(4, &OPTIONS);
    fleet.enqueue((0..300).map(|n| format!("k{}", n % 30)));
    let mut a = fleet.start("a", journal::HANDLER);
    wait_until("a works", || fleet.count() > 10);
    let mut b = fleet.start("b", journal::HANDLER);
    wait_until("b works", || b.told("took_over") > 0);
    a.signal(Signal::TERM);
    assert_eq!(a.wait_end(Duration::from_secs(30)), 0);
    fleet.enqueue((0..300).map(|n| format!("k{}", n % 30)));
    wait_until("all is done", || fleet.count() == 600);
    assert_eq!(fleet.number("SELECT count(*) FROM suspected"), 0, "{}", fleet.report());
    // The twin: a worker that dies leaves partitions of which jobs are recorded.
    b.kill();
    fleet.enqueue((0..30).map(|n| format!("k{n}")));
    let _c = fleet.start("c", journal::HANDLER);
    wait_until("all is done", || fleet.count() == 630);
    assert!(fleet.number("SELECT count(*) FROM suspected") > 0, "{}", fleet.report());
    assert_eq!(fleet.number("SELECT count(*) FROM keylane_suspect"), 0, "they are done, and cleared");
}
