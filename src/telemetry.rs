//! What the program tells about itself while it runs: lines on standard error, as text or JSON.
//!
//! The only global state of the program. Results go to standard output and errors are printed once at the end
//! (`exit.rs`); what is logged here is for whoever looks for the reason.

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::cli::Global;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// One line of text each.
    #[default]
    Text,
    /// One JSON object each.
    Json,
}

/// Begins to log. `-q` errors only, nothing warnings, `-v` what is done, `-vv` how, `-vvv` everything.
pub(crate) fn start(global: &Global) {
    let level = match (global.quiet, global.verbose) {
        (true, _) => "error",
        (false, 0) => "warn",
        (false, 1) => "info",
        (false, 2) => "debug",
        (false, _) => "trace",
    };
    // Its consumer, when it is dropped, calls it an error that ours was closed before, in its own bounded way.
    let filter = EnvFilter::new(format!("{level},rdkafka::consumer::base_consumer=off"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A second subscriber in one process is a test's; the first one stays.
    let _ = match global.log_format {
        LogFormat::Text => lines.with_ansi(global.color.applies_to(&io::stderr())).with_target(false).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    tracing::debug!(
        broker = %global.broker,
        store = global.store().map_or_else(|_| String::new(), |store| store.to_string()),
        queue = %global.queue,
        group = %global.group,
        terminal = io::stderr().is_terminal(),
        "settings"
    );
}
