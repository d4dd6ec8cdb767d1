//! `keylane fence`: what the store's rows say about each partition. The numbers of the token only when asked for.

use keylane_consumer::store::sqlite::{FenceRow, SqliteStore};
use serde::Serialize;

use super::queue::identity;
use crate::{
    broker,
    cli::{FenceArgs, FenceCommand, Global, ShowArgs, StoreUrl},
    exit::{Code, Failure},
    output::{Output, Table},
    time,
};

/// Said whenever the numbers are shown.
const WARNING: &str = "warning: epoch, generation and claim are the fence: whoever has them could write as the owner. Keep \
                       them out of tickets, chats, logs and screenshots.";

pub(crate) fn run(args: &FenceArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    match &args.command {
        FenceCommand::Show(args) => show(args, global, output),
    }
}

fn show(args: &ShowArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    identity(&mut broker::open(global)?, global)?;
    let StoreUrl::Sqlite(store) = global.store()?;
    let ours = |row: &FenceRow| *row.queue == *global.queue.as_str() && *row.group == *global.group.as_str();
    let rows = SqliteStore::new(store).fence_rows()?;
    let partitions: Vec<Shown> = rows.iter().filter(|row| ours(row)).map(|row| Shown::of(row, args)).collect();
    if args.show_token && !partitions.is_empty() {
        eprintln!("{WARNING}");
    }
    if output.is_json() {
        output.json(&Fence { queue: global.queue.as_str(), group: global.group.as_str(), partitions })?;
    } else if partitions.is_empty() {
        let (store, group) = (global.store()?, &global.group);
        output.line(&format!("no fence yet in {store}: no worker of group '{group}' was ever there"))?;
    } else {
        output.table(&table(&partitions, args.show_token))?;
    }
    Ok(Code::Done)
}

/// All of it as `-o json` shows it.
#[derive(Serialize)]
struct Fence<'a> {
    queue: &'a str,
    group: &'a str,
    partitions: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    partition: u32,
    /// Whether its last claimant still has it, as far as the store knows.
    claimed: bool,
    worker: Option<String>,
    claimed_at: Option<String>,
    handed_over: bool,
    closed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Numbers>,
}

#[derive(Serialize)]
struct Numbers {
    epoch: u64,
    generation: u64,
    claim: u64,
}

impl Shown {
    fn of(row: &FenceRow, args: &ShowArgs) -> Self {
        Self {
            partition: row.partition.0,
            claimed: row.worker.is_some() && !row.handed_over,
            worker: row.worker.as_deref().map(str::to_owned),
            claimed_at: row.claimed_at.map(time::rfc3339),
            // A row is made as if an owner had given it back, though nobody had it.
            handed_over: row.worker.is_some() && row.handed_over,
            closed: row.closed,
            token: args.show_token.then(|| {
                let numbers = row.reveal();
                Numbers { epoch: numbers.epoch, generation: numbers.generation, claim: numbers.claim }
            }),
        }
    }

    fn claim(&self) -> &'static str {
        match self {
            Self { closed: true, .. } => "closed",
            Self { claimed: true, .. } => "claimed",
            Self { handed_over: true, .. } => "handed over",
            _ => "never claimed",
        }
    }
}

fn table(partitions: &[Shown], with_token: bool) -> Table {
    let header = ["PART", "CLAIM", "WORKER", "CLAIMED AT", "EPOCH", "GENERATION", "NUMBER"];
    let columns = if with_token { header.len() } else { 4 };
    let mut table = Table::new(&header[..columns]);
    for shown in partitions {
        let (worker, at) = (shown.worker.as_deref().unwrap_or("-"), shown.claimed_at.as_deref().unwrap_or("-"));
        let claim = shown.claim();
        match &shown.token {
            None => table.row(&[&shown.partition, &claim, &worker, &at]),
            Some(Numbers { epoch, generation, claim: number }) => {
                table.row(&[&shown.partition, &claim, &worker, &at, epoch, generation, number]);
            }
        }
    }
    table
}
