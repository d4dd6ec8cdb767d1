//! Arguments of `keylane retry`.

use clap::Args;
use keylane_producer::JobKey;

use super::{filter::Rule, parsed};

const EXAMPLES: &str = "\
Examples:
  keylane retry customer-42
  keylane retry hex:00000007c328
  keylane retry --all --reason worker_died
  keylane retry --all --dry-run

A released key goes on with the job it stopped at, and its followers in order behind it. A key that changed since it was
looked at is left alone and named: then the code is 1. A key that is not stopped is code 5.";

/// Arguments of `retry`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RetryArgs {
    /// The stopped keys, as 'keylane status' names them: text, or hex: and the bytes
    #[arg(value_name = "KEY", value_parser = parsed::<JobKey>, required_unless_present = "all")]
    #[arg(conflicts_with_all = ["all", "reason"])]
    pub(crate) keys: Vec<JobKey>,

    /// Every stopped key of the queue
    #[arg(long, env = "KEYLANE_RETRY_ALL", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) all: bool,

    /// With --all: only keys that this rule stopped
    #[arg(long, env = "KEYLANE_RETRY_REASON", hide_env_values = true, value_enum, value_name = "RULE")]
    pub(crate) reason: Option<Rule>,

    /// Say what would be released, and release nothing
    #[arg(long, env = "KEYLANE_DRY_RUN", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) dry_run: bool,
}
