//! Batch after batch onto the log, each with its checkpoint.
//!
//! 1. A batch and the checkpoint behind its last line commit together: whatever ends the process, the log knows
//!    exactly which lines are on it.
//! 2. A stream's lines do not wait for more: what was read goes out as soon as reading on would block.
//! 3. However it ends, the last word says which lines are on the queue, and how to go on.

use std::collections::BTreeSet;

use keylane_consumer::clock::{BootTime, Clock};
use keylane_producer::{
    Enqueuer, Job, JobId, JobKey, Partition, Receipt,
    log::{Checkpoint, Log},
};
use serde::Serialize;

use super::{
    begin::{Begin, changed},
    progress::Progress,
    rejects::Rejects,
    source::{Reader, Source},
    summary::Summary,
};
use crate::{
    cli::{EnqueueArgs, Global},
    exit::{Code, Failure},
    input::{Fault, Items, Recipe},
    output::{Output, grouped},
};

/// Most jobs of a batch: enough that the disk's flush is shared, few enough that an interruption costs nothing.
const BATCH_JOBS: usize = 1_000;
/// A batch goes out with the job that reaches this many bytes of payload.
const BATCH_BYTES: usize = 4 * 1_024 * 1_024;

/// An import that runs.
pub(super) struct Import<'a> {
    source: &'a Source,
    args: &'a EnqueueArgs,
    global: &'a Global,
    enqueuer: Enqueuer<Box<dyn Log>>,
    rejects: Rejects,
    progress: Progress,
    clock: Clock,
    began: BootTime,
    batch: Batch,
    tally: Tally,
    /// Whether someone still reads the receipts.
    receipts_are_read: bool,
}

#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    bytes: usize,
}

/// What is done for certain.
#[derive(Default)]
struct Tally {
    jobs: u64,
    skipped: u64,
    /// Lines from the source's start that are dealt with.
    lines: u64,
    resumed_after: u64,
    /// The last line of a batch of which the log could not say whether it is there.
    unknown_to: Option<u64>,
    partitions: BTreeSet<Partition>,
}

/// How far the source was read when something was looked at.
struct Mark {
    lines: u64,
    /// Left out where no checkpoint is kept.
    digest: Option<String>,
}

/// A job's receipt, as `--receipts` prints it.
#[derive(Serialize)]
pub(super) struct ReceiptShown<'a> {
    id: &'a str,
    key: String,
    partition: u32,
    offset: u64,
}

impl<'a> ReceiptShown<'a> {
    pub(super) fn new(id: &'a JobId, key: &JobKey, receipt: &Receipt) -> Self {
        Self { id: id.as_str(), key: key.to_string(), partition: receipt.partition.0, offset: receipt.offset.0 }
    }
}

impl<'a> Import<'a> {
    pub(super) fn new(
        source: &'a Source,
        args: &'a EnqueueArgs,
        global: &'a Global,
        enqueuer: Enqueuer<Box<dyn Log>>,
        rejects: Rejects,
        progress: Progress,
    ) -> Self {
        let clock = Clock::boot();
        let began = clock.now();
        Self {
            source,
            args,
            global,
            enqueuer,
            rejects,
            progress,
            clock,
            began,
            batch: Batch::default(),
            tally: Tally::default(),
            receipts_are_read: args.receipts,
        }
    }

    pub(super) fn run(mut self, recipe: Recipe, begin: &Begin, output: &mut Output) -> Result<Summary, Failure> {
        let reader = self.source.reader()?;
        let mut items = Items::begin(reader, recipe).map_err(|error| self.source.unreadable(&error))?;
        if let Begin::After(checkpoint) = begin {
            self.pass_over(&mut items, checkpoint)?;
        }
        let sent = self.send_all(&mut items, output);
        self.progress.end();
        sent.map_err(|failure| self.last_word(failure))?;
        Ok(self.summary())
    }

    fn pass_over(&mut self, items: &mut Items<Reader<'_>>, checkpoint: &Checkpoint) -> Result<(), Failure> {
        let there = items.skip_to_line(checkpoint.position).map_err(|error| self.source.unreadable(&error))?;
        if !there || items.tape().digest() != *checkpoint.digest {
            return Err(changed(self.source, checkpoint));
        }
        self.tally.lines = checkpoint.position;
        self.tally.resumed_after = checkpoint.position;
        Ok(())
    }

    fn send_all(&mut self, items: &mut Items<Reader<'_>>, output: &mut Output) -> Result<(), Failure> {
        loop {
            if self.source.stop().is_asked() {
                // What was taken from a stream is gone from it, so it is sent; a file can be read again.
                if !self.source.is_file() {
                    self.flush(&self.mark(items), false, output)?;
                }
                return Err(Failure::new(Code::Interrupted, "interrupted"));
            }
            // A bad line of a stream ends it before that line, so the place is kept while it is not yet read.
            let before = if self.source.is_file() { None } else { Some(self.mark(items)) };
            let item = match items.next() {
                Ok(Some(item)) => item,
                Ok(None) => return self.flush(&self.mark(items), true, output),
                Err(error) => {
                    if let Some(before) = before {
                        self.flush(&before, false, output)?;
                    }
                    return Err(self.source.unreadable(&error));
                }
            };
            match item.job {
                Ok(job) => self.batch.add(job),
                Err(fault) if self.args.skip_invalid => {
                    self.rejects.add(item.line, &fault, item.raw)?;
                    self.tally.skipped += 1;
                }
                Err(fault) => {
                    let line = item.line;
                    if let Some(before) = before {
                        self.flush(&before, false, output)?;
                    }
                    return Err(self.bad_line(line, &fault));
                }
            }
            let reading_would_wait = !items.tape().has_line_ready() && !items.tape().source().is_ready();
            if self.batch.is_full() || (reading_would_wait && !self.batch.jobs.is_empty()) {
                self.flush(&self.mark(items), false, output)?;
            }
            self.progress.at(items.tape().bytes(), self.tally.jobs + self.batch.jobs.len() as u64);
        }
    }

    fn mark(&self, items: &Items<Reader<'_>>) -> Mark {
        let tape = items.tape();
        Mark { lines: tape.lines(), digest: self.source.name().map(|_| tape.digest()) }
    }

    fn flush(&mut self, mark: &Mark, complete: bool, output: &mut Output) -> Result<(), Failure> {
        self.rejects.save()?;
        let checkpoint = self.source.name().zip(mark.digest.as_deref()).map(|(source, digest)| Checkpoint {
            source: source.into(),
            position: mark.lines,
            digest: digest.into(),
            complete,
        });
        let jobs = std::mem::take(&mut self.batch).jobs;
        if jobs.is_empty() && checkpoint.is_none() {
            self.tally.lines = mark.lines;
            return Ok(());
        }
        let keys: Vec<JobKey> =
            if self.receipts_are_read { jobs.iter().map(|job| job.key.clone()).collect() } else { Vec::new() };
        let sent = match self.enqueuer.send_with(jobs, checkpoint.as_ref()) {
            Ok(sent) => sent,
            Err(error) => {
                self.tally.unknown_to = (!error.rest_is_absent).then_some(mark.lines);
                return Err(error.cause.into());
            }
        };
        self.tally.lines = mark.lines;
        self.tally.jobs += sent.len() as u64;
        self.tally.partitions.extend(sent.iter().map(|(_, receipt)| receipt.partition));
        tracing::debug!(jobs = sent.len(), lines = mark.lines, complete, "batch is on the log");
        self.print_receipts(&keys, &sent, output)
    }

    fn print_receipts(
        &mut self,
        keys: &[JobKey],
        sent: &[(JobId, Receipt)],
        output: &mut Output,
    ) -> Result<(), Failure> {
        let printed = keys
            .iter()
            .zip(sent)
            .try_for_each(|(key, (id, receipt))| output.json(&ReceiptShown::new(id, key, receipt)))
            .and_then(|()| output.flush());
        match printed {
            // Nobody reads them any more; the jobs are still to be sent.
            Err(failure) if failure.code() == Code::Done => {
                self.receipts_are_read = false;
                Ok(())
            }
            printed => printed,
        }
    }

    fn bad_line(&self, line: u64, fault: &Fault) -> Failure {
        let why = if self.source.is_file() { " (the file changed since it was checked)" } else { "" };
        Failure::new(Code::BadInput, format!("line {} of {} cannot be a job{why}", grouped(line), self.source))
            .cause(fault.to_string())
            .remedy(fault.remedy)
    }

    /// Whatever went wrong: what is on the queue, and how to go on.
    fn last_word(&self, failure: Failure) -> Failure {
        let (queue, lines) = (&self.global.queue, self.tally.lines);
        let there = match lines {
            0 => format!("none of its lines is on queue '{queue}'"),
            1 => format!("line 1 is on queue '{queue}'"),
            _ => format!("the lines 1 to {} are on queue '{queue}'", grouped(lines)),
        };
        let after = match (self.tally.unknown_to, lines) {
            (Some(to), _) => format!("; nobody knows whether the lines {} to {} are", grouped(lines + 1), grouped(to)),
            (None, 0) => String::new(),
            (None, _) => ", and nothing after".to_owned(),
        };
        let go_on = match (self.source.name(), &self.args.file) {
            (Some(_), Some(file)) => {
                format!("go on with the same command and --resume: keylane enqueue {} --resume", file.display())
            }
            (Some(_), None) => "go on with the same command, the same input and --resume".to_owned(),
            (None, _) => format!(
                "send the rest, from line {} on; with --source NAME, --resume would know where to go on",
                grouped(lines + 1)
            ),
        };
        let remedy = match failure.remedy_text() {
            Some(remedy) => format!("{remedy}; then {go_on}"),
            None => go_on,
        };
        failure.while_doing(format!("the import of {} stopped: {there}{after}", self.source)).remedy(remedy)
    }

    fn summary(&self) -> Summary {
        let seconds = self.clock.now().since(self.began).as_secs_f64();
        Summary {
            jobs: self.tally.jobs,
            skipped: self.tally.skipped,
            resumed_after: self.tally.resumed_after,
            partitions: self.tally.partitions.len(),
            seconds: (seconds * 1_000.0).round() / 1_000.0,
            ..Summary::of_nothing(self.source, self.global, self.tally.lines)
        }
    }
}

impl Batch {
    fn add(&mut self, job: Job) {
        self.bytes += job.payload.as_ref().map_or(0, bytes::Bytes::len) + job.key.as_bytes().len();
        self.jobs.push(job);
    }

    fn is_full(&self) -> bool {
        self.jobs.len() >= BATCH_JOBS || self.bytes >= BATCH_BYTES
    }
}
