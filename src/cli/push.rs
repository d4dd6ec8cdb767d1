//! Arguments of `keylane push`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, builder::FalseyValueParser};

use super::units::duration;
use crate::remote::GivenAddress;

const EXAMPLES: &str = "\
Examples:
  keylane push --snapshot-file /run/keylane/snapshot.json --to https://status.example/keylane/w-0 --bearer-file /etc/keylane/bearer
  keylane push --snapshot-file /run/keylane/snapshot.json --to-file /mnt/shared/w-0.json --to-note /mnt/shared/w-0.txt
  KEYLANE_PUSH_TO=\"$PRESIGNED\" keylane push --snapshot-file /run/keylane/snapshot.json --once

For a host that may be wiped: what a worker held is then known elsewhere. It is a process of its own, so that the sidecar stays one
that can connect nowhere. What comes back is not read beyond its status, and nothing acts on it. The secret comes from --bearer-file
or KEYLANE_PUSH_BEARER. All of it: docs/watching.md.";

/// Arguments of `push`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("places").required(true).multiple(true).args(["to", "to_file", "to_note"]))]
pub(crate) struct PushArgs {
    /// The file that 'keylane work --snapshot-file' writes
    #[arg(long, env = "KEYLANE_SNAPSHOT_FILE", hide_env_values = true, value_name = "FILE")]
    pub(crate) snapshot_file: PathBuf,

    /// PUT the snapshot there: https, or http on this machine; of the URL only the host is ever shown
    #[arg(long, env = "KEYLANE_PUSH_TO", hide_env_values = true, value_name = "URL", value_parser = GivenAddress::of)]
    pub(crate) to: Option<GivenAddress>,

    /// Write the snapshot to this file, whole each time
    #[arg(long, env = "KEYLANE_PUSH_TO_FILE", hide_env_values = true, value_name = "FILE")]
    pub(crate) to_file: Option<PathBuf>,

    /// Write one line in plain words to this file
    #[arg(long, env = "KEYLANE_PUSH_TO_NOTE", hide_env_values = true, value_name = "FILE")]
    pub(crate) to_note: Option<PathBuf>,

    /// The bearer secret for the URL is in this file; it is read anew each time
    #[arg(long, env = "KEYLANE_PUSH_BEARER_FILE", hide_env_values = true, value_name = "FILE", requires = "to")]
    pub(crate) bearer_file: Option<PathBuf>,

    /// Trust the authorities in this PEM file, and no others
    #[arg(long, env = "KEYLANE_PUSH_CA_FILE", hide_env_values = true, value_name = "FILE", requires = "to")]
    pub(crate) ca_file: Option<PathBuf>,

    /// Also when nothing changes
    #[arg(long, env = "KEYLANE_PUSH_EVERY", hide_env_values = true, value_name = "INTERVAL", default_value = "10s")]
    #[arg(value_parser = at_least_a_second)]
    pub(crate) every: Duration,

    /// One handing over may take so long
    #[arg(long, env = "KEYLANE_PUSH_WITHIN", hide_env_values = true, value_name = "TIME", default_value = "5s")]
    #[arg(value_parser = duration)]
    pub(crate) within: Duration,

    /// Hand over once and end: with 7 if that failed anywhere
    #[arg(long, env = "KEYLANE_PUSH_ONCE", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) once: bool,
}

fn at_least_a_second(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|d| if d >= Duration::from_secs(1) { Ok(d) } else { Err("at least 1s".to_owned()) })
}
