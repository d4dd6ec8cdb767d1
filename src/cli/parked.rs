//! Arguments of `keylane parked`.

use std::{fmt, str::FromStr};

use clap::{Args, Subcommand, builder::FalseyValueParser};
use keylane_consumer::store::StoppedKey;
use keylane_producer::{JobKey, Offset};

use super::{
    filter::{ByArgs, FilterArgs, pace},
    parsed,
};

const EXAMPLES: &str = "\
Examples:
  keylane parked list
  keylane parked show customer-42
  keylane parked replay customer-42 --why 'account was opened'
  keylane parked replay customer-42 --why 'account was opened' --execute
  keylane parked replay --reason out_of_attempts --older-than 1h --pace 20 --why 'bank is back' --execute
  keylane parked drop hex:00000007c328 --etag 12.345 --why 'test data, tickets/4711' --execute";

/// Arguments of `parked`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ParkedArgs {
    #[command(subcommand)]
    pub(crate) command: ParkedCommand,
}

/// What to do with parked keys.
#[derive(Debug, Subcommand)]
pub(crate) enum ParkedCommand {
    /// The parked keys: why, since when, how many jobs wait
    List(ListArgs),
    /// One key's line: its jobs in order, as they were enqueued
    Show(ShowLineArgs),
    /// Run the jobs of lines in order, before anything newer of their keys: says what it would do until --execute
    Replay(ActArgs),
    /// Forget the jobs of lines; their keys go on with what comes next: says what it would do until --execute
    Drop(ActArgs),
}

/// Arguments of `parked list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// Arguments of `parked show`.
#[derive(Debug, Args)]
pub(crate) struct ShowLineArgs {
    /// The key, as 'keylane parked list' names it: text, or hex: and the bytes
    #[arg(value_name = "KEY", value_parser = parsed::<JobKey>)]
    pub(crate) key: JobKey,

    /// So many jobs at most, from the first on
    #[arg(long, env = "KEYLANE_LIMIT", hide_env_values = true, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

/// Arguments of `parked replay` and `parked drop`.
#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    /// The keys, as 'keylane parked list' names them: text, or hex: and the bytes
    #[arg(value_name = "KEY", value_parser = parsed::<JobKey>)]
    #[arg(required_unless_present_any = ["all", "reason", "prefix", "partition", "older_than"])]
    #[arg(conflicts_with_all = ["all", "reason", "prefix", "partition", "older_than"])]
    pub(crate) keys: Vec<JobKey>,

    /// Every parked key
    #[arg(long, env = "KEYLANE_PARKED_ALL", hide_env_values = true, value_parser = FalseyValueParser::new())]
    #[arg(conflicts_with_all = ["reason", "prefix", "partition", "older_than"])]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// Only if the line is still the one that was shown with this; for one key
    #[arg(long, env = "KEYLANE_ETAG", hide_env_values = true, value_name = "ETAG")]
    #[arg(conflicts_with_all = ["all", "reason", "prefix", "partition", "older_than"])]
    pub(crate) etag: Option<Etag>,

    /// So many keys a second at most
    #[arg(long, env = "KEYLANE_PACE", hide_env_values = true, value_name = "N", value_parser = pace)]
    pub(crate) pace: Option<u32>,

    #[command(flatten)]
    pub(crate) by: ByArgs,

    /// Do it
    #[arg(long, env = "KEYLANE_EXECUTE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) execute: bool,
}

/// What a line was when it was shown: the version of its key's row, and its last job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Etag {
    version: u64,
    last: Offset,
}

impl Etag {
    pub(crate) fn of(key: &StoppedKey) -> Self {
        Self { version: key.version, last: key.last }
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.version, self.last.0)
    }
}

impl FromStr for Etag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('.').and_then(|(version, last)| Some((version.parse().ok()?, last.parse().ok()?)));
        let (version, last) =
            parts.ok_or_else(|| "an etag is two numbers, as 'keylane parked list' shows it".to_owned())?;
        Ok(Self { version, last: Offset(last) })
    }
}
