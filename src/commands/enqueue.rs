//! `keylane enqueue`: jobs out of a file, standard input or the command line onto a queue.
//!
//! - [`recipe`]: what the flags say a job is made of
//! - [`source`]: the file or stream, its name, and whether someone asked to stop
//! - [`check`]: a file is looked at whole before anything is sent
//! - [`begin`]: where an import begins: at the start, where it was cut off, or not at all
//! - [`import`]: batch after batch onto the log, each with its checkpoint
//! - [`one`]: a single job from the command line

mod begin;
mod check;
mod import;
mod one;
mod progress;
mod recipe;
mod rejects;
mod source;
mod summary;

use keylane_producer::{Enqueuer, Error, Log, QueueSpec};

use self::{
    begin::Begin,
    import::Import,
    progress::Progress,
    rejects::Rejects,
    source::{Source, Stop},
};
use super::queue::missing;
use crate::{
    broker,
    cli::{EnqueueArgs, Global},
    exit::{Code, Failure},
    output::{Output, counted},
};

pub(crate) fn run(args: &EnqueueArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    if let Some(key) = &args.one {
        return one::send(key, args, global, output);
    }
    let stop = Stop::on_signals()?;
    let source = Source::open(args, &stop)?;
    let recipe = recipe::from_flags(args, &source)?;
    // Bad lines are found before a queue is made for them.
    let mut enqueuer = if args.create.is_some() { None } else { Some(open(args, global)?) };
    if source.is_file() && !args.skip_invalid {
        check::whole(&source, &recipe, &mut Progress::new("checked", &source, global))?;
    }
    let mut enqueuer = match enqueuer.take() {
        Some(enqueuer) => enqueuer,
        None => open(args, global)?,
    };
    let begin = Begin::decide(&source, args, &mut enqueuer)?;
    if let Begin::Nowhere { lines } = begin {
        return nothing_to_send(lines, &source, global, output);
    }
    let rejects = Rejects::open(args, &source, begin.is_start())?;
    let progress = Progress::new("sent", &source, global);
    let import = Import::new(&source, args, global, enqueuer, rejects, progress);
    let summary = import.run(recipe, &begin, output)?;
    summary.print(args, global, output)?;
    Ok(if summary.skipped > 0 { Code::Failed } else { Code::Done })
}

/// The queue, made if the flags say so.
fn open(args: &EnqueueArgs, global: &Global) -> Result<Enqueuer<Box<dyn Log>>, Failure> {
    let name = &global.queue;
    let Some(partitions) = args.create else {
        let log = broker::open(global).map_err(|failure| match failure.code() {
            Code::NotFound => failure.remedy(format!("make the queue with '{}'", broker::create_command(global, name))),
            _ => failure,
        })?;
        return Enqueuer::open(log, name).map_err(|error| missing(error, global, name));
    };
    let mut log = broker::open_or_make(global)?;
    match log.create(&QueueSpec::new(name.clone(), partitions)) {
        // It is there: with another count too, since --create says what to do if it is missing.
        Ok(_) | Err(Error::Invalid(_)) => Ok(Enqueuer::open(log, name)?),
        Err(error) => Err(error.into()),
    }
}

fn nothing_to_send(lines: u64, source: &Source, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    if output.is_json() {
        output.json(&summary::Summary::of_nothing(source, global, lines))?;
    } else if !global.quiet {
        let text =
            format!("nothing to send: all of {source} ({}) is on queue '{}'", counted(lines, "line"), global.queue);
        output.line(&text)?;
    }
    Ok(Code::Done)
}
