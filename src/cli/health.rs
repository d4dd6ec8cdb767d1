//! Arguments of `keylane health`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::units::duration;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Probe {
    /// Does its loop turn, and does its work move? If not, start it anew
    Live,
    /// Has it joined the group, and does it not drain?
    Ready,
    /// Has it begun?
    Startup,
}

const EXAMPLES: &str = "\
Example:
  keylane health live --snapshot-file /run/keylane/snapshot.json

Ends with 0 or 1, for the exec probe of a container: nothing listens in a worker. It reads that file and nothing else, and needs
no sidecar. With --verbose it also prints what is well. What each question looks at: docs/watching.md.";

/// Arguments of `health`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HealthArgs {
    /// What to ask
    #[arg(value_enum)]
    pub(crate) probe: Probe,

    /// The file that 'keylane work --snapshot-file' writes
    #[arg(long, env = "KEYLANE_SNAPSHOT_FILE", hide_env_values = true, value_name = "FILE")]
    pub(crate) snapshot_file: PathBuf,

    /// A loop that did not turn for this long stands still
    #[arg(long, env = "KEYLANE_HEALTH_WITHIN", hide_env_values = true, value_name = "TIME", default_value = "30s")]
    #[arg(value_parser = duration)]
    pub(crate) within: Duration,
}
