//! `keylane queue`: create, describe, list.

use keylane_producer::{
    Error, Log, QueueIdentity, QueueName, QueueSpec, Retention, log::QueueDescription, queue::Replication,
};
use serde::Serialize;

use crate::{
    broker,
    cli::{CreateArgs, DescribeArgs, Global, QueueArgs, QueueCommand, bytes_text, duration_text},
    exit::{Code, Failure},
    output::{Output, Table, counted},
};

pub(crate) fn run(args: &QueueArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    match &args.command {
        QueueCommand::Create(args) => create(args, global, output),
        QueueCommand::Describe(args) => describe(args, global, output),
        QueueCommand::List => list(global, output),
    }
}

fn create(args: &CreateArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut log = broker::open_or_make(global)?;
    let retention = Retention { age: args.retention_age, bytes: args.retention_bytes };
    let replication = match (args.replication, args.min_in_sync) {
        (None, None) => None,
        (factor, min_in_sync) => {
            let factor = factor.unwrap_or_else(|| min_in_sync.map_or(3, |n| n + 1));
            let min_in_sync = min_in_sync.unwrap_or(factor.saturating_sub(1).max(1));
            Some(Replication { factor, min_in_sync, unsafe_too: args.may_lose_jobs })
        }
    };
    let spec = QueueSpec { retention, replication, ..QueueSpec::new(args.name.clone(), args.partitions) };
    let made = match log.create(&spec) {
        Ok(_) => true,
        Err(Error::Invalid(detail)) => {
            // Another process may have made it meanwhile, so the answer is looked at only now.
            let there = match log.describe(&args.name) {
                Ok(description) => description.identity.partitions,
                Err(Error::NotFound(_)) => return Err(Error::Invalid(detail).into()),
                Err(error) => return Err(error.into()),
            };
            if !(args.if_missing && there == args.partitions) {
                return Err(already_there(args, u64::from(there.0.get()), &detail));
            }
            false
        }
        Err(error) => return Err(error.into()),
    };
    let description = log.describe(&args.name)?;
    if output.is_json() {
        output.json(&Created { created: made, queue: Shown::new(&description, &[]) })?;
    } else if !global.quiet {
        let what = if made { "made" } else { "found" };
        let partitions = counted(u64::from(description.identity.partitions.0.get()), "partition");
        output.line(&format!("{what} queue '{}' with {partitions} in {}", args.name, global.broker))?;
    }
    Ok(Code::Done)
}

fn already_there(args: &CreateArgs, there: u64, detail: &keylane_producer::Detail) -> Failure {
    let (name, asked) = (&args.name, args.partitions);
    if there == u64::from(asked.0.get()) {
        let failure = Failure::from((Code::BadInput, detail));
        return failure.remedy("with --if-missing that is no error; or choose another name");
    }
    Failure::new(
        Code::BadInput,
        format!(
            "queue '{name}' is there with {}, not {asked}: another count would move its keys",
            counted(there, "partition")
        ),
    )
    .remedy(format!("ask for --partitions {there}, or make a queue of another name and move over"))
}

fn describe(args: &DescribeArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut log = broker::open(global)?;
    let name = args.name.as_ref().unwrap_or(&global.queue);
    let description = log.describe(name).map_err(|error| missing(error, global, name))?;
    let mut partitions = Vec::new();
    for partition in description.identity.partitions.all() {
        let bounds = log.bounds(&description.identity, partition)?;
        let (first, next) = (bounds.start.0, bounds.end.0);
        partitions.push(PartitionShown { partition: partition.0, first, next, records: next.saturating_sub(first) });
    }
    let shown = Shown::new(&description, &partitions);
    if output.is_json() {
        output.json(&shown)?;
    } else {
        shown.print(output)?;
    }
    Ok(Code::Done)
}

fn list(global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut log = broker::open(global)?;
    let mut table = Table::new(&["QUEUE", "PARTITIONS"]);
    let names = log.queues()?;
    for name in &names {
        let description = log.describe(name)?;
        if output.is_json() {
            output.json(&Shown::new(&description, &[]))?;
        } else {
            table.row(&[name, &description.identity.partitions]);
        }
    }
    if !output.is_json() {
        output.table(&table)?;
    }
    Ok(Code::Done)
}

/// The queue that the global flags name.
pub(crate) fn identity(log: &mut dyn Log, global: &Global) -> Result<QueueIdentity, Failure> {
    log.identity(&global.queue).map_err(|error| missing(error, global, &global.queue))
}

/// A missing queue gets the command that makes it.
pub(crate) fn missing(error: Error, global: &Global, name: &QueueName) -> Failure {
    let Error::NotFound(detail) = &error else { return error.into() };
    let make = format!("make it with '{}'", broker::create_command(global, name));
    let remedy = match detail.remedy_text().filter(|text| text.starts_with("there are: ")) {
        Some(others) => format!("{make}; {others}"),
        None => make,
    };
    Failure::from(error).remedy(remedy)
}

/// The answer of `queue create -o json`.
#[derive(Serialize)]
struct Created<'a> {
    created: bool,
    #[serde(flatten)]
    queue: Shown<'a>,
}

/// A queue as `-o json` shows it. Ages in seconds, sizes in bytes; null: no limit.
#[derive(Serialize)]
struct Shown<'a> {
    queue: &'a str,
    cluster: &'a str,
    incarnation: &'a str,
    partition_count: u32,
    hash: &'a str,
    retention_age_seconds: Option<u64>,
    retention_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_in_sync: Option<u16>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    partitions: &'a [PartitionShown],
    #[serde(skip)]
    description: &'a QueueDescription,
}

/// A partition as `-o json` shows it. `records` counts from first to next: gaps count too.
#[derive(Serialize)]
struct PartitionShown {
    partition: u32,
    first: u64,
    next: u64,
    records: u64,
}

impl<'a> Shown<'a> {
    fn new(description: &'a QueueDescription, partitions: &'a [PartitionShown]) -> Self {
        let identity = &description.identity;
        Self {
            queue: identity.name.as_str(),
            cluster: &identity.cluster,
            incarnation: &identity.incarnation.0,
            partition_count: identity.partitions.0.get(),
            hash: identity.hash.as_str(),
            retention_age_seconds: description.retention.age.map(|age| age.as_secs()),
            retention_bytes: description.retention.bytes,
            copies: description.replication.map(|r| r.factor),
            min_in_sync: description.replication.map(|r| r.min_in_sync),
            partitions,
            description,
        }
    }

    fn print(&self, output: &mut Output) -> Result<(), Failure> {
        let retention = self.description.retention;
        let age = retention.age.map_or_else(|| "forever".to_owned(), duration_text);
        let bytes = retention.bytes.map_or_else(|| "any size".to_owned(), |b| format!("{} a partition", bytes_text(b)));
        let records: u64 = self.partitions.iter().map(|p| p.records).sum();
        output.line(&format!("queue        {}", self.queue))?;
        output.line(&format!("incarnation  {}", self.incarnation))?;
        output.line(&format!("cluster      {}", self.cluster))?;
        output.line(&format!("partitions   {} by {}", self.partition_count, self.hash))?;
        output.line(&format!("retention    {age}, {bytes}"))?;
        if let Some(Replication { factor, min_in_sync, unsafe_too }) = self.description.replication {
            let note = if unsafe_too { ": one dead disk loses jobs, or one restart stops all who enqueue" } else { "" };
            output.line(&format!("copies       {factor}, of which {min_in_sync} in sync before a receipt{note}"))?;
        }
        output.line(&format!("records      {records}"))?;
        output.line("")?;
        let mut table = Table::new(&["PARTITION", "FIRST", "NEXT", "RECORDS"]);
        for p in self.partitions {
            table.row(&[&p.partition, &p.first, &p.next, &p.records]);
        }
        output.table(&table)
    }
}
