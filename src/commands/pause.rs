//! `keylane pause` and `resume`: has keys stand still, and lets them go on. Each act is conditional on what stands in the store, and
//! is written down with who and why: `keylane fence log` shows it.

use keylane_consumer::store::{LineAct, LineOrder, SteerOrder, StopRule, StoppedKey};
use keylane_producer::{JobKey, Partition};
use serde::Serialize;

use super::{
    fence::whoever,
    status::picture::{Eye, Picture},
    why::partition_in,
};
use crate::{
    cli::{Global, PauseArgs},
    exit::{Code, Failure},
    output::{Output, counted},
    store::Store,
};

/// What became of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    Paused,
    Resumed,
    /// It stands still by a person already.
    PausedBefore,
    /// It goes on already.
    ResumedBefore,
    /// It stands still since a job of it could not be done: not a pause's matter.
    Parked,
    /// It is not paused.
    NotPaused,
    /// Somebody else was first.
    Changed,
}

impl Fate {
    fn is_as_asked(self) -> bool {
        matches!(self, Self::Paused | Self::Resumed | Self::PausedBefore | Self::ResumedBefore)
    }
}

/// One key's answer, as `-o json` shows it.
#[derive(Serialize)]
struct Answer {
    key: String,
    partition: u32,
    outcome: Fate,
    /// In its line.
    jobs: u64,
    /// Whether a worker has the partition now; if not, the next one holds to it.
    worker_runs: bool,
}

pub(crate) fn pause(args: &PauseArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut steer = None;
    each(args, global, output, |key, partition, row, eye| {
        Ok(match row {
            Some(row) if row.released => Fate::Changed,
            Some(row) if row.reason.rule == StopRule::Paused => Fate::PausedBefore,
            Some(_) => Fate::Parked,
            None => {
                let steer = match &mut steer {
                    Some(steer) => steer,
                    none => none.insert(Store::named(global)?.steer(&eye.queue, &global.group)?),
                };
                let (who, why) = (args.by.who.clone().unwrap_or_else(whoever), args.by.why.clone());
                let order = SteerOrder { partition, key: key.clone(), who, why };
                if steer.pause(&order)? { Fate::Paused } else { Fate::Changed }
            }
        })
    })
}

pub(crate) fn resume(args: &PauseArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut lines = None;
    each(args, global, output, |key, partition, row, eye| {
        Ok(match row {
            None => Fate::NotPaused,
            Some(row) if row.released => Fate::ResumedBefore,
            Some(row) if row.reason.rule != StopRule::Paused => Fate::Parked,
            Some(row) => {
                let lines = match &mut lines {
                    Some(lines) => lines,
                    none => none.insert(Store::named(global)?.lines(&eye.queue, &global.group)?),
                };
                // Whatever came since goes on with it.
                let order = LineOrder {
                    partition,
                    key: key.clone(),
                    version: row.version,
                    last: None,
                    act: LineAct::Resume,
                    who: args.by.who.clone().unwrap_or_else(whoever),
                    why: args.by.why.clone(),
                };
                if lines.act(&order)? { Fate::Resumed } else { Fate::Changed }
            }
        })
    })
}

fn each(
    args: &PauseArgs,
    global: &Global,
    output: &mut Output,
    mut act: impl FnMut(&JobKey, Partition, Option<&StoppedKey>, &Eye) -> Result<Fate, Failure>,
) -> Result<Code, Failure> {
    let mut eye = Eye::open(global)?;
    let picture: Picture = eye.look()?;
    let mut answers: Vec<Answer> = Vec::new();
    for key in &args.keys {
        if answers.iter().any(|answer| answer.key == key.to_string()) {
            continue;
        }
        let row = picture.stopped.iter().find(|(_, row)| row.key == *key).map(|(_, row)| row);
        let partition = partition_in(&picture, key, &eye);
        let outcome = act(key, partition, row, &eye)?;
        let worker_runs = picture.is_worked_on(partition);
        let jobs = row.map_or(0, |row| row.jobs);
        answers.push(Answer { key: key.to_string(), partition: partition.0, outcome, jobs, worker_runs });
    }
    for answer in &answers {
        if output.is_json() {
            output.json(answer)?;
        } else if !(global.quiet && answer.outcome.is_as_asked()) {
            output.line(&sentence(answer))?;
        }
    }
    Ok(if answers.iter().all(|answer| answer.outcome.is_as_asked()) { Code::Done } else { Code::Failed })
}

fn sentence(answer: &Answer) -> String {
    let (key, jobs) = (&answer.key, counted(answer.jobs, "job"));
    let when = if answer.worker_runs { "its worker sees it within a second" } else { "no worker has it now" };
    match answer.outcome {
        Fate::Paused => format!("paused {key}: {when}; what runs of it ends"),
        Fate::Resumed => format!("resumed {key}, with {jobs} in its line: {when}"),
        Fate::PausedBefore => format!("{key} is paused already, with {jobs} in its line"),
        Fate::ResumedBefore => format!("{key} goes on already, with {jobs} in its line"),
        Fate::Parked => format!(
            "left {key} alone: it is parked since a job of it could not be done; keylane parked replay {key}, or drop"
        ),
        Fate::NotPaused => format!("left {key} alone: it is not paused"),
        Fate::Changed => format!("left {key} alone: it changed since it was looked at, or is replayed now; look again"),
    }
}
