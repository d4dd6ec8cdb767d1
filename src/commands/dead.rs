//! `keylane dead`: looks at dead letters and acts on them. A number names one dead letter for ever, so an act on it is an act on what
//! was seen. A dry run until `--execute`; each act is written down with who and why: `keylane fence log` shows it.

use keylane_consumer::store::{DeadAct, DeadActed, DeadJob, DeadLetter, DeadOrder, Steer};
use keylane_producer::Timestamp;
use serde::Serialize;

use super::{
    body::{Body, preview},
    fence::whoever,
    pace::Pace,
    status::picture::{Eye, Picture},
};
use crate::{
    cli::{DeadActArgs, DeadArgs, DeadCommand, DeadListArgs, FilterArgs, Global},
    exit::{Code, Failure},
    output::{Output, Table, counted},
    store::Store,
    time,
};

/// Read from the store at once.
const PAGE: usize = 1_000;

pub(crate) fn run(args: &DeadArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    match &args.command {
        DeadCommand::List(args) => list(args, global, output),
        DeadCommand::Show(args) => show(args.number, global, output),
        DeadCommand::Replay(args) => act(args, DeadAct::Replay, global, output),
        DeadCommand::Drop(args) => act(args, DeadAct::Drop, global, output),
    }
}

/// A dead letter, as `-o json` shows it.
#[derive(Serialize)]
struct Shown<'a> {
    number: u64,
    key: String,
    partition: u32,
    offset: u64,
    job: &'a str,
    rule: &'static str,
    reason: &'a str,
    attempts: u32,
    at: String,
    bytes: u64,
    /// The queue was made anew since: it cannot be replayed.
    outlived: bool,
}

impl<'a> Shown<'a> {
    fn of(letter: &'a DeadLetter) -> Self {
        Self {
            number: letter.number,
            key: letter.key.to_string(),
            partition: letter.partition.0,
            offset: letter.offset.0,
            job: letter.id.as_str(),
            rule: letter.reason.rule.as_str(),
            reason: &letter.reason.text,
            attempts: letter.attempts.0,
            at: time::rfc3339(letter.at),
            bytes: letter.size,
            outlived: letter.outlived,
        }
    }
}

/// The dead letters, page after page; a store that holds none is not opened for it, for that would make it.
struct Letters {
    store: Option<Box<dyn Steer>>,
    picture: Picture,
    eye: Eye,
}

impl Letters {
    fn open(global: &Global) -> Result<Self, Failure> {
        let mut eye = Eye::open(global)?;
        let picture = eye.look()?;
        let store = match picture.dead.is_empty() {
            true => None,
            false => Some(Store::named(global)?.steer(&eye.queue, &global.group)?),
        };
        Ok(Self { store, picture, eye })
    }

    fn each(&mut self, mut see: impl FnMut(DeadLetter) -> Result<bool, Failure>) -> Result<(), Failure> {
        let Some(store) = &mut self.store else { return Ok(()) };
        let mut after = 0;
        loop {
            let page = store.dead_letters(after, PAGE)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.number;
            for letter in page {
                if !see(letter)? {
                    return Ok(());
                }
            }
        }
    }

    fn job(&mut self, number: u64) -> Result<Option<DeadJob>, Failure> {
        Ok(match &mut self.store {
            Some(store) => store.dead_job(number)?,
            None => None,
        })
    }
}

fn fits(letter: &DeadLetter, key: Option<&keylane_producer::JobKey>, filter: &FilterArgs, now: Timestamp) -> bool {
    key.is_none_or(|key| letter.key == *key)
        && filter.fits(letter.partition, &letter.key, letter.reason.rule, letter.at, now)
}

fn list(args: &DeadListArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut letters = Letters::open(global)?;
    let now = letters.picture.at;
    let mut table = Table::new(&["NUMBER", "KEY", "PART", "OFFSET", "JOB", "SINCE", "RULE", "TRIES", "REASON"]);
    let (mut told, mut more) = (0, false);
    letters.each(|letter| {
        if !fits(&letter, args.key.as_ref(), &args.filter, now) {
            return Ok(true);
        }
        if told == args.limit {
            more = true;
            return Ok(false);
        }
        told += 1;
        let shown = Shown::of(&letter);
        if output.is_json() {
            output.json(&shown)?;
        } else {
            let reason = preview(Some(shown.reason.as_bytes()));
            table.row(&[
                &shown.number,
                &shown.key,
                &shown.partition,
                &shown.offset,
                &shown.job,
                &shown.at,
                &shown.rule,
                &shown.attempts,
                &reason,
            ]);
        }
        Ok(true)
    })?;
    if output.is_json() {
        return Ok(Code::Done);
    }
    match told {
        0 if letters.store.is_some() => output.line("no dead letter fits"),
        0 => output.line(&format!("queue '{}' has no dead letters", global.queue)),
        _ => output.table(&table),
    }?;
    if more {
        output.line("and more: --limit")?;
    }
    Ok(Code::Done)
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    letter: Shown<'a>,
    enqueued_at: String,
    #[serde(flatten)]
    body: Body<'a>,
}

fn show(number: u64, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let job = Letters::open(global)?.job(number)?.ok_or_else(|| unknown(&[number], global))?;
    let (letter, enqueued_at) = (Shown::of(&job.letter), time::rfc3339(job.record.timestamp));
    if output.is_json() {
        output.json(&Whole { letter, enqueued_at, body: Body::of(&job.record) })?;
        return Ok(Code::Done);
    }
    output.line(&format!("dead letter {number}: job {} of {}", letter.job, letter.key))?;
    output.line(&format!("  partition {}, offset {}, enqueued {enqueued_at}", letter.partition, letter.offset))?;
    let reason = crate::output::printable(letter.reason);
    output.line(&format!("  since {}, {} at try {}: {reason}", letter.at, letter.rule, letter.attempts))?;
    if letter.outlived {
        output.line("  of an earlier making of the queue: it cannot be replayed; enqueue it again, and drop it")?;
    }
    output.line(&format!("  {}", preview(job.record.value.as_deref())))?;
    Ok(Code::Done)
}

fn unknown(numbers: &[u64], global: &Global) -> Failure {
    let shown: Vec<String> = numbers.iter().take(10).map(u64::to_string).collect();
    Failure::new(Code::NotFound, format!("queue '{}' has no dead letter {}", global.queue, shown.join(", ")))
        .remedy("'keylane dead list' lists them")
}

/// What became of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    Done,
    /// Without `--execute`.
    WouldBeDone,
    /// Its key stands still: it is in its line, and runs when that is replayed.
    InLine,
    /// There is none of this number any more.
    Gone,
    /// The queue was made anew since: it cannot be replayed.
    Outlived,
}

impl From<DeadActed> for Fate {
    fn from(acted: DeadActed) -> Self {
        match acted {
            DeadActed::Done => Self::Done,
            DeadActed::InLine => Self::InLine,
            DeadActed::Gone => Self::Gone,
            DeadActed::Outlived => Self::Outlived,
        }
    }
}

impl Fate {
    fn is_as_asked(self) -> bool {
        matches!(self, Self::Done | Self::WouldBeDone | Self::InLine)
    }
}

#[derive(Serialize)]
struct Answer {
    number: u64,
    outcome: Fate,
    key: Option<String>,
    job: Option<String>,
    /// Whether a worker has the partition now; if not, it runs when one starts.
    worker_runs: Option<bool>,
}

fn act(args: &DeadActArgs, act: DeadAct, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut letters = Letters::open(global)?;
    let asked = asked_for(args, &mut letters)?;
    if !args.numbers.is_empty() && asked.iter().all(|(_, letter)| letter.is_none()) {
        return Err(unknown(&args.numbers, global));
    }
    let Letters { store, picture, eye } = &mut letters;
    let who = args.by.who.clone().unwrap_or_else(whoever);
    let mut pace = Pace::of(args.pace);
    let mut answers = Vec::new();
    for (number, letter) in asked {
        let outcome = match (&letter, store.as_deref_mut()) {
            (Some(letter), _) if act == DeadAct::Replay && letter.outlived => Fate::Outlived,
            (Some(_), _) if !args.execute => Fate::WouldBeDone,
            (Some(_), Some(store)) => {
                pace.wait();
                let (who, why) = (who.clone(), args.by.why.clone());
                store.act_on_dead(&DeadOrder { number, act, who, why })?.into()
            }
            _ => Fate::Gone,
        };
        answers.push(Answer {
            number,
            outcome,
            key: letter.as_ref().map(|letter| letter.key.to_string()),
            job: letter.as_ref().map(|letter| letter.id.to_string()),
            worker_runs: letter.as_ref().map(|letter| picture.is_worked_on(letter.partition)),
        });
    }
    tracing::debug!(letters = answers.len(), queue = %eye.queue.name, "acted on dead letters");
    tell(&answers, args, act, global, output)?;
    Ok(if answers.iter().all(|answer| answer.outcome.is_as_asked()) { Code::Done } else { Code::Failed })
}

/// Each that is meant, once, with what is known of it; in the order of their places, so that a key's run in theirs.
fn asked_for(args: &DeadActArgs, letters: &mut Letters) -> Result<Vec<(u64, Option<DeadLetter>)>, Failure> {
    let mut asked = Vec::new();
    if args.numbers.is_empty() {
        let now = letters.picture.at;
        letters.each(|letter| {
            if fits(&letter, args.key.as_ref(), &args.filter, now) {
                asked.push((letter.number, Some(letter)));
            }
            Ok(true)
        })?;
    } else {
        let mut numbers = args.numbers.clone();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            asked.push((number, letters.job(number)?.map(|job| job.letter)));
        }
    }
    asked.sort_by_key(|(number, letter)| (letter.as_ref().map(|letter| (letter.partition, letter.offset)), *number));
    Ok(asked)
}

fn tell(
    answers: &[Answer],
    args: &DeadActArgs,
    act: DeadAct,
    global: &Global,
    output: &mut Output,
) -> Result<(), Failure> {
    if output.is_json() {
        return answers.iter().try_for_each(|answer| output.json(answer));
    }
    let (did, would) = match act {
        DeadAct::Replay => ("replayed", "would replay"),
        DeadAct::Drop => ("dropped", "would drop"),
    };
    for answer in answers.iter().filter(|answer| !global.quiet || !answer.outcome.is_as_asked()) {
        let what = match (&answer.job, &answer.key) {
            (Some(job), Some(key)) => format!("{}: job {job} of {key}", answer.number),
            _ => answer.number.to_string(),
        };
        output.line(&match answer.outcome {
            Fate::Done => format!("{did} {what}"),
            Fate::WouldBeDone => format!("{would} {what}"),
            Fate::InLine => format!("{did} {what}: its key stands still, and it is in its line now (keylane parked)"),
            Fate::Gone => format!("left {what} alone: there is no such dead letter any more"),
            Fate::Outlived => {
                format!(
                    "left {what} alone: the queue was made anew since, and its place is another job's; enqueue it again"
                )
            }
        })?;
    }
    if global.quiet {
        return Ok(());
    }
    let done = answers.iter().filter(|answer| answer.outcome == Fate::Done).count();
    if answers.len() > 1 && done > 0 {
        output.line(&format!("{did} {}", counted(done as u64, "dead letter")))?;
    }
    if answers.is_empty() {
        return output.line("no dead letter fits");
    }
    if act == DeadAct::Replay && answers.iter().any(|a| a.worker_runs == Some(false) && a.outcome == Fate::Done) {
        output.line("no worker has the partition now: it goes on when one starts")?;
    }
    if !args.execute && answers.iter().any(|answer| answer.outcome == Fate::WouldBeDone) {
        output.line("nothing was changed: the same with --execute does it")?;
    }
    Ok(())
}
