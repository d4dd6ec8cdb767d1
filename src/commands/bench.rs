//! `keylane bench`: what this machine gets out of it. One figure a file; each answers rows of the table.
//!
//! 1. A ratio has both of its sides from this run: in alternating rounds, on the same disk, with the same durability.
//! 2. A missed aim is shown and is no error.
//! 3. Nothing but the folder that is made for it is touched; it is removed at the end.

mod admit;
mod bare;
mod desk;
mod enqueue;
mod failing;
mod growth;
mod jobs;
mod kafka;
mod measure;
mod memory;
mod noop;
mod observed;
mod place;
pub(crate) mod postgres;
mod queue;
mod row;
mod watching;
mod writes;

use clap::ValueEnum;
use serde::Serialize;

use self::{
    jobs::Jobs,
    place::{Place, Progress},
    row::Row,
};
use crate::{
    cli::{BenchArgs, BenchCommand, Figure, Global, LocalArgs},
    exit::{Code, Failure},
    output::Output,
};

pub(crate) fn run(args: &BenchArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    match &args.command {
        BenchCommand::Local(args) => local(args, global, output),
        BenchCommand::Kafka(args) => kafka::run(args, global, output),
        BenchCommand::KafkaWorker(args) => kafka::work(args, global),
        BenchCommand::Postgres(args) => postgres::run(args, global, output),
    }
}

/// What every figure gets.
struct Bench<'p> {
    place: Place,
    jobs: Jobs,
    rounds: u32,
    sizes: Sizes,
    progress: &'p Progress,
}

/// How many jobs.
struct Sizes {
    /// In a round.
    round: u64,
    /// In a small file.
    few: u64,
    /// In a large file.
    many: u64,
    /// Waiting for a worker that does not get on.
    many_waiting: u64,
}

impl Sizes {
    fn of(args: &LocalArgs) -> Self {
        let (round, many) = if args.quick { (50_000, 1_000_000) } else { (200_000, 10_000_000) };
        let jobs = args.jobs.unwrap_or(round);
        let scaled = |count: u64| (count * jobs / round).max(1);
        Self { round: jobs, few: scaled(10_000), many: scaled(many), many_waiting: scaled(1_000_000) }
    }
}

/// The answer as `-o json` shows it.
#[derive(Serialize)]
struct Answer<'a> {
    version: &'static str,
    folder: String,
    file_system: &'a str,
    is_disk: bool,
    processors: usize,
    debug_build: bool,
    quick: bool,
    rounds: u32,
    jobs: u64,
    rows: &'a [Row],
}

fn local(args: &LocalArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let progress = Progress::new(global.quiet || output.is_json());
    let bench = Bench {
        place: Place::make(args.folder.as_deref())?,
        jobs: Jobs::prepare()?,
        rounds: args.rounds,
        sizes: Sizes::of(args),
        progress: &progress,
    };
    if cfg!(debug_assertions) {
        progress.say("note: this is a debug build, so these numbers say little");
    }
    if !bench.place.is_disk() {
        let kind = &bench.place.file_system;
        progress.say(&format!("note: {kind} is memory, so nothing is synced: name a folder on a disk with --folder"));
    }
    let figures = if args.figure.is_empty() { Figure::value_variants() } else { &args.figure };
    let mut rows = Vec::new();
    for &figure in figures {
        let name = figure.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        progress.say(&format!("measuring {name}"));
        rows.extend(measure(figure, &bench)?);
    }
    tell(&rows, &bench, args, output)
}

fn measure(figure: Figure, bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    match figure {
        Figure::Enqueue => enqueue::measure(bench),
        Figure::Noop => noop::measure(bench),
        Figure::Desk => desk::measure(bench),
        Figure::Admit => admit::measure(bench),
        Figure::Memory => memory::measure(bench),
        Figure::Growth => growth::measure(bench),
        Figure::Writes => writes::measure(bench),
        Figure::Watching => watching::measure(bench),
        Figure::Failing => failing::measure(bench),
    }
}

fn tell(rows: &[Row], bench: &Bench<'_>, args: &LocalArgs, output: &mut Output) -> Result<Code, Failure> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let parent = bench.place.path().parent().unwrap_or(bench.place.path());
    let (folder, file_system) = (parent.display().to_string(), bench.place.file_system.as_str());
    if output.is_json() {
        output.json(&Answer {
            version: env!("CARGO_PKG_VERSION"),
            folder,
            file_system,
            is_disk: bench.place.is_disk(),
            processors,
            debug_build: cfg!(debug_assertions),
            quick: args.quick,
            rounds: bench.rounds,
            jobs: bench.sizes.round,
            rows,
        })?;
        return Ok(Code::Done);
    }
    let jobs = crate::output::counted(bench.sizes.round, "job");
    output.line(&format!(
        "{file_system} in {folder}, {processors} processors, {} rounds of {jobs}; medians",
        bench.rounds
    ))?;
    let mut table = row::header();
    rows.iter().for_each(|row| row.print(&mut table));
    output.table(&table)?;
    Ok(Code::Done)
}
