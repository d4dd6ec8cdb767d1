//! This test binary again, as another process with one part to play.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{ChildStdout, Command, Stdio},
};

use super::*;
use crate::Error;

const PART: &str = "KEYLANE_TEST_PART";
const FILE: &str = "KEYLANE_TEST_FILE";
const FIRST: &str = "KEYLANE_TEST_FIRST";
/// Marks the lines that are ours among those of the test harness.
const MARK: &str = "child says ";

/// Records of one batch, spread over three partitions.
pub(super) const BATCH: usize = 60;

/// The parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Child {
    /// Makes or opens the file and says its cluster.
    OpenNewFile,
    /// Appends one batch after another and says each receipt once it has it.
    AppendBatches,
    /// The same without the transaction around a batch.
    AppendLoosely,
    /// Appends until it is refused, and says how.
    GrowUntilRefused,
}

const ALL: [Child; 4] = [Child::OpenNewFile, Child::AppendBatches, Child::AppendLoosely, Child::GrowUntilRefused];

impl Child {
    fn command(self, program: &mut Command, file: &Path) -> std::process::Child {
        program
            .args(["--exact", "log::local::tests::children::a_child_plays_its_part", "--nocapture"])
            .env(PART, format!("{self:?}"))
            .env(FILE, file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub(super) fn start(self, file: &Path, first: usize) -> std::process::Child {
        self.command(Command::new(std::env::current_exe().unwrap()).env(FIRST, first.to_string()), file)
    }

    /// With files of at most 512 KiB, and the signal for it ignored, so that a write answers with an error.
    pub(super) fn run_with_small_files(self, file: &Path) -> Vec<String> {
        let script = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\"";
        let mut shell = Command::new("sh");
        let mut child = self.command(shell.args(["-c", script]).arg(std::env::current_exe().unwrap()), file);
        let lines = says(child.stdout.take().unwrap()).collect();
        assert!(child.wait().unwrap().success());
        lines
    }
}

/// What a child says, to its end.
pub(super) fn says(stdout: ChildStdout) -> impl Iterator<Item = String> {
    BufReader::new(stdout).lines().filter_map(|line| line.unwrap().split_once(MARK).map(|(_, said)| said.to_owned()))
}

/// Nothing to do in the parent's own run.
#[test]
fn a_child_plays_its_part() {
    let Ok(part) = std::env::var(PART) else { return };
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    let part = ALL.into_iter().find(|known| format!("{known:?}") == part).unwrap();
    if part == Child::OpenNewFile {
        let mut log = LocalLog::open(&path, Open::Create, Patience::Patient).unwrap();
        let cluster: String = log.connection().query_row("SELECT cluster FROM keylane_file", [], |r| r.get(0)).unwrap();
        say(&cluster);
        return;
    }
    let mut log = LocalLog::open(&path, Open::Existing, Patience::Patient).unwrap();
    let queue = log.describe(&"jobs".parse().unwrap()).unwrap().identity;
    if part == Child::GrowUntilRefused {
        grow_until_refused(&mut log, &queue);
        return;
    }
    for number in std::env::var(FIRST).unwrap().parse::<usize>().unwrap().. {
        let batch = batch(number);
        let receipts = if part == Child::AppendBatches {
            log.append(&queue, batch, None).unwrap()
        } else {
            batch.into_iter().flat_map(|one| log.append(&queue, vec![one], None).unwrap()).collect()
        };
        let receipts: Vec<String> = receipts.iter().map(|r| format!("{}@{}", r.partition, r.offset)).collect();
        say(&format!("{number}: {}", receipts.join(" ")));
    }
}

fn grow_until_refused(log: &mut LocalLog, queue: &QueueIdentity) {
    loop {
        match log.append(queue, vec![(Partition(0), record("x".repeat(60_000)))], None) {
            Ok(_) => say("appended"),
            Err(error) => {
                let kind = if matches!(error.cause, Error::Unavailable(_)) { "unavailable" } else { "another" };
                say(&format!("refused: rest_is_absent={} kind={kind}", error.rest_is_absent));
                return;
            }
        }
    }
}

/// One write a line, so that a line is whole or not there.
fn say(text: &str) {
    std::io::stdout().write_all(format!("{MARK}{text}\n").as_bytes()).unwrap();
}

/// What batch `number` holds: each record says its batch and its place in it.
pub(super) fn batch(number: usize) -> Vec<(Partition, Record)> {
    let partition = |at: usize| Partition(u32::try_from(at % 3).unwrap());
    (0..BATCH).map(|at| (partition(at), record(format!("{number}/{at}/{}", "y".repeat(at * 7))))).collect()
}
