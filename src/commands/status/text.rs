//! The answer of `status` for people: the headline, the partitions, the workers, then what needs somebody.

use std::{collections::BTreeMap, time::Duration};

use keylane_consumer::store::{MAX_PARKED, StopRule, StoppedKey};
use keylane_producer::{Partition, Timestamp};
use keylane_sidecar::{PartitionState, PartitionView, WorkerState, WorkerView};

use super::{Report, headline};
use crate::{
    broker,
    cli::Global,
    exit::Failure,
    output::{Output, Table, counted, grouped, printable},
    time,
};

/// Most stopped keys that are told one by one; `-o json` has all.
const MOST_KEYS: usize = 20;

/// From so many milliseconds on a difference of clocks is told; `-o json` always has it.
const SKEW_TOLD_MS: u64 = 100;

/// Longest reason that is shown; `-o json` has all of it.
const MOST_REASON: usize = 400;

pub(super) fn print(report: &Report, global: &Global, output: &mut Output) -> Result<(), Failure> {
    let picture = &report.picture;
    let standing = picture.stopped.iter().filter(|(_, key)| !key.released).count();
    output.line(&format!("{} / {} on {}    {}", global.queue, global.group, global.broker, time::clock(picture.at)))?;
    output.line(&headline::of(&picture.snapshot, standing))?;
    output.line("")?;
    output.table(&partitions(report))?;
    if !picture.snapshot.workers.is_empty() {
        output.line("")?;
        output.table(&workers(report))?;
    }
    standstill(report, output)?;
    stopped(report, standing, global, output)?;
    dead(report, global, output)?;
    refused(report, output)?;
    quarantined(report, global, output)?;
    if let Some(skew) = picture.clock_skew_ms.filter(|skew| skew.unsigned_abs() >= SKEW_TOLD_MS) {
        output.line("")?;
        let way = if skew > 0 { "ahead of" } else { "behind" };
        let skew = time::short(Duration::from_millis(skew.unsigned_abs()));
        output.line(&format!("The database's clock is {skew} {way} this machine's; nothing depends on it"))?;
    }
    if picture.snapshot.workers.is_empty() {
        output.line("")?;
        output.line(&format!("Start a worker: keylane work{} --exec PROGRAM", broker::flags(global)))?;
    }
    Ok(())
}

fn partitions(report: &Report) -> Table {
    let mut stopped: BTreeMap<u32, u64> = BTreeMap::new();
    for (partition, _) in report.picture.stopped.iter().filter(|(_, key)| !key.released) {
        *stopped.entry(partition.0).or_default() += 1;
    }
    let mut table = Table::new(&["PART", "STATE", "WORKER", "SESSION", "LAG", "STOPPED", "SINCE"]);
    for view in &report.picture.snapshot.partitions {
        table.row(&[
            &view.partition,
            &view.state.as_str(),
            &who(view),
            &session(view.session_remaining_ms),
            &view.lag.jobs.map_or_else(dash, grouped),
            &stopped.get(&view.partition).map_or_else(dash, |&keys| grouped(keys)),
            &age(view.since.as_deref(), report.picture.at),
        ]);
    }
    table
}

/// The owner; in brackets who was the last one.
fn who(view: &PartitionView) -> String {
    match (&view.worker, &view.last_known_worker) {
        (Some(worker), _) if view.state == PartitionState::Held && view.token_present == Some(false) => {
            format!("{worker} (claiming)")
        }
        (Some(worker), _) => worker.clone(),
        (None, Some(last)) => format!("({last})"),
        (None, None) => dash(),
    }
}

fn workers(report: &Report) -> Table {
    let mut table = Table::new(&["WORKER", "STATE", "PARTITIONS", "SESSION", "LAST SEEN", "SINCE"]);
    for view in &report.picture.snapshot.workers {
        let theirs = report.picture.snapshot.partitions.iter().filter(|p| p.worker.as_ref() == Some(&view.worker));
        let numbers: Vec<u32> = theirs.map(|p| p.partition).collect();
        table.row(&[
            &view.worker,
            &state(view),
            &if numbers.is_empty() { dash() } else { time::ranges(&numbers) },
            &session(view.session.remaining_ms),
            &format!("{} ago", time::short(Duration::from_millis(view.age_ms))),
            &age(view.since.as_deref(), report.picture.at),
        ]);
    }
    table
}

fn state(view: &WorkerView) -> &'static str {
    match view.state {
        WorkerState::Starting => "starting",
        WorkerState::Running => "running",
        WorkerState::Draining => "draining",
        WorkerState::Stopped => "stopped",
        WorkerState::Unknown => "silent",
    }
}

fn stopped(report: &Report, standing: usize, global: &Global, output: &mut Output) -> Result<(), Failure> {
    let keys = &report.picture.stopped;
    if keys.is_empty() {
        return Ok(());
    }
    output.line("")?;
    let released = keys.len() - standing;
    output.line(&match (standing, released) {
        (0, _) => format!("{} released, to go on:", counted(released as u64, "key")),
        (_, 0) => format!("{} parked:", counted(standing as u64, "key")),
        _ => format!("{} parked, {} released:", counted(standing as u64, "key"), grouped(released as u64)),
    })?;
    for found in keys.iter().take(MOST_KEYS) {
        one_stopped(found, report, global, output)?;
    }
    full(report, output)?;
    if keys.len() > MOST_KEYS {
        let more = grouped((keys.len() - MOST_KEYS) as u64);
        output.line(&format!("  and {more} more: keylane status{} -o json", broker::flags(global)))?;
    }
    Ok(())
}

fn one_stopped(
    (partition, key): &(Partition, StoppedKey),
    report: &Report,
    global: &Global,
    output: &mut Output,
) -> Result<(), Failure> {
    let since = since(key.since, report.picture.at);
    let waiting = match key.jobs.saturating_sub(u64::from(key.id.is_some())) {
        jobs if key.id.is_none() => format!("{} in its line", counted(jobs, "job")),
        0 => "no job waits behind it".to_owned(),
        1 => "1 job waits behind it".to_owned(),
        jobs => format!("{} wait behind it", counted(jobs, "job")),
    };
    output.line(&format!("  {}", key.key))?;
    output.line(&format!("    partition {partition}, {since} ago; {waiting}"))?;
    let tries = key.attempts.0;
    let rule = match key.reason.rule {
        StopRule::OutOfAttempts => format!("out of attempts after {tries}"),
        StopRule::OutOfTime => format!("out of time at try {tries}"),
        StopRule::Rejected => format!("rejected at try {tries}"),
        StopRule::WorkerDied => "workers died while it ran".to_owned(),
        StopRule::Paused => "paused by a person".to_owned(),
        StopRule::Skipped => "skipped by a person".to_owned(),
    };
    let job = key.id.as_ref().map(|id| format!("job {id}, ")).unwrap_or_default();
    output.line(&format!("    {job}{rule}: {}", cut(&key.reason.text)))?;
    output.line(&match (key.released, report.picture.is_worked_on(*partition)) {
        (true, true) => "    released: it goes on".to_owned(),
        (true, false) => "    released: it goes on when a worker starts".to_owned(),
        (false, _) if key.reason.rule == StopRule::Paused => {
            format!("    let it go on: {}", command("resume", key, " --why TEXT", global))
        }
        (false, _) => format!("    replay it: {}", command("retry", key, "", global)),
    })
}

/// Partitions that hold back because their lines are full.
fn full(report: &Report, output: &mut Output) -> Result<(), Failure> {
    let mut parked: BTreeMap<u32, u64> = BTreeMap::new();
    for (partition, key) in &report.picture.stopped {
        *parked.entry(partition.0).or_default() += key.jobs;
    }
    for (partition, letters) in &report.picture.dead {
        *parked.entry(partition.0).or_default() += letters;
    }
    let full: Vec<u32> = parked.into_iter().filter(|(_, jobs)| *jobs >= MAX_PARKED).map(|(at, _)| at).collect();
    if full.is_empty() {
        return Ok(());
    }
    let (plural, hold) = if full.len() == 1 { ("", "holds") } else { ("s", "hold") };
    output.line(&format!(
        "  The lines and dead letters of partition{plural} {} are full ({}): it {hold} back what cannot be done until some are replayed or dropped",
        time::ranges(&full),
        counted(MAX_PARKED, "job"),
    ))
}

/// As it would be typed.
fn command(name: &str, key: &StoppedKey, flags: &str, global: &Global) -> String {
    let text = key.key.to_string();
    let quoted = shlex::try_quote(&text).map_or_else(|_| text.clone(), std::borrow::Cow::into_owned);
    let end_of_flags = if text.starts_with('-') { "-- " } else { "" };
    format!("keylane {name}{}{flags} {end_of_flags}{quoted}", broker::flags(global))
}

/// Partitions that have work and do not move, as their owners say.
fn standstill(report: &Report, output: &mut Output) -> Result<(), Failure> {
    let mut first = true;
    for (partition, read) in &report.picture.notes {
        let Some(stall) = &read.note.stall else { continue };
        if first {
            output.line("")?;
            first = false;
        }
        let (after, jobs) = (since(Timestamp(stall.since), report.picture.at), counted(stall.waiting, "job"));
        output.line(&format!(
            "Partition {partition} stands still for {after} with {jobs} to do: {}",
            printable(&stall.cause)
        ))?;
    }
    let waiting: usize = report.picture.notes.iter().map(|(_, read)| read.note.retrying.len()).sum();
    if waiting > 0 {
        if first {
            output.line("")?;
        }
        let keys = counted(waiting as u64, "key");
        let verb = if waiting == 1 { "waits" } else { "wait" };
        output.line(&format!("{keys} {verb} for another try: keylane why KEY has when and why"))?;
    }
    Ok(())
}

fn dead(report: &Report, global: &Global, output: &mut Output) -> Result<(), Failure> {
    let letters: u64 = report.picture.dead.iter().map(|(_, letters)| letters).sum();
    if letters == 0 {
        return Ok(());
    }
    output.line("")?;
    output.line(&format!("{}: keylane dead{} list", counted(letters, "dead letter"), broker::flags(global)))
}

fn refused(report: &Report, output: &mut Output) -> Result<(), Failure> {
    let mut by_worker: BTreeMap<&str, (u64, u64, Timestamp)> = BTreeMap::new();
    for (_, refused) in &report.picture.refused {
        let sum = by_worker.entry(&refused.worker).or_insert((0, 0, refused.last));
        *sum = (sum.0 + refused.writes, sum.1 + refused.jobs, sum.2.max(refused.last));
    }
    if by_worker.is_empty() {
        return Ok(());
    }
    output.line("")?;
    output.line("Writes refused after their partition was lost (those jobs ran again on the next owner):")?;
    for (worker, (writes, jobs, last)) in by_worker {
        let (writes, jobs) = (counted(writes, "write"), counted(jobs, "job"));
        let last = since(last, report.picture.at);
        output.line(&format!("  {worker}: {writes} with {jobs} refused, last {last} ago"))?;
    }
    Ok(())
}

fn quarantined(report: &Report, global: &Global, output: &mut Output) -> Result<(), Failure> {
    let quarantined = &report.picture.quarantined;
    if quarantined.is_empty() {
        return Ok(());
    }
    let records = quarantined.iter().map(|(_, records)| records).sum();
    let numbers: Vec<u32> = quarantined.iter().map(|(partition, _)| partition.0).collect();
    let plural = if numbers.len() == 1 { "" } else { "s" };
    output.line("")?;
    output.line(&format!(
        "In quarantine, since they are no jobs: {} of partition{plural} {}; why: the table keylane_quarantine in {}",
        counted(records, "record"),
        time::ranges(&numbers),
        global.store()?
    ))
}

/// At most [`MOST_REASON`] characters, with a mark where something is missing.
fn cut(reason: &str) -> String {
    match reason.char_indices().nth(MOST_REASON) {
        Some((end, _)) => format!("{}… (all of it: -o json)", &reason[..end]),
        None => reason.to_owned(),
    }
}

fn session(remaining_ms: Option<u64>) -> String {
    match remaining_ms {
        None => dash(),
        Some(0) => "ran out".to_owned(),
        Some(ms) => time::short(Duration::from_millis(ms)),
    }
}

fn age(since_text: Option<&str>, now: Timestamp) -> String {
    let time = since_text.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    time.map_or_else(dash, |time| since(Timestamp(time.as_millisecond()), now))
}

/// How long that is ago.
fn since(then: Timestamp, now: Timestamp) -> String {
    time::short(Duration::from_millis(u64::try_from(now.0 - then.0).unwrap_or(0)))
}

fn dash() -> String {
    "-".to_owned()
}
