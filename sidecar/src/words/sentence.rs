//! The sentence of each happening: who did what, what follows for jobs, what to do if anything.

use std::time::Duration;

use super::{
    happening::{Before, Ended, Happening},
    phrase::{capitalised, clock, counted, duration, name, names, number, partitions as list},
};

/// What happened at that time (Unix time in milliseconds), in at most two sentences.
pub fn sentence(at_ms: i64, happening: &Happening) -> String {
    format!("{}: {}", clock(at_ms), told(happening))
}

fn told(happening: &Happening) -> String {
    match happening {
        Happening::WorkerStarted { worker, group } => format!("{} started and joined {}.", name(worker), name(group)),
        Happening::WorkerDraining { worker, partitions, jobs } => {
            let (worker, jobs) = (name(worker), finishing(*jobs));
            match partitions.is_empty() {
                true => format!("{worker} was asked to stop. It holds no partition."),
                false => {
                    format!("{worker} was asked to stop. It takes no new jobs on {} and {jobs}.", list(partitions))
                }
            }
        }
        Happening::WorkerStopped { worker, ended } => stopped(&name(worker), *ended),
        Happening::WorkerLost { worker, silent, remaining, partitions } => {
            lost(&name(worker), *silent, *remaining, partitions)
        }
        Happening::WorkerReturned { worker, silent, partitions } => {
            let still = if partitions.is_empty() { "holds" } else { "still holds" };
            let (worker, silent) = (name(worker), duration(*silent));
            format!("{worker} is back after {silent} of silence. It {still} {}.", list(partitions))
        }
        Happening::Acquired { worker, partitions, before, lag } => acquired(worker, partitions, before, *lag),
        Happening::Draining { worker, partitions, jobs } => {
            format!("{} is handing back {} and {}.", name(worker), list(partitions), finishing(*jobs))
        }
        Happening::Released { worker, partitions, jobs, took } => released(&name(worker), partitions, *jobs, *took),
        Happening::Expired { worker, partitions } => format!(
            "{} let its session on {} run out. Its unfinished jobs will run again on the next owner; late writes from it are \
             refused.",
            name(worker),
            list(partitions)
        ),
        Happening::Absent { partitions, lag, last } => absent(partitions, *lag, last.as_ref()),
        Happening::Contested { a, b, partitions } => format!(
            "{} and {} both say they hold {}. One of them has been cut off; the database will refuse its writes.",
            name(a),
            name(b),
            list(partitions)
        ),
        Happening::WriteRefused { worker, partitions, jobs } => {
            let (worker, jobs, them) = (name(worker), counted(*jobs, "job"), them(partitions));
            let on = list(partitions);
            format!(
                "{worker} tried to finish {jobs} on {on} after losing {them}. The writes were refused, so nothing was done twice."
            )
        }
        Happening::Stuck { worker, partitions, lag, idle } => {
            let (have, idle) = (has(partitions), duration(*idle));
            let jobs = lag.map_or_else(|| "jobs".to_owned(), |lag| counted(lag, "job"));
            let (which, worker) = (capitalised(&list(partitions)), name(worker));
            format!("{which} {have} {jobs} waiting, but {worker} has finished none for {idle}.")
        }
        Happening::Recovered { partitions, after } => {
            let are = if partitions.len() > 1 { "are" } else { "is" };
            format!("{} {are} moving again after {}.", capitalised(&list(partitions)), duration(*after))
        }
        Happening::HandlerFailing { handler, times, code, keys } => {
            let wait = if *keys == 1 { "waits" } else { "wait" };
            let (times, keys) = (number(*times), counted(*keys, "key"));
            let handler = name(handler);
            format!(
                "Handler {handler} failed {times} times in a row (last answer {code}). {} {wait}; other keys go on.",
                capitalised(&keys)
            )
        }
        Happening::HandlerPaused { handler, code } => {
            let handler = name(handler);
            format!(
                "Handler {handler} answered {code}, so we stopped calling it. No job was given up. Check its secret, then: \
                 keylane handler resume {handler}."
            )
        }
        Happening::HandlerRecovered { handler, after } => {
            format!("Handler {} answers again after {}.", name(handler), duration(*after))
        }
        Happening::Rebalanced { partitions, took, left, took_over } => {
            let (moved, took) = (counted(partitions.len() as u64, "partition"), duration(*took));
            let left = left.as_ref().map_or_else(String::new, |worker| format!("{} left; ", name(worker)));
            format!("Rebalance: {moved} moved in {took}. {left}{} took over.", names(took_over))
        }
        Happening::ObserverGap { group, gap } => {
            let (group, gap) = (name(group), duration(*gap));
            format!("We could not see {group} for {gap}. What happened in that time is not in this list.")
        }
    }
}

fn finishing(jobs: Option<u64>) -> String {
    match jobs {
        Some(0) => "has no job left to finish".to_owned(),
        Some(jobs) => format!("is finishing {}", counted(jobs, "job")),
        None => "is finishing what runs".to_owned(),
    }
}

fn stopped(worker: &str, ended: Ended) -> String {
    match ended {
        Ended::Unsaid => format!("{worker} stopped."),
        Ended::Clean => format!("{worker} stopped. Nothing was left unfinished."),
        Ended::TimedOut { limit, jobs } => {
            let were = if jobs == 1 { "was" } else { "were" };
            let (limit, jobs) = (duration(limit), capitalised(&counted(jobs, "job")));
            format!(
                "{worker} ran out of time to drain ({limit}). {jobs} {were} cut short and will run again on the next owner."
            )
        }
    }
}

fn lost(worker: &str, silent: Duration, remaining: Option<Duration>, partitions: &[u32]) -> String {
    let silent = duration(silent);
    let what = format!("{worker} has not reported for {silent}.");
    if partitions.is_empty() {
        return format!("{what} It held no partition that we know of.");
    }
    let (are, list) = (if partitions.len() > 1 { "are" } else { "is" }, list(partitions));
    match remaining {
        Some(left) if left.is_zero() => format!("{what} Its session has run out, so {list} {are} shown as expired."),
        Some(left) => {
            format!("{what} Its session may run for another {}, so {list} {are} shown as unknown.", duration(left))
        }
        None => format!("{what} We do not know how long its session runs, so {list} {are} shown as unknown."),
    }
}

fn acquired(owner: &str, partitions: &[u32], before: &Before, lag: Option<u64>) -> String {
    let (worker, list) = (name(owner), list(partitions));
    match before {
        Before::Handed { from, gap } if from == owner => {
            let gap = gap.map_or_else(String::new, |gap| format!(", after {} without an owner", duration(gap)));
            format!("{worker} took {list} again{gap}. {}", waiting(lag, "were", "was"))
        }
        Before::Unseen => format!("{worker} took {list}. It is the first owner we have seen."),
        Before::Handed { from, gap } => {
            let gap = gap.map_or_else(String::new, |gap| format!(", after {} without an owner", duration(gap)));
            let from = name(from);
            format!("{worker} took over {list} from {from}{gap}. {}", waiting(lag, "were", "was"))
        }
    }
}

fn released(worker: &str, partitions: &[u32], jobs: Option<u64>, took: Option<Duration>) -> String {
    let after = match jobs {
        Some(0) => " with no open jobs".to_owned(),
        Some(1) => " after finishing its 1 open job".to_owned(),
        Some(jobs) => format!(" after finishing its {} open jobs", number(jobs)),
        None => String::new(),
    };
    let took = took.map_or_else(String::new, |took| format!(" in {}", duration(took)));
    format!("{worker} handed back {}{after}{took}.", list(partitions))
}

fn absent(partitions: &[u32], lag: Option<u64>, last: Option<&(String, i64)>) -> String {
    let last = match last {
        Some((worker, until)) => format!("Last owner: {}, until {}.", name(worker), clock(*until)),
        None => "We have seen no owner before.".to_owned(),
    };
    format!("Nobody holds {}. {} {last}", list(partitions), waiting(lag, "are", "is"))
}

fn waiting(lag: Option<u64>, many: &str, one: &str) -> String {
    match lag {
        Some(1) => format!("1 job {one} waiting."),
        Some(jobs) => format!("{} {many} waiting.", capitalised(&counted(jobs, "job"))),
        None => "How many jobs wait is not known.".to_owned(),
    }
}

fn has(partitions: &[u32]) -> &'static str {
    if partitions.len() > 1 { "have" } else { "has" }
}

fn them(partitions: &[u32]) -> &'static str {
    if partitions.len() > 1 { "them" } else { "it" }
}

#[cfg(test)]
mod tests;
