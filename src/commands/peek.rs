//! `keylane peek`: the jobs that are not done, as they are on the log, without taking any.

use std::ops::ControlFlow;

use keylane_producer::{JobKey, Offset, Partition, Record, StoredRecord, log::ReadLimit, partition_of};
use serde::Serialize;

use super::{
    body::{Body, preview},
    status::picture::{Eye, Unfinished},
};
use crate::{
    cli::{Global, PeekArgs},
    exit::{Code, Failure},
    output::{Output, Table},
    time,
};

/// What is read at once.
const PAGE: ReadLimit = ReadLimit { records: 1_000, bytes: 8 << 20 };

/// A job that waits, as `-o json` shows it.
#[derive(Serialize)]
struct Shown<'a> {
    /// Null: of another producer, and no job.
    key: Option<String>,
    partition: u32,
    offset: u64,
    job: Option<String>,
    enqueued_at: String,
    #[serde(flatten)]
    body: Body<'a>,
}

impl<'a> Shown<'a> {
    fn of(partition: Partition, offset: Offset, record: &'a Record) -> Self {
        let job = record.clone().into_job(partition, offset).ok();
        Self {
            key: job.as_ref().map(|job| job.key.to_string()),
            partition: partition.0,
            offset: offset.0,
            job: job.map(|job| job.id.to_string()),
            enqueued_at: time::rfc3339(record.timestamp),
            body: Body::of(record),
        }
    }
}

pub(crate) fn run(args: &PeekArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut eye = Eye::open(global)?;
    let key = args.key.as_ref().map(JobKey::as_bytes);
    let of = match (args.partition, key) {
        (Some(partition), _) => Some(known(Partition(partition), &eye)?),
        (None, Some(key)) => Some(partition_of(key, eye.queue.partitions)),
        (None, None) => None,
    };
    let mut table = Table::new(&["PART", "OFFSET", "KEY", "JOB", "ENQUEUED", "BODY"]);
    let mut left = args.limit;
    for unfinished in eye.unfinished(of)? {
        each(&mut eye, &unfinished, &mut |StoredRecord { offset, record }| {
            if key.is_some_and(|key| record.key.as_deref() != Some(key)) {
                return Ok(ControlFlow::Continue(()));
            }
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            let shown = Shown::of(unfinished.partition, *offset, record);
            if output.is_json() {
                output.json(&shown)?;
            } else {
                let (key, job) = (shown.key.as_deref().unwrap_or("-"), shown.job.as_deref().unwrap_or("-"));
                let body = preview(record.value.as_deref());
                table.row(&[&shown.partition, &shown.offset, &key, &job, &shown.enqueued_at, &body]);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if left == 0 {
            break;
        }
    }
    match (output.is_json(), left == args.limit) {
        (true, _) => Ok(()),
        (false, true) => output.line("nothing waits"),
        (false, false) => output.table(&table),
    }?;
    Ok(Code::Done)
}

fn known(partition: Partition, eye: &Eye) -> Result<Partition, Failure> {
    let count = eye.queue.partitions;
    if eye.queue.partitions.all().any(|known| known == partition) {
        return Ok(partition);
    }
    let what = format!("queue '{}' has no partition {partition}: it has {count}, counted from 0", eye.queue.name);
    Err(Failure::new(Code::NotFound, what).remedy("see 'keylane status'"))
}

/// The records of a partition that are not done, in order.
fn each(
    eye: &mut Eye,
    unfinished: &Unfinished,
    act: &mut dyn FnMut(&StoredRecord) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let mut from = unfinished.from;
    while from < unfinished.end {
        let page = eye.log.read(&eye.queue, unfinished.partition, from, PAGE)?;
        for stored in page.records.iter().filter(|stored| !unfinished.done.contains(stored.offset.0)) {
            if act(stored)?.is_break() {
                return Ok(());
            }
        }
        from = page.next;
    }
    Ok(())
}
