//! The `keylane` program: parse, run, exit code.

mod broker;
mod cli;
mod commands;
mod ending;
mod exit;
mod input;
mod output;
mod redact;
mod remote;
mod store;
mod telemetry;
mod time;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    cli::{Cli, Command},
    exit::{Code, Failure},
    output::Output,
};

/// A quarter of what a short job cost was allocation: records are made on one thread and freed on another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    allow_huge_pages_to_others();
    // This program is also the process that ends a worker's children if the worker dies.
    keylane_consumer::handler::child::guard::serve_if_asked();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error, cli::style_of_usage_errors()),
    };
    telemetry::start(&cli.global);
    exit::code_of(cli.global.style(), || run(&cli))
}

/// The allocator is built to ask for no huge pages, since most of each would stay empty: a worker's memory was twice as large with them.
/// It also forbids them to the whole process, and so to the programs that it starts: those decide for themselves.
fn allow_huge_pages_to_others() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(false); // an old kernel has no such switch
}

fn run(cli: &Cli) -> Result<Code, Failure> {
    let global = &cli.global;
    let mut output = Output::new(global.output);
    let code = match &cli.command {
        Command::Demo(args) => commands::demo::run(args, global, &mut output),
        Command::DemoWorker(args) => commands::demo::work(args, global),
        Command::Bench(args) => commands::bench::run(args, global, &mut output),
        Command::Board(args) => commands::board::run(args, global, &mut output),
        Command::Health(args) => commands::health::run(args, global, &mut output),
        Command::Push(args) => commands::push::run(args, &mut output),
        Command::Sidecar(args) => commands::sidecar::run(args, &mut output),
        Command::Timeline(args) => commands::timeline::run(args, &mut output),
        Command::Narrate(args) => commands::narrate::run(args, &mut output),
        Command::Config(args) => commands::config::run(args, global, &mut output),
        Command::Enqueue(args) => commands::enqueue::run(args, global, &mut output),
        Command::Fence(args) => commands::fence::run(args, global, &mut output),
        Command::Dead(args) => commands::dead::run(args, global, &mut output),
        Command::Hot(args) => commands::hot::run(args, global, &mut output),
        Command::Pause(args) => commands::pause::pause(args, global, &mut output),
        Command::Resume(args) => commands::pause::resume(args, global, &mut output),
        Command::Skip(args) => commands::skip::run(args, global, &mut output),
        Command::Parked(args) => commands::parked::run(args, global, &mut output),
        Command::Queue(args) => commands::queue::run(args, global, &mut output),
        Command::Peek(args) => commands::peek::run(args, global, &mut output),
        Command::Why(args) => commands::why::run(args, global, &mut output),
        Command::Results(args) => commands::results::run(args, global, &mut output),
        Command::Retry(args) => commands::retry::run(args, global, &mut output),
        Command::Status(args) => commands::status::run(args, global, &mut output),
        Command::Work(args) => commands::work::run(args, global, &mut output),
        Command::Completions(args) => commands::completions::run(args, &mut output),
    }?;
    output.flush()?;
    Ok(code)
}
