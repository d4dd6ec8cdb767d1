//! `keylane bench kafka`: what a worker gets out of the brokers that `--broker` names.
//!
//! - [`topic`]: a topic of its own, filled, worked, deleted
//! - [`noop`]: jobs that do nothing, against a bare poll loop on the same topic; what fence and markers cost
//! - [`waits`]: jobs that wait a while, against a program that does the same in another way
//! - [`moves`]: worker processes that die, leave, join and freeze: how long what moves and what stays stands still

mod moves;
pub(super) mod noop;
pub(super) mod topic;
mod waits;

use self::topic::Topic;
use super::{
    jobs::Jobs,
    place::{Place, Progress},
    row::{self, Row},
};
use crate::{
    cli::{BrokerUrl, Global, KafkaArgs, KafkaFigure},
    exit::{Code, Failure},
    output::{Output, counted},
};

/// What every figure gets.
struct Bench<'a> {
    global: &'a Global,
    args: &'a KafkaArgs,
    place: Place,
    jobs: Jobs,
    progress: Progress,
}

pub(super) use self::waits::work;

pub(super) fn run(args: &KafkaArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let BrokerUrl::Kafka(_) = &global.broker else {
        return Err(Failure::new(Code::Usage, "'bench kafka' needs brokers to measure on")
            .remedy("name them: --broker kafka://HOST:PORT"));
    };
    let progress = Progress::new(global.quiet || output.is_json());
    let bench = Bench { global, args, place: Place::make(args.folder.as_deref())?, jobs: Jobs::prepare()?, progress };
    if cfg!(debug_assertions) {
        bench.progress.say("note: this is a debug build, so these numbers say little");
    }
    let all = [KafkaFigure::Noop, KafkaFigure::Waits, KafkaFigure::Moves];
    let figures = if args.figure.is_empty() { &all[..] } else { &args.figure };
    let mut rows = Vec::new();
    for figure in figures {
        rows.extend(match figure {
            KafkaFigure::Noop => noop::measure(&bench)?,
            KafkaFigure::Waits => waits::measure(&bench)?,
            KafkaFigure::Moves => moves::measure(&bench)?,
        });
    }
    if output.is_json() {
        for row in &rows {
            output.json(row)?;
        }
        return Ok(Code::Done);
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    output.line(&format!(
        "brokers at {}, {processors} processors here, {} rounds of {}; medians",
        global.broker,
        args.rounds,
        counted(args.jobs, "job")
    ))?;
    let mut table = row::header();
    rows.iter().for_each(|row: &Row| row.print(&mut table));
    output.table(&table)?;
    Ok(Code::Done)
}

impl Bench<'_> {
    fn topic(&self) -> Result<Topic, Failure> {
        Topic::make(self.global, &self.place)
    }
}
