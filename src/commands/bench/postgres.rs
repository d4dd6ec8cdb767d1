//! `keylane bench postgres`: what fence and markers cost on the database that `--store` names, and what others do there.
//!
//! - [`site`]: a schema of its own, deleted
//! - [`effects`]: fenced effects, against the same batches without fence and marker, and a transaction a job
//! - [`claims`]: a claim while stale writers are in flight
//! - [`worker`]: a whole worker on a queue in a file, over one connection to the store and more
//! - [`peers`]: a whole worker, against programs that do the same work in other ways
//! - [`kafka`]: a whole worker, Kafka in and Postgres out

mod claims;
mod effects;
mod kafka;
mod peers;
mod site;
mod worker;

use clap::ValueEnum;
use keylane_consumer::store::postgres::PostgresAddress;

use self::site::Site;
use super::{
    jobs::Jobs,
    place::{Place, Progress},
    row::{self, Row},
};
use crate::{
    cli::{Global, PostgresArgs, PostgresFigure, StoreUrl},
    exit::{Code, Failure},
    output::{Output, counted},
};

/// What every figure gets.
struct Bench<'a> {
    args: &'a PostgresArgs,
    global: &'a Global,
    place: Place,
    jobs: Jobs,
    site: Site,
    progress: Progress,
}

/// The database to measure on.
pub(crate) fn address(global: &Global) -> Result<PostgresAddress, Failure> {
    match &global.store {
        Some(StoreUrl::Postgres(url)) => Ok(url.address()?),
        _ => Err(Failure::new(Code::Usage, "'bench postgres' needs a database to measure on")
            .remedy("name it: --store postgres://USER@HOST/DATABASE, as a role that may make schemas")),
    }
}

/// What is asked for.
pub(crate) fn figures(args: &PostgresArgs) -> &[PostgresFigure] {
    if args.figure.is_empty() { PostgresFigure::value_variants() } else { &args.figure }
}

pub(super) fn run(args: &PostgresArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let address = address(global)?;
    let url = address.to_string();
    let progress = Progress::new(global.quiet || output.is_json());
    if cfg!(debug_assertions) {
        progress.say("note: this is a debug build, so these numbers say little");
    }
    let (place, jobs, site) = (Place::make(args.folder.as_deref())?, Jobs::prepare()?, Site::make(address)?);
    let bench = Bench { args, global, place, jobs, site, progress };
    let mut rows = Vec::new();
    for figure in figures(args) {
        rows.extend(match figure {
            PostgresFigure::Effects => effects::measure(&bench)?,
            PostgresFigure::Claims => claims::measure(&bench)?,
            PostgresFigure::Worker => worker::measure(&bench)?,
            PostgresFigure::Peers => peers::measure(&bench)?,
            PostgresFigure::Kafka => kafka::measure(&bench)?,
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
        "{url}: {}; {processors} processors here, {} rounds of {}; medians",
        bench.site.durability()?,
        args.rounds,
        counted(args.jobs, "job")
    ))?;
    let mut table = row::header();
    rows.iter().for_each(|row: &Row| row.print(&mut table));
    output.table(&table)?;
    Ok(Code::Done)
}
