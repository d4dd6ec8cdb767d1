//! A job: what the user enqueues and the handler gets.
//!
//! 1. A key is bytes, 1 to [`MAX_KEY_BYTES`]; two keys are the same lane only if their bytes are equal.
//! 2. A missing payload ("no body") and an empty one are two things; so are a null and an empty header value.
//! 3. A job that was accepted fits the log and every later copy of it: the limits leave room for what we add.

use std::{fmt, time::SystemTime};

use bytes::Bytes;

use crate::error::{Detail, Error};

#[cfg(test)]
mod tests;

/// Longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 1_024;
/// Longest payload, in bytes. Key, headers and our own headers fit beside it below Kafka's default of
/// 1,000,000 bytes a message, so a job never grows out of the log that accepted it.
pub const MAX_PAYLOAD_BYTES: usize = 900 * 1_024;
/// All header names and values of a job together, in bytes. How many: [`MAX_HEADERS`].
pub const MAX_HEADER_BYTES: usize = 32 * 1_024;
/// Headers a job may have. Each costs some bytes of framing beside its name and value, which [`MAX_HEADER_BYTES`] does
/// not count.
pub const MAX_HEADERS: usize = 1_000;
/// Header names that begin with this belong to Keylane.
pub const RESERVED_HEADER_PREFIX: &str = "keylane-";

/// A keyed unit of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Names the job for people and for receivers that want to recognise a repetition.
    pub id: JobId,
    /// Jobs with equal keys run one at a time and in order.
    pub key: JobKey,
    /// `None` is "no body", which is not the same as an empty one. Limit: [`MAX_PAYLOAD_BYTES`].
    pub payload: Option<Bytes>,
    /// In the order given. Limit: [`MAX_HEADER_BYTES`].
    pub headers: Headers,
    /// When the producer made the job.
    pub enqueued_at: Timestamp,
    /// Which try at sending this job this is; replays raise it. Tries at *running* it are counted by the worker.
    pub attempt: Attempt,
}

impl Job {
    /// A new job with a fresh id, made now.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the payload is longer than [`MAX_PAYLOAD_BYTES`].
    pub fn new(key: JobKey, payload: Option<Bytes>) -> Result<Self, Error> {
        let job = Self {
            id: JobId::fresh(),
            key,
            payload,
            headers: Headers::default(),
            enqueued_at: Timestamp::now(),
            attempt: Attempt::FIRST,
        };
        job.check_payload()?;
        Ok(job)
    }

    /// The payload's limit, again before sending: the field is open.
    pub(crate) fn check_payload(&self) -> Result<(), Error> {
        let Some(length) = self.payload.as_ref().map(Bytes::len).filter(|&length| length > MAX_PAYLOAD_BYTES) else {
            return Ok(());
        };
        Err(Error::Invalid(
            Detail::new(format!("payload has {length} bytes: the limit is {MAX_PAYLOAD_BYTES}"))
                .remedy("keep the body elsewhere and enqueue a reference to it"),
        ))
    }
}

/// The bytes that decide a job's partition and lane. Never empty, at most [`MAX_KEY_BYTES`] long.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey(Bytes);

impl JobKey {
    /// The key's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<JobKey> for Bytes {
    fn from(key: JobKey) -> Self {
        key.0
    }
}

impl TryFrom<Bytes> for JobKey {
    type Error = Error;

    fn try_from(bytes: Bytes) -> Result<Self, Error> {
        match bytes.len() {
            0 => Err(Error::Invalid(
                Detail::new(format!("key is empty: keys have 1 to {MAX_KEY_BYTES} bytes"))
                    .remedy("give each job the key whose jobs must run in order"),
            )),
            1..=MAX_KEY_BYTES => Ok(Self(bytes)),
            length => Err(Error::Invalid(
                Detail::new(format!("key has {length} bytes: keys have 1 to {MAX_KEY_BYTES} bytes"))
                    .remedy("use a shorter key, or a hash of it"),
            )),
        }
    }
}

impl TryFrom<&[u8]> for JobKey {
    type Error = Error;

    fn try_from(bytes: &[u8]) -> Result<Self, Error> {
        Self::try_from(Bytes::copy_from_slice(bytes))
    }
}

impl TryFrom<&str> for JobKey {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::try_from(text.as_bytes())
    }
}

/// The one lossless text form of a key: the text itself if it is printable UTF-8 that does not look like the
/// other form, else `hex:` and the bytes. [`std::str::FromStr`] accepts both back.
impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(&self.0) {
            Ok(text) if reads_as_it_is(text) => f.write_str(text),
            _ => {
                f.write_str("hex:")?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// Whether what a person sees is what the key is, and whether it reads back as the same key.
fn reads_as_it_is(text: &str) -> bool {
    !text.starts_with("hex:") && !text.starts_with(' ') && !text.ends_with(' ') && !text.chars().any(deceives)
}

/// Control characters, blanks that are not the space, and marks that reorder, hide or change text around them.
fn deceives(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobKey({self})")
    }
}

impl std::str::FromStr for JobKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let Some(digits) = text.strip_prefix("hex:") else { return Self::try_from(text) };
        let wrong = || {
            Error::Invalid(
                Detail::new(format!("key {text:?} is not hex: after 'hex:' come pairs of 0-9 and a-f"))
                    .remedy("a key whose text itself begins with 'hex:' is written as hex too"),
            )
        };
        // Looked at one by one: `from_str_radix` takes a sign too.
        if digits.len() % 2 != 0 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let bytes: Result<Vec<u8>, _> =
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16)).collect();
        Self::try_from(Bytes::from(bytes.map_err(|_| wrong())?))
    }
}

/// A job's name: 1 to 64 letters, digits, `-`, `_` or `:`. Fresh ones are ULIDs, which sort by time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Bytes);

impl JobId {
    /// A new ULID.
    pub fn fresh() -> Self {
        Self(ulid::Ulid::generate().to_string().into())
    }

    /// The id of a record that some other producer wrote without one: its place in the log, so it is the same
    /// at every delivery.
    pub fn of_place(partition: crate::Partition, offset: crate::Offset) -> Self {
        Self(format!("p{}-o{}", partition.0, offset.0).into())
    }

    /// The id's text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("letters, digits and three marks")
    }
}

impl From<JobId> for Bytes {
    fn from(id: JobId) -> Self {
        id.0
    }
}

/// Without a copy: a job's id lies in its record.
impl TryFrom<Bytes> for JobId {
    type Error = Error;

    fn try_from(text: Bytes) -> Result<Self, Error> {
        // All of them in any case: to look at sixteen at once is quicker than to stop at the first that does not fit.
        let letters = |fit: bool, b: &u8| fit & (b.is_ascii_alphanumeric() | matches!(b, b'-' | b'_' | b':'));
        let fits = (1..=64).contains(&text.len()) && text.iter().fold(true, letters);
        if fits {
            Ok(Self(text))
        } else {
            let text = String::from_utf8_lossy(&text);
            Err(Error::Invalid(
                Detail::new(format!("job id {text:?} does not fit: ids have 1 to 64 letters, digits, '-', '_' or ':'"))
                    .remedy("leave the id out to get a fresh one, or use a shorter one"),
            ))
        }
    }
}

impl std::str::FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::try_from(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

/// A count of tries, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The first try.
    pub const FIRST: Self = Self(1);

    /// The try after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Milliseconds since 1970-01-01 UTC by the wall clock of whoever wrote it. For people, never for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The wall clock now.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// Repeatable name and value pairs in order. Names and values are bytes: other producers write names that are
/// not UTF-8, and a null value is not an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Bytes, Option<Bytes>)>);

impl Headers {
    /// Adds one more header; a name may repeat.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or reserved, or all headers would exceed [`MAX_HEADER_BYTES`] or
    /// [`MAX_HEADERS`].
    pub fn push(&mut self, name: impl Into<Bytes>, value: Option<Bytes>) -> Result<(), Error> {
        let name = name.into();
        if name.is_empty() {
            return Err(Error::Invalid(
                Detail::new("header name is empty: names have at least 1 byte").remedy("name it, or leave it out"),
            ));
        }
        if self.0.len() >= MAX_HEADERS {
            return Err(Error::Invalid(
                Detail::new(format!("headers are too many: a job may have {MAX_HEADERS}"))
                    .remedy("move what is many into the payload"),
            ));
        }
        if name.to_ascii_lowercase().starts_with(RESERVED_HEADER_PREFIX.as_bytes()) {
            return Err(Error::Invalid(
                Detail::new(format!(
                    "header '{}' is reserved: names that begin with '{RESERVED_HEADER_PREFIX}' belong to Keylane",
                    name.escape_ascii()
                ))
                .remedy("choose another prefix"),
            ));
        }
        let size = self.size() + name.len() + value.as_ref().map_or(0, Bytes::len);
        if size > MAX_HEADER_BYTES {
            return Err(Error::Invalid(
                Detail::new(format!("headers have {size} bytes: all of a job's headers may have {MAX_HEADER_BYTES}"))
                    .remedy("move what is large into the payload"),
            ));
        }
        self.0.push((name, value));
        Ok(())
    }

    /// Without the checks of [`Headers::push`]: what the log already holds is kept as it is.
    pub(crate) fn from_log(pairs: Vec<(Bytes, Option<Bytes>)>) -> Self {
        Self(pairs)
    }

    /// Name and value of each header, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, Option<&Bytes>)> {
        self.0.iter().map(|(name, value)| (name, value.as_ref()))
    }

    /// The last value of that name; the outer `None` is "no such header".
    pub fn last(&self, name: &[u8]) -> Option<Option<&Bytes>> {
        self.0.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.as_ref())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all names and values.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Bytes::len)).sum()
    }
}
