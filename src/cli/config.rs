//! Arguments of `keylane config`.

use clap::{Args, Subcommand};

/// Arguments of `config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show each setting that every command has, and where it comes from; of secrets only where they are
    #[command(
        after_help = "Examples:\n  keylane config show\n  keylane config show -o json | jq .kafka_properties\n\n\
        It asks no broker: settings that are well formed may still be wrong."
    )]
    Show,
}
