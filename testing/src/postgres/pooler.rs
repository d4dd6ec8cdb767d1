//! A transaction pooler (pgbouncer) before a server: the next transaction of a connection may run in another session.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use rustix::process::Signal;

use super::{LIMIT, Server, USER};
use crate::{limit::Limit, ports, process::Process};

/// A running pgbouncer. Dropped, it ends.
pub struct Pooler {
    process: Process,
    folder: PathBuf,
    port: u16,
    _root: tempfile::TempDir,
}

impl Pooler {
    /// Starts one in transaction mode, with few sessions for many connections.
    pub fn start(server: &Server) -> Result<Self> {
        for _ in 0..super::STARTS {
            let pooler = Self::launch(server)?;
            if pooler.wait_until_up(server)? {
                return Ok(pooler);
            }
        }
        bail!("others took the port of pgbouncer {} times", super::STARTS)
    }

    fn launch(server: &Server) -> Result<Self> {
        let Some(program) = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/opt/homebrew/bin/pgbouncer"]
            .into_iter()
            .find(|program| fs::exists(program).unwrap_or(false))
        else {
            bail!("no pgbouncer is here: install it (Debian: apt-get install pgbouncer)")
        };
        let root = tempfile::Builder::new().prefix("keylane-pgbouncer-").tempdir()?;
        let folder = root.path().join("pooler");
        fs::create_dir(&folder)?;
        server.programs.open_to_user(root.path())?;
        let port = ports::free(1)?[0];
        let configuration = folder.join("pgbouncer.ini");
        fs::write(&configuration, words(port, server))?;
        server.programs.give_to_user(&configuration)?;
        server.programs.give_to_user(&folder)?;
        let program = server.programs.as_user(program.as_ref(), &[configuration.as_os_str()]);
        let process = Process::start(&folder, &folder.join("log"), &program)?;
        Ok(Self { process, folder, port, _root: root })
    }

    fn wait_until_up(&self, server: &Server) -> Result<bool> {
        let limit = Limit::of(LIMIT);
        loop {
            let mut asks = server.programs.command("psql");
            asks.args(["-XAtq", "-c", "SELECT 1", "-d"]).arg(self.url("postgres"));
            match super::run(&mut asks) {
                Ok(_) => return Ok(true),
                Err(error) if self.process.ended_within(Duration::ZERO)? => {
                    let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                    if log.contains("Address already in use") {
                        return Ok(false);
                    }
                    bail!("pgbouncer ended at its start: {error:#}; its log:\n{log}");
                }
                Err(error) => limit.nap(|| format!("pgbouncer to answer: {error:#}"))?,
            }
        }
    }

    /// Lets it take its sessions from another server from now on, as one does after a fail-over.
    pub fn point_at(&self, server: &Server) -> Result<()> {
        fs::write(self.folder.join("pgbouncer.ini"), words(self.port, server))?;
        self.process.signal(Signal::HUP)
    }

    /// The URL of a database by way of it.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }
}

fn words(port: u16, server: &Server) -> String {
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={} user={USER}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = 3\n\
         server_round_robin = 1\n\
         max_client_conn = 300\n\
         server_idle_timeout = 3\n",
        server.port
    )
}
