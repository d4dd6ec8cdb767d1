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
    /// Fence everything older than now, and pin the queue as the broker has it: shows what it would do until --execute
    #[command(after_help = "Examples:\n  keylane fence reset --why 'group deleted, tickets/4711'\n  \
        keylane fence reset --why 'group deleted, tickets/4711' --execute\n\n\
        For when workers say that the fence is ahead (the group began anew), or that the queue is another than the one the\n\
        store has pinned. It is always safe: whoever wrote before cannot write any more. Workers that run end with an error\n\
        and must be started again. Each reset is written down: keylane fence log.")]
    Reset(ResetArgs),
    /// What was reset, by whom and why
    #[command(after_help = "Example:\n  keylane fence log -o json")]
    Log,
}

/// Arguments of `fence reset`.
#[derive(Debug, Args)]
pub(crate) struct ResetArgs {
    /// The reason, for those who look later
    #[arg(long, env = "KEYLANE_WHY", hide_env_values = true, value_name = "TEXT")]
    pub(crate) why: String,

    /// Who does it; else the user at this host
    #[arg(long, env = "KEYLANE_WHO", hide_env_values = true, value_name = "NAME")]
    pub(crate) who: Option<String>,

    /// Do it
    #[arg(long, env = "KEYLANE_EXECUTE", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) execute: bool,
}

/// Arguments of `fence show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Also the numbers that a write must match: whoever has them could write as the owner
    #[arg(long, env = "KEYLANE_SHOW_TOKEN", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) show_token: bool,
}
