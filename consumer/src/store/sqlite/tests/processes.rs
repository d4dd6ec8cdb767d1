//! Real processes at one file: killed, frozen, continued, and frozen inside a transaction.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use keylane_producer::{Offset, sqlite::Patience};
use rusqlite::Savepoint;
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::{File, FileRig, endless, shared_file::until, tell};
use crate::{
    Error,
    fence::Fence,
    store::{
        Candidate, ClaimError, Effect, EffectError, FencedStore, JobWrite, PartitionWrite, Progress, StoreSession,
        Write,
        conformance::{P0, Place, candidate, group, job, letters, queue},
        sqlite::SqliteStore,
    },
};

const FILE: &str = "KEYLANE_STORE_TEST_FILE";
const GENERATION: &str = "KEYLANE_STORE_TEST_GENERATION";
const STOP_AT: &str = "KEYLANE_STORE_TEST_STOP_AT";
const GO_ON: &str = "go-on";
const KEYS: u64 = 4;

/// What the processes run: the tests below start this one again with its variables set. Without them it has no part.
#[test]
fn a_worker_process_writes_until_it_is_fenced() {
    let (Ok(file), Ok(generation)) = (std::env::var(FILE), std::env::var(GENERATION)) else { return };
    let store = SqliteStore::new(&file);
    let mut session = again(|| store.open(&queue(), &group()));
    let me = candidate(&format!("worker-{generation}"), generation.parse().unwrap(), P0);
    let Some(claimed) = claim(&store, &me) else { return };
    let fence = Fence::raise(P0, claimed.token, endless());
    let stop_at = std::env::var(STOP_AT).ok();
    let mut next = claimed.done.floor;
    loop {
        let offsets = || (next..next + 5).filter(|&offset| !claimed.done.contains(offset));
        let jobs = offsets().map(|offset| counted(offset, stop_at.as_deref())).collect();
        let mut batch = [PartitionWrite {
            fence: fence.clone(),
            jobs,
            quarantined: vec![],
            watermark: Offset(next),
            resumed: vec![],
            line_room: 100,
        }];
        let answers = again(|| session.write(&mut batch));
        let Ok(written) = &answers[0].jobs else { return };
        assert!(!letters(written).contains('f'), "{written:?}");
        next += 5;
    }
}

fn counted(offset: u64, stop_at: Option<&str>) -> JobWrite<SqliteStore> {
    let key = format!("k{}", offset % KEYS);
    let mut told = tell(&format!("{key}:{offset}"));
    let stop_at = stop_at.map(|path| format!("{path}.{}", getpid().as_raw_nonzero()));
    let effect = Effect::new(move |tx: &mut Savepoint<'_>| -> Result<(), EffectError> {
        (told.0)(tx)?;
        if let Some(path) = stop_at.as_deref().filter(|path| !Path::new(path).exists()) {
            std::fs::write(path, "inside the transaction")?;
            kill_process(getpid(), Signal::STOP)?;
            // The signal stops the process at some moment soon, so this thread must not go on by itself.
            until(|| Path::new(path).with_extension(GO_ON).exists());
        }
        Ok(())
    });
    job(&key, offset, Write::Effect(effect))
}

fn claim(store: &SqliteStore, me: &Candidate) -> Option<crate::store::Claimed> {
    loop {
        match store.open(&queue(), &group()).unwrap().claim(me) {
            Ok(claimed) => return Some(claimed),
            Err(ClaimError::Failed(error)) if error.is_transient() => {}
            Err(ClaimError::Refused(_)) => return None,
            Err(ClaimError::Failed(error)) => panic!("{error:?}"),
        }
    }
}

/// Tries until the store is available.
fn again<T>(mut call: impl FnMut() -> Result<T, Error>) -> T {
    loop {
        match call() {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_transient(), "{error:?}"),
        }
    }
}

struct Worker(Child);

impl Worker {
    fn start(file: &File, generation: u64, stop_at: Option<&Path>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = thread::current().name().unwrap_or_default().to_owned();
        let module = name.rsplit_once("::").expect("a test's thread has its path for a name").0;
        command
            .args([&format!("{module}::a_worker_process_writes_until_it_is_fenced"), "--exact"])
            .env(FILE, file.path())
            .env(GENERATION, generation.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        if let Some(path) = stop_at {
            command.env(STOP_AT, path);
        }
        Self(command.spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Waits for its end, and fails if it does not come: a worker that is not fenced goes on for ever.
    fn ends(&mut self) {
        until(|| self.0.try_wait().unwrap().is_some());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn each_marker_has_one_effect_in_order_however_workers_are_killed_and_frozen() {
    const ROUNDS: u64 = 24;
    let rig = FileRig::new();
    drop(rig.session());
    let mut frozen: Option<Worker> = None;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for generation in 1..=ROUNDS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut worker = Worker::start(&rig.place, generation, None);
        // A worker that was frozen inside its transaction holds the write lock: then nobody claims until it goes on.
        let looks = std::cell::Cell::new(0);
        until(|| {
            looks.set(looks.get() + 1);
            if looks.get() % 50 == 0
                && let Some(stopped) = &frozen
            {
                stopped.signal(Signal::CONT);
            }
            owner(&rig) == Some(format!("worker-{generation}"))
        });
        told_more(&rig, seed >> 60);
        if let Some(mut old) = frozen.take() {
            // It goes on in the belief that it owns the partition, finds that it does not, and ends by itself.
            old.signal(Signal::CONT);
            old.ends();
        }
        match (seed >> 32) % 3 {
            0 => {
                worker.signal(Signal::KILL);
                worker.ends();
            }
            1 => {
                worker.signal(Signal::STOP);
                frozen = Some(worker);
            }
            // Left running: the next claim fences it.
            _ => frozen = Some(worker),
        }
    }
    let last = rig.claim("last", ROUNDS + 1, P0);
    if let Some(mut old) = frozen {
        old.signal(Signal::CONT);
        old.ends();
    }
    check(&rig.place.told(), &last.claimed.done);
}

#[test]
fn a_worker_killed_inside_its_transaction_leaves_nothing_and_holds_nobody_up() {
    let (rig, mut inside) = stopped_inside_its_transaction();
    inside.signal(Signal::KILL);
    inside.ends();
    let new = rig.claim("new", 2, P0);
    assert_eq!((new.claimed.done, rig.place.told().len()), (Progress::default(), 0));
}

#[test]
fn a_worker_that_goes_on_inside_its_transaction_commits_before_the_claim_or_never() {
    let (rig, mut inside) = stopped_inside_its_transaction();
    std::fs::write(rig.place.path().with_extension(format!("inside.{GO_ON}")), "").unwrap();
    inside.signal(Signal::CONT);
    let new = loop {
        match rig.try_claim(&candidate("new", 2, P0)) {
            Ok(new) => break new,
            Err(ClaimError::Failed(error)) => assert!(error.is_transient(), "{error:?}"),
            Err(refused) => panic!("{refused}"),
        }
    };
    inside.ends();
    assert!(new.claimed.done.floor >= 5, "its transaction was whole, and committed");
    check(&rig.place.told(), &new.claimed.done);
}

/// While it stands there: others are told that the store is busy and what to do, and those who only look do not wait.
fn stopped_inside_its_transaction() -> (FileRig, Worker) {
    let rig = FileRig::at(File::fresh().with(|store| store.with_patience(Patience::Brisk)));
    let mut looking = rig.session();
    let mark = rig.place.path().with_extension("inside");
    let inside = Worker::start(&rig.place, 1, Some(&mark));
    let marked = mark.with_extension(format!("inside.{}", inside.0.id()));
    until(|| marked.exists());
    match rig.try_claim(&candidate("new", 2, P0)) {
        Err(ClaimError::Failed(Error::Unavailable(detail))) => {
            assert!(detail.remedy_text().is_some_and(|remedy| remedy.contains("frozen")), "{detail:?}");
        }
        other => panic!("the write lock is held: {:?}", other.map(|holder| holder.claimed)),
    }
    let overview = looking.overview().unwrap();
    assert_eq!((overview[0].worker.as_deref(), overview[0].done.floor), (Some("worker-1"), 0));
    (rig, inside)
}

fn owner(rig: &FileRig) -> Option<String> {
    let rows = rig.place.store().fence_rows().unwrap();
    rows[0].worker.as_deref().map(str::to_owned)
}

/// Waits until so many more lines were told.
fn told_more(rig: &FileRig, lines: u64) {
    let before = rig.place.told().len();
    until(|| rig.place.told().len() > before + usize::try_from(lines).unwrap());
}

/// Each marker has one effect, each effect a marker, and the effects of a key are in the order of its jobs.
fn check(told: &[String], done: &Progress) {
    let mut last = std::collections::BTreeMap::new();
    for line in told {
        let (key, offset) = line.split_once(':').unwrap();
        let offset: u64 = offset.parse().unwrap();
        assert!(done.contains(offset), "an effect without its marker: {line}");
        let before = last.insert(key.to_owned(), offset);
        let expected = before.map_or(offset % KEYS, |before| before + KEYS);
        assert_eq!(offset, expected, "once, in order, none skipped: {line} after {before:?}");
    }
    let marked = done.floor + done.ranges.iter().map(|(first, last)| last - first + 1).sum::<u64>();
    assert_eq!(u64::try_from(told.len()).unwrap(), marked, "a marker without its effect");
}
