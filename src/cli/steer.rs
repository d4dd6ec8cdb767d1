//! Arguments of `keylane pause`, `resume`, `skip` and `hot`.

use clap::{Args, ValueEnum, builder::FalseyValueParser};
use keylane_producer::JobKey;

use super::{filter::ByArgs, parsed};

const PAUSE: &str = "\
Examples:
  keylane pause customer-42 --why 'audit until noon'
  keylane resume customer-42 --why 'audit is over'

Its worker looks twice a second: one job of the key may still begin until then, and what runs ends. What waits and what
comes goes to the key's line in the store, in order; other keys go on. 'keylane parked' shows and acts on that line too.";

const SKIP: &str = "\
Examples:
  keylane skip customer-42 --why 'cannot be done'
  keylane skip customer-42 --offset 1047 --why 'cannot be done, tickets/4711' --execute
  keylane skip customer-42 --job order-9 --why 'was cancelled' --execute

It becomes a dead letter ('keylane dead') when its turn comes, or at once if its key stands still; the next job of its key
runs. One that runs at that moment is left out only if it fails.";

const HOT: &str = "\
Examples:
  keylane hot
  keylane hot --by time --limit 5

As the workers told the store, every 5 s: keys with 10 jobs or more that they know of and that are not done, and keys
whose jobs took 1 s or more of late (halved every 5 min). Jobs that were not read yet are not among them.";

/// Arguments of `pause` and `resume`.
#[derive(Debug, Args)]
#[command(after_help = PAUSE)]
pub(crate) struct PauseArgs {
    /// The keys: text, or hex: and the bytes
    #[arg(value_name = "KEY", value_parser = parsed::<JobKey>, required = true)]
    pub(crate) keys: Vec<JobKey>,

    #[command(flatten)]
    pub(crate) by: ByArgs,
}

/// Arguments of `skip`.
#[derive(Debug, Args)]
#[command(after_help = SKIP)]
pub(crate) struct SkipArgs {
    /// The key: its text, or hex: and its bytes
    #[arg(value_name = "KEY", value_parser = parsed::<JobKey>)]
    pub(crate) key: JobKey,

    /// The job at this offset of the key's partition
    #[arg(long, env = "KEYLANE_SKIP_OFFSET", hide_env_values = true, value_name = "N", conflicts_with = "job")]
    pub(crate) offset: Option<u64>,

    /// The job with this id
    #[arg(long, env = "KEYLANE_SKIP_JOB", hide_env_values = true, value_name = "ID")]
    pub(crate) job: Option<String>,

    #[command(flatten)]
    pub(crate) by: ByArgs,

    /// Do it; the job must be named
    #[arg(long, env = "KEYLANE_EXECUTE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) execute: bool,
}

/// What makes a key hot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum HotBy {
    /// How many of its jobs wait
    #[default]
    Waiting,
    /// How long its jobs took of late
    Time,
}

/// Arguments of `hot`.
#[derive(Debug, Args)]
#[command(after_help = HOT)]
pub(crate) struct HotArgs {
    /// The order
    #[arg(long, env = "KEYLANE_HOT_BY", hide_env_values = true, value_enum, default_value_t)]
    pub(crate) by: HotBy,

    /// So many keys at most
    #[arg(long, env = "KEYLANE_LIMIT", hide_env_values = true, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}
