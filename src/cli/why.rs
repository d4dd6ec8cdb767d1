//! Arguments of `keylane why`.

use clap::Args;
use keylane_producer::JobKey;

use super::parsed;

const EXAMPLES: &str = "\
Examples:
  keylane why customer-42
  keylane why hex:00000007c328
  keylane why customer-42 --offset 1047

It looks and touches nothing. A worker tells the store every 5 s which keys wait for another try: until then
this says no more than that the key's jobs are on the log.";

/// Arguments of `why`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WhyArgs {
    /// The key: its text, or hex: and its bytes
    #[arg(value_name = "KEY", value_parser = parsed::<JobKey>)]
    pub(crate) key: JobKey,

    /// Also say where the job at this offset of the key's partition stands
    #[arg(long, env = "KEYLANE_OFFSET", hide_env_values = true, value_name = "N")]
    pub(crate) offset: Option<u64>,
}
