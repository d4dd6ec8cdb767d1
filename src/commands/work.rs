//! `keylane work`: a worker until it is told to end, or the queue is empty.
//!
//! - [`settings`]: what the flags say
//! - [`builtin`]: handlers that need no program
//! - [`url`]: a handler behind a URL of this machine
//! - [`news`]: what the worker tells, for people and programs
//! - [`housekeeping`]: old records leave the embedded log

mod builtin;
mod housekeeping;
pub(crate) mod news;
mod settings;
mod url;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use keylane_consumer::{
    FencedStore, Handler, Parts, Summary, Worker, WorkerHandle, WorkerSettings,
    clock::Clock,
    handler::child::ChildHandler,
    store::{postgres::PostgresStore, sqlite::SqliteStore},
};
use keylane_producer::Log;
use keylane_sidecar::spool::SnapshotFile;
use serde::Serialize;

use self::news::Reporter;
use super::queue::missing;
use crate::{
    broker,
    cli::{Builtin, Global, MoveBy, StoreUrl, WorkArgs},
    exit::{Code, Failure},
    output::{Output, counted},
};

pub(crate) fn run(args: &WorkArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let settings = settings::from_flags(args, &global.store()?)?;
    let reporter = Reporter::new(global, &settings.name);
    let summary = match args.builtin {
        Some(Builtin::Print) => work(
            builtin::Print { limit: settings.job_limit },
            settings,
            args.assignor,
            global,
            reporter,
            args.snapshot_file.as_deref(),
        )?,
        Some(Builtin::Discard) => {
            work(builtin::Discard, settings, args.assignor, global, reporter, args.snapshot_file.as_deref())?
        }
        None if args.url.is_some() => {
            let handler = settings::url(args, &global.store()?)?.expect("it is there");
            work(handler, settings, args.assignor, global, reporter, args.snapshot_file.as_deref())?
        }
        None => {
            let handler = ChildHandler::new(settings::child(args, &global.store()?)?)?;
            // A program that is not there is found before the group waits for this worker.
            handler.check()?;
            work(handler, settings, args.assignor, global, reporter, args.snapshot_file.as_deref())?
        }
    };
    tell(&summary, global, output)?;
    Ok(if summary.clean && summary.keys_left == 0 { Code::Done } else { Code::Failed })
}

/// What of this `run` would refuse before it opens anything.
pub(crate) fn check(args: &WorkArgs, global: &Global) -> Result<(), Failure> {
    let store = global.store()?;
    settings::from_flags(args, &store)?;
    if settings::url(args, &store)?.is_none() && args.builtin.is_none() {
        ChildHandler::new(settings::child(args, &store)?)?;
    }
    if let StoreUrl::Postgres(url) = &store {
        url.address()?;
    }
    Ok(())
}

/// Opens everything and runs a worker; signals end it.
pub(crate) fn work<H: Handler<SqliteStore> + Handler<PostgresStore>>(
    handler: H,
    settings: WorkerSettings,
    moves: MoveBy,
    global: &Global,
    reporter: Reporter,
    snapshot: Option<&Path>,
) -> Result<Summary, Failure> {
    let guards = settings.guards;
    match global.store()? {
        StoreUrl::Sqlite(file) => {
            work_on(SqliteStore::without(file, guards), handler, settings, moves, global, reporter, snapshot)
        }
        StoreUrl::Postgres(url) => work_on(
            PostgresStore::without(url.address()?, guards),
            handler,
            settings,
            moves,
            global,
            reporter,
            snapshot,
        ),
    }
}

fn work_on<S: FencedStore, H: Handler<S>>(
    store: S,
    handler: H,
    settings: WorkerSettings,
    moves: MoveBy,
    global: &Global,
    reporter: Reporter,
    snapshot: Option<&Path>,
) -> Result<Summary, Failure> {
    let file = snapshot.map(SnapshotFile::new);
    // Before the broker is waited for, or a probe would take an earlier process's word for this one's.
    if let Some(Err(error)) = file.as_ref().map(SnapshotFile::begin) {
        tracing::warn!(%error, "cannot take away the snapshot of an earlier process; work goes on");
    }
    let mut worker = assemble(store, handler, settings, moves, global)?;
    if let Some(file) = file {
        worker = worker.shown_to(move |edition| file.put(edition));
    }
    end_on_signals(worker.handle())?;
    housekeeping::begin(global)?;
    Ok(worker.run(move |notice| reporter.tell(&notice))?)
}

/// A worker on what the URLs name.
fn assemble<S: FencedStore, H: Handler<S>>(
    store: S,
    handler: H,
    settings: WorkerSettings,
    moves: MoveBy,
    global: &Global,
) -> Result<Worker<S, H>, Failure> {
    let mut log = broker::open(global)?;
    let queue = log.identity(&global.queue).map_err(|error| missing(error, global, &global.queue))?;
    let clock = Clock::boot();
    let parts = Parts {
        group: broker::join(global, &queue, &settings, moves, &clock)?,
        group_name: global.group.clone(),
        queue,
        log,
        store,
        handler,
        clock,
    };
    Ok(Worker::new(settings, parts)?)
}

/// The first SIGTERM or SIGINT drains, the second ends at once.
fn end_on_signals(worker: WorkerHandle) -> Result<(), Failure> {
    use signal_hook::{
        consts::{SIGINT, SIGTERM},
        iterator::Signals,
    };
    let failed = |e: &std::io::Error| Failure::new(Code::Bug, "cannot listen to signals").because(e);
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| failed(&e))?;
    let seen = Arc::new(AtomicUsize::new(0));
    let listen = move || {
        for _ in signals.forever() {
            if seen.fetch_add(1, Ordering::SeqCst) == 0 { worker.end() } else { worker.force() }
        }
    };
    std::thread::Builder::new().name("keylane-signals".into()).spawn(listen).map_err(|e| failed(&e))?;
    Ok(())
}

/// The summary as `-o json` shows it.
#[derive(Serialize)]
struct Ended<'a> {
    event: &'static str,
    clean: bool,
    applied: u64,
    retried: u64,
    refused: u64,
    keys_stopped: u64,
    jobs_parked: u64,
    jobs_dead_lettered: u64,
    keys_left: u64,
    cut_short: Vec<&'a str>,
}

fn tell(summary: &Summary, global: &Global, output: &mut Output) -> Result<(), Failure> {
    let cut_short: Vec<_> = summary.cut_short.iter().map(keylane_producer::JobId::as_str).collect();
    if output.is_json() {
        return output.json(&Ended {
            event: "ended",
            clean: summary.clean,
            applied: summary.applied,
            retried: summary.retried,
            refused: summary.refused,
            keys_stopped: summary.stopped,
            jobs_parked: summary.stopped + summary.parked,
            jobs_dead_lettered: summary.buried,
            keys_left: summary.keys_left,
            cut_short,
        });
    }
    if global.quiet {
        return Ok(());
    }
    let mut text = format!("{} applied", counted(summary.applied, "job"));
    for (count, what) in [(summary.retried, "tried again"), (summary.refused, "refused after their partition was lost")]
    {
        if count > 0 {
            text.push_str(&format!(", {} {what}", counted(count, "job")));
        }
    }
    if summary.buried > 0 {
        text.push_str(&format!(", {} dead-lettered: see 'keylane dead list'", counted(summary.buried, "job")));
    }
    if summary.keys_left > 0 {
        let keys = counted(summary.keys_left, "key");
        text.push_str(&format!(", {keys} parked: see 'keylane parked list'"));
    }
    if !cut_short.is_empty() {
        text.push_str(&format!(
            ", {} cut short, to run again on the next owner: {}",
            counted(cut_short.len() as u64, "job"),
            cut_short.join(" ")
        ));
    }
    output.line(&text)
}
