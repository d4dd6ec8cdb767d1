//! How far it is: a bar on a terminal, else a line every five seconds, nothing with `-q` or `-o json`.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use keylane_consumer::clock::{BootTime, Clock};

use super::source::Source;
use crate::{
    cli::Global,
    output::{Format, counted},
};

const EVERY: Duration = Duration::from_secs(5);

/// Shows progress on standard error.
pub(super) struct Progress {
    /// "checked" or "sent".
    done: &'static str,
    length: Option<u64>,
    kind: Kind,
}

enum Kind {
    Silent,
    Bar(ProgressBar),
    Lines { clock: Clock, next: BootTime },
}

impl Progress {
    pub(super) fn new(done: &'static str, source: &Source, global: &Global) -> Self {
        let length = source.length();
        let kind = if global.quiet || global.output == Format::Json {
            Kind::Silent
        } else if io::stderr().is_terminal() {
            Kind::Bar(bar(length))
        } else {
            let clock = Clock::boot();
            let next = clock.now().plus(EVERY);
            Kind::Lines { clock, next }
        };
        Self { done, length, kind }
    }

    pub(super) fn at(&mut self, bytes: u64, jobs: u64) {
        match &mut self.kind {
            Kind::Bar(bar) => {
                bar.set_position(bytes);
                // Formatting the text for every line would cost more than reading it.
                if jobs.is_multiple_of(1_000) {
                    bar.set_message(format!("{} {}", self.done, counted(jobs, "job")));
                }
            }
            // Reading the clock for every line would cost more than the line.
            Kind::Lines { clock, next } if jobs.is_multiple_of(100) => {
                let now = clock.now();
                if now >= *next {
                    *next = now.plus(EVERY);
                    let of = self
                        .length
                        .map(|l| format!(" ({}%)", bytes.saturating_mul(100) / l.max(1)))
                        .unwrap_or_default();
                    // Progress that nobody can read is no reason to stop.
                    let _ = writeln!(io::stderr(), "{} {}{of}", self.done, counted(jobs, "job"));
                }
            }
            Kind::Silent | Kind::Lines { .. } => {}
        }
    }

    pub(super) fn end(&mut self) {
        if let Kind::Bar(bar) = &self.kind {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn bar(length: Option<u64>) -> ProgressBar {
    let (bar, template) = match length {
        Some(length) => (ProgressBar::new(length), "{bar:30} {bytes}/{total_bytes} {eta} {msg}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {msg}"),
    };
    bar.with_style(ProgressStyle::with_template(template).expect("the template is well formed"))
}
