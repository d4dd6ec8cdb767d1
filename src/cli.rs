//! Every flag, its environment variable, unit and default.
//!
//! To add a command: its arguments in `cli/NAME.rs`, a variant of [`Command`], a line in [`COMMANDS_HELP`] (a test
//! misses it), `commands/NAME.rs`, and an arm in `main.rs`.

mod bench;
mod board;
mod config;
mod dead;
mod demo;
mod enqueue;
mod fence;
mod filter;
mod health;
mod parked;
mod peek;
mod push;
mod queue;
mod results;
mod retry;
mod sidecar;
mod status;
mod steer;
mod units;
mod url;
mod why;
mod work;

use std::io;

use clap::{Args, Parser, Subcommand, builder::FalseyValueParser};
use clap_complete::Shell;
use keylane_producer::{
    GroupName, QueueName,
    kafka::{KafkaServers, KafkaSettings, PropertySource},
};

use crate::{
    exit::{CODES_HELP, Code, Failure},
    output::{Color, Format, Style},
    telemetry::LogFormat,
};

pub(crate) use bench::{
    BenchArgs, BenchCommand, Figure, KafkaArgs, KafkaFigure, KafkaWorkerArgs, LocalArgs, PostgresArgs, PostgresFigure,
};
pub(crate) use board::{BoardArgs, BoardUrl, ModelArgs, NarrateArgs, TimelineArgs};
pub(crate) use config::{CheckArgs, ConfigArgs, ConfigCommand};
pub(crate) use dead::{DeadActArgs, DeadArgs, DeadCommand, DeadListArgs};
pub(crate) use demo::{DemoArgs, DemoWorkerArgs};
pub(crate) use enqueue::{EnqueueArgs, InputFormat};
pub(crate) use fence::{FenceArgs, FenceCommand, ResetArgs, ShowArgs};
pub(crate) use filter::FilterArgs;
pub(crate) use health::{HealthArgs, Probe};
pub(crate) use parked::{ActArgs, Etag, ListArgs, ParkedArgs, ParkedCommand, ShowLineArgs};
pub(crate) use peek::PeekArgs;
pub(crate) use push::PushArgs;
pub(crate) use queue::{CreateArgs, DescribeArgs, QueueArgs, QueueCommand};
pub(crate) use results::ResultsArgs;
pub(crate) use retry::RetryArgs;
pub(crate) use sidecar::SidecarArgs;
pub(crate) use status::StatusArgs;
pub(crate) use steer::{HotArgs, HotBy, PauseArgs, SkipArgs};
pub(crate) use units::{bytes_text, duration_text};
pub(crate) use url::{BrokerUrl, StoreUrl};
pub(crate) use why::WhyArgs;
pub(crate) use work::{Builtin, Keys, Leaves, MoveBy, WorkArgs};

/// What `--broker` is if nobody says anything.
pub(crate) const DEFAULT_BROKER: &str = "sqlite:keylane.db";

/// The commands as `keylane --help` lists them.
const COMMANDS_HELP: &str = "\
See it hold:
  demo         Freeze one worker, kill another, and check that a ledger comes out right

Queues and jobs:
  queue        Create, describe and list queues
  enqueue      Put jobs on a queue: a file, standard input, or one job
  work         Run jobs, one at a time a key, and write results under the fence

Looking and steering:
  status       Who holds what, what stands still, what waits
  why          Why is this key not moving?
  health       Is the worker well? For the exec probes of its container
  sidecar      Serve what one worker holds, by a process that cannot connect anywhere
  push         Hand on what one worker holds: to a URL, a file, a note
  board        The page: who holds what and held it, from all sidecars
  timeline     What happened, in sentences, from a board
  narrate      A snapshot in plain words, and what in it contradicts what
  hot          The keys with the most jobs waiting, or that take the most time
  peek         The jobs that are not done, without taking any
  results      Read what jobs left, as NDJSON
  parked       List, show, replay and drop what is parked
  retry        Replay parked keys at once
  dead         The same for dead letters: jobs that left alone
  pause        Have keys stand still
  resume       Let them go on
  skip         Leave one job out by name
  fence        Show who claimed each partition in the store; reset it

This program:
  bench        Measure it on this machine
  config       Show the settings in force and where each comes from; check those of a command
  completions  Print a shell's completion script
  help         Show the help of a command";

const EXAMPLES: &str = "\
Example:
  keylane demo
  keylane queue create jobs --partitions 12
  keylane enqueue orders.ndjson --key /customer/id
  keylane work --exec python3 handler.py
  keylane status";

/// A key-partitioned work queue without shared leases: a stale worker's write cannot land.
#[derive(Debug, Parser)]
#[command(
    name = "keylane",
    version,
    disable_help_subcommand = false,
    help_template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{COMMANDS_HELP}\n\nOptions:\n{{options}}{{after-help}}"
    ),
    after_help = format!("{EXAMPLES}\n\n{CODES_HELP}"),
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Freeze one worker, kill another, and check that a ledger comes out right
    Demo(DemoArgs),
    /// One of the demo's workers
    #[command(hide = true)]
    DemoWorker(DemoWorkerArgs),
    /// Put jobs on a queue: a file, standard input, or one job
    Enqueue(Box<EnqueueArgs>),
    /// Create, describe and list queues
    Queue(QueueArgs),
    /// Show who holds what, what stands still and what waits
    Status(StatusArgs),
    /// Say why a key is not moving: parked, without an owner, behind which job
    Why(WhyArgs),
    /// Show the keys with the most jobs waiting, or that take the most time
    Hot(HotArgs),
    /// Show the jobs that are not done, as they are on the log; it takes none
    Peek(PeekArgs),
    /// Ask a worker's file whether it is well; for exec probes
    Health(HealthArgs),
    /// Serve what one worker holds, by a process that cannot connect anywhere
    Sidecar(SidecarArgs),
    /// Hand on what one worker holds: to a URL by PUT, a file, a note; its answer is ignored
    Push(PushArgs),
    /// Show who holds what, from all sidecars: a page, JSON, text, events; it only reads
    Board(BoardArgs),
    /// Tell what happened, in sentences, as a board saw it
    Timeline(TimelineArgs),
    /// Tell a snapshot in plain words, and which report contradicts which
    Narrate(NarrateArgs),
    /// Read the results of jobs, one JSON object a line
    Results(ResultsArgs),
    /// List, show, replay and drop what is parked: the jobs of keys that stand still
    Parked(ParkedArgs),
    /// Replay parked keys at once
    Retry(RetryArgs),
    /// List, show, replay and drop dead letters: jobs that left alone
    Dead(DeadArgs),
    /// Have keys stand still: their jobs wait in their lines, other keys go on
    Pause(PauseArgs),
    /// Let paused keys go on: what waited runs in order, before anything newer
    Resume(PauseArgs),
    /// Leave one job out by name: it becomes a dead letter, and the next of its key runs
    Skip(SkipArgs),
    /// Look at the fence: who claimed each partition in the store; reset it
    Fence(FenceArgs),
    /// Run jobs: own partitions, call a program for each job, write its result under the fence
    Work(Box<WorkArgs>),
    /// Measure this program on this machine
    Bench(BenchArgs),
    /// Show the settings in force and where each comes from; check those of a command
    Config(ConfigArgs),
    /// Print a shell's completion script
    #[command(after_help = "Example:\n  keylane completions bash > ~/.local/share/bash-completion/completions/keylane")]
    Completions(CompletionsArgs),
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// What every command understands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Where queues are kept: sqlite:FILE or kafka://HOST:PORT,...
    #[arg(long, global = true, env = "KEYLANE_BROKER", hide_env_values = true, value_name = "URL")]
    #[arg(default_value = DEFAULT_BROKER, value_parser = parsed::<BrokerUrl>)]
    pub(crate) broker: BrokerUrl,

    /// Where effects are written: sqlite:FILE or postgres://USER@HOST/DATABASE [default: the broker's file; with Kafka there is none]
    #[arg(long, global = true, env = "KEYLANE_STORE", hide_env_values = true, value_name = "URL")]
    #[arg(value_parser = parsed::<StoreUrl>)]
    pub(crate) store: Option<StoreUrl>,

    /// The queue
    #[arg(long, global = true, env = "KEYLANE_QUEUE", hide_env_values = true, value_name = "NAME")]
    #[arg(default_value = "jobs", value_parser = parsed::<QueueName>)]
    pub(crate) queue: QueueName,

    /// The group of workers
    #[arg(long, global = true, env = "KEYLANE_GROUP", hide_env_values = true, value_name = "NAME")]
    #[arg(default_value = "workers", value_parser = parsed::<GroupName>)]
    pub(crate) group: GroupName,

    /// A librdkafka property, as NAME=VALUE; a value file:PATH or env:NAME is read from there, secrets always
    #[arg(long, global = true, env = "KEYLANE_KAFKA_PROPERTY", hide_env_values = true, value_name = "NAME=VALUE")]
    #[arg(action = clap::ArgAction::Append, value_delimiter = '\n')]
    kafka_property: Vec<String>,

    /// A file of such properties, one a line
    #[arg(long, global = true, env = "KEYLANE_KAFKA_PROPERTIES", hide_env_values = true, value_name = "FILE")]
    kafka_properties: Option<std::path::PathBuf>,

    /// How results and errors are printed: text or json
    #[arg(
        short,
        long,
        global = true,
        env = "KEYLANE_OUTPUT",
        hide_env_values = true,
        value_enum,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    #[arg(default_value_t)]
    pub(crate) output: Format,

    /// When to colour: auto (on a terminal, unless NO_COLOR is set), always or never
    #[arg(
        long,
        global = true,
        env = "KEYLANE_COLOR",
        hide_env_values = true,
        value_enum,
        hide_possible_values = true,
        value_name = "WHEN"
    )]
    #[arg(default_value_t)]
    pub(crate) color: Color,

    /// Say nothing but results and errors
    #[arg(short, long, global = true, env = "KEYLANE_QUIET", hide_env_values = true, conflicts_with = "verbose")]
    #[arg(value_parser = FalseyValueParser::new())]
    pub(crate) quiet: bool,

    /// Say what is done; -vv how, -vvv everything
    #[arg(short, long, global = true, env = "KEYLANE_VERBOSE", hide_env_values = true)]
    #[arg(action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// How log lines on standard error look: text or json
    #[arg(
        long,
        global = true,
        env = "KEYLANE_LOG_FORMAT",
        hide_env_values = true,
        value_enum,
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    #[arg(default_value_t)]
    pub(crate) log_format: LogFormat,
}

impl Global {
    /// The store that was named, or the broker's file.
    pub(crate) fn store(&self) -> Result<StoreUrl, Failure> {
        match (&self.store, &self.broker) {
            (Some(store), _) => Ok(store.clone()),
            (None, BrokerUrl::Sqlite(file)) => Ok(StoreUrl::Sqlite(file.clone())),
            (None, BrokerUrl::Kafka(_)) => Err(Failure::new(
                Code::Usage,
                "no store is named: with Kafka as the broker, all workers of a group must share one",
            )
            .remedy("name it with --store or KEYLANE_STORE; postgres://USER@HOST/DATABASE, or sqlite:FILE for the workers of one machine")),
        }
    }

    /// How the brokers at this address are reached.
    pub(crate) fn kafka(&self, servers: &KafkaServers) -> Result<KafkaSettings, Failure> {
        let mut settings = KafkaSettings::new(servers.clone());
        if let Some(file) = &self.kafka_properties {
            settings.set_from_file(file)?;
        }
        for property in &self.kafka_property {
            settings.set(property, PropertySource::Flag)?;
        }
        Ok(settings)
    }

    /// The arguments that mean the same brokers, for a process of ours. Secrets stay where they are: they are references.
    pub(crate) fn kafka_args(&self) -> Vec<std::ffi::OsString> {
        let file = self.kafka_properties.iter().flat_map(|file| ["--kafka-properties".into(), file.into()]);
        let one = |property: &String| ["--kafka-property".into(), property.into()];
        file.chain(self.kafka_property.iter().flat_map(one)).collect()
    }

    /// The file of Kafka's properties.
    pub(crate) fn kafka_properties_file(&self) -> Option<&std::path::Path> {
        self.kafka_properties.as_deref()
    }

    /// How many Kafka properties were given one by one.
    pub(crate) fn kafka_property_count(&self) -> usize {
        self.kafka_property.len()
    }

    /// How errors look.
    pub(crate) fn style(&self) -> Style {
        Style { format: self.output, color: self.color.applies_to(&io::stderr()) }
    }
}

/// The style before the command line could be parsed: a program that asked for JSON gets it for that error too.
pub(crate) fn style_of_usage_errors() -> Style {
    let args: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    let env = std::env::var("KEYLANE_OUTPUT").is_ok_and(|v| v == "json");
    let format = if env || asks_for_json(&args) { Format::Json } else { Format::Text };
    Style { format, color: Color::Auto.applies_to(&io::stderr()) }
}

fn asks_for_json(args: &[String]) -> bool {
    let joined = |a: &String| matches!(a.as_str(), "-ojson" | "-o=json" | "--output=json");
    let apart = |pair: &[String]| matches!(pair[0].as_str(), "-o" | "--output") && pair[1] == "json";
    args.iter().any(joined) || args.windows(2).any(apart)
}

/// Lets clap print our own errors, with their remedy.
fn parsed<T>(text: &str) -> Result<T, String>
where
    T: std::str::FromStr<Err = keylane_producer::Error>,
{
    text.parse().map_err(|error: keylane_producer::Error| {
        let detail = error.detail();
        match detail.remedy_text() {
            Some(remedy) => format!("{}\n  try: {remedy}", detail.what()),
            None => detail.what().to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_the_list_of_the_help() {
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let line = format!("\n  {} ", command.get_name());
            assert!(COMMANDS_HELP.contains(&line), "'{}' is missing in COMMANDS_HELP", command.get_name());
        }
    }

    #[test]
    fn every_option_of_every_command_can_come_from_the_environment() {
        fn without(command: &clap::Command, path: &str, found: &mut Vec<String>) {
            let options = command.get_arguments().filter(|a| a.get_long().is_some() && a.get_env().is_none());
            let own = options.filter(|a| !matches!(a.get_id().as_str(), "help" | "version"));
            found.extend(own.map(|a| format!("{path} --{}", a.get_long().unwrap_or_default())));
            for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
                without(sub, &format!("{path} {}", sub.get_name()), found);
            }
        }
        let mut found = Vec::new();
        without(&Cli::command(), "keylane", &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_program_that_asks_for_json_is_recognised() {
        let args = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(asks_for_json(&args("keylane -o json queue")));
        assert!(asks_for_json(&args("keylane queue --output=json")));
        assert!(!asks_for_json(&args("keylane enqueue json -o text")));
    }
}
