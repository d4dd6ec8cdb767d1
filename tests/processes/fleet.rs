//! Real `keylane work` processes on one queue file: started, frozen, killed, and judged by what they left in the store.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use keylane_consumer::{
    FencedStore,
    store::{StoreSession, sqlite::SqliteStore},
};
use keylane_producer::{JobKey, partition_of};
use keylane_testing::postgres::Server;
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::process::{
    Place, pause, wait_until,
    worker::{is_locked, stands_still},
};

/// A folder with a queue, a store that remembers every claim and every result in order, and a journal of handlers.
pub(crate) struct Fleet {
    pub(crate) place: Place,
    kept: Kept,
    /// What every worker of it is started with.
    options: Vec<String>,
}

/// Where the store is.
enum Kept {
    InFile,
    #[allow(dead_code, reason = "for the test with a database")]
    In(&'static Server, String),
}

/// A worker process; it is killed when it is dropped.
pub(crate) struct Worker {
    child: Child,
    pub(crate) name: String,
    out: PathBuf,
    err: PathBuf,
}

/// A result as it landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Landed {
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) key: String,
    /// Whose handler answered it.
    pub(crate) writer: String,
    /// Who held the partition's row at that moment.
    pub(crate) holder: String,
}

/// Every result in the order in which it landed, with the row's holder at that moment: what no program can tidy up.
const WITNESS: &str = "
CREATE TABLE landed (
    n INTEGER PRIMARY KEY AUTOINCREMENT, part INTEGER, offset INTEGER, key BLOB, result TEXT, holder TEXT
);
CREATE TRIGGER landed AFTER INSERT ON keylane_result BEGIN
    INSERT INTO landed (part, offset, key, result, holder)
    SELECT new.part, new.offset, new.key, new.result, worker FROM keylane_fence WHERE part = new.part;
END;
CREATE TABLE suspected (n INTEGER PRIMARY KEY, offset INTEGER);
CREATE TRIGGER suspected AFTER INSERT ON keylane_suspect BEGIN
    INSERT INTO suspected (offset) VALUES (new.offset);
END;
CREATE TABLE buried (part INTEGER, offset INTEGER);
CREATE TRIGGER buried AFTER INSERT ON keylane_dead BEGIN
    INSERT INTO buried VALUES (new.part, new.offset);
END;";

/// The same of Postgres.
const WITNESS_OF_POSTGRES: &str = "
CREATE TABLE public.landed (n bigserial PRIMARY KEY, part int, \"offset\" bigint, key text, writer text, holder text);
CREATE FUNCTION public.landed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.landed (part, \"offset\", key, writer, holder)
    SELECT new.part, new.\"offset\", convert_from(new.key, 'UTF8'), new.result->>'worker', worker
    FROM keylane.fence WHERE part = new.part;
    RETURN new;
END $$;
CREATE TRIGGER landed AFTER INSERT ON keylane.result FOR EACH ROW EXECUTE FUNCTION public.landed();
CREATE TABLE public.buried (part int, \"offset\" bigint);
CREATE FUNCTION public.buried() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO public.buried VALUES (new.part, new.\"offset\");
    RETURN new;
END $$;
CREATE TRIGGER buried AFTER INSERT ON keylane.dead FOR EACH ROW EXECUTE FUNCTION public.buried();";

impl Fleet {
    pub(crate) fn new(partitions: u32, options: &[&str]) -> Self {
        Self::at(Place::new(), partitions, options)
    }

    pub(crate) fn at(place: Place, partitions: u32, options: &[&str]) -> Self {
        Self::keeping(place, Kept::InFile, partitions, options)
    }

    #[allow(dead_code, reason = "for the test with a database")]
    /// Its store is a database of its own on this server.
    pub(crate) fn on_postgres(server: &'static Server, partitions: u32, options: &[&str]) -> Self {
        let kept = Kept::In(server, server.database().unwrap());
        Self::keeping(Place::new(), kept, partitions, options)
    }

    fn keeping(place: Place, kept: Kept, partitions: u32, options: &[&str]) -> Self {
        let partitions = partitions.to_string();
        place.run(&["queue", "create", "jobs", "--partitions", &partitions, "--if-missing"]).expect(0);
        let fleet = Self { place, kept, options: options.iter().map(|&o| o.to_owned()).collect() };
        // A worker that finds nothing to do makes the store's tables.
        let mut first = fleet.place.command(&["work", "--builtin", "discard", "--until-empty"]);
        crate::process::Ended::of(first.args(["--store", &fleet.store_url()]).spawn().unwrap()).expect(0);
        match &fleet.kept {
            Kept::InFile => fleet.store().execute_batch(WITNESS).unwrap(),
            Kept::In(server, database) => drop(server.sql(database, WITNESS_OF_POSTGRES).unwrap()),
        }
        fleet
    }

    pub(crate) fn store_url(&self) -> String {
        match &self.kept {
            Kept::InFile => "sqlite:store.db".to_owned(),
            Kept::In(server, database) => server.url(database),
        }
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub(crate) fn store(&self) -> Connection {
        open(&self.file("store.db"))
    }

    /// Jobs with these keys, in order; a job's payload is its number.
    pub(crate) fn enqueue(&self, keys: impl IntoIterator<Item = String>) {
        let lines: Vec<String> =
            keys.into_iter().enumerate().map(|(n, key)| format!(r#"{{"key":"{key}","n":{n}}}"#)).collect();
        self.place.run_with_input(&["enqueue", "-", "--key", "/key"], lines.join("\n")).expect(0);
    }

    #[allow(dead_code, reason = "for the test with brokers")]
    /// As [`Fleet::enqueue`], while brokers come and go: what is on the log counts, whatever the program could say.
    pub(crate) fn enqueue_what_can_be(&self, keys: impl IntoIterator<Item = String>) {
        let lines: Vec<String> = keys.into_iter().map(|key| format!(r#"{{"key":"{key}"}}"#)).collect();
        let ended = self.place.run_with_input(&["enqueue", "-", "--key", "/key"], lines.join("\n"));
        assert!(matches!(ended.code, Some(0 | 7)), "{}", ended.stderr);
    }

    /// Starts a worker whose handler is this shell script; `$1` is the worker's name.
    pub(crate) fn start(&self, name: &str, script: &str) -> Worker {
        self.launch(self.place.command(&[]), name, script)
    }

    /// As [`Fleet::start`]; a write beyond the limit on its files' size fails there instead of ending it.
    pub(crate) fn start_ignoring_size_limit(&self, name: &str, script: &str) -> Worker {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", r#"trap '' XFSZ; exec "$@""#, "sh", env!("CARGO_BIN_EXE_keylane")]);
        shell.current_dir(self.place.path()).env_clear().stdin(Stdio::null());
        self.launch(shell, name, script)
    }

    fn launch(&self, mut command: Command, name: &str, script: &str) -> Worker {
        let (out, err) = (self.file(&format!("{name}.out")), self.file(&format!("{name}.err")));
        command.args(["work", "-o", "json", "--store", &self.store_url(), "--name", name]).args(&self.options);
        command.args(["--exec", "sh", "-c", script, "handler", name]);
        let file = |path: &Path| File::options().create(true).append(true).open(path).unwrap();
        let child = command.stdout(Stdio::from(file(&out))).stderr(Stdio::from(file(&err))).spawn().unwrap();
        Worker { child, name: name.to_owned(), out, err }
    }

    /// Whether somebody is inside a transaction that writes, to the queue or to the store.
    pub(crate) fn is_locked(&self) -> bool {
        is_locked(&self.file("keylane.db")) || is_locked(&self.file("store.db"))
    }

    /// Everything that landed, in that order.
    pub(crate) fn landed(&self) -> Vec<Landed> {
        if let Kept::In(server, database) = &self.kept {
            let all = r#"SELECT part, "offset", key, writer, holder FROM landed ORDER BY n"#;
            let rows = server.sql(database, all).unwrap();
            return rows.lines().map(Landed::of_postgres).collect();
        }
        let store = self.store();
        let mut rows = store.prepare("SELECT part, offset, key, result, holder FROM landed ORDER BY n").unwrap();
        let landed = |row: &rusqlite::Row<'_>| {
            let (key, result): (Vec<u8>, String) = (row.get(2)?, row.get(3)?);
            let result: Value = serde_json::from_str(&result).unwrap();
            Ok(Landed {
                partition: row.get(0)?,
                offset: row.get::<_, i64>(1)?.cast_unsigned(),
                key: String::from_utf8(key).unwrap(),
                writer: result["worker"].as_str().unwrap_or_default().to_owned(),
                holder: row.get(4)?,
            })
        };
        rows.query_map([], landed).unwrap().map(Result::unwrap).collect()
    }

    pub(crate) fn count(&self) -> u64 {
        self.number("SELECT count(*) FROM landed")
    }

    /// As SQLite says it.
    pub(crate) fn number(&self, sql: &str) -> u64 {
        if let Kept::In(server, database) = &self.kept {
            return server.sql(database, &sql.replace("keylane_", "keylane.")).unwrap().parse().unwrap();
        }
        self.store().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap().cast_unsigned()
    }

    /// Lets a stopped key go on, as a person would.
    pub(crate) fn release(&self, key: &str) {
        let queue = self.place.log().describe(&"jobs".parse().unwrap()).unwrap().identity;
        let mut session = SqliteStore::new(self.file("store.db")).open(&queue, &"workers".parse().unwrap()).unwrap();
        let key = JobKey::try_from(key).unwrap();
        let overview = session.overview().unwrap();
        let row = overview.iter().flat_map(|o| &o.stopped).find(|row| row.key == key).unwrap();
        let partition = partition_of(key.as_bytes(), queue.partitions);
        assert!(session.release_key(partition, &key, row.version).unwrap());
    }

    /// Jobs that were dead letters at some time.
    pub(crate) fn buried(&self) -> BTreeSet<(u32, u64)> {
        if let Kept::In(server, database) = &self.kept {
            let rows = server.sql(database, r#"SELECT part, "offset" FROM buried"#).unwrap();
            let place = |row: &str| row.split_once('|').map(|(p, o)| (p.parse().unwrap(), o.parse().unwrap()));
            return rows.lines().filter_map(place).collect();
        }
        let store = self.store();
        let mut rows = store.prepare("SELECT part, offset FROM buried").unwrap();
        let place = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
        rows.query_map([], place).unwrap().map(Result::unwrap).collect()
    }

    /// Nothing lost, nothing twice, each key in order but for what left it as a dead letter, and nothing by a worker that did
    /// not hold the partition's row.
    pub(crate) fn judge(&self) -> Result<(), String> {
        let enqueued: Vec<_> = self.place.records("jobs").iter().map(|r| (r.partition, r.offset)).collect();
        judge(&enqueued, &self.landed(), &self.buried())
    }

    /// What every worker said, for a failure's report.
    pub(crate) fn report(&self) -> String {
        let mut files: Vec<_> = std::fs::read_dir(self.place.path()).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        let told = files.iter().filter(|f| f.extension().is_some_and(|e| e == "out" || e == "err"));
        told.map(|f| {
            let text = std::fs::read_to_string(f).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            format!("--- {}\n{}\n", f.display(), lines[lines.len().saturating_sub(60)..].join("\n"))
        })
        .collect()
    }
}

/// A file of which another process may hold the lock for long.
pub(crate) fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection
}

pub(crate) fn judge(enqueued: &[(u32, u64)], landed: &[Landed], buried: &BTreeSet<(u32, u64)>) -> Result<(), String> {
    let mut times: BTreeMap<(u32, u64), usize> = enqueued.iter().map(|&place| (place, 0)).collect();
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for result in landed {
        let Some(times) = times.get_mut(&(result.partition, result.offset)) else {
            return Err(format!("nobody enqueued {result:?}"));
        };
        *times += 1;
        if result.writer != result.holder {
            return Err(format!("a stale write landed: {result:?}"));
        }
        if !buried.contains(&(result.partition, result.offset))
            && last.insert(&result.key, result.offset).is_some_and(|before| before >= result.offset)
        {
            return Err(format!("out of order: {result:?}"));
        }
    }
    match times.into_iter().find(|&(_, times)| times != 1) {
        Some((place, times)) => Err(format!("partition and offset {place:?} landed {times} times")),
        None => Ok(()),
    }
}

impl Landed {
    fn of_postgres(row: &str) -> Self {
        let mut columns = row.split('|');
        let mut next = || columns.next().unwrap();
        Self {
            partition: next().parse().unwrap(),
            offset: next().parse().unwrap(),
            key: next().to_owned(),
            writer: next().to_owned(),
            holder: next().to_owned(),
        }
    }
}

impl Worker {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Freezes it if this holds then; else it goes on.
    pub(crate) fn freeze_if(&self, holds: impl FnOnce() -> bool) -> bool {
        self.signal(Signal::STOP);
        wait_until("it stands still", || stands_still(self.pid()));
        let frozen = holds();
        if !frozen {
            self.signal(Signal::CONT);
            pause(Duration::from_millis(3));
        }
        frozen
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Everything that it told so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.out).unwrap_or_default();
        // The last line may be half-written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub(crate) fn told(&self, event: &str) -> usize {
        self.events().iter().filter(|e| e["event"] == event).count()
    }

    /// What it said when it ended.
    pub(crate) fn summary(&self) -> Value {
        self.events().into_iter().rev().find(|e| e["event"] == "ended").unwrap_or_default()
    }

    pub(crate) fn errors(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap_or_default()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its exit code, or 128 and the signal's number as a shell says it; `None` if it still runs.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.try_wait().unwrap()?;
        Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    /// Waits for its end, at most this long.
    #[track_caller]
    pub(crate) fn wait_end(&mut self, limit: Duration) -> i32 {
        let clock = keylane_consumer::clock::Clock::boot();
        let until = clock.now().plus(limit);
        loop {
            if let Some(code) = self.ended() {
                return code;
            }
            assert!(clock.now() < until, "{} did not end within {limit:?}: {}", self.name, self.errors());
            pause(Duration::from_millis(5));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
