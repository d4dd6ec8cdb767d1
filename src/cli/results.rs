//! Arguments of `keylane results`.

use clap::Args;
use keylane_producer::{JobId, JobKey};

use super::parsed;

const EXAMPLES: &str = "\
Examples:
  keylane results > results.ndjson
  keylane results --key customer-42 | jq .result
  keylane results --job 01KBCZR2V8M7X1V8J5T4W9Y2AD
  keylane results --key hex:00000007c328

One JSON object a line, whatever --output says: it is data. The same rows in SQL: the table keylane_result of the store.";

/// Arguments of `results`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResultsArgs {
    /// Only those of this key: its text, or hex: and its bytes
    #[arg(long, env = "KEYLANE_RESULTS_KEY", hide_env_values = true, value_name = "KEY", value_parser = parsed::<JobKey>, conflicts_with = "job")]
    pub(crate) key: Option<JobKey>,

    /// Only that of this job; none is exit code 5
    #[arg(long, env = "KEYLANE_RESULTS_JOB", hide_env_values = true, value_name = "ID", value_parser = parsed::<JobId>)]
    pub(crate) job: Option<JobId>,

    /// Only those of this partition
    #[arg(long, env = "KEYLANE_RESULTS_PARTITION", hide_env_values = true, value_name = "N")]
    pub(crate) partition: Option<u32>,
}
