//! Where a snapshot is handed over: a host, a file, a note.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use hyper::Method;
use keylane_sidecar::{Snapshot, spool, words};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use crate::remote::{Address, NoAnswer, Read, Remote, Secret, Sent};

/// One of them.
pub(crate) struct Place {
    kind: Kind,
    /// A write that has not come back: a disk that hangs gets no second one.
    writing: Option<JoinHandle<std::io::Result<()>>>,
}

enum Kind {
    Host { remote: Remote, to: Arc<Address>, bearer_file: Option<PathBuf>, variable: &'static str },
    File(PathBuf),
    Note(PathBuf),
}

/// Why it was not taken. No word of the other side is in it.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotTaken {
    #[error("its secret cannot be read")]
    Secret,
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),
    #[error("it answered {0}")]
    Answered(u16),
    #[error("cannot write")]
    Write(#[from] std::io::Error),
    #[error("the last write hangs")]
    Hangs,
}

impl Place {
    pub(super) fn host(remote: Remote, to: Address, bearer_file: Option<PathBuf>, variable: &'static str) -> Self {
        Self { kind: Kind::Host { remote, to: Arc::new(to), bearer_file, variable }, writing: None }
    }

    pub(super) fn file(file: PathBuf) -> Self {
        Self { kind: Kind::File(file), writing: None }
    }

    pub(super) fn note(file: PathBuf) -> Self {
        Self { kind: Kind::Note(file), writing: None }
    }

    /// Hands this over, once.
    pub(super) async fn take(&mut self, snapshot: &Snapshot, within: Duration) -> Result<(), NotTaken> {
        match &self.kind {
            Kind::Host { remote, to, bearer_file, variable } => {
                let bearer = Secret::from(bearer_file.as_deref(), variable).map_err(|_| NotTaken::Secret)?;
                let sent = Sent { method: Method::PUT, body: json(snapshot), bearer };
                match remote.send(to, sent, Read::Status, within).await?.status {
                    200..300 => Ok(()),
                    status => Err(NotTaken::Answered(status)),
                }
            }
            Kind::File(file) => self.write(file.clone(), [&json(snapshot)[..], b"\n"].concat(), within).await,
            Kind::Note(file) => {
                self.write(file.clone(), format!("{}\n", words::note(snapshot)).into_bytes(), within).await
            }
        }
    }

    async fn write(&mut self, file: PathBuf, bytes: Vec<u8>, within: Duration) -> Result<(), NotTaken> {
        if self.writing.as_ref().is_some_and(|writing| !writing.is_finished()) {
            return Err(NotTaken::Hangs);
        }
        let writing = self.writing.insert(spawn_blocking(move || spool::replace(&file, &bytes)));
        match timeout(within, writing).await {
            Ok(Ok(written)) => {
                self.writing = None;
                Ok(written?)
            }
            Ok(Err(_)) => {
                self.writing = None;
                Err(NotTaken::Hangs)
            }
            Err(_) => Err(NotTaken::Hangs),
        }
    }
}

fn json(snapshot: &Snapshot) -> Vec<u8> {
    serde_json::to_vec(snapshot).expect("plain data")
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Host { to, .. } => write!(f, "{to}"),
            Kind::File(file) | Kind::Note(file) => write!(f, "{}", file.display()),
        }
    }
}
