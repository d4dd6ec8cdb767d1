//! Arguments of `keylane work`.

use std::{ffi::OsString, time::Duration};

use clap::{Args, ValueEnum};

use super::units::{bytes, duration};
use crate::remote::GivenAddress;

/// What runs the jobs when no program is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Builtin {
    /// Print each job as one JSON line on standard output, then it is done
    Print,
    /// Do nothing; each job is done at once
    Discard,
}

/// How partitions move between workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MoveBy {
    /// In steps: those that stay are worked on all the while
    #[default]
    Cooperative,
    /// All at once: every worker gives everything back first
    Eager,
}

/// What makes a job leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Leaves {
    /// All tries were used up
    OutOfAttempts,
    /// It failed for longer than --give-up-after
    OutOfTime,
    /// The program rejected it
    Rejected,
    /// Workers died while it ran
    WorkerDied,
    /// Each of these
    All,
}

const EXAMPLES: &str = "\
Examples:
  keylane work --exec python3 handler.py
  keylane work --until-empty --concurrency 4 --exec ./resize-image
  keylane work --builtin print --until-empty | jq .key

The program is started once for each job that runs at a time and kept; it gets one JSON line a job and answers one:
docs/handlers.md, also on --url. SIGTERM or Ctrl-C: take nothing new, finish what runs, give the partitions back, exit 0. A second one:
end at once; what was running runs again on the next owner.";

/// What of keys may be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keys {
    /// Only how many are parked.
    #[default]
    None,
    /// A part of their hash.
    Hash,
    /// Their text.
    Text,
}

/// Arguments of `work`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WorkArgs {
    /// The program that runs the jobs, with its arguments: comes last; one quoted text is split as a shell would
    #[arg(long, env = "KEYLANE_EXEC", hide_env_values = true, value_name = "PROGRAM [ARG]...", num_args = 1..)]
    #[arg(allow_hyphen_values = true, required_unless_present_any = ["builtin", "url"], help_heading = "Running jobs")]
    pub(crate) exec: Vec<OsString>,

    /// Instead of a program: a server on this machine that gets each job as a POST, http://localhost:PORT/PATH
    #[arg(
        long,
        env = "KEYLANE_HANDLER_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Running jobs"
    )]
    #[arg(conflicts_with_all = ["exec", "builtin"], value_parser = GivenAddress::of)]
    pub(crate) url: Option<GivenAddress>,

    /// Give the handler what 'keylane.admit' wants, so that its own transactions pass the fence; needs a Postgres store
    #[arg(long, env = "KEYLANE_FENCE_TO_HANDLER", hide_env_values = true, help_heading = "Running jobs")]
    #[arg(conflicts_with = "builtin", value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) fence_to_handler: bool,

    /// Instead of a program: print or discard every job
    #[arg(long, env = "KEYLANE_BUILTIN", hide_env_values = true, value_enum, conflicts_with = "exec")]
    #[arg(help_heading = "Running jobs")]
    pub(crate) builtin: Option<Builtin>,

    /// Jobs that run at once, each of another key: as many programs are started
    #[arg(long, env = "KEYLANE_CONCURRENCY", hide_env_values = true, value_name = "N", default_value_t = 16)]
    #[arg(help_heading = "Running jobs", value_parser = at_least_one)]
    pub(crate) concurrency: usize,

    /// A try that takes longer has failed; its program is killed, its request given up
    #[arg(long, env = "KEYLANE_JOB_TIMEOUT", hide_env_values = true, value_name = "TIME", default_value = "30s")]
    #[arg(help_heading = "Running jobs", value_parser = duration)]
    pub(crate) job_timeout: Duration,

    /// The longest answer
    #[arg(long, env = "KEYLANE_ANSWER_LIMIT", hide_env_values = true, value_name = "SIZE", default_value = "1MiB")]
    #[arg(help_heading = "Running jobs", value_parser = bytes)]
    pub(crate) answer_limit: u64,

    /// Tries of a job in all; after the last it is parked with its followers, or leaves (--dead-letter)
    #[arg(long, env = "KEYLANE_ATTEMPTS", hide_env_values = true, value_name = "N", default_value_t = 5)]
    #[arg(help_heading = "When a try fails", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempts: u32,

    /// Longest wait before the second try; doubles with each further one, spread at random
    #[arg(long, env = "KEYLANE_RETRY_FIRST", hide_env_values = true, value_name = "TIME", default_value = "1s")]
    #[arg(help_heading = "When a try fails", value_parser = duration)]
    pub(crate) retry_first: Duration,

    /// No wait is longer, whatever the program asks for
    #[arg(long, env = "KEYLANE_RETRY_LONGEST", hide_env_values = true, value_name = "TIME", default_value = "5m")]
    #[arg(help_heading = "When a try fails", value_parser = duration)]
    pub(crate) retry_longest: Duration,

    /// A try that would begin later than this after the job's first one failed is not made: it is parked [default: no bound]
    #[arg(long, env = "KEYLANE_GIVE_UP_AFTER", hide_env_values = true, value_name = "TIME")]
    #[arg(help_heading = "When a try fails", value_parser = duration)]
    pub(crate) give_up_after: Option<Duration>,

    /// Rules by which the job leaves alone, as a dead letter, and its key goes on; by the others its key is parked [default: none]
    #[arg(long, env = "KEYLANE_DEAD_LETTER", hide_env_values = true, value_enum, value_name = "RULE,...")]
    #[arg(value_delimiter = ',', help_heading = "When a try fails")]
    pub(crate) dead_letter: Vec<Leaves>,

    /// A partition that has work, and in which nothing was done for this long, is told, with the cause if it is known
    #[arg(long, env = "KEYLANE_STALL_AFTER", hide_env_values = true, value_name = "TIME", default_value = "5m")]
    #[arg(help_heading = "The worker", value_parser = duration)]
    pub(crate) stall_after: Duration,

    /// The worker's name for people [default: host-pid]
    #[arg(long, env = "KEYLANE_WORKER_NAME", hide_env_values = true, value_name = "NAME", help_heading = "The worker")]
    pub(crate) name: Option<String>,

    /// End with 0 when every job of the queue is finished; with 1 if only stopped keys are left
    #[arg(long, env = "KEYLANE_UNTIL_EMPTY", hide_env_values = true, help_heading = "The worker")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) until_empty: bool,

    /// A worker that is silent for this long loses its partitions
    #[arg(long, env = "KEYLANE_SESSION_TIMEOUT", hide_env_values = true, value_name = "TIME", default_value = "15s")]
    #[arg(help_heading = "The worker", value_parser = duration)]
    pub(crate) session_timeout: Duration,

    /// How long running jobs may go on when a partition is asked back or the worker ends
    #[arg(long, env = "KEYLANE_DRAIN_TIMEOUT", hide_env_values = true, value_name = "TIME", default_value = "30s")]
    #[arg(help_heading = "The worker", value_parser = duration)]
    pub(crate) drain_timeout: Duration,

    /// How partitions move between the workers of a Kafka group; all of a group must use the same
    #[arg(long, env = "KEYLANE_ASSIGNOR", hide_env_values = true, value_enum, default_value_t)]
    #[arg(help_heading = "The worker")]
    pub(crate) assignor: MoveBy,

    /// Show what this worker holds in this file: replaced at each change and every 2 s
    #[arg(
        long,
        env = "KEYLANE_SNAPSHOT_FILE",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "The worker"
    )]
    pub(crate) snapshot_file: Option<std::path::PathBuf>,

    /// What of parked and hot keys whoever sees that file may see: nothing, a part of their hash, or their text
    #[arg(long, env = "KEYLANE_SHOW_KEYS", hide_env_values = true, value_enum, default_value_t)]
    #[arg(help_heading = "The worker", value_name = "HOW", requires_if("hash", "snapshot_file"))]
    #[arg(requires_if("text", "snapshot_file"))]
    pub(crate) show_keys: Keys,

    /// Jobs held in memory for each partition; the rest waits on the log
    #[arg(long, env = "KEYLANE_BUFFER_JOBS", hide_env_values = true, value_name = "N", default_value_t = 2_000)]
    #[arg(help_heading = "The worker", value_parser = at_least_one)]
    pub(crate) buffer_jobs: usize,

    /// Connections to a Postgres store that write side by side, each for partitions of its own [default: 4]
    #[arg(
        long,
        env = "KEYLANE_STORE_CONNECTIONS",
        hide_env_values = true,
        value_name = "N",
        help_heading = "The worker"
    )]
    #[arg(value_parser = at_least_one)]
    pub(crate) store_connections: Option<usize>,

    /// Bytes held in memory for each partition
    #[arg(long, env = "KEYLANE_BUFFER_BYTES", hide_env_values = true, value_name = "SIZE", default_value = "8MiB")]
    #[arg(help_heading = "The worker", value_parser = bytes)]
    pub(crate) buffer_bytes: u64,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "a whole number from 1".to_owned())
}
