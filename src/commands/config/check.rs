//! `keylane config check`: would this command take its settings?
//!
//! 1. It connects nowhere, and starts, writes and changes nothing. Only the files that settings name are read.
//! 2. What it refuses the command refuses too, by the same code: `work`, `board` and the settings of every command have no
//!    second reading here.
//! 3. It does not promise that the command will run: hosts, rights and the handler's program are not looked at.

use clap::Parser;

use crate::{
    cli::{BrokerUrl, CheckArgs, Cli, Command, Global, StoreUrl},
    commands::{board, work},
    exit::{Code, Failure},
    output::Output,
};

pub(super) fn run(args: &CheckArgs, output: &mut Output) -> Result<Code, Failure> {
    let words = std::iter::once("keylane".into()).chain(args.command.iter().cloned());
    let cli = Cli::try_parse_from(words).map_err(|error| unreadable(&error))?;
    of_every_command(&cli.global)?;
    match &cli.command {
        Command::Work(args) => work::check(args, &cli.global)?,
        Command::Board(args) => board::check(args)?,
        _ => {}
    }
    if output.is_json() {
        output.json(&serde_json::json!({ "good": true }))?;
    } else {
        output.line("good: the command takes these settings")?;
    }
    Ok(Code::Done)
}

/// The broker's properties and the store's address, which are read only when they are used.
fn of_every_command(global: &Global) -> Result<(), Failure> {
    if let BrokerUrl::Kafka(servers) = &global.broker {
        global.kafka(servers)?;
    }
    if let Some(StoreUrl::Postgres(url)) = &global.store {
        url.address()?;
    }
    Ok(())
}

/// A command line that cannot be parsed, or that asks for help or the version instead of a run.
fn unreadable(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let words: Vec<_> = text.trim_start_matches("error: ").split_whitespace().collect();
    let what =
        if error.use_stderr() { "the command would refuse its command line" } else { "that is no run of a command" };
    Failure::new(Code::Usage, what).cause(words.join(" "))
}
