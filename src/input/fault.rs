//! Why a line or a row is not a job.

use std::fmt;

/// One written rule for each case; `docs/cli.md` has them as a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rule {
    LineTooLong,
    NotUtf8,
    NotJson,
    BadCsv,
    WrongFieldCount,
    FieldTwice,
    KeyMissing,
    KeyNull,
    KeyNumber,
    KeyNotText,
    KeyEmpty,
    KeyTooLong,
    KeyNotDecodable,
    PayloadMissing,
    PayloadTooLong,
    BadId,
    BadHeaders,
}

impl Rule {
    /// The name in messages, rejects files and the documentation.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::LineTooLong => "line-too-long",
            Self::NotUtf8 => "not-utf8",
            Self::NotJson => "not-json",
            Self::BadCsv => "bad-csv",
            Self::WrongFieldCount => "wrong-field-count",
            Self::FieldTwice => "field-twice",
            Self::KeyMissing => "key-missing",
            Self::KeyNull => "key-null",
            Self::KeyNumber => "key-number",
            Self::KeyNotText => "key-not-text",
            Self::KeyEmpty => "key-empty",
            Self::KeyTooLong => "key-too-long",
            Self::KeyNotDecodable => "key-not-decodable",
            Self::PayloadMissing => "payload-missing",
            Self::PayloadTooLong => "payload-too-long",
            Self::BadId => "bad-id",
            Self::BadHeaders => "bad-headers",
        }
    }
}

/// A rule that a line broke, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) rule: Rule,
    /// A lower-case fragment: "no value at /key".
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl Fault {
    pub(crate) fn new(rule: Rule, what: impl Into<String>, remedy: &'static str) -> Self {
        Self { rule, what: what.into(), remedy }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.what, self.rule.as_str())
    }
}
