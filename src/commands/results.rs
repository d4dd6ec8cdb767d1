//! `keylane results`: what jobs left in the store, row by row. Memory stays flat whatever their number.

use std::{borrow::Cow, ops::ControlFlow};

use keylane_consumer::store::{ResultRow, ResultsOf};
use serde::Serialize;
use serde_json::value::RawValue;

use super::queue::identity;
use crate::{
    broker,
    cli::{Global, ResultsArgs},
    exit::{Code, Failure},
    output::Output,
    store::Store,
    time,
};

pub(crate) fn run(args: &ResultsArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    // A queue that is not there is told from one without results.
    identity(&mut broker::open(global)?, global)?;
    let which = match (&args.key, &args.job) {
        (Some(key), _) => ResultsOf::Key(key.clone()),
        (None, Some(id)) => ResultsOf::Job(id.clone()),
        (None, None) => ResultsOf::Everything,
    };
    let mut found = false;
    let mut failed = None;
    Store::named(global)?.results(&which, &mut |row| {
        if !is_asked_for(&row, args, global) {
            return ControlFlow::Continue(());
        }
        found = true;
        match shown(&row).and_then(|row| output.json(&row)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                failed = Some(failure);
                ControlFlow::Break(())
            }
        }
    })?;
    match (failed, &args.job) {
        (Some(failure), _) => Err(failure),
        (None, Some(id)) if !found => Err(Failure::new(Code::NotFound, format!("no result of a job '{id}'"))
            .remedy("it may not be finished yet, or its handler answered without a result: see 'keylane status'")),
        (None, _) => Ok(Code::Done),
    }
}

fn is_asked_for(row: &ResultRow, args: &ResultsArgs, global: &Global) -> bool {
    *row.queue == *global.queue.as_str()
        && *row.group == *global.group.as_str()
        && args.partition.is_none_or(|partition| row.partition.0 == partition)
}

/// A result as it is printed.
#[derive(Serialize)]
struct Shown {
    key: String,
    job: String,
    partition: u32,
    offset: u64,
    attempt: u32,
    finished_at: String,
    result: Box<RawValue>,
}

fn shown(row: &ResultRow) -> Result<Shown, Failure> {
    let (partition, offset) = (row.partition.0, row.offset.0);
    let unreadable = || {
        Failure::new(Code::Corrupt, format!("the result at partition {partition}, offset {offset} is no JSON text"))
            .remedy("results are written by workers only: look at the row in the table keylane_result")
    };
    let text = std::str::from_utf8(&row.result).map_err(|_| unreadable())?;
    Ok(Shown {
        key: row.key.to_string(),
        job: row.id.to_string(),
        partition,
        offset,
        attempt: row.attempt.0,
        finished_at: time::rfc3339(row.finished_at),
        result: RawValue::from_string(on_one_line(text).into_owned()).map_err(|_| unreadable())?,
    })
}

/// The same JSON without line breaks: between tokens they are white space, and inside strings there are none.
fn on_one_line(json: &str) -> Cow<'_, str> {
    if json.contains(['\n', '\r']) { Cow::Owned(json.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(json) }
}
