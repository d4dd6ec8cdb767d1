//! What an import did, told at its end.

use std::io::Write;

use serde::Serialize;

use super::source::Source;
use crate::{
    cli::{EnqueueArgs, Global},
    exit::Failure,
    output::{Output, counted, printable},
};

/// The answer of `enqueue -o json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Summary {
    pub(super) queue: String,
    /// The import's name; null if it has none.
    pub(super) source: Option<String>,
    /// Sent by this run.
    pub(super) jobs: u64,
    /// Passed over by this run, with `--skip-invalid`.
    pub(super) skipped: u64,
    /// Lines of the source that are dealt with, from its start.
    pub(super) lines: u64,
    /// Of those, the ones that an earlier run had sent.
    pub(super) resumed_after: u64,
    /// How many partitions this run wrote to.
    pub(super) partitions: usize,
    pub(super) seconds: f64,
    #[serde(skip)]
    pub(super) label: String,
}

impl Summary {
    pub(super) fn of_nothing(source: &Source, global: &Global, lines: u64) -> Self {
        Self {
            queue: global.queue.to_string(),
            source: source.name().map(str::to_owned),
            jobs: 0,
            skipped: 0,
            lines,
            resumed_after: lines,
            partitions: 0,
            seconds: 0.0,
            label: source.to_string(),
        }
    }

    /// With `--receipts`, standard output is the receipts', so this goes to standard error.
    pub(super) fn print(&self, args: &EnqueueArgs, global: &Global, output: &mut Output) -> Result<(), Failure> {
        if global.quiet && !output.is_json() {
            return Ok(());
        }
        let text = if output.is_json() {
            serde_json::to_string(self).expect("a summary always serializes")
        } else {
            printable(&self.text()).into_owned()
        };
        if args.receipts {
            // Who closed standard error does not want to know.
            let _ = writeln!(std::io::stderr(), "{text}");
            Ok(())
        } else {
            output.line(&text)
        }
    }

    fn text(&self) -> String {
        let partitions = counted(self.partitions as u64, "partition");
        let jobs = counted(self.jobs, "job");
        let mut text = format!(
            "sent {jobs} from {} to queue '{}', {partitions}, in {:.1} s",
            self.label, self.queue, self.seconds
        );
        if self.resumed_after > 0 {
            text.push_str(&format!("; {} were there before", counted(self.resumed_after, "line")));
        }
        if self.skipped > 0 {
            text.push_str(&format!("; passed over {}", counted(self.skipped, "bad line")));
        }
        text
    }
}
