//! Arguments of `keylane peek`.

use clap::Args;
use keylane_producer::JobKey;

use super::parsed;

const EXAMPLES: &str = "\
Examples:
  keylane peek
  keylane peek customer-42
  keylane peek --partition 3 --limit 1000 -o json | jq .payload

It takes nothing and changes nothing: a job that is shown may run at this moment. Parked jobs are not on the log:
keylane parked show.";

/// Arguments of `peek`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PeekArgs {
    /// Only jobs of this key: its text, or hex: and its bytes
    #[arg(value_name = "KEY", value_parser = parsed::<JobKey>, conflicts_with = "partition")]
    pub(crate) key: Option<JobKey>,

    /// Only jobs of this partition
    #[arg(long, env = "KEYLANE_PEEK_PARTITION", hide_env_values = true, value_name = "N")]
    pub(crate) partition: Option<u32>,

    /// So many jobs at most, from the first on
    #[arg(long, env = "KEYLANE_LIMIT", hide_env_values = true, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}
