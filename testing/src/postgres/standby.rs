//! A streaming standby, asynchronous as they are by default: what its primary committed last may not have reached it.

use std::{fs, path::Path};

use anyhow::{Result, bail};

use super::{Server, Source, USER, run};
use crate::limit::Limit;

impl Server {
    /// Starts a standby of this server with a port of its own; returns when it answers, and follows.
    pub fn standby(&self) -> Result<Self> {
        for _ in 0..super::STARTS {
            let standby = Self::launch(&self.programs, Source::Primary(self))?;
            if standby.wait_until_up()? {
                return Ok(standby);
            }
        }
        bail!("others took the port of a standby {} times", super::STARTS)
    }

    pub(super) fn copy_to(&self, data: &Path, port: u16) -> Result<()> {
        let mut copies = self.programs.command("pg_basebackup");
        copies.args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--pgdata"]).arg(data);
        copies.args(["--host=127.0.0.1", "--username", USER, "--port", &self.port.to_string()]);
        run(&mut copies)?;
        let configuration = data.join("postgresql.conf");
        let text = fs::read_to_string(&configuration)?;
        // Of two settings the last one holds.
        Ok(fs::write(&configuration, format!("{text}port = {port}\n"))?)
    }

    /// Waits until this standby shows all that its primary has committed by now.
    pub fn catch_up(&self, primary: &Self) -> Result<()> {
        let now = primary.sql("postgres", "SELECT pg_current_wal_lsn()")?;
        let limit = Limit::of(super::LIMIT);
        while self.sql("postgres", &format!("SELECT pg_last_wal_replay_lsn() >= '{now}'::pg_lsn"))? != "t" {
            limit.nap(|| "the standby to catch up".to_owned())?;
        }
        Ok(())
    }

    /// Nothing reaches this standby any more.
    pub fn cut_off(&self) -> Result<()> {
        self.sql("postgres", "ALTER SYSTEM SET primary_conninfo = ''")?;
        self.sql("postgres", "SELECT pg_reload_conf()")?;
        let limit = Limit::of(super::LIMIT);
        while self.sql("postgres", "SELECT count(*) FROM pg_stat_wal_receiver")? != "0" {
            limit.nap(|| "the standby to let its primary go".to_owned())?;
        }
        Ok(())
    }

    /// Makes it the primary of what it has.
    pub fn promote(&self) -> Result<()> {
        match self.sql("postgres", "SELECT pg_promote()")?.as_str() {
            "t" => Ok(()),
            _ => bail!("the standby was not promoted; its log:\n{}", self.log()),
        }
    }
}
