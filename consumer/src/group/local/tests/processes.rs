//! Real processes that are killed and frozen, watched by an observer that reads the group's rows.

use std::{
    collections::BTreeMap,
    process::{Child, Command, Stdio},
};

use rusqlite::Connection;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::*;
use crate::group::{GroupWatch, MemberOverview};

/// Tells a process of this test binary that it is a member, and of which file.
const MEMBER: &str = "KEYLANE_TEST_MEMBER_OF";
const SESSION: Duration = Duration::from_millis(700);
const PARTITIONS: u32 = 8;
const MEMBERS: usize = 4;
const ROUNDS: usize = 12;

fn settings(worker: &str) -> LocalGroupSettings {
    LocalGroupSettings {
        worker: worker.into(),
        session_timeout: SESSION,
        rebalance_timeout: SESSION * 2,
        ..LocalGroupSettings::default()
    }
}

/// The body of a member process; in an ordinary run of the tests it has nothing to do.
#[test]
fn member_process() {
    let Some(path) = std::env::var_os(MEMBER) else { return };
    let path = std::path::PathBuf::from(path);
    let mut log = schema::open_log(&path).unwrap();
    let queue = log.describe(&"jobs".parse().unwrap()).unwrap().identity;
    let settings = settings(&std::process::id().to_string());
    let mut group = LocalGroup::open(&path, &queue, &Folder::group(), Clock::boot(), settings).unwrap();
    let control = group.control();
    loop {
        let answer = group.poll(Duration::from_millis(50), &mut |event| {
            if let GroupEvent::Revoking(partitions) = event {
                control.release(&partitions);
            }
        });
        assert!(answer.as_ref().err().is_none_or(Error::is_transient), "{answer:?}");
    }
}

struct Process(Child);

impl Process {
    fn join(path: &std::path::Path) -> Self {
        let me = std::env::current_exe().unwrap();
        let test = "group::local::tests::processes::member_process";
        let child = Command::new(me)
            .args([test, "--exact", "--nocapture"])
            .env(MEMBER, path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    fn worker(&self) -> String {
        self.0.id().to_string()
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Each thread stops for itself, some time after the signal: until the last one did, it can still begin a transaction.
    fn freeze(&self) {
        self.send(Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&self.0)), options).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.send(Signal::KILL);
        self.0.wait().unwrap();
    }
}

/// Holds what must be true of the rows at every moment.
struct Observer {
    connection: Connection,
    generation: i64,
    owners: BTreeMap<(u32, i64), String>,
}

impl Observer {
    fn of(folder: &Folder) -> Self {
        Self { connection: schema::open(&folder.path()).unwrap(), generation: 0, owners: BTreeMap::new() }
    }

    fn look(&mut self) -> Result<(), String> {
        let tx = self.connection.unchecked_transaction().unwrap();
        let generation: i64 =
            tx.query_row("SELECT coalesce(max(generation), 0) FROM keylane_group", [], |row| row.get(0)).unwrap();
        if generation < self.generation {
            return Err(format!("the generation fell from {} to {generation}", self.generation));
        }
        self.generation = generation;
        let mut ask = tx.prepare("SELECT part, generation, member FROM keylane_assignment").unwrap();
        let rows = ask.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get::<_, String>(2)?))).unwrap();
        for (place, member) in rows.map(Result::unwrap) {
            let known = self.owners.entry(place).or_insert_with(|| member.clone());
            if *known != member {
                return Err(format!("{place:?} (partition, generation) is owned by {known} and {member}"));
            }
        }
        Ok(())
    }

    fn wait_until(&mut self, what: &str, mut met: impl FnMut() -> bool) {
        let limit = Clock::boot().now().plus(Duration::from_secs(60));
        while !met() {
            assert!(Clock::boot().now() < limit, "waited too long until {what}");
            self.look().unwrap();
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

/// Small and repeatable: the seed is printed with a failure.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

#[test]
fn killed_and_frozen_processes_never_share_a_partition_and_the_rest_goes_on() {
    let folder = Folder::with_queue(PARTITIONS);
    let (path, mut dice, mut observer) = (folder.path(), Dice(0x5eed_0fac_e5ee_d001), Observer::of(&folder));
    let mut reader = GroupReader::open(&path, &folder.queue, &Folder::group(), Clock::boot()).unwrap();
    let mut members = move || reader.overview().unwrap().members;
    let mut processes: Vec<Process> = (0..MEMBERS).map(|_| Process::join(&path)).collect();
    for round in 0..ROUNDS {
        println!("round {round}, dice {:#x}", dice.0);
        let names: Vec<String> = processes.iter().map(Process::worker).collect();
        observer.wait_until("every partition has one live owner", || at_rest(&members(), &names));
        let at = dice.below(MEMBERS);
        let victim = names[at].as_str();
        let is_gone = |members: Vec<MemberOverview>| members.iter().all(|m| &*m.worker != victim);
        if dice.below(2) == 0 {
            processes[at].send(Signal::KILL);
            observer.wait_until("the dead one is expelled", || is_gone(members()));
            processes[at] = Process::join(&path);
        } else {
            // Frozen inside a transaction it holds the file's write lock, and nobody could expel it: freeze it elsewhere.
            observer.wait_until("one is frozen outside of its transactions", || {
                processes[at].freeze();
                let free = can_write(&path);
                if !free {
                    processes[at].send(Signal::CONT);
                }
                free
            });
            observer.wait_until("the frozen one is expelled", || is_gone(members()));
            processes[at].send(Signal::CONT);
        }
    }
    assert!(observer.owners.len() > usize::try_from(PARTITIONS).unwrap(), "nothing ever moved");
}

/// Whether another process can write within a while.
fn can_write(path: &Path) -> bool {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(1)).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok()
}

fn at_rest(members: &[MemberOverview], names: &[String]) -> bool {
    let mut owned: Vec<Partition> = members.iter().flat_map(|m| m.partitions.clone()).collect();
    owned.sort();
    members.len() == names.len()
        && names.iter().all(|name| members.iter().any(|m| *m.worker == **name && !m.expired))
        && members.iter().all(|m| m.revoking.is_empty() && m.partitions.len() == 2)
        && owned == (0..PARTITIONS).map(Partition).collect::<Vec<_>>()
}

/// The observer must be able to object.
#[test]
fn the_observer_sees_a_second_owner_and_a_generation_that_falls() {
    for (harm, objection) in [
        ("UPDATE keylane_assignment SET member = 'other'", "is owned by"),
        ("UPDATE keylane_group SET generation = 0", "the generation fell"),
    ] {
        let folder = Folder::with_queue(1);
        let mut group = folder.open();
        group.poll(Duration::ZERO, &mut |_| {}).unwrap();
        let mut observer = Observer::of(&folder);
        observer.look().unwrap();
        observer.connection.execute_batch(harm).unwrap();
        let answer = observer.look().unwrap_err();
        assert!(answer.contains(objection), "{answer}");
    }
}
