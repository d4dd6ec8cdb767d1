//! Arguments of `keylane sidecar`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, builder::FalseyValueParser};

const EXAMPLES: &str = "\
Example:
  keylane work --snapshot-file /run/keylane/snapshot.json --exec python3 handler.py
  keylane sidecar --snapshot-file /run/keylane/snapshot.json --listen 0.0.0.0:9465

Before it answers anybody it gives up the right to connect anywhere, to write files and to start programs, and ends with 4 if
it cannot. It only reads: a worker does not know whether anybody looks. What it serves: docs/watching.md.";

/// Arguments of `sidecar`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SidecarArgs {
    /// The file that 'keylane work --snapshot-file' writes
    #[arg(long, env = "KEYLANE_SNAPSHOT_FILE", hide_env_values = true, value_name = "FILE")]
    pub(crate) snapshot_file: PathBuf,

    /// Where the answers are
    #[arg(long, env = "KEYLANE_LISTEN", hide_env_values = true, value_name = "ADDRESS:PORT")]
    #[arg(default_value = "127.0.0.1:9465")]
    pub(crate) listen: SocketAddr,

    /// Go on also where this kernel cannot take the right to connect away; every snapshot then says so
    #[arg(long, env = "KEYLANE_ALLOW_UNCONFINED", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) allow_unconfined: bool,

    /// End when the process that started it does, however that ends: the demo's own sidecars
    #[arg(long, hide = true, env = "KEYLANE_END_WITH_PARENT", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) end_with_parent: bool,
}
