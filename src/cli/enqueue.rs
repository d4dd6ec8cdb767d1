//! Arguments of `keylane enqueue`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use keylane_producer::{JobKey, PartitionCount};

use super::parsed;
use crate::input::{KeyEncoding, Pointer};

/// The layout of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// One JSON document a line
    Ndjson,
    /// Comma-separated, with a header row
    Csv,
}

const EXAMPLES: &str = "\
Examples:
  keylane enqueue orders.ndjson --key /customer/id
  keylane enqueue orders.ndjson --key /customer/id --resume
  keylane enqueue people.csv --key email --create 12
  tail -F app.log.ndjson | keylane enqueue - --key /user
  keylane enqueue --one customer-42 --body '{\"invoice\":7}'

A file is checked whole before anything is sent. An import that was cut off goes on with --resume: each line is
sent once. --resume is safe to give always. What is a key and what is not: docs/cli.md.";

/// Arguments of `enqueue`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EnqueueArgs {
    /// A file with jobs, or - for standard input [default: -]
    #[arg(value_name = "FILE", conflicts_with = "one")]
    pub(crate) file: Option<PathBuf>,

    /// The input's layout: ndjson or csv [default: csv for *.csv, else ndjson]
    #[arg(
        long,
        env = "KEYLANE_INPUT_FORMAT",
        hide_env_values = true,
        value_enum,
        hide_possible_values = true,
        help_heading = "Reading"
    )]
    pub(crate) format: Option<InputFormat>,

    /// Where the key is: a JSON pointer, or a column's name [default: /key, or key]
    #[arg(long, env = "KEYLANE_KEY", hide_env_values = true, value_name = "POINTER|COLUMN", help_heading = "Reading")]
    pub(crate) key: Option<String>,

    /// What the key's text stands for: text (its UTF-8), hex or base64
    #[arg(
        long,
        env = "KEYLANE_KEY_ENCODING",
        hide_env_values = true,
        value_enum,
        hide_possible_values = true,
        default_value_t
    )]
    #[arg(help_heading = "Reading")]
    pub(crate) key_encoding: KeyEncoding,

    /// Take numbers as keys, by their source text: 1 and 1.0 are two keys
    #[arg(long, env = "KEYLANE_NUMERIC_KEYS", hide_env_values = true, help_heading = "Reading")]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) numeric_keys: bool,

    /// What is sent: the source text of this value, or a column [default: the whole line, or all columns as JSON]
    #[arg(long, env = "KEYLANE_PAYLOAD", hide_env_values = true, value_name = "POINTER|COLUMN")]
    #[arg(help_heading = "Reading")]
    pub(crate) payload: Option<String>,

    /// Where the job's id is [default: a fresh one for each job]
    #[arg(long, env = "KEYLANE_ID", hide_env_values = true, value_name = "POINTER|COLUMN", help_heading = "Reading")]
    pub(crate) id: Option<String>,

    /// An object of strings in the document: the job's headers (NDJSON only)
    #[arg(long, env = "KEYLANE_HEADERS", hide_env_values = true, value_name = "POINTER", help_heading = "Reading")]
    pub(crate) headers: Option<Pointer>,

    /// A header of every job; may be given several times
    #[arg(long, env = "KEYLANE_HEADER", hide_env_values = true, value_name = "NAME=VALUE", value_parser = name_and_value, help_heading = "Reading")]
    pub(crate) header: Vec<(String, String)>,

    /// Send one job with this key; bytes as hex:00ff
    #[arg(long, env = "KEYLANE_ONE", hide_env_values = true, value_name = "KEY", value_parser = parsed::<JobKey>, help_heading = "One job")]
    #[arg(conflicts_with_all = ["format", "key", "payload", "id", "headers", "source", "resume", "restart", "skip_invalid"])]
    pub(crate) one: Option<JobKey>,

    /// Its body: the text, @FILE, or - for standard input [default: no body]
    #[arg(
        long,
        env = "KEYLANE_BODY",
        hide_env_values = true,
        value_name = "TEXT|@FILE|-",
        requires = "one",
        help_heading = "One job"
    )]
    pub(crate) body: Option<String>,

    /// The import's name, by which --resume finds it [default: the file's absolute path; none for standard input]
    #[arg(long, env = "KEYLANE_SOURCE", hide_env_values = true, value_name = "NAME", help_heading = "Sending")]
    pub(crate) source: Option<String>,

    /// Go on after the last line that is on the queue
    #[arg(long, env = "KEYLANE_RESUME", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new(), conflicts_with = "restart", help_heading = "Sending")]
    pub(crate) resume: bool,

    /// Send from the first line on, also what is on the queue already
    #[arg(long, env = "KEYLANE_RESTART", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new(), visible_alias = "again", help_heading = "Sending")]
    pub(crate) restart: bool,

    /// Send the good lines and pass over the others (exit code 1 if there were any)
    #[arg(long, env = "KEYLANE_SKIP_INVALID", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new(), help_heading = "Sending")]
    pub(crate) skip_invalid: bool,

    /// Write the lines that were passed over into this file, with reasons, as NDJSON
    #[arg(
        long,
        env = "KEYLANE_REJECTS",
        hide_env_values = true,
        value_name = "FILE",
        requires = "skip_invalid",
        help_heading = "Sending"
    )]
    pub(crate) rejects: Option<PathBuf>,

    /// Make the queue with this many partitions if it is missing
    #[arg(long, env = "KEYLANE_CREATE", hide_env_values = true, value_name = "N", value_parser = parsed::<PartitionCount>, help_heading = "Sending")]
    pub(crate) create: Option<PartitionCount>,

    /// Print id, key, partition and offset of each job as NDJSON; the summary goes to standard error
    #[arg(long, env = "KEYLANE_RECEIPTS", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new(), help_heading = "Sending")]
    pub(crate) receipts: bool,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a header has the form NAME=VALUE".to_owned()),
    }
}
