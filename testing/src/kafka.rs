//! A real Apache Kafka cluster on loopback, for the length of a test process.
//!
//! Brokers run as JVMs from Maven's jars, so a machine needs a JDK (17 or later) and Maven, and the first run the network
//! (kept in `$KEYLANE_CACHE`, `$XDG_CACHE_HOME/keylane` or `~/.cache/keylane`). No broker outlives the test process, however it
//! ends.
//!
//! A change that a function here makes has reached every broker that runs when it returns.

mod cache;
mod groups;
mod options;
mod records;
mod tool;
mod topics;
mod users;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use serde_json::{Value, json};

pub use groups::{Claim, Committed, Group, Member, Outcome};
pub use options::Options;
pub use records::{Produce, Produced, Record, Transaction};
pub use topics::Offsets;

use crate::{limit::Limit, ports, process::Process, tls::Certificates};

use options::{PASSWORD, Ports, Security, USER};
use tool::Tool;

/// How long anything here is waited for at most: an idle machine needs 10 s for a start, a busy one several times that.
const LIMIT: Duration = Duration::from_secs(120);

/// How often a start is tried again because someone else took one of its ports.
const STARTS: usize = 3;

/// A running cluster. Dropped, it is killed and its data removed.
pub struct Cluster {
    nodes: Vec<Node>,
    tool: Tool,
    bootstrap: String,
    class_path: String,
    login: Option<Login>,
    _root: tempfile::TempDir,
}

/// What a client needs to log in to a [secured](Options::secured) cluster.
#[derive(Clone, Debug)]
pub struct Login {
    /// The certificate of the brokers' authority, PEM.
    pub ca: PathBuf,
    /// A certificate of another authority, PEM: with it, no broker is trusted.
    pub other_ca: PathBuf,
    /// A user that both SCRAM-SHA-256 and PLAIN know, by the same password at first.
    pub user: String,
    /// That user's password.
    pub password: String,
}

struct Node {
    folder: PathBuf,
    ports: Ports,
    state: Mutex<State>,
}

enum State {
    Running(Process),
    Paused(Process),
    Killed,
}

/// This test process's one cluster of so many brokers, started by whoever asks first.
///
/// # Panics
///
/// When it cannot be started.
pub fn shared(brokers: usize) -> &'static Cluster {
    static ONE: OnceLock<Result<Cluster>> = OnceLock::new();
    static THREE: OnceLock<Result<Cluster>> = OnceLock::new();
    let place = if brokers == 1 { &ONE } else { &THREE };
    match place.get_or_init(|| Cluster::start(&Options::new(brokers))) {
        Ok(cluster) => cluster,
        Err(error) => panic!("no Kafka for this test: {error:?}"),
    }
}

impl Cluster {
    /// Starts one, and returns when every broker answers and names all the others.
    pub fn start(options: &Options) -> Result<Self> {
        let class_path = cache::class_path()?;
        for _ in 0..STARTS {
            let cluster = Self::launch(options, &class_path)?;
            if cluster.wait_until_up()? {
                return Ok(cluster);
            }
        }
        bail!("others took ports of Kafka's brokers {STARTS} times")
    }

    fn launch(options: &Options, class_path: &str) -> Result<Self> {
        let root = tempfile::Builder::new().prefix("keylane-kafka-").tempdir()?;
        let ports = ports::free(3 * options.brokers)?;
        let ports: Vec<_> = ports.chunks(3).map(|p| Ports { client: p[0], internal: p[1], controller: p[2] }).collect();
        let internal: Vec<_> = ports.iter().map(Ports::internal_address).collect();
        let nodes: Vec<_> =
            ports.iter().enumerate().map(|(index, &ports)| Node::new(root.path(), index, ports)).collect();
        for node in &nodes {
            fs::create_dir(&node.folder)?;
        }
        // In a broker's folder, which is removed however the test process ends.
        let first = &nodes[0].folder;
        let certificates = match options.security {
            Security::Plaintext => None,
            Security::Secured | Security::Authorized => Some(Certificates::make(first)?),
        };
        for (index, node) in nodes.iter().enumerate() {
            let configuration = options.configuration(index, &ports, &node.folder.join("data"), certificates.as_ref());
            fs::write(node.configuration(), configuration)?;
        }
        let tool = Tool::start(class_path, &internal, first.join("tool.log"))?;
        let configs: Vec<_> = nodes.iter().map(Node::configuration).collect();
        let login = certificates.map(|Certificates { ca, other_ca, .. }| Login {
            ca,
            other_ca,
            user: USER.into(),
            password: PASSWORD.into(),
        });
        let scram = login.iter().map(|l| format!("SCRAM-SHA-256=[name={},password={}]", l.user, l.password));
        // Never a leading dash, which would be taken for a flag.
        let id = format!("K{}", std::iter::repeat_with(fastrand::alphanumeric).take(20).collect::<String>() + "A");
        tool.ask("format", json!({ "configs": configs, "cluster": id, "scram": scram.collect::<Vec<_>>() }), LIMIT)?;
        for node in &nodes {
            *node.state() = State::Running(node.run(class_path)?);
        }
        let addresses: Vec<_> = ports.iter().map(|p| format!("127.0.0.1:{}", p.client)).collect();
        Ok(Self { nodes, tool, bootstrap: addresses.join(","), class_path: class_path.into(), login, _root: root })
    }

    /// Waits; no, when a port was taken by someone else.
    fn wait_until_up(&self) -> Result<bool> {
        let limit = Limit::of(LIMIT);
        let mut waiting: BTreeSet<_> = (0..self.nodes.len()).collect();
        while let Some(&index) = waiting.first() {
            if let Some(log) = (0..self.nodes.len()).find_map(|i| self.nodes[i].log_if_ended()) {
                if log.contains("Address already in use") {
                    return Ok(false);
                }
                bail!("a Kafka broker ended at its start; its log:\n{log}");
            }
            match self.trouble(index) {
                None => drop(waiting.remove(&index)),
                Some(trouble) => limit.nap(|| format!("broker {index}: {trouble}; its log:\n{}", self.log(index)))?,
            }
        }
        Ok(true)
    }

    /// Why this broker does not count as ready: it must answer, name all brokers, and see every replica in sync.
    fn trouble(&self, index: usize) -> Option<String> {
        let address = self.nodes[index].ports.internal_address();
        match self.tool.ask("metadata", json!({ "address": address }), Duration::ZERO) {
            Err(error) => Some(format!("{error:#}")),
            Ok(seen) => {
                let all = seen["brokers"].as_array().is_some_and(|brokers| brokers.len() == self.nodes.len());
                (!all || seen["unhealthy"] != 0).then(|| seen.to_string())
            }
        }
    }

    /// `127.0.0.1:PORT` of every broker, separated by commas.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// How to log in; none on a plain cluster.
    pub fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// How many brokers it has, also killed ones.
    pub fn brokers(&self) -> usize {
        self.nodes.len()
    }

    /// Kills a broker with SIGKILL; its data stays for [`restart`](Self::restart). The others notice after
    /// `broker.session.timeout.ms` (9 s).
    pub fn kill(&self, index: usize) -> Result<()> {
        let mut state = self.nodes[index].state();
        match std::mem::replace(&mut *state, State::Killed) {
            State::Running(process) | State::Paused(process) => process.kill(),
            State::Killed => bail!("broker {index} is killed already"),
        }
    }

    /// Freezes a broker with SIGSTOP: its connections stay open and nothing on them is answered.
    pub fn pause(&self, index: usize) -> Result<()> {
        let mut state = self.nodes[index].state();
        match std::mem::replace(&mut *state, State::Killed) {
            State::Running(process) => {
                process.signal(Signal::STOP)?;
                *state = State::Paused(process);
                Ok(())
            }
            other => {
                *state = other;
                bail!("broker {index} does not run")
            }
        }
    }

    /// Lets a paused broker go on. Returns at once; see [`wait_ready`](Self::wait_ready).
    pub fn resume(&self, index: usize) -> Result<()> {
        let mut state = self.nodes[index].state();
        match std::mem::replace(&mut *state, State::Killed) {
            State::Paused(process) => {
                process.signal(Signal::CONT)?;
                *state = State::Running(process);
                Ok(())
            }
            other => {
                *state = other;
                bail!("broker {index} is not paused")
            }
        }
    }

    /// Starts a killed broker again (kills one that runs), with its data and ports, and waits until it answers and all
    /// replicas are in sync. The controller takes it back only when the session of its earlier life has ended, so this
    /// takes 9 s at least, or `broker.session.timeout.ms`.
    pub fn restart(&self, index: usize) -> Result<()> {
        if !matches!(*self.nodes[index].state(), State::Killed) {
            self.kill(index)?;
        }
        let limit = Limit::of(LIMIT);
        *self.nodes[index].state() = State::Running(self.nodes[index].run(&self.class_path)?);
        while let Some(trouble) = self.trouble(index) {
            if let Some(log) = self.nodes[index].log_if_ended() {
                bail!("broker {index} ended at its restart; its log:\n{log}");
            }
            limit.nap(|| format!("broker {index} after its restart: {trouble}"))?;
        }
        Ok(())
    }

    /// Waits until every broker answers, names all brokers, and sees every replica in sync.
    pub fn wait_ready(&self) -> Result<()> {
        let limit = Limit::of(LIMIT);
        for index in 0..self.nodes.len() {
            ensure!(matches!(*self.nodes[index].state(), State::Running(_)), "broker {index} is killed or paused");
            while let Some(trouble) = self.trouble(index) {
                limit.nap(|| format!("broker {index}: {trouble}"))?;
            }
        }
        Ok(())
    }

    /// What the broker has logged, for the report of a failed test.
    pub fn log(&self, index: usize) -> String {
        self.nodes[index].log()
    }

    /// Asks the side tool, which waits until the brokers that run have seen a change.
    fn ask(&self, command: &str, mut question: Value) -> Result<Value> {
        let running = self.nodes.iter().filter(|node| matches!(*node.state(), State::Running(_)));
        question["running"] = running.map(|node| node.ports.internal_address()).collect();
        self.tool.ask(command, question, LIMIT)
    }
}

impl Node {
    fn new(root: &Path, index: usize, ports: Ports) -> Self {
        Self { folder: root.join(format!("broker-{}", index + 1)), ports, state: Mutex::new(State::Killed) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn configuration(&self) -> PathBuf {
        self.folder.join("properties")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn log(&self) -> String {
        fs::read(self.log_file()).map_or_else(|e| e.to_string(), |text| String::from_utf8_lossy(&text).into_owned())
    }

    fn log_if_ended(&self) -> Option<String> {
        match &*self.state() {
            State::Running(process) if process.ended_within(Duration::ZERO).unwrap_or(true) => Some(self.log()),
            _ => None,
        }
    }

    fn run(&self, class_path: &str) -> Result<Process> {
        let configuration = self.configuration();
        let configuration = configuration.to_str().context("the temporary folder's name is no UTF-8")?;
        let logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=info";
        let heap = ["-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];
        let main = [logging, "-cp", class_path, "kafka.Kafka", configuration];
        Process::start(&self.folder, &self.log_file(), &[&["java"], &heap[..], &main[..]].concat())
    }
}

impl Ports {
    fn internal_address(&self) -> String {
        format!("127.0.0.1:{}", self.internal)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // All at once, before each is waited for.
        for node in &self.nodes {
            if let State::Running(process) | State::Paused(process) = &*node.state() {
                let _ = process.signal(Signal::KILL);
            }
        }
    }
}
