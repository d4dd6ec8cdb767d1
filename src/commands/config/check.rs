//! `keylane config check`: would this command take its settings?
//!
//! 1. It connects nowhere, and starts, writes and changes nothing. Only the files that settings name are read.
//! 2. What it refuses the command refuses too, by the same code and before it connects: `work`, `board`, `push` and `narrate` have no second
//!    reading here, and a setting that the command does not use is not looked at.
//! 3. It does not promise that the command will run: hosts, rights and the handler's program are not looked at.

use clap::Parser;

use crate::{
    cli::{BenchCommand, BrokerUrl, CheckArgs, Cli, Command, Global, PostgresFigure, StoreUrl},
    commands::{bench, board, narrate, push, work},
    exit::{Code, Failure},
    output::Output,
};

pub(super) fn run(args: &CheckArgs, output: &mut Output) -> Result<Code, Failure> {
    let words = std::iter::once("keylane".into()).chain(args.command.iter().cloned());
    let cli = Cli::try_parse_from(words).map_err(|error| unreadable(&error))?;
    check(&cli)?;
    if output.is_json() {
        output.json(&serde_json::json!({ "good": true }))?;
    } else {
        output.line("good: the command takes these settings")?;
    }
    Ok(Code::Done)
}

fn check(cli: &Cli) -> Result<(), Failure> {
    let global = &cli.global;
    match &cli.command {
        Command::Work(args) => work::check(args, global).and_then(|()| broker(global)),
        Command::Board(args) => board::check(args),
        Command::Push(args) => push::check(args).map(drop),
        Command::Narrate(args) => narrate::check(args),
        Command::Enqueue(_) | Command::Queue(_) => broker(global),
        Command::Bench(args) => match &args.command {
            BenchCommand::Local(_) => Ok(()),
            BenchCommand::Kafka(_) | BenchCommand::KafkaWorker(_) => broker(global),
            BenchCommand::Postgres(args) => {
                bench::postgres::address(global)?;
                let kafka = bench::postgres::figures(args).contains(&PostgresFigure::Kafka);
                if kafka { broker(global) } else { Ok(()) }
            }
        },
        Command::Status(_)
        | Command::Why(_)
        | Command::Peek(_)
        | Command::Results(_)
        | Command::Parked(_)
        | Command::Dead(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Skip(_)
        | Command::Hot(_)
        | Command::Retry(_)
        | Command::Fence(_)
        | Command::Demo(_)
        | Command::DemoWorker(_) => broker(global).and_then(|()| store(global)),
        Command::Health(_)
        | Command::Sidecar(_)
        | Command::Timeline(_)
        | Command::Config(_)
        | Command::Completions(_) => Ok(()),
    }
}

/// Its properties are read only when it is used.
fn broker(global: &Global) -> Result<(), Failure> {
    match &global.broker {
        BrokerUrl::Kafka(servers) => global.kafka(servers).map(drop),
        BrokerUrl::Sqlite(_) => Ok(()),
    }
}

/// Its address is read only when it is used.
fn store(global: &Global) -> Result<(), Failure> {
    match &global.store {
        Some(StoreUrl::Postgres(url)) => Ok(url.address().map(drop)?),
        Some(StoreUrl::Sqlite(_)) | None => Ok(()),
    }
}

/// A command line that cannot be parsed, or that asks for help or the version instead of a run.
fn unreadable(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let words: Vec<_> = text.trim_start_matches("error: ").split_whitespace().collect();
    let what =
        if error.use_stderr() { "the command would refuse its command line" } else { "that is no run of a command" };
    Failure::new(Code::Usage, what).cause(words.join(" "))
}
