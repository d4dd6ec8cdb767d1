//! The page of the demo: a sidecar for each worker, as a process of its own, and over them a board in this one. It only reads:
//! whatever becomes of it, the story and the verdict are the same.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use keylane_sidecar::{
    Notice, Observer,
    board::{ask::Target, http::Board, merge::Settings, record::Record},
};
use serde_json::Value;
use tokio::runtime;

use super::{
    actors::{Role, snapshot_of},
    stage::Scene,
    verdict::Verdict,
};
use crate::{
    exit::{Code, Failure},
    output::grouped,
};

/// How often each sidecar is asked: a demo is short.
const EVERY: Duration = Duration::from_millis(250);
/// A worker writes at least every 2 s.
const STALE_AFTER_MS: u64 = 5_000;
const LOST_AFTER_MS: u64 = 10_000;

/// It ends when it is dropped.
pub(super) struct Page {
    url: String,
    record: Arc<Mutex<Record>>,
    _sidecars: Vec<Sidecar>,
}

/// A process that ends with its handle, and with the demo however that ends.
struct Sidecar(Child);

impl Page {
    /// Starts all of it.
    pub(super) fn open(scene: &Scene) -> Result<Self, Failure> {
        let mut sidecars =
            Role::ALL.map(|role| Sidecar::start(role, scene)).into_iter().collect::<Result<Vec<_>, _>>()?;
        let targets = sidecars.iter_mut().map(Sidecar::target).collect::<Result<Vec<_>, _>>()?;
        let cannot = |error: std::io::Error| Failure::new(Code::Unavailable, "cannot start the board").because(&error);
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let url = format!("http://{}/?since=1m", listener.local_addr().map_err(cannot)?);
        let record = Arc::new(Mutex::new(Record::new(settings(scene))));
        let shared = Arc::clone(&record);
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let serve = move || {
            runtime.block_on(async {
                // It was bound a moment ago; without a page the demo goes on.
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    Board::serve_record(listener, targets, EVERY, shared).await;
                }
            });
        };
        std::thread::Builder::new().name("keylane-board".into()).spawn(serve).map_err(cannot)?;
        Ok(Self { url, record, _sidecars: sidecars })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Opens it, if there is a desktop; if that fails the user has the URL.
    pub(super) fn show(&self) {
        let has = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let opener = match std::env::consts::OS {
            "macos" => "open",
            _ if has("DISPLAY") || has("WAYLAND_DISPLAY") => "xdg-open",
            _ => return,
        };
        let mut command = Command::new(opener);
        let _ = command.arg(&self.url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    }

    /// Puts the verdict on it.
    pub(super) fn say(&self, verdict: &Verdict) {
        let notice = Notice { code: "demo_verdict".to_owned(), text: sentence(verdict) };
        self.record.lock().unwrap_or_else(PoisonError::into_inner).say(notice);
    }
}

impl Sidecar {
    fn start(role: Role, scene: &Scene) -> Result<Self, Failure> {
        let cannot = |error: &std::io::Error| {
            Failure::new(Code::Unavailable, format!("cannot start the sidecar of {role}")).because(error)
        };
        let mut command = Command::new(std::env::current_exe().map_err(|e| cannot(&e))?);
        command.args([
            "sidecar",
            "--listen",
            "127.0.0.1:0",
            "--output",
            "json",
            "--allow-unconfined",
            "--end-with-parent",
        ]);
        command.arg("--snapshot-file").arg(snapshot_of(role, scene));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C goes to the demo alone.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Self(command.spawn().map_err(|e| cannot(&e))?))
    }

    /// Where it is, which is the first line that it says.
    fn target(&mut self) -> Result<Target, Failure> {
        let mut line = String::new();
        if let Some(said) = self.0.stdout.take() {
            let _ = BufReader::new(said).read_line(&mut line); // no line is no address
        }
        let said: Option<Value> = serde_json::from_str(&line).ok();
        let at = said.as_ref().and_then(|said| said["sidecar"].as_str()?.strip_prefix("http://"));
        at.and_then(|at| at.parse().ok()).ok_or_else(|| Failure::new(Code::Unavailable, "a sidecar did not start"))
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        // Both fail only for a process that is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn settings(scene: &Scene) -> Settings {
    Settings {
        queue: scene.queue.name.to_string(),
        group: scene.group.to_string(),
        observer: Observer { name: "keylane-demo".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        stale_after_ms: STALE_AFTER_MS,
        lost_after_ms: LOST_AFTER_MS,
    }
}

fn sentence(verdict: &Verdict) -> String {
    let (head, guard) = match (verdict.holds(), verdict.fence) {
        (true, _) => ("Held", ""),
        (false, true) => ("Broken", ""),
        (false, false) => ("Broken", ", with the store's check taken away"),
    };
    format!(
        "Verdict of the demo: {head}{guard}. {} of {} events were applied exactly once; {} late writes were refused, {} landed. \
         The workers have ended; below is how they left it.",
        grouped(verdict.applied_once),
        grouped(verdict.jobs),
        grouped(verdict.stale_refused),
        grouped(verdict.stale_landed),
    )
}
