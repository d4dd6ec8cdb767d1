//! `keylane status`: who holds what, what stands still, what waits. It looks and touches nothing.
//!
//! - [`picture`]: one look at group, store and log
//! - [`headline`]: the first sentence
//! - [`text`]: for people
//! - [`json`]: for programs; its shape is in `docs/cli.md`

mod headline;
mod json;
pub(crate) mod picture;
mod text;

use std::time::Duration;

use self::picture::{Eye, Picture};
use crate::{
    cli::{Global, StatusArgs},
    exit::{Code, Failure},
    output::Output,
    time,
};

/// A picture.
struct Report {
    picture: Picture,
}

pub(crate) fn run(args: &StatusArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut eye = Eye::open(global)?;
    let Some(interval) = args.watch else {
        let report = report(&mut eye)?;
        if output.is_json() {
            json::print(&report, output)?;
        } else {
            text::print(&report, global, output)?;
        }
        return Ok(Code::Done);
    };
    loop {
        match report(&mut eye) {
            Ok(report) => draw(&report, global, output)?,
            // The file is busy or its disk full: that passes, and who watches wants to see it pass.
            Err(failure) if failure.code() == Code::Unavailable => {
                let at = time::clock(keylane_producer::Timestamp::now());
                eprintln!("{at}  {}; looking again in {}", failure.what(), time::short(interval));
            }
            Err(failure) => return Err(failure),
        }
        wait(interval);
    }
}

fn report(eye: &mut Eye) -> Result<Report, Failure> {
    Ok(Report { picture: eye.look()? })
}

fn draw(report: &Report, global: &Global, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() || !output.is_terminal() {
        json::print(report, output)?;
    } else {
        // Home, then clear what is below: the last picture stays in the terminal's history.
        output.raw(b"\x1b[H\x1b[2J")?;
        text::print(report, global, output)?;
    }
    output.flush()
}

fn wait(time: Duration) {
    // Nobody sends: it is the time that ends this.
    let (_open, nothing) = crossbeam_channel::bounded::<()>(0);
    let _ = nothing.recv_timeout(time);
}
