//! `keylane parked show`: one line, job for job.

use keylane_consumer::store::ParkedJob;
use keylane_producer::Offset;
use serde::Serialize;

use super::{Shown, not_parked};
use crate::{
    cli::{Global, ShowLineArgs},
    commands::{
        body::{Body, preview},
        status::picture::Eye,
    },
    exit::{Code, Failure},
    output::{Output, counted},
    store::Store,
    time,
};

/// One job of a line, as it was in the log.
#[derive(Serialize)]
struct JobShown<'a> {
    offset: u64,
    job: &'a str,
    /// 0: it was parked behind another.
    attempts: u32,
    enqueued_at: String,
    parked_at: String,
    #[serde(flatten)]
    body: Body<'a>,
}

impl<'a> JobShown<'a> {
    fn of(job: &'a ParkedJob) -> Self {
        let record = &job.stored.record;
        Self {
            offset: job.stored.offset.0,
            job: job.id.as_str(),
            attempts: job.attempts.0,
            enqueued_at: time::rfc3339(record.timestamp),
            parked_at: time::rfc3339(job.since),
            body: Body::of(record),
        }
    }
}

#[derive(Serialize)]
struct LineShown<'a> {
    #[serde(flatten)]
    key: Shown<'a>,
    /// The first of them, up to the limit.
    line: Vec<JobShown<'a>>,
}

pub(super) fn run(args: &ShowLineArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut eye = Eye::open(global)?;
    let picture = eye.look()?;
    let found = picture.stopped.iter().find(|(_, key)| key.key == args.key);
    let (partition, key) = found.ok_or_else(|| not_parked(std::slice::from_ref(&args.key), global))?;
    let mut lines = Store::named(global)?.lines(&eye.queue, &global.group)?;
    let line = lines.line(*partition, &args.key)?;
    let first: Vec<Offset> = line.jobs.iter().take(args.limit).map(|(offset, _)| *offset).collect();
    let jobs = lines.jobs(*partition, &args.key, &first)?;
    let shown = Shown::of(*partition, key);
    if output.is_json() {
        output.json(&LineShown { key: shown, line: jobs.iter().map(JobShown::of).collect() })?;
        return Ok(Code::Done);
    }
    output.line(&format!(
        "{}: {} parked in partition {partition}, etag {}",
        shown.key,
        counted(shown.jobs, "job"),
        shown.etag
    ))?;
    output.line(&format!("  since {}, {} at try {}: {}", shown.since, shown.rule, shown.attempts, shown.reason))?;
    for job in &jobs {
        let body = preview(job.stored.record.value.as_deref());
        let enqueued = time::rfc3339(job.stored.record.timestamp);
        output.line(&format!("  offset {}, job {}, enqueued {enqueued}: {body}", job.stored.offset, job.id))?;
    }
    if line.jobs.len() > jobs.len() {
        let more = counted((line.jobs.len() - jobs.len()) as u64, "job");
        output.line(&format!("  and {more} more: --limit"))?;
    }
    Ok(Code::Done)
}
