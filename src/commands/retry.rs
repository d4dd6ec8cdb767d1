//! `keylane retry`: replays parked keys at once, without a dry run and a reason. Each release is conditional on the row that was read: what changed meanwhile
//! is left alone and named.

use std::collections::BTreeMap;

use keylane_consumer::store::{LineOrder, StopRule, StoppedKey};
use keylane_producer::{JobKey, Partition};
use serde::Serialize;

use super::{
    fence::whoever,
    status::picture::{Eye, Picture},
};
use crate::{
    cli::{Global, RetryArgs},
    exit::{Code, Failure},
    output::{Output, counted},
    store::{Lines, Store},
};

pub(crate) fn run(args: &RetryArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut eye = Eye::open(global)?;
    let picture = eye.look()?;
    let asked = asked_for(args, &picture);
    tracing::debug!(keys = asked.len(), "looked at the stopped keys");
    if !args.all && asked.iter().all(|(_, found)| found.is_none()) {
        return Err(not_stopped(&args.keys, global));
    }
    let mut release = Release { eye: &eye, global, args, opened: None };
    let mut answers = Vec::new();
    for (key, found) in asked {
        let fate = match found {
            None => Fate::NotStopped,
            Some((partition, found)) => release.one(*partition, found)?,
        };
        answers.push(Answer::new(key, found, fate, &picture));
    }
    tell(&answers, args, global, output)?;
    let left = answers.iter().filter(|answer| !answer.outcome.is_as_asked()).count();
    Ok(if left == 0 { Code::Done } else { Code::Failed })
}

type Found<'a> = Option<&'a (Partition, StoppedKey)>;

/// Each key that is meant, once, with its row if it has one.
fn asked_for<'a>(args: &'a RetryArgs, picture: &'a Picture) -> Vec<(&'a JobKey, Found<'a>)> {
    if args.all {
        let rule = args.reason.map(StopRule::from);
        let meant = picture.stopped.iter().filter(|(_, key)| rule.is_none_or(|rule| key.reason.rule == rule));
        return meant.map(|found| (&found.1.key, Some(found))).collect();
    }
    let rows: BTreeMap<&JobKey, &(Partition, StoppedKey)> = picture.stopped.iter().map(|f| (&f.1.key, f)).collect();
    let mut keys: Vec<&JobKey> = Vec::new();
    for key in &args.keys {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.into_iter().map(|key| (key, rows.get(key).copied())).collect()
}

fn not_stopped(keys: &[JobKey], global: &Global) -> Failure {
    let shown: Vec<String> = keys.iter().take(10).map(|key| format!("'{key}'")).collect();
    let (key, are) = if keys.len() == 1 { ("key", "is") } else { ("keys", "are") };
    Failure::new(Code::NotFound, format!("{key} {} {are} not stopped in queue '{}'", shown.join(", "), global.queue))
        .remedy("'keylane status' lists the stopped keys; one that is not stopped needs no release")
}

/// What became of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// It goes on.
    Released,
    /// Only `--dry-run`: it would go on.
    WouldRelease,
    /// Somebody released it before, and no worker runs it yet.
    ReleasedBefore,
    /// Its row is another one than was read: it was released, ran, or stopped again meanwhile. Nothing was done.
    Changed,
    /// It has no row.
    NotStopped,
}

impl Fate {
    fn is_as_asked(self) -> bool {
        matches!(self, Self::Released | Self::WouldRelease | Self::ReleasedBefore)
    }
}

/// Releases keys; the store is opened for writing only when there is one to release.
struct Release<'a> {
    eye: &'a Eye,
    global: &'a Global,
    args: &'a RetryArgs,
    opened: Option<Box<dyn Lines>>,
}

impl Release<'_> {
    fn one(&mut self, partition: Partition, found: &StoppedKey) -> Result<Fate, Failure> {
        if found.released {
            return Ok(Fate::ReleasedBefore);
        }
        if self.args.dry_run {
            return Ok(Fate::WouldRelease);
        }
        let lines = match &mut self.opened {
            Some(lines) => lines,
            none => none.insert(Store::named(self.global)?.lines(&self.eye.queue, &self.global.group)?),
        };
        let order = LineOrder {
            who: whoever(),
            why: "keylane retry".to_owned(),
            ..LineOrder::replay(partition, found.key.clone(), found.version)
        };
        Ok(if lines.act(&order)? { Fate::Released } else { Fate::Changed })
    }
}

/// One key, as `-o json` shows it.
#[derive(Serialize)]
struct Answer {
    key: String,
    outcome: Fate,
    partition: Option<u32>,
    job: Option<String>,
    /// Whether a worker has the partition now; if not, the key goes on when one starts.
    worker_runs: Option<bool>,
}

impl Answer {
    fn new(key: &JobKey, found: Found<'_>, outcome: Fate, picture: &Picture) -> Self {
        Self {
            key: key.to_string(),
            outcome,
            partition: found.map(|(partition, _)| partition.0),
            job: found.and_then(|(_, key)| key.id.as_ref()).map(ToString::to_string),
            worker_runs: found.map(|(partition, _)| picture.is_worked_on(*partition)),
        }
    }

    fn sentence(&self) -> String {
        let (key, job) = (&self.key, self.job.as_deref().unwrap_or("of its line"));
        match self.outcome {
            Fate::Released => format!("released {key}: goes on with job {job}"),
            Fate::WouldRelease => format!("would release {key}: it stopped at job {job}"),
            Fate::ReleasedBefore => format!("left {key} alone: it was released before and has not gone on yet"),
            Fate::Changed => format!("left {key} alone: it changed since it was looked at; see 'keylane status'"),
            Fate::NotStopped => format!("left {key} alone: it is not stopped"),
        }
    }
}

fn tell(answers: &[Answer], args: &RetryArgs, global: &Global, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return answers.iter().try_for_each(|answer| output.json(answer));
    }
    for answer in answers.iter().filter(|answer| !global.quiet || !answer.outcome.is_as_asked()) {
        output.line(&answer.sentence())?;
    }
    if global.quiet {
        return Ok(());
    }
    if answers.is_empty() {
        let by = args.reason.map_or("", |_| " by that rule");
        return output.line(&format!("no key of queue '{}' is stopped{by}", global.queue));
    }
    let waits =
        |a: &&Answer| a.worker_runs == Some(false) && matches!(a.outcome, Fate::Released | Fate::ReleasedBefore);
    let waiting = answers.iter().filter(waits).count();
    if waiting > 0 {
        let (keys, go) = (counted(waiting as u64, "key"), if waiting == 1 { "goes" } else { "go" });
        output.line(&format!("no worker has the partition now: {keys} {go} on when one starts"))?;
    }
    Ok(())
}
