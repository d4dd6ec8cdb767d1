//! `keylane fence`: what the store's rows say about each partition (the numbers of the token only when asked for), and an
//! operator's reset of them.

use keylane_consumer::store::{FenceRow, Reset, ResetOrder};
use serde::Serialize;

use super::queue::identity;
use crate::{
    broker,
    cli::{FenceArgs, FenceCommand, Global, ResetArgs, ShowArgs},
    exit::{Code, Failure},
    output::{Output, Table, counted},
    store::Store,
    time,
};

/// Said whenever the numbers are shown.
const WARNING: &str = "warning: epoch, generation and claim are the fence: whoever has them could write as the owner. Keep \
                       them out of tickets, chats, logs and screenshots.";

pub(crate) fn run(args: &FenceArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    match &args.command {
        FenceCommand::Show(args) => show(args, global, output),
        FenceCommand::Reset(args) => reset(args, global, output),
        FenceCommand::Log => log(global, output),
    }
}

fn show(args: &ShowArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    identity(&mut *broker::open(global)?, global)?;
    let ours = |row: &FenceRow| *row.queue == *global.queue.as_str() && *row.group == *global.group.as_str();
    let rows = Store::named(global)?.fence_rows()?;
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

fn reset(args: &ResetArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let queue = identity(&mut *broker::open(global)?, global)?;
    let who = args.who.clone().unwrap_or_else(whoever);
    let order = ResetOrder { who, why: args.why.clone(), dry_run: !args.execute };
    let reset = Store::named(global)?.reset(&queue, &global.group, &order)?;
    if output.is_json() {
        output.json(&ResetShown::of(&reset, args.execute))?;
        return Ok(Code::Done);
    }
    let (would, done) = if args.execute { ("", "fenced") } else { ("would be ", "fenced") };
    let all = counted(u64::from(reset.partitions), "partition");
    output.line(&format!("{all} of queue '{}' {would}{done}: nobody who claimed before can write", global.queue))?;
    for (fact, was, is) in &reset.changed {
        output.line(&format!("the {fact} {would}pinned anew: {was} -> {is}"))?;
    }
    if reset.added > 0 {
        output.line(&format!(
            "{} {would}added; jobs from before run where they lie, so until these are done a key may have jobs in two \
             partitions",
            counted(u64::from(reset.added), "partition")
        ))?;
    }
    if !reset.moved.is_empty() {
        let keys = counted(reset.moved.len() as u64, "parked key");
        output.line(&format!(
            "{keys} {would}held in the new place too: newer jobs wait there until the older line is replayed or dropped"
        ))?;
    }
    if reset.forgets_progress {
        let keys = counted(reset.stopped_forgotten, "stopped key");
        output.line(&format!("progress {would}forgotten, with {keys}: the offsets of the new queue begin again"))?;
    }
    output.line(if args.execute {
        "start the workers again: they go on under the new fence"
    } else {
        "nothing was changed: the same with --execute does it"
    })?;
    Ok(Code::Done)
}

/// Who is at the terminal.
pub(super) fn whoever() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".into());
    let host = rustix::system::uname();
    format!("{user}@{}", host.nodename().to_string_lossy())
}

#[derive(Serialize)]
struct ResetShown<'a> {
    executed: bool,
    partitions: u32,
    added: u32,
    changed: Vec<Changed<'a>>,
    forgets_progress: bool,
    stopped_keys_forgotten: u64,
    /// Stand still in their new place too.
    stopped_keys_moved: u64,
}

#[derive(Serialize)]
struct Changed<'a> {
    fact: &'a str,
    was: &'a str,
    is: &'a str,
}

impl<'a> ResetShown<'a> {
    fn of(reset: &'a Reset, executed: bool) -> Self {
        let changed = reset.changed.iter().map(|(fact, was, is)| Changed { fact, was, is });
        Self {
            executed,
            partitions: reset.partitions,
            added: reset.added,
            changed: changed.collect(),
            forgets_progress: reset.forgets_progress,
            stopped_keys_forgotten: reset.stopped_forgotten,
            stopped_keys_moved: reset.moved.len() as u64,
        }
    }
}

fn log(global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let queue = identity(&mut *broker::open(global)?, global)?;
    let acts = Store::named(global)?.acts(&queue, &global.group)?;
    let mut table = Table::new(&["AT", "WHO", "WHAT", "WHY", "DETAIL"]);
    for act in &acts {
        let at = time::rfc3339(act.at);
        if output.is_json() {
            output.json(&ActShown { at: &at, who: &act.who, act: &act.act, why: &act.why, detail: &act.detail })?;
        } else {
            table.row(&[&at, &act.who, &act.act, &act.why, &act.detail]);
        }
    }
    match (output.is_json(), acts.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => output.line("nobody has acted on the store"),
        (false, false) => output.table(&table),
    }?;
    Ok(Code::Done)
}

#[derive(Serialize)]
struct ActShown<'a> {
    at: &'a str,
    who: &'a str,
    act: &'a str,
    why: &'a str,
    detail: &'a str,
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
