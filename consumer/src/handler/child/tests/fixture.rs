//! A handler in `sh`, jobs for it, and a worker process that can be killed.

use std::{
    fs,
    io::{BufRead, BufReader, Lines, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use bytes::Bytes;
use keylane_producer::{Attempt, GroupName, Headers, Job, JobKey, Offset, Partition, QueueIdentity, Timestamp};
use tokio_util::sync::CancellationToken;

use super::super::*;
use crate::{
    error::Error,
    fence::{Fence, Fenced},
    store::{
        Candidate, ClaimError, Claimed, Line, LineOrder, Note, ParkedJob, PartitionOverview, PartitionWrite,
        PartitionWritten, Steering, StoreSession,
    },
};

/// What a handler says to everything.
pub(super) const ANSWER_ALL: &str = r#"while read -r line; do echo '{"outcome":"done"}'; done"#;
/// No test waits longer for what it waits for.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Outcomes need a store's type, never a store.
#[derive(Clone)]
pub(super) struct NoStore;
pub(super) struct NoSession;

impl FencedStore for NoStore {
    type Tx<'t> = ();
    type Session = NoSession;

    fn open(&self, _: &QueueIdentity, _: &GroupName) -> Result<NoSession, Error> {
        Ok(NoSession)
    }
}

#[rustfmt::skip]
impl StoreSession<NoStore> for NoSession {
    fn claim(&mut self, _: &Candidate) -> Result<Claimed, ClaimError> { unreachable!() }
    fn write(&mut self, _: &mut [PartitionWrite<NoStore>]) -> Result<Vec<PartitionWritten>, Error> { unreachable!() }
    fn hand_over(&mut self, _: &Fence) -> Result<Result<(), Fenced>, Error> { unreachable!() }
    fn starting(&mut self, _: &Fence, _: &[Offset]) -> Result<Result<(), Fenced>, Error> { unreachable!() }
    fn steering(&mut self, _: &[Partition]) -> Result<Steering, Error> { unreachable!() }
    fn note(&mut self, _: &Fence, _: Option<&Note>) -> Result<Result<(), Fenced>, Error> { unreachable!() }
    fn changed(&mut self) -> Result<bool, Error> { unreachable!() }
    fn overview(&mut self) -> Result<Vec<PartitionOverview>, Error> { unreachable!() }
    fn line(&mut self, _: Partition, _: &JobKey) -> Result<Line, Error> { unreachable!() }
    fn parked(&mut self, _: Partition, _: &JobKey, _: &[Offset]) -> Result<Vec<ParkedJob>, Error> { unreachable!() }
    fn act_on_line(&mut self, _: &LineOrder) -> Result<bool, Error> { unreachable!() }
}

pub(super) fn job(payload: &[u8]) -> JobContext {
    JobContext {
        job: std::sync::Arc::new(Job {
            id: "j-1".parse().unwrap(),
            key: JobKey::try_from("k").unwrap(),
            payload: Some(Bytes::copy_from_slice(payload)),
            headers: Headers::default(),
            enqueued_at: Timestamp(0),
            attempt: Attempt::FIRST,
        }),
        partition: Partition(0),
        offset: Offset(0),
        attempt: Attempt::FIRST,
        pass: None,
        cancel: CancellationToken::new(),
    }
}

/// A directory in which a script, as `$DIR`, leaves marks.
pub(super) struct Marks(tempfile::TempDir);

impl Marks {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn settings(&self, script: &str) -> ChildSettings {
        settings(&self.script(script))
    }

    pub(super) fn script(&self, script: &str) -> String {
        format!("DIR='{}'\n{script}", self.0.path().display())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Lines of a mark; none if it is not there yet.
    pub(super) fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    /// The process ids of a mark, once it has that many.
    pub(super) async fn pids(&self, name: &str, count: usize) -> Vec<u32> {
        until(|| self.lines(name).len() >= count).await;
        self.lines(name).iter().map(|line| line.parse().unwrap()).collect()
    }
}

pub(super) fn settings(script: &str) -> ChildSettings {
    let command = ["sh", "-c", script].map(OsString::from).to_vec();
    ChildSettings { guard: in_role("guard"), ..ChildSettings::new(command, PATIENCE) }
}

pub(super) async fn run(handler: &ChildHandler, payload: &[u8]) -> Outcome<NoStore> {
    handler.run(job(payload)).await
}

/// The reason of an attempt that must have failed.
pub(super) async fn failure(handler: &ChildHandler) -> String {
    match run(handler, b"x").await {
        Outcome::Retry(Retry { reason, after: None }) => reason,
        other => panic!("not a failed attempt: {}", said(&other)),
    }
}

pub(super) fn said(outcome: &Outcome<NoStore>) -> String {
    match outcome {
        Outcome::Done(crate::Done::Nothing) => "done".into(),
        Outcome::Done(crate::Done::Result(json)) => format!("done {}", String::from_utf8_lossy(json)),
        Outcome::Done(crate::Done::Effect(_)) => "effect".into(),
        Outcome::Retry(retry) => format!("retry {} {:?}", retry.reason, retry.after),
        Outcome::Reject(reason) => format!("reject {reason}"),
    }
}

/// Waits until it is so.
pub(super) async fn until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it never came to be so");
}

/// Not there any more, not even unreaped.
pub(super) fn is_gone(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Runs nothing any more, on none of its threads. An orphan's reaping is up to the machine's first process, so unreaped
/// counts; but a first thread that is gone does not mean that the others are, or that their files are closed.
pub(super) fn is_dead(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    })
}

/// The number of its process group, as the kernel shows it: 0 if the group's leader is outside of this container.
pub(super) fn group(pid: u32) -> i32 {
    id_in_stat(pid, 2)
}

/// The number of its session; 0 as in [`group`].
pub(super) fn session(pid: u32) -> i32 {
    id_in_stat(pid, 3)
}

fn id_in_stat(pid: u32, field_after_name: usize) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.split(' ').nth(field_after_name).unwrap().parse().unwrap()
}

pub(super) fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn in_role(role: &str) -> Vec<OsString> {
    let this = std::env::current_exe().unwrap();
    let role = format!("KEYLANE_TEST_ROLE={role}");
    let test = "handler::child::tests::fixture::plays_the_role_it_was_started_in";
    ["/usr/bin/env".into(), role.into(), this.into(), "--exact".into(), test.into(), "--nocapture".into()].to_vec()
}

/// A worker process with one handler; a line on its standard input runs one more job.
pub(super) struct WorkerProcess {
    process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl WorkerProcess {
    pub(super) fn start(script: &str) -> Self {
        let command = in_role("worker");
        let mut process = Command::new(&command[0])
            .args(&command[1..])
            .env("KEYLANE_TEST_SCRIPT", script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, stdin, stdout: BufReader::new(stdout).lines() }
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts a job and does not wait for its end.
    pub(super) fn begin_job(&mut self) {
        self.stdin.write_all(b"job\n").unwrap();
    }

    /// Runs a job; the guard's process id after it.
    pub(super) fn run_job(&mut self) -> u32 {
        self.begin_job();
        let answered = self
            .stdout
            .by_ref()
            .map(Result::unwrap)
            .find_map(|line| line.strip_prefix("answered, guard is ").map(|pid| pid.parse().unwrap()));
        answered.expect("the worker answered")
    }

    /// Kills it as the kernel does when memory is short, and collects it.
    pub(super) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// How it ended.
    pub(super) fn wait(mut self) -> std::process::ExitStatus {
        self.process.wait().unwrap()
    }

    /// Ends it in order.
    pub(super) fn end(mut self) {
        drop(self.stdin);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Not a claim by itself: the entrance of the processes that other tests start.
#[test]
fn plays_the_role_it_was_started_in() {
    match std::env::var("KEYLANE_TEST_ROLE").as_deref() {
        Ok("guard") => guard::serve().unwrap(),
        Ok("worker") => be_a_worker(&std::env::var("KEYLANE_TEST_SCRIPT").unwrap()),
        _ => {}
    }
}

fn be_a_worker(script: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handler = ChildHandler::new(settings(script)).unwrap();
    handler.check().unwrap();
    for line in std::io::stdin().lines() {
        line.unwrap();
        runtime.block_on(run(&handler, b"x"));
        println!("answered, guard is {}", handler.pool.guard().process_id().unwrap());
    }
}
