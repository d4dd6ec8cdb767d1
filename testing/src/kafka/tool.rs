//! The side tool: a process with Kafka's own clients that answers what tests ask of a cluster (`kafka/Tool.java`).

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, SyncSender},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// On top of a command's own limit, so that the tool's error, which knows more, comes first.
const GRACE: Duration = Duration::from_secs(40);

type Waiting = Arc<Mutex<HashMap<u64, SyncSender<Value>>>>;

/// Ends with the test process, whose end closes its input.
pub(super) struct Tool {
    child: Child,
    input: Mutex<ChildStdin>,
    waiting: Waiting,
    next: AtomicU64,
    log: PathBuf,
}

impl Tool {
    /// For brokers with these internal addresses.
    pub(super) fn start(class_path: &str, addresses: &[String], log: PathBuf) -> Result<Self> {
        let mut java = Command::new("java");
        java.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        java.args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path, "Tool"]).args(addresses);
        java.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut child = java.spawn().context("cannot start java")?;
        let input = Mutex::new(child.stdin.take().context("its input is piped")?);
        let output = child.stdout.take().context("its output is piped")?;
        let waiting = Waiting::default();
        let readers = Arc::clone(&waiting);
        std::thread::Builder::new().name("kafka-tool".into()).spawn(move || dispatch(output, &readers))?;
        Ok(Self { child, input, waiting, next: AtomicU64::new(1), log })
    }

    /// The answer to a command; `question` holds its arguments. Several may be under way at once.
    pub(super) fn ask(&self, command: &str, mut question: Value, limit: Duration) -> Result<Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        question["id"] = json!(id);
        question["command"] = json!(command);
        question["limit_ms"] = json!(limit.as_millis());
        let (sender, receiver) = mpsc::sync_channel(1);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        let line = format!("{question}\n");
        let sent = self.input.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
        let answer = sent.map_err(anyhow::Error::from).and_then(|()| Ok(receiver.recv_timeout(limit + GRACE)?));
        let mut answer = answer.with_context(|| {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            format!("the tests' Kafka tool did not answer '{command}'; its log:\n{log}")
        })?;
        match answer["error"].as_str() {
            Some(error) => bail!("{command}: {error}"),
            None => Ok(answer["ok"].take()),
        }
    }
}

/// Hands each answer to who waits for it. At the end of the output nobody waits any longer.
fn dispatch(output: ChildStdout, waiting: &Waiting) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        let waiter =
            answer["id"].as_u64().and_then(|id| waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
        if let Some(waiter) = waiter {
            let _ = waiter.try_send(answer);
        }
    }
    waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number in an answer.
pub(super) fn number<N: TryFrom<i64>>(value: &Value) -> Result<N> {
    let number = value.as_i64().and_then(|number| N::try_from(number).ok());
    number.with_context(|| format!("the tool answered {value} where a number belongs"))
}

/// A text in an answer.
pub(super) fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_owned).with_context(|| format!("the tool answered {value} where a text belongs"))
}

/// A list in an answer.
pub(super) fn list<T>(value: &Value, element: impl Fn(&Value) -> Result<T>) -> Result<Vec<T>> {
    let found = value.as_array().with_context(|| format!("the tool answered {value} where a list belongs"))?;
    found.iter().map(element).collect()
}
