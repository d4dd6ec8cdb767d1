//! What a worker tells: a line on standard error for people, or with `-o json` an object a line on standard output.

use std::io::{IsTerminal, Write};

use keylane_consumer::{Notice, store::StopRule};
use keylane_producer::{Partition, Timestamp};
use serde_json::{Value, json};

use crate::{
    cli::Global,
    output::{Format, counted, printable},
    time,
};

/// Prints notices.
pub(crate) struct Reporter {
    json: bool,
    quiet: bool,
    color: bool,
    worker: String,
}

/// How a line is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tone {
    Plain,
    Good,
    Bad,
}

impl Reporter {
    pub(crate) fn new(global: &Global, worker: &str) -> Self {
        let stderr = std::io::stderr();
        let color = global.color.applies_to(&stderr) && stderr.is_terminal();
        Self { json: global.output == Format::Json, quiet: global.quiet, color, worker: worker.to_owned() }
    }

    pub(crate) fn tell(&self, notice: &Notice) {
        // Whoever reads may be gone; the work goes on.
        if self.json {
            let mut line = in_json(notice);
            line["at"] = json!(time::rfc3339(Timestamp::now()));
            line["worker"] = json!(self.worker);
            let mut stdout = std::io::stdout().lock();
            let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
        } else if !self.quiet {
            let (tone, text) = in_words(notice);
            let (on, off) = match tone {
                Tone::Good if self.color => ("\x1b[32m", "\x1b[0m"),
                Tone::Bad if self.color => ("\x1b[31m", "\x1b[0m"),
                _ => ("", ""),
            };
            let at = time::clock(Timestamp::now());
            let _ = writeln!(std::io::stderr(), "{at}  {on}{}{off}", printable(&text));
        }
    }
}

/// The notice as one sentence.
fn in_words(notice: &Notice) -> (Tone, String) {
    use Tone::{Bad, Good, Plain};
    match notice {
        Notice::Assigned(p) => (Plain, format!("assigned {}", list(p))),
        Notice::TookOver { partition, after, clean: true } => {
            (Good, format!("holds partition {partition}, claimed in {}", time::short(*after)))
        }
        Notice::TookOver { partition, after, clean: false } => (
            Good,
            format!(
                "holds partition {partition}, claimed in {}; its last owner did not hand it over",
                time::short(*after)
            ),
        ),
        Notice::Draining(p) => (Plain, format!("asked for {} back: finishing what runs", list(p))),
        Notice::Released { partition, clean: true } => (Plain, format!("gave back partition {partition}")),
        Notice::Released { partition, clean: false } => {
            (Bad, format!("gave back partition {partition} with jobs cut short; they run again on the next owner"))
        }
        Notice::Lost(p) => (Bad, format!("lost {}: what ran there was stopped", list(p))),
        Notice::ClaimRefused { partition, why } => (Bad, format!("partition {partition} was not granted: {why}")),
        Notice::FenceIsAhead(partition) => (
            Bad,
            format!(
                "partition {partition} stands still: the store has seen a newer group than this one; if the group was \
                 made anew, an operator must reset the fence"
            ),
        ),
        Notice::WriteRefused { partition, jobs } => (
            Bad,
            format!(
                "the store refused {} of partition {partition}: it has a newer owner",
                counted(*jobs as u64, "finished job")
            ),
        ),
        Notice::LateResultDropped { partition } => {
            (Plain, format!("dropped a job of partition {partition} that ended after the partition was lost"))
        }
        Notice::Halted(why) => (Bad, format!("stopped: {why}")),
        Notice::GoesOn(after) => (Good, format!("goes on after {}", time::short(*after))),
        Notice::Away { what, why } => (Bad, format!("{what} does not answer, trying again: {why}")),
        Notice::Back { what, after } => (Good, format!("{what} answers again after {}", time::short(*after))),
        Notice::WillRetry { job, key, attempt, after, reason } => (
            Plain,
            format!("job {job} of key {key} failed at try {}, next in {}: {reason}", attempt.0, time::short(*after)),
        ),
        Notice::KeyStopped { key, job, attempts, rule, reason, .. } => {
            (Bad, format!("key {key} is parked at job {job} ({}): {reason}", by_rule(*rule, attempts.0)))
        }
        Notice::DeadLettered { key, job, attempts, rule, reason, .. } => {
            (Bad, format!("job {job} of key {key} is a dead letter ({}): {reason}", by_rule(*rule, attempts.0)))
        }
        Notice::KeyPaused { key, .. } => (Plain, format!("key {key} is paused: its jobs wait in its line")),
        Notice::LinesFull { partition, room } => (
            Bad,
            format!("partition {partition} holds back: its parked keys' lines are full ({})", counted(*room, "job")),
        ),
        Notice::KeyReleased { key, .. } => (Good, format!("key {key} was released and goes on")),
        Notice::Quarantined { partition, offset, reason } => {
            (Bad, format!("put aside the record at partition {partition}, offset {offset}: {reason}"))
        }
        Notice::Overdue { job, after } => {
            (Bad, format!("job {job} runs for {} and does not react to its limit", time::short(*after)))
        }
        Notice::Stalled { partition, after, waiting, cause } => (
            Bad,
            format!(
                "partition {partition} stands still for {} with {} to do: {cause}",
                time::short(*after),
                counted(*waiting, "job")
            ),
        ),
        Notice::MovesAgain { partition, after } => {
            (Good, format!("partition {partition} moves again after {}", time::short(*after)))
        }
        Notice::Ending => (Plain, "asked to end: finishing what runs".to_owned()),
        Notice::Left => (Plain, "left the group".to_owned()),
    }
}

/// "partition 3", "partitions 0-2, 7".
fn list(partitions: &[Partition]) -> String {
    let numbers: Vec<u32> = partitions.iter().map(|p| p.0).collect();
    format!("partition{} {}", if numbers.len() == 1 { "" } else { "s" }, time::ranges(&numbers))
}

/// The notice as an object: `event` names it.
fn in_json(notice: &Notice) -> Value {
    let ms = |d: &std::time::Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    let all = |p: &[Partition]| p.iter().map(|p| p.0).collect::<Vec<_>>();
    match notice {
        Notice::Assigned(p) => json!({ "event": "assigned", "partitions": all(p) }),
        Notice::TookOver { partition, after, clean } => {
            json!({ "event": "took_over", "partition": partition.0, "after_ms": ms(after), "clean": clean })
        }
        Notice::Draining(p) => json!({ "event": "draining", "partitions": all(p) }),
        Notice::Released { partition, clean } => {
            json!({ "event": "released", "partition": partition.0, "clean": clean })
        }
        Notice::Lost(p) => json!({ "event": "lost", "partitions": all(p) }),
        Notice::ClaimRefused { partition, why } => {
            json!({ "event": "claim_refused", "partition": partition.0, "reason": why.to_string() })
        }
        Notice::FenceIsAhead(partition) => json!({ "event": "fence_ahead", "partition": partition.0 }),
        Notice::WriteRefused { partition, jobs } => {
            json!({ "event": "write_refused", "partition": partition.0, "jobs": jobs })
        }
        Notice::LateResultDropped { partition } => json!({ "event": "late_result_dropped", "partition": partition.0 }),
        Notice::Halted(why) => json!({ "event": "halted", "reason": why.to_string() }),
        Notice::GoesOn(after) => json!({ "event": "goes_on", "after_ms": ms(after) }),
        Notice::Away { what, why } => json!({ "event": "away", "what": what, "reason": why }),
        Notice::Back { what, after } => json!({ "event": "back", "what": what, "after_ms": ms(after) }),
        Notice::WillRetry { job, key, attempt, after, reason } => json!({
            "event": "will_retry", "job": job.as_str(), "key": key.to_string(), "attempt": attempt.0,
            "after_ms": ms(after), "reason": reason,
        }),
        Notice::KeyStopped { partition, offset, job, key, attempts, rule, reason } => json!({
            "event": "key_stopped", "partition": partition.0, "offset": offset.0, "job": job.as_str(),
            "key": key.to_string(), "attempts": attempts.0, "rule": rule.as_str(), "reason": reason,
        }),
        Notice::DeadLettered { partition, offset, job, key, attempts, rule, reason } => json!({
            "event": "dead_lettered", "partition": partition.0, "offset": offset.0, "job": job.as_str(),
            "key": key.to_string(), "attempts": attempts.0, "rule": rule.as_str(), "reason": reason,
        }),
        Notice::KeyPaused { partition, key } => {
            json!({ "event": "key_paused", "partition": partition.0, "key": key.to_string() })
        }
        Notice::LinesFull { partition, room } => {
            json!({ "event": "lines_full", "partition": partition.0, "room": room })
        }
        Notice::KeyReleased { partition, key } => {
            json!({ "event": "key_released", "partition": partition.0, "key": key.to_string() })
        }
        Notice::Quarantined { partition, offset, reason } => {
            json!({ "event": "quarantined", "partition": partition.0, "offset": offset.0, "reason": reason })
        }
        Notice::Overdue { job, after } => json!({ "event": "overdue", "job": job.as_str(), "after_ms": ms(after) }),
        Notice::Stalled { partition, after, waiting, cause } => json!({
            "event": "stalled", "partition": partition.0, "after_ms": ms(after), "waiting": waiting,
            "cause": cause.to_string(),
        }),
        Notice::MovesAgain { partition, after } => {
            json!({ "event": "moves_again", "partition": partition.0, "after_ms": ms(after) })
        }
        Notice::Ending => json!({ "event": "ending" }),
        Notice::Left => json!({ "event": "left" }),
    }
}

fn by_rule(rule: StopRule, attempts: u32) -> String {
    match rule {
        StopRule::OutOfAttempts => format!("out of {attempts} attempts"),
        StopRule::OutOfTime => format!("out of time at try {attempts}"),
        StopRule::Rejected => "rejected".to_owned(),
        StopRule::WorkerDied => "workers died".to_owned(),
        StopRule::Paused => "paused by a person".to_owned(),
        StopRule::Skipped => "skipped by a person".to_owned(),
    }
}
