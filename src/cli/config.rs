//! Arguments of `keylane config`.

use std::ffi::OsString;

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
    /// Say whether a command would take its settings; it connects nowhere and starts nothing
    #[command(
        after_help = "Examples:\n  keylane config check -- work --store postgres://app@db/shop --broker kafka://k:9092 --exec ./handler\n  \
        KEYLANE_CONCURRENCY=0 keylane config check -- work --exec ./handler\n\n\
        Flags, variables and the files that they name are read as the command would read them. Whatever comes before the two\n\
        dashes is for this check, not for the command."
    )]
    Check(CheckArgs),
}

/// Arguments of `config check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The command, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
