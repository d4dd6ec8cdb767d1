//! From flags to settings.

use std::{ffi::OsString, time::Duration};

use keylane_consumer::{ShowKeys, WorkerSettings, handler::child::ChildSettings, store::StopRule};

use super::url::{UrlHandler, UrlSettings};
use crate::{
    cli::{Keys, Leaves, StoreUrl, WorkArgs, duration_text},
    exit::{Code, Failure},
};

/// A worker with a shorter one would lose its partitions whenever its disk is slow once.
const SHORTEST_SESSION: Duration = Duration::from_millis(500);

pub(super) fn from_flags(args: &WorkArgs, store: &StoreUrl) -> Result<WorkerSettings, Failure> {
    if args.store_connections.is_some_and(|count| count > 1) && !matches!(store, StoreUrl::Postgres(_)) {
        return Err(Failure::new(
            Code::Usage,
            "'--store-connections' above 1 needs a Postgres store: SQLite has one writer",
        )
        .remedy("leave it out, or name a database: --store postgres://USER@HOST/DATABASE"));
    }
    if args.session_timeout < SHORTEST_SESSION {
        let what = format!("a session of {} is too short", duration_text(args.session_timeout));
        let remedy = format!(
            "give --session-timeout {} or more; 15s if nothing is known against it",
            duration_text(SHORTEST_SESSION)
        );
        return Err(Failure::new(Code::BadInput, what).remedy(remedy));
    }
    let name = args.name.clone().unwrap_or_else(default_name);
    let mut settings = WorkerSettings::named(&name);
    settings.lanes.running = args.concurrency;
    settings.lanes.held_jobs = args.buffer_jobs;
    settings.lanes.held_bytes = usize::try_from(args.buffer_bytes).unwrap_or(usize::MAX);
    settings.lanes.known_jobs = settings.lanes.known_jobs.max(args.buffer_jobs);
    settings.retry.attempts = args.attempts;
    settings.retry.first = args.retry_first;
    settings.retry.longest = args.retry_longest;
    settings.retry.give_up_after = args.give_up_after;
    settings.dead_letter = args.dead_letter.iter().flat_map(|leaves| rules(*leaves)).copied().collect();
    settings.stall_after = args.stall_after;
    settings.job_limit = args.job_timeout;
    settings.ownership.session = args.session_timeout;
    settings.ownership.drain = args.drain_timeout;
    // A short session leaves room for three proofs and the margin.
    settings.prove_every = settings.prove_every.min(args.session_timeout / 6);
    settings.ownership.margin = settings.ownership.margin.min(args.session_timeout / 6);
    settings.poll_limit = settings.poll_limit.min(args.session_timeout / 2);
    settings.until_empty = args.until_empty;
    settings.show_keys = match args.show_keys {
        Keys::None => ShowKeys::None,
        Keys::Hash => ShowKeys::Hash,
        Keys::Text => ShowKeys::Text,
    };
    settings.store_connections = args.store_connections;
    settings.check()?;
    Ok(settings)
}

fn rules(leaves: Leaves) -> &'static [StopRule] {
    match leaves {
        Leaves::OutOfAttempts => &[StopRule::OutOfAttempts],
        Leaves::OutOfTime => &[StopRule::OutOfTime],
        Leaves::Rejected => &[StopRule::Rejected],
        Leaves::WorkerDied => &[StopRule::WorkerDied],
        Leaves::All => &[StopRule::OutOfAttempts, StopRule::OutOfTime, StopRule::Rejected, StopRule::WorkerDied],
    }
}

/// Refuses to give a fence that no store has.
fn may_have_fence(args: &WorkArgs, store: &StoreUrl) -> Result<(), Failure> {
    if args.fence_to_handler && !matches!(store, StoreUrl::Postgres(_)) {
        return Err(Failure::new(
            Code::Usage,
            "'--fence-to-handler' needs a Postgres store: no other one has 'keylane.admit'",
        )
        .remedy("name it: --store postgres://USER@HOST/DATABASE; or return the effect as the job's result"));
    }
    Ok(())
}

/// The server that runs the jobs, if one is named.
pub(super) fn url(args: &WorkArgs, store: &StoreUrl) -> Result<Option<UrlHandler>, Failure> {
    let Some(given) = &args.url else { return Ok(None) };
    may_have_fence(args, store)?;
    let settings = UrlSettings {
        address: given.address("--url")?,
        limit: args.job_timeout,
        answer_cap: usize::try_from(args.answer_limit).unwrap_or(usize::MAX),
        fence: args.fence_to_handler,
    };
    UrlHandler::new(settings).map(Some)
}

pub(super) fn child(args: &WorkArgs, store: &StoreUrl) -> Result<ChildSettings, Failure> {
    may_have_fence(args, store)?;
    let mut child = ChildSettings::new(command(&args.exec)?, args.job_timeout);
    child.fence = args.fence_to_handler;
    child.answer_cap = usize::try_from(args.answer_limit).unwrap_or(usize::MAX);
    Ok(child)
}

/// The words of the command. One text with spaces is split as a shell would, unless it is a program's path.
fn command(exec: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let [one] = exec else { return Ok(exec.to_vec()) };
    let Some(text) = one.to_str().filter(|t| t.contains(char::is_whitespace) && !std::path::Path::new(t).exists())
    else {
        return Ok(exec.to_vec());
    };
    let words = shlex::split(text).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| {
        Failure::new(Code::BadInput, format!("the command {text:?} cannot be split: a quote is open, or it is empty"))
            .remedy("close the quotes, or give program and arguments as separate words")
    })?;
    Ok(words.into_iter().map(OsString::from).collect())
}

fn default_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')).collect();
    format!("{}-{}", if host.is_empty() { "worker" } else { &host }, std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(exec: &[&str]) -> Vec<OsString> {
        command(&exec.iter().map(OsString::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn one_quoted_text_is_split_and_separate_words_are_kept() {
        assert_eq!(words(&["python3 handler.py 'a b'"]), ["python3", "handler.py", "a b"]);
        assert_eq!(words(&["python3", "handler.py", "a b"]), ["python3", "handler.py", "a b"]);
        assert_eq!(words(&["cat"]), ["cat"]);
        assert!(command(&["sh -c 'open".into()]).is_err());
    }
}
