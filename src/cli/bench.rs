//! Arguments of `keylane bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, builder::FalseyValueParser};

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Measure the embedded engine against bare SQLite on this machine's disk
    #[command(after_help = LOCAL_HELP)]
    Local(LocalArgs),
    /// Measure a worker on Kafka against a bare poll loop, and what moves when workers come and go
    #[command(after_help = KAFKA_HELP)]
    Kafka(KafkaArgs),
    /// The worker that `bench kafka` measures in a process of its own
    #[command(hide = true)]
    KafkaWorker(KafkaWorkerArgs),
    /// Measure fenced effects in a Postgres database against unfenced ones, claims, and other queues there
    #[command(after_help = POSTGRES_HELP)]
    Postgres(PostgresArgs),
}

const POSTGRES_HELP: &str = "\
Examples:
  keylane bench postgres --store postgres://me@localhost/scratch
  keylane bench postgres --store postgres://me@localhost/scratch --figure effects --rounds 5 -o json

It makes a schema of its own and deletes it; the role must be one that may. Each ratio is measured in one run, side by side in
alternating rounds, with the durability that the server has.";

/// What `bench postgres` can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PostgresFigure {
    /// Fenced once-only effects, against the same batches without fence and marker, and against a transaction a job
    Effects,
    /// A claim while 32 stale writers are in flight
    Claims,
    /// A whole worker, jobs from a file: over one connection to the database, and over more
    Worker,
    /// A whole worker, against programs that do the same work in other ways: needs --peers
    Peers,
    /// A whole worker, jobs from the brokers that --broker names
    Kafka,
}

/// Arguments of `bench postgres`.
#[derive(Debug, Args)]
pub(crate) struct PostgresArgs {
    /// Measure this figure only; give it again for more [default: all]
    #[arg(long, env = "KEYLANE_BENCH_POSTGRES_FIGURE", hide_env_values = true, value_enum, value_name = "NAME")]
    #[arg(value_delimiter = ',')]
    pub(crate) figure: Vec<PostgresFigure>,

    /// Rounds of each side; the median counts
    #[arg(long, env = "KEYLANE_BENCH_ROUNDS", hide_env_values = true, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rounds: u32,

    /// The folder of the programs that --figure peers compares with; without it they are not measured
    #[arg(long, env = "KEYLANE_BENCH_PEERS", hide_env_values = true, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,

    /// Where those of them that need Redis find it; without it they are not measured
    #[arg(long, env = "KEYLANE_BENCH_REDIS", hide_env_values = true, value_name = "URL")]
    pub(crate) redis: Option<String>,

    /// Jobs in a round; the slower side has fewer
    #[arg(long, env = "KEYLANE_BENCH_JOBS", hide_env_values = true, value_name = "N", default_value_t = 50_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) jobs: u64,

    /// Where to make the queue's file; it is removed at the end [default: the folder for temporary files]
    #[arg(long, env = "KEYLANE_BENCH_FOLDER", hide_env_values = true, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

const KAFKA_HELP: &str = "\
Examples:
  keylane bench kafka --broker kafka://localhost:9092
  keylane bench kafka --broker kafka://localhost:9092 --figure noop --rounds 3 -o json

It makes topics of its own and deletes them. Each ratio is measured in one run, side by side in alternating rounds.";

/// What `bench kafka` can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KafkaFigure {
    /// A whole worker with a handler that does nothing, against a bare poll loop; and what fence and markers cost
    Noop,
    /// A whole worker, fenced, with 100 jobs at once that take 0, 1 and 10 ms, against the program that --peer names
    Waits,
    /// Worker processes that die, leave, join and freeze: how long partitions stand still
    Moves,
}

/// Arguments of `bench kafka`.
#[derive(Debug, Args)]
pub(crate) struct KafkaArgs {
    /// Measure this figure only; give it again for more [default: all]
    #[arg(long, env = "KEYLANE_BENCH_KAFKA_FIGURE", hide_env_values = true, value_enum, value_name = "NAME")]
    #[arg(value_delimiter = ',')]
    pub(crate) figure: Vec<KafkaFigure>,

    /// Rounds of each side; the median counts
    #[arg(long, env = "KEYLANE_BENCH_ROUNDS", hide_env_values = true, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rounds: u32,

    /// Jobs in a round
    #[arg(long, env = "KEYLANE_BENCH_JOBS", hide_env_values = true, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) jobs: u64,

    /// A program that works off a topic in another way, for --figure waits: it gets brokers=, topic=, jobs=, warmup=, work_ms=
    /// and concurrency=, and prints a line of JSON with jobs_per_s, cpu_us_per_job and max_rss_mib
    #[arg(long, env = "KEYLANE_BENCH_PEER", hide_env_values = true, value_name = "FILE")]
    pub(crate) peer: Option<PathBuf>,

    /// A program that ends the broker which is the coordinator of the group that its argument names, and may start it again
    /// later; without it, --figure moves does not measure the coordinator's death
    #[arg(long, env = "KEYLANE_BENCH_END_COORDINATOR", hide_env_values = true, value_name = "FILE")]
    pub(crate) end_coordinator: Option<PathBuf>,

    /// Where to make the store's file; it is removed at the end [default: the folder for temporary files]
    #[arg(long, env = "KEYLANE_BENCH_FOLDER", hide_env_values = true, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}

/// Arguments of the bench's own worker, which it starts itself.
#[derive(Debug, Args)]
pub(crate) struct KafkaWorkerArgs {
    /// Milliseconds that a job waits
    #[arg(long)]
    pub(crate) wait: u64,

    /// Jobs that are measured
    #[arg(long)]
    pub(crate) jobs: u64,

    /// Jobs before these
    #[arg(long)]
    pub(crate) warmup: u64,

    /// Jobs at once
    #[arg(long)]
    pub(crate) running: usize,
}

const LOCAL_HELP: &str = "\
Examples:
  keylane bench local --quick
  keylane bench local --figure enqueue --figure noop --rounds 9 --folder /var/tmp
  keylane bench local -o json | jq '.rows[] | {figure, what, ratio, met}'

Each ratio is measured in one run, side by side in alternating rounds, on the same disk with the same durability. What the
figures mean: docs/benchmarks.md. An aim that is missed is shown, and is no error.";

/// What `bench local` can measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Figure {
    /// Jobs onto the log, against bare inserts of the same rows
    Enqueue,
    /// A whole worker with a handler that does nothing, against the same bare inserts
    Noop,
    /// The worker's own work alone: group and store in memory
    Desk,
    /// Whether this worker may act now: one look at the fence
    Admit,
    /// Memory of a worker while jobs wait
    Memory,
    /// Rates with few jobs in the file and with many
    Growth,
    /// A worker whose jobs leave a result, or an effect of one row
    Writes,
    /// A worker that is watched by a sidecar, a board and a push, and one whose watchers are killed, against one that nobody watches
    Watching,
    /// What a key that is stuck costs the others, and what parking a key with many followers takes
    Failing,
}

/// Arguments of `bench local`.
#[derive(Debug, Args)]
pub(crate) struct LocalArgs {
    /// Measure this figure only; give it again for more [default: all]
    #[arg(long, env = "KEYLANE_BENCH_FIGURE", hide_env_values = true, value_enum, value_name = "NAME")]
    #[arg(value_delimiter = ',')]
    pub(crate) figure: Vec<Figure>,

    /// Smaller rounds, and 1 million jobs instead of 10 in the growing file
    #[arg(long, env = "KEYLANE_BENCH_QUICK", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(crate) quick: bool,

    /// Rounds of each side; the median counts
    #[arg(long, env = "KEYLANE_BENCH_ROUNDS", hide_env_values = true, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) rounds: u32,

    /// Jobs in a round; what waits and grows is scaled with it [default: 200000, with --quick 50000]
    #[arg(long, env = "KEYLANE_BENCH_JOBS", hide_env_values = true, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) jobs: Option<u64>,

    /// Where to make the files; they are removed at the end [default: the folder for temporary files]
    #[arg(long, env = "KEYLANE_BENCH_FOLDER", hide_env_values = true, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}
