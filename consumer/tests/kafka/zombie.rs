//! Worker processes that are frozen past their session, on a real Kafka; with guards taken away one after another.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

use keylane_consumer::group::kafka::Assignor;
use keylane_consumer::{JobContext, Notice, Outcome, fence::Guards};
use rusqlite::params;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::Semaphore;

use crate::rig::{Answer, Rig, Running, tell, wait_for};

/// Tells a process of this test binary what it is: in which folder, under which guards, and where its jobs wait.
const FOLDER: &str = "KEYLANE_TEST_KAFKA_FOLDER";
const GUARDS: &str = "KEYLANE_TEST_GUARDS";
const INSIDE: &str = "KEYLANE_TEST_INSIDE";

/// Two jobs of two keys run on it when it is frozen; it finishes that of the key which its successor has not touched.
#[test]
fn the_row_alone_refuses_a_zombies_write_to_a_key_that_its_successor_has_not_touched() {
    let scene = Scene::frozen("row");
    scene.thaw();
    scene.rig.wait_for("its write is refused", || scene.zombie.told("WriteRefused"));
    let refused = "SELECT coalesce(sum(writes), 0) FROM keylane_refused WHERE worker = 'zombie'";
    assert_eq!((scene.rig.told_count(), scene.rig.count(refused)), (0, 1));
    scene.finish();
}

/// The twin: without the row it lands, while another one holds the partition.
#[test]
fn without_the_row_a_zombies_write_to_an_untouched_key_lands() {
    let scene = Scene::frozen("");
    scene.thaw();
    scene.rig.wait_for("the stale write lands", || scene.rig.told_count() > 0);
    assert_eq!(scene.rig.told()[0].worker, "zombie");
    let holder = "SELECT count(*) FROM keylane_fence WHERE worker = 'successor'";
    assert_eq!(scene.rig.count(holder), 1);
}

/// With all guards on, the worker itself throws away what it finished too late; the row is not even asked.
#[test]
fn a_zombie_finds_out_by_asking_the_group_and_drops_its_late_results() {
    let scene = Scene::frozen("row deadline let_go");
    scene.thaw();
    scene.rig.wait_for("it knows that it lost the partition", || scene.zombie.told("Lost("));
    scene.rig.wait_for("it drops its late result", || scene.zombie.told("LateResultDropped"));
    let refused = "SELECT coalesce(sum(writes), 0) FROM keylane_refused";
    assert_eq!((scene.rig.told_count(), scene.rig.count(refused)), (0, 0));
    scene.finish();
}

/// It stands inside its transaction when it is frozen: the claim waits for it, and what it commits is there before the claim.
#[test]
fn a_writer_frozen_across_a_claim_is_before_it_or_refused() {
    let rig = Rig::new(1, Assignor::Cooperative);
    rig.enqueue(1..=JOBS, |n| format!("k{n}"));
    let zombie = Zombie::start(rig.folder(), "row", true);
    rig.wait_for("it is inside", || rig.folder().join("inside").exists());
    zombie.stop();
    let successor = rig.spawn("successor", |job: JobContext| async move { tell(&job, "successor") });
    rig.wait_for("the group gives the partition away", || {
        successor.noticed(|notice| matches!(notice, Notice::Assigned(_))) > 0
    });
    // The claim's patience with a store that is locked is shorter than what the test waits.
    let away = |notice: &Notice| matches!(notice, Notice::Away { what: "the store", .. });
    rig.wait_for("the claim waits for the zombie's transaction", || successor.noticed(away) > 0);
    assert_eq!((successor.owned(), rig.told_count()), (0, 0));
    std::fs::write(rig.folder().join("go"), "").unwrap();
    zombie.send(Signal::CONT);
    rig.wait_for("its successor took over", || successor.owned() == 1);
    std::fs::write(rig.folder().join("go-k2"), "").unwrap();
    rig.wait_for("what it finished later is refused", || zombie.told("WriteRefused"));
    rig.wait_for("all jobs", || rig.told_count() == JOBS as usize);
    assert!(successor.end().clean);
    let by: Vec<_> = rig.told().into_iter().map(|told| told.worker).collect();
    assert_eq!(by[0], "zombie", "its transaction was good");
    assert!(by[1..].iter().all(|worker| worker == "successor"), "nothing of the zombie's after the claim: {by:?}");
    rig.assert_once_in_order(JOBS as usize);
}

/// One worker frozen with two jobs half-way; its successor holds the partition, and has begun the first of them.
struct Scene {
    rig: Rig,
    zombie: Zombie,
    successor: Running,
    gate: Arc<Semaphore>,
}

const JOBS: u32 = 5;

impl Scene {
    fn frozen(guards: &str) -> Self {
        let rig = Rig::with(1, Assignor::Cooperative, |settings, _| settings.lanes.running = 1);
        rig.enqueue(1..=JOBS, |n| format!("k{n}"));
        let zombie = Zombie::start(rig.folder(), guards, false);
        rig.wait_for("two have begun", || (1..=2).all(|n| rig.folder().join(format!("begun-k{n}")).exists()));
        zombie.freeze(&rig);
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let successor = rig.spawn("successor", move |job: JobContext| {
            let gate = Arc::clone(&held);
            async move {
                gate.acquire().await.expect("open").forget();
                tell(&job, "successor")
            }
        });
        rig.wait_for("its successor took over", || successor.owned() == 1);
        Self { rig, zombie, successor, gate }
    }

    /// The second key's job ends at once.
    fn thaw(&self) {
        std::fs::write(self.rig.folder().join("go-k2"), "").unwrap();
        self.zombie.send(Signal::CONT);
    }

    /// The successor does all of it, once and in order.
    fn finish(self) {
        self.gate.add_permits(1_000);
        self.rig.wait_for("all jobs", || self.rig.told_count() == JOBS as usize);
        assert!(self.successor.end().clean);
        self.rig.assert_once_in_order(JOBS as usize);
    }
}

pub(crate) struct Zombie {
    child: Child,
    told: PathBuf,
}

impl Zombie {
    pub(crate) fn start(folder: &Path, guards: &str, inside: bool) -> Self {
        let told = folder.join("told-by-zombie");
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["zombie::zombie_process", "--exact", "--nocapture"])
            .env(FOLDER, folder)
            .env(GUARDS, guards)
            .env(INSIDE, if inside { "yes" } else { "" })
            .stdout(File::create(&told).unwrap())
            .spawn()
            .unwrap();
        Self { child, told }
    }

    /// Whether it has said this.
    pub(crate) fn told(&self, what: &str) -> bool {
        std::fs::read_to_string(&self.told).unwrap_or_default().contains(what)
    }

    /// How often it has said this.
    pub(crate) fn count(&self, what: &str) -> usize {
        std::fs::read_to_string(&self.told).unwrap_or_default().matches(what).count()
    }

    /// Where it holds no lock: that is another test's.
    pub(crate) fn freeze(&self, rig: &Rig) {
        wait_for("it is frozen outside of a transaction", || {
            self.stop();
            let outside = rig.nobody_writes();
            if !outside {
                self.send(Signal::CONT);
            }
            outside
        });
    }

    pub(crate) fn stop(&self) {
        self.send(Signal::STOP);
        wait_for("it stands still", || self.stands_still());
    }

    /// Each thread stops for itself, some time after the signal.
    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads
            .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default())
            .all(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Zombie {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of the frozen worker; in an ordinary run of the tests it has nothing to do.
#[test]
fn zombie_process() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let guards = std::env::var(GUARDS).unwrap();
    let stands = |name: &str| guards.split(' ').any(|guard| guard == name);
    let guards =
        Guards { row: stands("row"), deadline: stands("deadline"), let_go: stands("let_go"), ..Guards::default() };
    let inside = !std::env::var(INSIDE).unwrap().is_empty();
    let rig = Rig::at(&folder, move |settings, _| {
        settings.lanes.running = 2;
        settings.handler_threads = 2;
        settings.guards = guards;
    });
    let worker = rig.spawn("zombie", move |job: JobContext| {
        let folder = folder.clone();
        let inside = inside && job.offset.0 == 0;
        async move { if inside { wait_inside(&job, folder) } else { wait_outside(&job, &folder) } }
    });
    let _ = worker.outcome();
}

/// Ignores its cancellation, as code that does not await would.
fn wait_outside(job: &JobContext, folder: &Path) -> Answer {
    let key = job.job.key.to_string();
    std::fs::write(folder.join(format!("begun-{key}")), "").unwrap();
    wait_for_file(&folder.join(format!("go-{key}")));
    tell(job, "zombie")
}

/// Its effect waits in the transaction.
fn wait_inside(job: &JobContext, folder: PathBuf) -> Answer {
    let (partition, offset, key) = (job.partition.0, job.offset.0.cast_signed(), job.job.key.to_string());
    Outcome::effect(move |tx: &mut rusqlite::Savepoint<'_>| {
        let sql = "INSERT INTO told (partition, offset, key, worker) VALUES (?1, ?2, ?3, 'zombie')";
        tx.execute(sql, params![partition, offset, key])?;
        std::fs::write(folder.join("inside"), "")?;
        wait_for_file(&folder.join("go"));
        Ok(())
    })
}

fn wait_for_file(path: &Path) {
    while !path.exists() {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
