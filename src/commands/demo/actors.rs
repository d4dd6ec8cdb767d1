//! The three workers: processes of this program, ended by number however the demo ends.

use std::{
    fmt,
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::{Serialize, Serializer};

use super::stage::Scene;
use crate::exit::{Code, Failure};

/// Which of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Role(pub(super) u32);

impl Role {
    pub(super) const ALL: [Self; 3] = [Self(1), Self(2), Self(3)];

    /// The role with this worker's name.
    pub(super) fn named(worker: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.to_string() == worker)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker-{}", self.0)
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where it shows what it holds.
pub(super) fn snapshot_of(role: Role, scene: &Scene) -> PathBuf {
    scene.folder.join(format!("{role}.json"))
}

/// One worker's process. Dropping it kills it, frozen or not.
pub(super) struct Actor {
    role: Role,
    child: Child,
    log: PathBuf,
    /// It was killed, or has ended as it was asked to.
    gone: bool,
}

impl Actor {
    pub(super) fn start(role: Role, scene: &Scene, fenced: bool, shown: bool) -> Result<Self, Failure> {
        let cannot =
            |error: &std::io::Error| Failure::new(Code::Unavailable, format!("cannot start {role}")).because(error);
        let log = scene.folder.join(format!("{role}.log"));
        let mut command = Command::new(std::env::current_exe().map_err(|e| cannot(&e))?);
        command.args(["demo-worker", "--name", &role.to_string(), "--output", "text", "--color", "never"]);
        command.args(["--broker", &scene.global.broker.to_string()]).args(scene.global.kafka_args());
        command.args(["--store", &scene.global.store()?.to_string()]);
        command.args(["--queue", scene.queue.name.as_str(), "--group", scene.group.as_str()]);
        if !fenced {
            command.arg("--no-fence");
        }
        if shown {
            command.arg("--snapshot-file").arg(snapshot_of(role, scene));
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(File::create(&log).map_err(|e| cannot(&e))?);
        // Ctrl-C goes to the demo alone, which knows what to do with frozen ones.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.spawn().map_err(|e| cannot(&e))?;
        Ok(Self { role, child, log, gone: false })
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGSTOP; answers when it stands still.
    pub(super) fn freeze(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let stopped = waitid(WaitId::Pid(self.number()), options);
        stopped.map(drop).map_err(|error| self.cannot("wait for", error))
    }

    /// SIGCONT.
    pub(super) fn thaw(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM: finish what runs, give the partitions back, end.
    pub(super) fn ask_to_end(&self) -> Result<(), Failure> {
        if self.gone { Ok(()) } else { self.signal(Signal::TERM) }
    }

    /// SIGKILL; answers when it is gone.
    pub(super) fn kill(&mut self) {
        if !self.gone {
            // Both fail only for a process that is gone.
            let _ = self.child.kill();
            let _ = self.child.wait();
            self.gone = true;
        }
    }

    /// Whether it has ended, now or before.
    pub(super) fn has_ended(&mut self) -> Result<bool, Failure> {
        if !self.gone {
            let status = self.child.try_wait();
            self.gone = status
                .map_err(|error| Failure::new(Code::Bug, format!("cannot look at {}", self.role)).because(&error))?
                .is_some();
        }
        Ok(self.gone)
    }

    /// Fails with its last words if it has ended without having been told to.
    pub(super) fn must_live(&mut self) -> Result<(), Failure> {
        if self.gone || !self.has_ended()? {
            return Ok(());
        }
        let failure = Failure::new(Code::Failed, format!("{} ended by itself", self.role));
        let words = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<&str> = words.lines().rev().take(4).collect();
        Err(last.into_iter().rev().fold(failure, Failure::cause))
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(self.number(), signal).map_err(|error| self.cannot("signal", error))
    }

    fn number(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn cannot(&self, what: &str, error: rustix::io::Errno) -> Failure {
        Failure::new(Code::Bug, format!("cannot {what} {}", self.role)).because(&error)
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
    }
}
