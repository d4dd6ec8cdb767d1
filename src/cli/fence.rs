//! Arguments of `keylane fence`.

use clap::{Args, Subcommand};

/// Arguments of `fence`.
#[derive(Debug, Args)]
pub(crate) struct FenceArgs {
    #[command(subcommand)]
    pub(crate) command: FenceCommand,
}

/// What to do with the fence.
#[derive(Debug, Subcommand)]
pub(crate) enum FenceCommand {
    /// Show who claimed each partition in the store
    #[command(after_help = "Examples:\n  keylane fence show\n  \
        keylane fence show -o json | jq '.partitions[] | select(.claimed)'\n\n\
        The store has the last word on who may write. Its numbers stay inside unless --show-token asks for them.")]
    Show(ShowArgs),
}

/// Arguments of `fence show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Also the numbers that a write must match: whoever has them could write as the owner
    #[arg(long, env = "KEYLANE_SHOW_TOKEN", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) show_token: bool,
}
