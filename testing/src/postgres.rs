//! A real PostgreSQL server on loopback, for the length of a test process.
//!
//! It runs from the system's own server programs (13 or later; Debian: `postgresql`), on a new cluster in a temporary folder.
//! No process of it outlives the test process, however that ends. As root it runs as the user `postgres`, since it refuses to
//! run as root.

mod clock;
mod disk;
mod options;
mod pooler;
mod programs;
mod standby;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;

use crate::{limit::Limit, ports, process::Process, tls::Certificates};

pub use clock::WrongClock;
pub use options::Options;
pub use pooler::Pooler;

use disk::Disk;
use programs::Programs;

/// How long anything here is waited for at most: an idle machine needs 2 s for a start.
const LIMIT: Duration = Duration::from_secs(120);

/// How often a start is tried again because someone else took its port.
const STARTS: usize = 3;

/// The superuser of the cluster, who needs no password.
const USER: &str = "keylane";

/// A running server. Dropped, it is killed and its data removed.
pub struct Server {
    programs: Programs,
    folder: PathBuf,
    port: u16,
    ca: Option<PathBuf>,
    other_ca: Option<PathBuf>,
    state: Mutex<State>,
    databases: AtomicU32,
    /// Below the server, which ends before it.
    disk: Option<Disk>,
    clock: Option<WrongClock>,
    root: tempfile::TempDir,
}

enum State {
    Running(Process),
    Paused(Process),
    Stopped,
}

/// Where a new server's data come from.
#[derive(Clone, Copy)]
enum Source<'s> {
    Nowhere(&'s Options),
    Primary(&'s Server),
}

/// This test process's one server, started by whoever asks first. Who kills or pauses one starts one of its own.
///
/// # Panics
///
/// When it cannot be started.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Result<Server>> = OnceLock::new();
    match SHARED.get_or_init(|| Server::start(&Options::default())) {
        Ok(server) => server,
        Err(error) => panic!("no Postgres for this test: {error:?}"),
    }
}

impl Server {
    /// Makes a cluster and starts it; returns when it answers.
    pub fn start(options: &Options) -> Result<Self> {
        let programs = Programs::find()?;
        for _ in 0..STARTS {
            let server = Self::launch(&programs, Source::Nowhere(options))?;
            if server.wait_until_up()? {
                return Ok(server);
            }
        }
        bail!("others took the port of Postgres {STARTS} times")
    }

    fn launch(programs: &Programs, source: Source<'_>) -> Result<Self> {
        let root = tempfile::Builder::new().prefix("keylane-postgres-").tempdir()?;
        let folder = root.path().join("server");
        fs::create_dir(&folder)?;
        programs.open_to_user(root.path())?;
        programs.give_to_user(&folder)?;
        let port = ports::free(1)?[0];
        let data = folder.join("data");
        let mut server = Self {
            programs: programs.clone(),
            folder,
            port,
            ca: None,
            other_ca: None,
            state: Mutex::new(State::Stopped),
            databases: AtomicU32::new(0),
            disk: None,
            clock: None,
            root,
        };
        match source {
            Source::Nowhere(options) => server.make(&data, options)?,
            Source::Primary(primary) => primary.copy_to(&data, port)?,
        }
        *server.state() = State::Running(server.run()?);
        Ok(server)
    }

    fn make(&mut self, data: &Path, options: &Options) -> Result<()> {
        let certificates = if options.tls { Some(Certificates::make(&self.folder)?) } else { None };
        if let Some(certificates) = &certificates {
            self.programs.give_to_user(&certificates.key_store)?;
            self.programs.give_to_user(&certificates.ca)?;
        }
        let mut initdb = self.programs.command("initdb");
        initdb.arg("--pgdata").arg(data).args(["--username", USER, "--auth=trust", "--no-sync"]);
        initdb.args(["--encoding=UTF8", "--locale=C"]);
        if options.disk.is_some() {
            initdb.arg("--wal-segsize=1");
        }
        run(&mut initdb)?;
        fs::write(data.join("postgresql.conf"), options.configuration(self.port, certificates.as_ref()))?;
        fs::write(data.join("pg_hba.conf"), options.access())?;
        self.ca = certificates.as_ref().map(|c| c.ca.clone());
        self.other_ca = certificates.map(|c| c.other_ca);
        self.clock.clone_from(&options.clock);
        if let Some(megabytes) = options.disk {
            self.disk = Some(Disk::hold(&self.root.path().join("disk"), data, megabytes)?);
        }
        Ok(())
    }

    fn run(&self) -> Result<Process> {
        let data = self.folder.join("data");
        let arguments = ["-D".as_ref(), data.as_os_str()];
        let mut program = match &self.disk {
            Some(disk) => disk.words(&self.programs, "postgres", &arguments),
            None => self.programs.words("postgres", &arguments),
        };
        if let Some(clock) = &self.clock {
            // Behind the words by which it becomes another user.
            let at = program.len() - 1 - arguments.len();
            program.splice(at..at, clock.words());
        }
        Process::start(&self.folder, &self.log_file(), &program)
    }

    /// Waits; no, when its port was taken by someone else.
    fn wait_until_up(&self) -> Result<bool> {
        let limit = Limit::of(LIMIT);
        while !self.answers()? {
            let ended = match &*self.state() {
                State::Running(process) => process.ended_within(Duration::ZERO)?,
                _ => true,
            };
            if ended {
                let log = self.log();
                if log.contains("Address already in use") {
                    return Ok(false);
                }
                bail!("Postgres ended at its start; its log:\n{log}");
            }
            limit.nap(|| format!("Postgres to answer; its log:\n{}", self.log()))?;
        }
        Ok(true)
    }

    fn answers(&self) -> Result<bool> {
        let mut asks = self.programs.command("pg_isready");
        asks.args(["--quiet", "--host=127.0.0.1", "--timeout=1", "--port", &self.port.to_string()]);
        Ok(asks.status().context("cannot run pg_isready")?.success())
    }

    /// The URL of a database for its superuser.
    pub fn url(&self, database: &str) -> String {
        self.url_of(USER, database)
    }

    /// The URL of a database for this user.
    pub fn url_of(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes a new, empty database, and returns its name.
    pub fn database(&self) -> Result<String> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(name)
    }

    /// Runs SQL as the superuser, by psql; the rows that come back, with columns separated by `|`.
    pub fn sql(&self, database: &str, text: &str) -> Result<String> {
        self.sql_as(USER, database, text)
    }

    /// Runs SQL as this user.
    pub fn sql_as(&self, user: &str, database: &str, text: &str) -> Result<String> {
        let mut psql = self.programs.command("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d"]).arg(self.url_of(user, database)).args(["-c", text]);
        run(&mut psql)
    }

    /// Its port on 127.0.0.1; the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate of the authority that signed the server's, PEM; with [`Options::tls`].
    pub fn ca(&self) -> Option<&Path> {
        self.ca.as_deref()
    }

    /// A certificate of another authority, PEM.
    pub fn other_ca(&self) -> Option<&Path> {
        self.other_ca.as_deref()
    }

    /// Kills all its processes with SIGKILL; its data stays for [`restart`](Self::restart).
    pub fn kill(&self) -> Result<()> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Stopped) {
            State::Running(process) | State::Paused(process) => process.kill(),
            State::Stopped => bail!("Postgres is stopped already"),
        }
    }

    /// Asks it to end at once, as an operator would: sessions are told, nothing is written down (`immediate`).
    pub fn stop(&self) -> Result<()> {
        let mut state = self.state();
        let State::Running(process) = std::mem::replace(&mut *state, State::Stopped) else {
            bail!("Postgres does not run")
        };
        process.signal(Signal::QUIT)?;
        ensure!(process.ended_within(LIMIT)?, "Postgres did not end; its log:\n{}", self.log());
        process.kill()
    }

    /// Fills its disk, with [`Options::disk`], to the last byte.
    pub fn fill_disk(&self) -> Result<()> {
        self.disk.as_ref().context("the server has no disk of its own")?.fill()
    }

    /// Gives back what [`fill_disk`](Self::fill_disk) took.
    pub fn free_disk(&self) -> Result<()> {
        self.disk.as_ref().context("the server has no disk of its own")?.free()
    }

    /// Whether it has ended by itself, within this time.
    pub fn ended_within(&self, limit: Duration) -> Result<bool> {
        match &*self.state() {
            State::Running(process) | State::Paused(process) => process.ended_within(limit),
            State::Stopped => Ok(true),
        }
    }

    /// Freezes all its processes with SIGSTOP: connections stay open, and nothing on them is answered.
    pub fn pause(&self) -> Result<()> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Stopped) {
            State::Running(process) => {
                process.signal_all(Signal::STOP)?;
                *state = State::Paused(process);
                Ok(())
            }
            other => {
                *state = other;
                bail!("Postgres does not run")
            }
        }
    }

    /// Lets a paused one go on.
    pub fn resume(&self) -> Result<()> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Stopped) {
            State::Paused(process) => {
                process.signal_all(Signal::CONT)?;
                *state = State::Running(process);
                Ok(())
            }
            other => {
                *state = other;
                bail!("Postgres is not paused")
            }
        }
    }

    /// Starts a stopped or killed one again (kills one that runs), with its data and port, and waits until it answers.
    pub fn restart(&self) -> Result<()> {
        if !matches!(*self.state(), State::Stopped) {
            self.kill()?;
        }
        *self.state() = State::Running(self.run()?);
        ensure!(self.wait_until_up()?, "someone took the port of Postgres before its restart");
        Ok(())
    }

    /// What it has logged, for the report of a failed test.
    pub fn log(&self) -> String {
        fs::read(self.log_file()).map_or_else(|e| e.to_string(), |text| String::from_utf8_lossy(&text).into_owned())
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a program to its end; what it printed.
fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?} failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
