//! A secret for a host: from a file or a variable, sent in one header, and never shown.

use std::{fmt, fs::File, io::Read, path::Path};

use hyper::header::HeaderValue;

use crate::exit::{Code, Failure};

/// Longer ones are no secret but a mistake.
const LARGEST: u64 = 8 << 10;

/// A bearer.
#[derive(Clone)]
pub(crate) struct Secret(HeaderValue);

impl Secret {
    /// What stands in this file, read anew each time: it may be replaced while we run.
    pub(crate) fn of_file(file: &Path) -> Result<Self, Failure> {
        let cannot = |error: std::io::Error| {
            let code = if error.kind() == std::io::ErrorKind::NotFound { Code::NotFound } else { Code::BadInput };
            Failure::new(code, format!("cannot read the secret in '{}'", file.display())).because(&error)
        };
        let mut text = String::new();
        File::open(file).and_then(|from| from.take(LARGEST).read_to_string(&mut text)).map_err(cannot)?;
        Self::of(&text, &format!("the file '{}'", file.display()))
    }

    /// What this variable holds, if it is set and not empty.
    pub(crate) fn of_variable(name: &str) -> Result<Option<Self>, Failure> {
        match std::env::var(name) {
            Ok(text) if !text.trim().is_empty() => Self::of(&text, &format!("the variable {name}")).map(Some),
            _ => Ok(None),
        }
    }

    /// The file's, or else the variable's.
    pub(crate) fn from(file: Option<&Path>, variable: &str) -> Result<Option<Self>, Failure> {
        match file {
            Some(file) => Self::of_file(file).map(Some),
            None => Self::of_variable(variable),
        }
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }

    fn of(text: &str, place: &str) -> Result<Self, Failure> {
        let text = text.trim();
        let is_secret = !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        let header = is_secret.then(|| HeaderValue::from_str(&format!("Bearer {text}")).ok()).flatten();
        let mut header = header.ok_or_else(|| {
            Failure::new(Code::BadInput, format!("what is in {place} is no bearer secret"))
                .remedy("put it there alone: one line of printable characters without a space")
        })?;
        header.set_sensitive(true);
        Ok(Self(header))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_word_and_is_not_shown() {
        let secret = Secret::of("MARKER-hunter2\n", "x").unwrap();
        assert_eq!(secret.header(), "Bearer MARKER-hunter2");
        assert!(!format!("{secret:?} {:?}", secret.header()).contains("MARKER"));
        for bad in ["", "  \n", "two words", "MARKER\r\nhost: evil"] {
            let failure = format!("{:?}", Secret::of(bad, "the file 'f'").unwrap_err());
            assert!(!failure.contains("MARKER"), "{failure}");
        }
    }
}
