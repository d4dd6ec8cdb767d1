//! Arguments of `keylane demo`.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  keylane demo
  keylane demo --no-fence; echo $?
  keylane demo --broker kafka://localhost:9092
  keylane demo --store postgres://me@localhost/test
  keylane demo --keep -o json | tail -n 1 | jq .verdict

While it plays, a page on this machine shows who holds what: it prints where, and opens it if there is a desktop. On a terminal the
page stays with the verdict until Ctrl-C.

It uses a temporary folder of its own, with --broker kafka://... a topic and with --store postgres://... a schema of its
own, which it deletes; what --queue and --group say is not looked at. It ends with 0 if every event was applied exactly once and in order, no stale write landed and some were refused; else with 1.";

/// Arguments of `demo`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    // No environment variable: what holds is not to be taken away by accident.
    /// Take the store's check away, to see that it is what holds: stale writes land, and the demo ends with 1
    #[arg(long, env = "KEYLANE_DEMO_NO_FENCE", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_fence: bool,

    /// Keep the folder with the queue, the ledger and the workers' logs, and print its path
    #[arg(long, env = "KEYLANE_DEMO_KEEP", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) keep: bool,

    /// Leave the page out
    #[arg(long, env = "KEYLANE_DEMO_NO_PAGE", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_page: bool,
}

/// Arguments of the demo's own workers, which it starts itself.
#[derive(Debug, Args)]
pub(crate) struct DemoWorkerArgs {
    /// The worker's name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,

    /// Without the store's check
    #[arg(long)]
    pub(crate) no_fence: bool,

    /// Where it shows what it holds
    #[arg(long, value_name = "FILE")]
    pub(crate) snapshot_file: Option<std::path::PathBuf>,
}
