//! `keylane parked show`: one line, job for job.

use data_encoding::BASE64;
use keylane_consumer::store::ParkedJob;
use keylane_producer::Offset;
use serde::Serialize;

use super::{Shown, not_parked};
use crate::{
    cli::{Global, ShowLineArgs},
    commands::status::picture::Eye,
    exit::{Code, Failure},
    output::{Output, counted, printable},
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
    /// Null: no body.
    payload: Option<Bytes<'a>>,
    headers: Vec<(Bytes<'a>, Option<Bytes<'a>>)>,
}

/// Text, or base64 of what is none: nothing is lost.
#[derive(Serialize)]
#[serde(untagged)]
enum Bytes<'a> {
    Text(&'a str),
    Base64 { base64: String },
}

impl<'a> Bytes<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Base64 { base64: BASE64.encode(bytes) },
        }
    }
}

impl<'a> JobShown<'a> {
    fn of(job: &'a ParkedJob) -> Self {
        let record = &job.stored.record;
        let headers = record.headers.iter().map(|(name, value)| (Bytes::of(name), value.as_deref().map(Bytes::of)));
        Self {
            offset: job.stored.offset.0,
            job: job.id.as_str(),
            attempts: job.attempts.0,
            enqueued_at: time::rfc3339(record.timestamp),
            parked_at: time::rfc3339(job.since),
            payload: record.value.as_deref().map(Bytes::of),
            headers: headers.collect(),
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
        let body = job.stored.record.value.as_deref().map_or_else(|| "no body".to_owned(), preview);
        let enqueued = time::rfc3339(job.stored.record.timestamp);
        output.line(&format!("  offset {}, job {}, enqueued {enqueued}: {body}", job.stored.offset, job.id))?;
    }
    if line.jobs.len() > jobs.len() {
        let more = counted((line.jobs.len() - jobs.len()) as u64, "job");
        output.line(&format!("  and {more} more: --limit"))?;
    }
    Ok(Code::Done)
}

/// The begin of a payload, or what it is.
fn preview(bytes: &[u8]) -> String {
    const MOST: usize = 60;
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().count() <= MOST => printable(text).into_owned(),
        Ok(text) => format!("{}… ({} bytes)", printable(&text.chars().take(MOST).collect::<String>()), bytes.len()),
        Err(_) => format!("{} bytes that are no text: -o json", bytes.len()),
    }
}
