//! A worker process that is frozen past its session, with guards taken away one after another: what still holds.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "worker/rig.rs"]
mod rig;

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Arc,
    time::Duration,
};

use keylane_consumer::{JobContext, WorkerSettings, fence::Guards};
use rig::{Rig, tell};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::Semaphore;

/// Tells a process of this test binary that it is the worker that is frozen: in which folder, and under which guards.
const FOLDER: &str = "KEYLANE_TEST_FOLDER";
const GUARDS: &str = "KEYLANE_TEST_GUARDS";

/// With all guards on, the worker itself throws away what it finished too late; the row is not even asked.
#[test]
fn a_thawed_worker_drops_its_late_results_by_itself() {
    let scene = Scene::frozen("deadline let_go row");
    let scene = scene.thawed();
    scene.wait_for("it knows that it lost the partition", "Lost(");
    scene.wait_for("it drops its late result", "LateResultDropped");
    assert_eq!((scene.landed(), scene.refused()), (0, 0));
    scene.finish();
}

/// Without its clock and without listening to the group: the row alone refuses its write.
#[test]
fn the_row_alone_refuses_a_thawed_worker() {
    let scene = Scene::frozen("row").thawed();
    scene.wait_for("its write is refused", "WriteRefused");
    assert_eq!((scene.landed(), scene.refused()), (0, 1));
    scene.finish();
}

/// The twin: without the row it lands, while another one holds the partition.
#[test]
fn without_the_row_a_thawed_workers_write_lands() {
    let scene = Scene::frozen("").thawed();
    scene.rig.wait_for("the stale write lands", || scene.landed() > 0);
    assert_eq!(scene.holder(), "successor");
}

/// One worker frozen with a job half-way; its successor holds the partition, and has begun the same job.
struct Scene {
    rig: Rig,
    zombie: Zombie,
    successor: rig::Running,
    gate: Arc<Semaphore>,
}

struct Zombie {
    child: Child,
    told: PathBuf,
}

const JOBS: u32 = 5;

impl Scene {
    fn frozen(guards: &str) -> Self {
        let rig = Rig::with(1, |settings| settings.lanes.running = 1);
        rig.enqueue(1..=JOBS, |n| format!("k{n}"));
        let zombie = Zombie::start(rig.folder(), guards);
        rig.wait_for("it has begun", || rig.folder().join("begun").exists());
        zombie.freeze(&rig);
        std::fs::write(rig.folder().join("go"), "").unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let successor = rig.spawn("successor", move |job: JobContext| {
            let gate = Arc::clone(&held);
            async move {
                gate.acquire().await.expect("open").forget();
                tell(&job)
            }
        });
        rig.wait_for("its successor took over", || successor.owned() == 1);
        Self { rig, zombie, successor, gate }
    }

    fn thawed(self) -> Self {
        self.zombie.send(Signal::CONT);
        self
    }

    fn wait_for(&self, what: &str, notice: &str) {
        self.rig.wait_for(what, || std::fs::read_to_string(&self.zombie.told).unwrap_or_default().contains(notice));
    }

    /// Effects of whoever: the successor has had no chance yet.
    fn landed(&self) -> usize {
        self.rig.told().len()
    }

    /// Writes of the frozen worker that the row refused.
    fn refused(&self) -> u64 {
        let sql = "SELECT coalesce(sum(writes), 0) FROM keylane_refused WHERE worker = 'zombie'";
        self.rig.store_file().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().cast_unsigned()
    }

    fn holder(&self) -> String {
        self.rig.store_file().query_row("SELECT worker FROM keylane_fence", [], |row| row.get(0)).unwrap()
    }

    /// The successor does all of it, once and in order.
    fn finish(self) {
        self.gate.add_permits(1_000);
        self.rig.wait_for("all jobs", || self.rig.told().len() == JOBS as usize);
        assert!(self.successor.end().clean);
        self.rig.assert_once_in_order(JOBS as usize);
    }
}

impl Zombie {
    fn start(folder: &Path, guards: &str) -> Self {
        let told = folder.join("told-by-zombie");
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["zombie_process", "--exact", "--nocapture"])
            .env(FOLDER, folder)
            .env(GUARDS, guards)
            .stdout(File::create(&told).unwrap())
            .spawn()
            .unwrap();
        Self { child, told }
    }

    /// Where it holds no lock: that is another test's.
    fn freeze(&self, rig: &Rig) {
        rig.wait_for("it is frozen outside of a transaction", || {
            self.send(Signal::STOP);
            rig.wait_for("it stands still", || self.stands_still());
            let outside = rig.nobody_writes();
            if !outside {
                self.send(Signal::CONT);
            }
            outside
        });
    }

    /// Each thread stops for itself, some time after the signal.
    fn stands_still(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        threads
            .map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default())
            .all(|stat| stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T')))
    }

    fn send(&self, signal: Signal) {
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
    let change = move |settings: &mut WorkerSettings| {
        settings.lanes.running = 1;
        settings.guards = guards;
    };
    let worker = Rig::at(&folder, change).spawn("zombie", move |job: JobContext| {
        let folder = folder.clone();
        async move {
            std::fs::write(folder.join("begun"), "").unwrap();
            // Ignores its cancellation, as code that does not await would.
            let outcome = tell(&job);
            while !folder.join("go").exists() {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            outcome
        }
    });
    worker.join();
}
