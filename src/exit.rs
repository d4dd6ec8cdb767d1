//! How the program ends: its exit codes, and what it says when something went wrong.
//!
//! 1. An error is printed once, here, with its causes and what to do about it.
//! 2. Text from outside (keys, file names, messages of other programs) is made printable first.
//! 3. With `-o json` the error is one JSON object, also on standard error.

use std::{
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

use keylane_consumer::Error as WorkerError;
use keylane_producer::{Detail, Error};

use crate::{
    output::{Format, Style, printable},
    redact,
};

/// What the program answers its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// All was done.
    Done = 0,
    /// A verdict, a check or a job failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A job, a line or a file is wrong.
    BadInput = 3,
    /// Rights or a password are missing.
    Refused = 4,
    /// The queue, key or file that was named is not there.
    NotFound = 5,
    /// Broker or store is away, busy or full.
    Unavailable = 7,
    /// A file or record cannot be read.
    Corrupt = 9,
    /// A bug of ours.
    Bug = 70,
    /// Ctrl-C or a termination signal.
    Interrupted = 130,
}

/// All of them, for `--help`. Code 8 is answered by commands that wait.
pub(crate) const CODES_HELP: &str = "\
Exit codes:
  0 done                               5 not found
  1 failed: a verdict, a check, a job  7 broker or store away: busy, full
  2 bad usage                          8 not yet: a wait ran out
  3 bad input: a job, a line, a file   9 corrupt
  4 refused: rights, password          70 a bug of ours, 130 interrupted";

/// Why a command ended without doing what it was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    what: String,
    causes: Vec<String>,
    remedy: Option<String>,
}

impl Failure {
    /// A lower-case fragment that names the thing and the rule.
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), causes: Vec::new(), remedy: None }
    }

    /// The reader of our output went away: nothing to say, and nothing went wrong.
    pub(crate) fn reader_left() -> Self {
        Self::new(Code::Done, "")
    }

    /// What to do about it; replaces a remedy that is there.
    #[must_use]
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The error underneath, with its own causes.
    #[must_use]
    pub(crate) fn because(mut self, error: &(dyn std::error::Error + 'static)) -> Self {
        let chain = std::iter::successors(Some(error), |e| e.source());
        self.causes.extend(chain.map(ToString::to_string));
        self
    }

    /// One more cause, in words.
    #[must_use]
    pub(crate) fn cause(mut self, text: impl Into<String>) -> Self {
        self.causes.push(text.into());
        self
    }

    /// The same trouble, seen from further up: `what` becomes the first cause. The remedy stays.
    #[must_use]
    pub(crate) fn while_doing(mut self, what: impl Into<String>) -> Self {
        let cause = std::mem::replace(&mut self.what, what.into());
        self.causes.insert(0, cause);
        self
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// What went wrong, in one line.
    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn remedy_text(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// Prints it, once.
    fn print(&self, style: Style) {
        let text = match style.format {
            Format::Text => self.text(style.color),
            Format::Json => self.json(),
        };
        // Standard error may be closed; there is nobody left to tell.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn text(&self, color: bool) -> String {
        let (red, plain) = if color { ("\x1b[1;31m", "\x1b[0m") } else { ("", "") };
        let mut text = format!("{red}error:{plain} {}\n", printable(&self.what));
        for cause in &self.causes {
            text.push_str(&format!("  because: {}\n", printable(cause)));
        }
        if let Some(remedy) = &self.remedy {
            text.push_str(&format!("  try: {}\n", printable(remedy)));
        }
        text
    }

    fn json(&self) -> String {
        let error = serde_json::json!({ "error": {
            "code": self.code as u8,
            "what": self.what,
            "remedy": self.remedy,
            "causes": self.causes,
        }});
        format!("{error}\n")
    }
}

impl From<(Code, &Detail)> for Failure {
    fn from((code, detail): (Code, &Detail)) -> Self {
        let failure = Self::new(code, detail.what());
        let failure = match detail.source() {
            Some(source) => failure.because(source),
            None => failure,
        };
        Self { remedy: detail.remedy_text().map(str::to_owned), ..failure }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Invalid(_) => Code::BadInput,
            Error::Refused(_) => Code::Refused,
            Error::NotFound(_) => Code::NotFound,
            Error::Unavailable(_) => Code::Unavailable,
            Error::Corrupt(_) => Code::Corrupt,
            Error::Bug(_) => Code::Bug,
        };
        Self::from((code, error.detail()))
    }
}

impl From<WorkerError> for Failure {
    fn from(error: WorkerError) -> Self {
        let code = match &error {
            WorkerError::Invalid(_) => Code::BadInput,
            WorkerError::Refused(_) => Code::Refused,
            WorkerError::NotFound(_) => Code::NotFound,
            WorkerError::Unavailable(_) => Code::Unavailable,
            WorkerError::Corrupt(_) => Code::Corrupt,
            WorkerError::Bug(_) => Code::Bug,
        };
        Self::from((code, error.detail()))
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// Runs a command, prints what went wrong, and answers the code. A panic is a bug of ours: 70.
pub(crate) fn code_of(style: Style, command: impl FnOnce() -> Result<Code, Failure>) -> ExitCode {
    // The hook would print in the middle of ours, and with a backtrace nobody asked for.
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
        Failure::new(Code::Bug, format!("an invariant broke at {place}: {text}"))
            .remedy("please report it, with the command line and this text; what was acknowledged is on the log")
            .print(style);
    }));
    match catch_unwind(AssertUnwindSafe(command)) {
        Ok(Ok(code)) => code.into(),
        Ok(Err(failure)) => {
            if failure.code != Code::Done {
                failure.print(style);
            }
            failure.code.into()
        }
        Err(_) => Code::Bug.into(),
    }
}

/// Answers a command line that could not be parsed, or asked for help or the version.
pub(crate) fn usage(error: &clap::Error, style: Style) -> ExitCode {
    let text = error.render().to_string();
    let cleaned = if error.use_stderr() { redact::redacted(&text, &redact::given()) } else { None };
    if error.use_stderr() && style.format == Format::Json {
        let text = cleaned.unwrap_or(text);
        let text = text.trim_start_matches("error: ");
        let (what, rest) = text.split_once("\n\n").unwrap_or((text, ""));
        // Ours comes inside clap's text, see `cli::parsed`.
        let (what, ours) = what.split_once("\n  try: ").unwrap_or((what, ""));
        let remedy = if ours.is_empty() { rest.trim().replace("\n\n", "; ") } else { ours.trim().to_owned() };
        let failure = Failure::new(Code::Usage, what.trim());
        if remedy.is_empty() { failure } else { failure.remedy(remedy) }.print(style);
    } else if let Some(text) = cleaned {
        let _ = std::io::stderr().write_all(text.as_bytes());
    } else {
        // A closed standard output is no error.
        let _ = error.print();
    }
    if error.use_stderr() { Code::Usage.into() } else { Code::Done.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> Failure {
        let source = std::io::Error::other("locked\x1b[2J");
        Error::Unavailable(Detail::new("cannot append to queue 'jobs'").remedy("end the other process").because(source))
            .into()
    }

    #[test]
    fn an_error_is_what_then_causes_then_remedy() {
        let text = busy().while_doing("the import stopped").text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "error: the import stopped",
                "  because: cannot append to queue 'jobs'",
                "  because: locked\\u{1b}[2J",
                "  try: end the other process",
            ]
        );
    }

    #[test]
    fn an_error_in_json_is_one_line() {
        let text = busy().json();
        assert_eq!(text.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["error"]["code"], 7);
        assert_eq!(value["error"]["remedy"], "end the other process");
        assert_eq!(value["error"]["causes"][0], "locked\x1b[2J");
    }

    #[test]
    fn each_kind_of_error_has_its_code() {
        let kinds: [fn(Detail) -> Error; 6] =
            [Error::Invalid, Error::Refused, Error::NotFound, Error::Unavailable, Error::Corrupt, Error::Bug];
        let codes = kinds.map(|kind| Failure::from(kind(Detail::new("x"))).code() as u8);
        assert_eq!(codes, [3, 4, 5, 7, 9, 70]);
        let worker = kinds.map(|kind| Failure::from(WorkerError::from(kind(Detail::new("x")))).code() as u8);
        assert_eq!(worker, codes);
    }
}
