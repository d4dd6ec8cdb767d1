//! `keylane completions`: a shell's completion script.

use clap::CommandFactory;

use crate::{
    cli::{Cli, CompletionsArgs},
    exit::{Code, Failure},
    output::Output,
};

pub(crate) fn run(args: &CompletionsArgs, output: &mut Output) -> Result<Code, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "keylane", &mut script);
    output.raw(&script)?;
    Ok(Code::Done)
}
