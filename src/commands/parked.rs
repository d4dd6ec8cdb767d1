//! `keylane parked`: looks at the lines of parked keys and acts on them. An act is conditional on the line that was read,
//! is a dry run until `--execute`, and is written down with who and why: `keylane fence log` shows it.

mod show;

use keylane_consumer::store::{LineAct, LineOrder, StoppedKey};
use keylane_producer::{JobId, JobKey, Partition};
use serde::Serialize;

use super::{
    fence::whoever,
    pace::Pace,
    status::picture::{Eye, Picture},
};
use crate::{
    cli::{ActArgs, Etag, Global, ListArgs, ParkedArgs, ParkedCommand},
    exit::{Code, Failure},
    output::{Output, Table, counted},
    store::Store,
    time,
};

pub(crate) fn run(args: &ParkedArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    match &args.command {
        ParkedCommand::List(args) => list(args, global, output),
        ParkedCommand::Show(args) => show::run(args, global, output),
        ParkedCommand::Replay(args) => act(args, LineAct::Replay, global, output),
        ParkedCommand::Drop(args) => act(args, LineAct::Drop, global, output),
    }
}

/// A parked key, as `-o json` shows it.
#[derive(Serialize)]
pub(crate) struct Shown<'a> {
    key: String,
    partition: u32,
    jobs: u64,
    /// What a replay or a drop can be made conditional on.
    etag: String,
    /// Null: a person paused the key.
    job: Option<&'a str>,
    rule: &'static str,
    reason: &'a str,
    attempts: u32,
    since: String,
    /// A person had it replayed, and its line is not through yet.
    replaying: bool,
}

impl<'a> Shown<'a> {
    pub(crate) fn of(partition: Partition, key: &'a StoppedKey) -> Self {
        Self {
            key: key.key.to_string(),
            partition: partition.0,
            jobs: key.jobs,
            etag: Etag::of(key).to_string(),
            job: key.id.as_ref().map(JobId::as_str),
            rule: key.reason.rule.as_str(),
            reason: &key.reason.text,
            attempts: key.attempts.0,
            since: time::rfc3339(key.since),
            replaying: key.released,
        }
    }
}

fn list(args: &ListArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let picture = Eye::open(global)?.look()?;
    let fits = |(partition, key): &&(Partition, StoppedKey)| {
        args.filter.fits(*partition, &key.key, key.reason.rule, key.since, picture.at)
    };
    let mut table = Table::new(&["KEY", "PART", "JOBS", "SINCE", "RULE", "ETAG", "REPLAYING"]);
    let mut empty = true;
    for (partition, key) in picture.stopped.iter().filter(fits) {
        empty = false;
        let shown = Shown::of(*partition, key);
        if output.is_json() {
            output.json(&shown)?;
        } else {
            let replaying = if shown.replaying { "yes" } else { "no" };
            table.row(&[&shown.key, partition, &shown.jobs, &shown.since, &shown.rule, &shown.etag, &replaying]);
        }
    }
    match (output.is_json(), empty) {
        (true, _) => Ok(()),
        (false, true) if !args.filter.is_empty() => output.line("no parked key fits"),
        (false, true) => output.line(&format!("no key of queue '{}' is parked", global.queue)),
        (false, false) => output.table(&table),
    }?;
    Ok(Code::Done)
}

/// What became of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// It was done.
    Done,
    /// Without `--execute`: it would be done.
    WouldBeDone,
    /// A person had it replayed before, and its line is not through yet: it is its owner's now.
    Replaying,
    /// The line is not the one that was read, or shown with the etag. Nothing was done.
    Changed,
    /// Its older jobs are in a line in another partition, from before the queue had so many: that comes first.
    OlderLine,
    /// It has no line.
    NotParked,
}

impl Fate {
    fn is_as_asked(self) -> bool {
        matches!(self, Self::Done | Self::WouldBeDone)
    }
}

/// One key's answer, as `-o json` shows it.
#[derive(Serialize)]
struct Answer {
    key: String,
    outcome: Fate,
    partition: Option<u32>,
    jobs: Option<u64>,
    etag: Option<String>,
    /// Whether a worker has the partition now; if not, it goes on when one starts.
    worker_runs: Option<bool>,
}

fn act(args: &ActArgs, act: LineAct, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    if args.etag.is_some() && args.keys.len() != 1 {
        return Err(Failure::new(Code::Usage, "--etag is of one line".to_owned()).remedy("name one key with it"));
    }
    let mut eye = Eye::open(global)?;
    let picture = eye.look()?;
    let asked = asked_for(args, &picture);
    tracing::debug!(keys = asked.len(), "looked at the parked keys");
    if !args.keys.is_empty() && asked.iter().all(|(_, found)| found.is_none()) {
        return Err(not_parked(&args.keys, global));
    }
    let mut lines = None;
    let mut pace = Pace::of(args.pace);
    let mut answers = Vec::new();
    for (key, found) in asked {
        let outcome = match found {
            None => Fate::NotParked,
            Some((_, row)) if args.etag.is_some_and(|etag| etag != Etag::of(row)) => Fate::Changed,
            Some((_, row)) if row.released => Fate::Replaying,
            Some(_) if !args.execute => Fate::WouldBeDone,
            Some((partition, row)) => {
                let lines = match &mut lines {
                    Some(lines) => lines,
                    none => none.insert(Store::named(global)?.lines(&eye.queue, &global.group)?),
                };
                pace.wait();
                let done = lines.act(&LineOrder {
                    partition: *partition,
                    key: key.clone(),
                    version: row.version,
                    last: Some(row.last),
                    act,
                    who: args.by.who.clone().unwrap_or_else(whoever),
                    why: args.by.why.clone(),
                })?;
                let lines = picture.stopped.iter().filter(|(_, other)| other.key == *key).count();
                match done {
                    true => Fate::Done,
                    false if lines > 1 => Fate::OlderLine,
                    false => Fate::Changed,
                }
            }
        };
        answers.push(Answer {
            key: key.to_string(),
            outcome,
            partition: found.map(|(partition, _)| partition.0),
            jobs: found.map(|(_, row)| row.jobs),
            etag: found.map(|(_, row)| Etag::of(row).to_string()),
            worker_runs: found.map(|(partition, _)| picture.is_worked_on(*partition)),
        });
    }
    tell(&answers, args, act, global, output)?;
    Ok(if answers.iter().all(|answer| answer.outcome.is_as_asked()) { Code::Done } else { Code::Failed })
}

type Found<'a> = Option<&'a (Partition, StoppedKey)>;

/// Each key that is meant, once, with its row if it has one.
fn asked_for<'a>(args: &'a ActArgs, picture: &'a Picture) -> Vec<(&'a JobKey, Found<'a>)> {
    if args.keys.is_empty() {
        let meant = picture
            .stopped
            .iter()
            .filter(|(partition, key)| args.filter.fits(*partition, &key.key, key.reason.rule, key.since, picture.at));
        return meant.map(|found| (&found.1.key, Some(found))).collect();
    }
    let mut keys: Vec<&JobKey> = Vec::new();
    for key in &args.keys {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let row = |key: &JobKey| picture.stopped.iter().find(|(_, row)| row.key == *key);
    keys.into_iter().map(|key| (key, row(key))).collect()
}

fn not_parked(keys: &[JobKey], global: &Global) -> Failure {
    let shown: Vec<String> = keys.iter().take(10).map(|key| format!("'{key}'")).collect();
    let (key, are) = if keys.len() == 1 { ("key", "is") } else { ("keys", "are") };
    Failure::new(Code::NotFound, format!("{key} {} {are} not parked in queue '{}'", shown.join(", "), global.queue))
        .remedy("'keylane parked list' lists the parked keys")
}

fn tell(answers: &[Answer], args: &ActArgs, act: LineAct, global: &Global, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return answers.iter().try_for_each(|answer| output.json(answer));
    }
    let (did, would) = match act {
        LineAct::Replay | LineAct::Resume => ("replayed", "would replay"),
        LineAct::Drop => ("dropped", "would drop"),
    };
    for answer in answers.iter().filter(|answer| !global.quiet || !answer.outcome.is_as_asked()) {
        let (key, jobs) = (&answer.key, counted(answer.jobs.unwrap_or(0), "job"));
        let etag = answer.etag.as_deref().unwrap_or_default();
        output.line(&match answer.outcome {
            Fate::Done => format!("{did} {key}: {jobs}"),
            Fate::WouldBeDone => format!("{would} {key}: {jobs}, etag {etag}"),
            Fate::Replaying => format!("left {key} alone: it is replayed already"),
            Fate::Changed => {
                format!("left {key} alone: its line changed since it was looked at; now {jobs}, etag {etag}")
            }
            Fate::OlderLine => {
                format!("left {key} alone: its older jobs wait in another partition; again when these are through")
            }
            Fate::NotParked => format!("left {key} alone: it is not parked"),
        })?;
    }
    if global.quiet {
        return Ok(());
    }
    if answers.is_empty() {
        return output.line(&format!("no key of queue '{}' is parked that fits", global.queue));
    }
    let waits = |a: &&Answer| a.worker_runs == Some(false) && a.outcome == Fate::Done;
    if answers.iter().any(|answer| waits(&answer)) {
        output.line("no worker has the partition now: it goes on when one starts")?;
    }
    if !args.execute && answers.iter().any(|answer| answer.outcome == Fate::WouldBeDone) {
        output.line("nothing was changed: the same with --execute does it")?;
    }
    Ok(())
}
