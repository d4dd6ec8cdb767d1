//! Arguments of `keylane dead`.

use clap::{Args, Subcommand, builder::FalseyValueParser};
use keylane_producer::JobKey;

use super::{
    filter::{ByArgs, FilterArgs, pace},
    parsed,
};

const EXAMPLES: &str = "\
Examples:
  keylane dead list --reason rejected
  keylane dead show 17
  keylane dead replay 17 18 --why 'account was opened'
  keylane dead replay --reason out_of_attempts --pace 50 --why 'bank is back, tickets/4711' --execute
  keylane dead drop --key customer-42 --older-than 30d --why 'test data' --execute

Jobs become dead letters where a worker runs with --dead-letter, and by 'keylane skip'.";

/// Arguments of `dead`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DeadArgs {
    #[command(subcommand)]
    pub(crate) command: DeadCommand,
}

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// The dead letters: which job, why it left, since when
    List(DeadListArgs),
    /// One of them, as it was enqueued
    Show(DeadShowArgs),
    /// Run them, in order, before anything newer of their keys: says what it would do until --execute
    Replay(DeadActArgs),
    /// Forget them: says what it would do until --execute
    Drop(DeadActArgs),
}

/// Arguments of `dead list`.
#[derive(Debug, Args)]
pub(crate) struct DeadListArgs {
    /// Only of this key: its text, or hex: and its bytes
    #[arg(long, env = "KEYLANE_DEAD_KEY", hide_env_values = true, value_name = "KEY", value_parser = parsed::<JobKey>)]
    pub(crate) key: Option<JobKey>,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// So many at most, from the first on
    #[arg(long, env = "KEYLANE_LIMIT", hide_env_values = true, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

/// Arguments of `dead show`.
#[derive(Debug, Args)]
pub(crate) struct DeadShowArgs {
    /// Its number, as 'keylane dead list' shows it
    #[arg(value_name = "NUMBER")]
    pub(crate) number: u64,
}

/// Arguments of `dead replay` and `dead drop`.
#[derive(Debug, Args)]
pub(crate) struct DeadActArgs {
    /// Their numbers, as 'keylane dead list' shows them
    #[arg(value_name = "NUMBER", required_unless_present_any = ["all", "key", "reason", "prefix", "partition", "older_than"])]
    #[arg(conflicts_with_all = ["all", "key", "reason", "prefix", "partition", "older_than"])]
    pub(crate) numbers: Vec<u64>,

    /// All of them
    #[arg(long, env = "KEYLANE_DEAD_ALL", hide_env_values = true, value_parser = FalseyValueParser::new())]
    #[arg(conflicts_with_all = ["key", "reason", "prefix", "partition", "older_than"])]
    pub(crate) all: bool,

    /// Only of this key: its text, or hex: and its bytes
    #[arg(long, env = "KEYLANE_DEAD_KEY", hide_env_values = true, value_name = "KEY", value_parser = parsed::<JobKey>)]
    pub(crate) key: Option<JobKey>,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// So many a second at most
    #[arg(long, env = "KEYLANE_PACE", hide_env_values = true, value_name = "N", value_parser = pace)]
    pub(crate) pace: Option<u32>,

    #[command(flatten)]
    pub(crate) by: ByArgs,

    /// Do it
    #[arg(long, env = "KEYLANE_EXECUTE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) execute: bool,
}
