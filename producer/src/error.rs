//! What can go wrong between a job and the log, sorted by who must act.

use std::fmt;

/// One variant for each who must act; the [`Detail`] names the thing, the rule and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call, flag, job or file is wrong: the caller acts. Nothing was sent.
    #[error("{0}")]
    Invalid(Detail),
    /// Not allowed by the machine or the broker (rights, password): the operator acts.
    #[error("{0}")]
    Refused(Detail),
    /// The queue, key or job that was named is not there.
    #[error("{0}")]
    NotFound(Detail),
    /// The log is away or busy, or its disk is full: worth another try, then the operator acts.
    #[error("{0}")]
    Unavailable(Detail),
    /// A record or file that cannot be read: the operator acts.
    #[error("{0}")]
    Corrupt(Detail),
    /// An invariant of ours broke.
    #[error("{0}")]
    Bug(Detail),
}

impl Error {
    /// The detail, whatever the variant.
    pub fn detail(&self) -> &Detail {
        match self {
            Self::Invalid(d)
            | Self::Refused(d)
            | Self::NotFound(d)
            | Self::Unavailable(d)
            | Self::Corrupt(d)
            | Self::Bug(d) => d,
        }
    }

    /// Whether the same call can succeed later without anyone changing it.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// What happened, to what, and what to do about it. `Display` prints the first part only; print the remedy
/// and the chain of sources once, where the error is handled.
pub struct Detail {
    what: String,
    remedy: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Detail {
    /// A lower-case fragment that names the thing and the rule: "key of line 7 is empty: keys have 1 to 1,024 bytes".
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: None, source: None }
    }

    /// What the reader can do: an imperative sentence, with a command where there is one.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The error underneath. Its text is never repeated in `what`.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The fragment given to [`Detail::new`].
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The remedy, if one is known.
    pub fn remedy_text(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// The error underneath, if any.
    pub fn source(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// "what: source: its source", for a log line.
    pub fn chain(&self) -> String {
        let mut text = self.what.clone();
        let mut next = self.source.as_deref().map(|s| s as &dyn std::error::Error);
        while let Some(source) = next {
            text.push_str(": ");
            text.push_str(&source.to_string());
            next = source.source();
        }
        text
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl fmt::Debug for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.chain())
    }
}
