//! Real workers on a real Kafka of three brokers, while workers and brokers are killed, frozen and brought back and the
//! coordinator moves, drawn at random; then what is on the log is compared with what landed in the store.
//!
//! `KEYLANE_SEED=n` plays one seed again; `KEYLANE_CHAOS=s` plays that many seconds instead of 300.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "processes/crew.rs"]
mod crew;
#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "processes/fleet.rs"]
mod fleet;
#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "processes/journal.rs"]
mod journal;
#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "processes/persons.rs"]
mod persons;
#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::time::Duration;

use keylane_consumer::clock::{BootTime, Clock};
use keylane_testing::kafka::{Cluster, Options};

use crew::{Crew, Dice, Step};
use fleet::Fleet;
use process::{Place, pause};

const OPTIONS: [&str; 10] = [
    "--session-timeout",
    "6s",
    "--drain-timeout",
    "5s",
    "--concurrency",
    "8",
    "--retry-first",
    "50ms",
    "--attempts",
    "20",
];
/// Jobs that come before each step.
const JOBS: usize = 80;
const KEYS: usize = 120;
/// Longer than a session.
const LONG: u64 = 9_000;

/// What is done to the brokers. One at a time: of three copies two must be in sync.
#[derive(Clone, Copy, Debug)]
enum Fault {
    KillBroker(usize),
    FreezeBroker(usize, u64),
    MoveCoordinator,
    OfWorker(Step),
}

impl Fault {
    fn draw(dice: &mut Dice) -> Self {
        match dice.below(12) {
            0 => Self::KillBroker(dice.below(3)),
            1 => Self::FreezeBroker(dice.below(3), 1_000 + dice.below(6_000) as u64),
            2 => Self::MoveCoordinator,
            3 | 4 => Self::OfWorker(Step::Kill(dice.below(8))),
            5 | 6 => Self::OfWorker(Step::Freeze(dice.below(8), 300 + dice.below(2_000) as u64)),
            7 => Self::OfWorker(Step::Freeze(dice.below(8), LONG)),
            8 => Self::OfWorker(Step::End(dice.below(8))),
            9 => Self::OfWorker(Step::Join),
            _ => Self::OfWorker(Step::Nothing),
        }
    }
}

#[test]
fn whatever_happens_to_brokers_and_workers_nothing_is_lost_repeated_or_out_of_order() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let clock = Clock::boot();
    let seed = number("KEYLANE_SEED").unwrap_or_else(|| clock.now().since(BootTime::ZERO).as_nanos() as u64 % 100_000);
    let time = Duration::from_secs(number("KEYLANE_CHAOS").unwrap_or(300));
    println!("KEYLANE_SEED={seed}");
    let cluster = Cluster::start(&Options::new(3)).unwrap();
    let fleet = Fleet::at(Place::on(&format!("kafka://{}", cluster.bootstrap())), 12, &OPTIONS);
    let (mut dice, mut crew) = (Dice::new(seed), Crew::of(&fleet, 3));
    let mut mended = Mended::default();
    let mut done = Vec::new();
    let until = clock.now().plus(time);
    while clock.now() < until {
        let keys: Vec<String> = (0..JOBS).map(|_| format!("k{}", dice.below(KEYS))).collect();
        let fault = Fault::draw(&mut dice);
        println!("{fault:?}");
        done.push(fault);
        crew.meanwhile(|| fleet.enqueue_what_can_be(keys));
        match fault {
            Fault::OfWorker(step) => crew.suffer(step),
            of_broker => crew.meanwhile(|| mended.suffer(of_broker, &cluster, clock.now())),
        }
        crew.meanwhile(|| pause(Duration::from_millis(700)));
        crew.meanwhile(|| mended.mend(&cluster, clock.now(), false));
    }
    crew.meanwhile(|| mended.mend(&cluster, clock.now(), true));
    cluster.wait_ready().unwrap();

    let all = fleet.place.records("jobs").len() as u64;
    assert!(all > 0);
    let until = clock.now().plus(Duration::from_secs(120));
    while fleet.count() < all {
        crew.thaw();
        assert!(clock.now() < until, "KEYLANE_SEED={seed}: {} of {all} landed\n{}", fleet.count(), fleet.report());
        pause(Duration::from_millis(50));
    }
    crew.end_all();
    let verdict = fleet.judge().and_then(|()| journal::overlap(&fleet.file("journal"), &crew.stopped));
    println!("{all} jobs, {} faults", done.len());
    if let Err(broken) = verdict {
        panic!("KEYLANE_SEED={seed} {done:?}: {broken}\n{}", fleet.report());
    }
}

#[test]
fn whatever_jobs_workers_and_persons_do_on_kafka_each_job_lands_once_and_keys_keep_their_order() {
    let mut clusters = Vec::new();
    persons::play_all("6s", 2, |options| {
        let cluster = Cluster::start(&Options::new(1)).unwrap();
        let place = Place::on(&format!("kafka://{}", cluster.bootstrap()));
        clusters.push(cluster);
        let create = ["queue", "create", "jobs", "--partitions", "6"];
        place.run(&create).expect(3).says(&["there are 1 brokers", "--replication"]);
        place.run(&[&create[..], &["--replication", "1", "--unsafe"]].concat()).expect(0);
        Fleet::at(place, 6, options)
    });
}

/// The broker that is away, and when it comes back.
#[derive(Default)]
struct Mended(Option<(usize, bool, BootTime)>);

impl Mended {
    fn suffer(&mut self, fault: Fault, cluster: &Cluster, now: BootTime) {
        if self.0.is_some() {
            return;
        }
        match fault {
            Fault::KillBroker(at) => {
                cluster.kill(at).unwrap();
                self.0 = Some((at, true, now.plus(Duration::from_secs(8))));
            }
            Fault::FreezeBroker(at, ms) => {
                cluster.pause(at).unwrap();
                self.0 = Some((at, false, now.plus(Duration::from_millis(ms))));
            }
            Fault::MoveCoordinator => {
                // Brokers that were just killed may not take it: then this was no fault.
                if let Err(error) = cluster.move_coordinator("workers") {
                    println!("the coordinator stays: {error:#}");
                }
            }
            Fault::OfWorker(_) => {}
        }
    }

    fn mend(&mut self, cluster: &Cluster, now: BootTime, at_once: bool) {
        let Some((at, killed, when)) = self.0 else { return };
        if now < when && !at_once {
            return;
        }
        if killed { cluster.restart(at) } else { cluster.resume(at) }.unwrap();
        cluster.wait_ready().unwrap();
        self.0 = None;
    }
}
