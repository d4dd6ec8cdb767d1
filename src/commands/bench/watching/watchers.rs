//! A sidecar, a board over it and a push, as processes of this program, and somebody who asks both each second.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
    time::Duration,
};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use serde_json::Value;

use crate::exit::{Code, Failure};

const POLL_EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Killed when they are dropped.
pub(super) struct Watchers {
    watching: Vec<Child>,
    asking: Option<JoinHandle<()>>,
    stop: Option<Sender<()>>,
}

impl Watchers {
    /// Of this worker's file.
    pub(super) fn begin(snapshot: &Path, pushed: &Path) -> Result<Self, Failure> {
        let mut all = Self { watching: Vec::new(), asking: None, stop: None };
        let mut sidecar = command("sidecar")?;
        sidecar.arg("--snapshot-file").arg(snapshot).args(["--listen", "127.0.0.1:0", "--allow-unconfined"]);
        let sidecar = all.start(sidecar, "sidecar")?;
        let mut board = command("board")?;
        board.args(["--queue", "bench", "--sidecar", &sidecar, "--listen", "127.0.0.1:0"]);
        let board = all.start(board, "board")?;
        let mut push = command("push")?;
        push.arg("--snapshot-file").arg(snapshot).arg("--to-file").arg(pushed);
        push.args(["--every", "1s", "--to", &format!("http://{}", host()?)]);
        all.watching.push(push.stdout(Stdio::null()).spawn().map_err(|e| cannot(&e))?);
        let (stop, stopped) = bounded(0);
        all.asking = Some(std::thread::spawn(move || {
            while stopped.recv_timeout(POLL_EVERY) == Err(RecvTimeoutError::Timeout) {
                for (at, path) in
                    [(&sidecar, "/v1/snapshot"), (&sidecar, "/metrics"), (&board, "/"), (&board, "/metrics")]
                {
                    let _ = ask(at, path); // it may just have been killed
                }
            }
        }));
        all.stop = Some(stop);
        Ok(all)
    }

    /// Starts one that listens, and answers where.
    fn start(&mut self, mut command: Command, name: &str) -> Result<String, Failure> {
        let mut process = command.stdout(Stdio::piped()).spawn().map_err(|e| cannot(&e))?;
        let mut line = String::new();
        if let Some(said) = process.stdout.take() {
            BufReader::new(said).read_line(&mut line).map_err(|e| cannot(&e))?;
        }
        self.watching.push(process);
        let said: Option<Value> = serde_json::from_str(&line).ok();
        let at = said.as_ref().and_then(|said| said[name].as_str()?.strip_prefix("http://"));
        at.map(str::to_owned)
            .ok_or_else(|| Failure::new(Code::Unavailable, format!("a {name} to measure did not start")))
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        // Both fail only for a process that is gone.
        for process in &mut self.watching {
            let _ = process.kill();
            let _ = process.wait();
        }
        drop(self.stop.take());
        if let Some(asking) = self.asking.take() {
            let _ = asking.join();
        }
    }
}

fn command(name: &str) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| cannot(&e))?);
    command.arg(name).args(["--output", "json", "--quiet"]).stdin(Stdio::null()).stderr(Stdio::null());
    for (variable, _) in std::env::vars_os().filter(|(variable, _)| variable.to_string_lossy().starts_with("KEYLANE_"))
    {
        command.env_remove(variable);
    }
    Ok(command)
}

/// A host that takes everything, as long as this process lives.
fn host() -> Result<std::net::SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| cannot(&e))?;
    let at = listener.local_addr().map_err(|e| cannot(&e))?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = stream.read(&mut [0; 64 << 10]);
            let _ = stream.write_all(b"HTTP/1.1 204 x\r\n\r\n");
        }
    });
    Ok(at)
}

fn ask(at: &str, path: &str) -> std::io::Result<u64> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")?;
    std::io::copy(&mut stream, &mut std::io::sink())
}

fn cannot(error: &std::io::Error) -> Failure {
    Failure::new(Code::Unavailable, "cannot start who is to watch").because(error)
}
