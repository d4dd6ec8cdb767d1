//! The lines that were passed over, with reasons, for whoever repairs them.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::PathBuf,
};

use data_encoding::BASE64;
use serde_json::json;

use super::source::Source;
use crate::{
    cli::EnqueueArgs,
    exit::{Code, Failure},
    input::Fault,
};

/// A file of bad lines, or nothing.
pub(super) struct Rejects(Option<(PathBuf, io::BufWriter<File>)>);

impl Rejects {
    /// Made anew at the start of an import, added to when it goes on.
    pub(super) fn open(args: &EnqueueArgs, source: &Source, at_start: bool) -> Result<Self, Failure> {
        let Some(path) = &args.rejects else { return Ok(Self(None)) };
        let is_source = path.canonicalize().ok().is_some_and(|p| {
            args.file.as_ref().and_then(|file| file.canonicalize().ok()).is_some_and(|file| file == p)
        });
        if is_source {
            return Err(
                Failure::new(Code::Usage, format!("--rejects names {source} itself")).remedy("name another file")
            );
        }
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(!at_start).truncate(at_start);
        let file = options.open(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Self(Some((path.clone(), io::BufWriter::new(file)))))
    }

    /// `{"line":7,"rule":"key-missing","reason":"no value at /key","text":"{}"}`; what is not UTF-8 comes as `base64`.
    pub(super) fn add(&mut self, line: u64, fault: &Fault, raw: &[u8]) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.0 else { return Ok(()) };
        let mut reject = json!({ "line": line, "rule": fault.rule.as_str(), "reason": fault.what });
        match std::str::from_utf8(raw) {
            Ok(text) => reject["text"] = text.into(),
            Err(_) => reject["base64"] = BASE64.encode(raw).into(),
        }
        writeln!(file, "{reject}").map_err(|error| cannot_write(path, &error))
    }

    /// Before the checkpoint that passes over these lines commits: a line may be here twice, never not at all.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.0 else { return Ok(()) };
        file.flush().and_then(|()| file.get_ref().sync_data()).map_err(|error| cannot_write(path, &error))
    }
}

fn cannot_write(path: &std::path::Path, error: &io::Error) -> Failure {
    let code = if error.kind() == io::ErrorKind::PermissionDenied { Code::Refused } else { Code::Unavailable };
    Failure::new(code, format!("cannot write the rejects file '{}'", path.display())).because(error)
}
