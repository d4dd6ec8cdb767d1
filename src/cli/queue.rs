//! Arguments of `keylane queue`.

use std::time::Duration;

use clap::{Args, Subcommand};
use keylane_producer::{PartitionCount, QueueName};

use super::{
    parsed,
    units::{Limit, age_limit, bytes_limit},
};

/// Arguments of `queue`.
#[derive(Debug, Args)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    pub(crate) command: QueueCommand,
}

/// What to do with queues.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Make a queue
    #[command(after_help = "Examples:\n  keylane queue create jobs\n  \
        keylane queue create billing --partitions 48 --retention-age 30d --if-missing\n  \
        keylane queue create jobs --broker kafka://one:9092,two:9092 --replication 3")]
    Create(CreateArgs),
    /// Show a queue's identity, retention and partitions
    #[command(
        after_help = "Examples:\n  keylane queue describe jobs\n  keylane queue describe -o json | jq .partitions"
    )]
    Describe(DescribeArgs),
    /// List all queues
    #[command(after_help = "Example:\n  keylane queue list --broker sqlite:/var/lib/keylane/queue.db")]
    List,
}

/// Arguments of `queue create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The queue's name: 1 to 200 letters, digits, '.', '_' or '-'
    #[arg(value_parser = parsed::<QueueName>)]
    pub(crate) name: QueueName,

    /// How many partitions, 1 to 4096: more than the workers you will ever have, since it cannot change in place
    #[arg(long, env = "KEYLANE_PARTITIONS", hide_env_values = true, value_name = "N", default_value = "12")]
    #[arg(value_parser = parsed::<PartitionCount>)]
    pub(crate) partitions: PartitionCount,

    /// Keep finished jobs this long: 30s, 12h, 7d, or forever
    #[arg(long, env = "KEYLANE_RETENTION_AGE", hide_env_values = true, value_name = "TIME", default_value = "7d")]
    #[arg(value_parser = age_limit)]
    pub(crate) retention_age: Limit<Duration>,

    /// Keep at most this much of finished jobs in a partition: 512MiB, 1GiB, or none for no limit
    #[arg(long, env = "KEYLANE_RETENTION_BYTES", hide_env_values = true, value_name = "SIZE", default_value = "none")]
    #[arg(value_parser = bytes_limit)]
    pub(crate) retention_bytes: Limit<u64>,

    /// Copies that Kafka keeps, each on another broker [default: 3]
    #[arg(long, env = "KEYLANE_REPLICATION", hide_env_values = true, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) replication: Option<u16>,

    /// A receipt means that so many copies have the job [default: one less than all]
    #[arg(long, env = "KEYLANE_MIN_IN_SYNC", hide_env_values = true, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) min_in_sync: Option<u16>,

    /// Take numbers of copies with which one dead disk loses jobs, or one restart stops all who enqueue
    #[arg(long = "unsafe", env = "KEYLANE_UNSAFE", hide_env_values = true)]
    #[arg(value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) may_lose_jobs: bool,

    /// Do nothing if the queue is there with as many partitions; its retention stays as it is
    #[arg(long, env = "KEYLANE_IF_MISSING", hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) if_missing: bool,
}

/// Arguments of `queue describe`.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// The queue's name [default: that of --queue]
    #[arg(value_parser = parsed::<QueueName>)]
    pub(crate) name: Option<QueueName>,
}
