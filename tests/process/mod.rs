//! Running the real program in a folder of its own, and reading what it left on the log.

use std::{
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

pub mod board;
pub mod secrets;
pub mod server;
pub mod sidecar;
pub mod stub;
pub mod worker;

use keylane_producer::{
    Log, Offset, Partition,
    kafka::KafkaSettings,
    log::{
        ReadLimit,
        kafka::KafkaLog,
        local::{LocalLog, Open},
    },
    sqlite::Patience,
};

/// A folder with its own queue file, or whose queues are on a broker.
pub struct Place {
    folder: tempfile::TempDir,
    broker: Option<String>,
}

/// How a run ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A record that was found on the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub partition: u32,
    pub offset: u64,
    pub key: Vec<u8>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<String>)>,
}

impl Place {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), broker: None }
    }

    /// One whose queues are at this address.
    pub fn on(broker: &str) -> Self {
        Self { broker: Some(broker.to_owned()), ..Self::new() }
    }

    /// One with a queue `jobs`.
    pub fn with_queue() -> Self {
        let place = Self::new();
        place.run(&["queue", "create", "jobs"]).expect(0);
        place
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keylane"));
        command.args(args).current_dir(self.path()).env_clear();
        command.envs(self.broker.iter().map(|broker| ("KEYLANE_BROKER", broker)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).spawn().unwrap())
    }

    pub fn run_with_input(&self, args: &[&str], input: impl AsRef<[u8]>) -> Ended {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.as_ref().to_vec();
        let writer = std::thread::spawn(move || {
            // A program that stops early closes its end.
            let _ = stdin.write_all(&input);
        });
        let ended = Ended::of(child);
        writer.join().unwrap();
        ended
    }

    /// Everything on a queue, partition by partition.
    pub fn records(&self, queue: &str) -> Vec<Found> {
        let mut log = self.log();
        let identity = log.describe(&queue.parse().unwrap()).unwrap().identity;
        identity.partitions.all().flat_map(|p| read_all(&mut *log, &identity, p)).collect()
    }

    /// The log that the program writes to.
    pub fn log(&self) -> Box<dyn Log> {
        match self.broker.as_deref().map(|broker| broker.strip_prefix("kafka://").unwrap()) {
            Some(servers) => Box::new(KafkaLog::open(KafkaSettings::new(servers.parse().unwrap())).unwrap()),
            None => {
                let file = self.path().join("keylane.db");
                Box::new(LocalLog::open(&file, Open::Existing, Patience::Patient).unwrap())
            }
        }
    }

    /// Payloads of everything on `jobs`, sorted.
    pub fn payloads(&self) -> Vec<String> {
        let mut payloads: Vec<String> =
            self.records("jobs").into_iter().map(|r| String::from_utf8(r.value.unwrap()).unwrap()).collect();
        payloads.sort();
        payloads
    }

    /// How many records `jobs` has.
    pub fn count(&self) -> u64 {
        let mut log = self.log();
        let identity = log.describe(&"jobs".parse().unwrap()).unwrap().identity;
        identity.partitions.all().map(|p| log.bounds(&identity, p).unwrap().end.0).sum()
    }
}

fn read_all(log: &mut dyn Log, queue: &keylane_producer::QueueIdentity, partition: Partition) -> Vec<Found> {
    let end = log.bounds(queue, partition).unwrap().end;
    let mut from = Offset(0);
    let mut found = Vec::new();
    while from < end {
        let page = log.read(queue, partition, from, ReadLimit { records: 10_000, bytes: 64 << 20 }).unwrap();
        from = page.next;
        found.extend(page.records.into_iter().map(|stored| Found {
            partition: partition.0,
            offset: stored.offset.0,
            key: stored.record.key.unwrap().to_vec(),
            value: stored.record.value.map(|v| v.to_vec()),
            headers: stored.record.headers.into_iter().map(|(n, v)| (text(&n), v.map(|v| text(&v)))).collect(),
        }));
    }
    found
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Ended {
    /// Waits for its end, at most five minutes.
    #[track_caller]
    pub fn of(mut child: Child) -> Self {
        let out = child.stdout.take().map(read);
        let errors = read(child.stderr.take().unwrap());
        let mut code = None;
        let ended = holds_within(Duration::from_secs(300), || {
            code = child.try_wait().unwrap();
            code.is_some()
        });
        if !ended {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let stdout = out.map(|text| text.join().unwrap()).unwrap_or_default();
        let stderr = errors.join().unwrap();
        assert!(ended, "it did not end\nstdout: {stdout}\nstderr: {stderr}");
        Self { code: code.and_then(|status| status.code()), stdout, stderr }
    }

    /// Itself, if it ended with this code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Itself, if standard error has all of these.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "'{part}' is missing in: {}", self.stderr);
        }
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

fn read(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    })
}

/// Waits until it holds, at most a minute.
#[track_caller]
pub fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    assert!(holds_within(Duration::from_secs(60), holds), "waited too long until {what}");
}

fn holds_within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    const LOOK: Duration = Duration::from_millis(2);
    for _ in 0..limit.as_millis() / LOOK.as_millis() {
        if holds() {
            return true;
        }
        pause(LOOK);
    }
    false
}

/// Lets others run for about this long.
pub fn pause(time: Duration) {
    let (_open, nothing) = mpsc::channel::<()>();
    let _ = nothing.recv_timeout(time);
}
