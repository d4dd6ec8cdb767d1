//! A job as the log keeps it. The golden vectors in `record/tests.rs` hold this format.
//!
//! Key, value and user headers are the record's own; what else a job has travels in headers of ours:
//!
//! | header | value | absent means |
//! |---|---|---|
//! | `keylane-id` | the job id's text | another producer's record: the id is its place, `p3-o41` |
//! | `keylane-attempt` | decimal, from 2 | 1 |
//!
//! The record's timestamp is the enqueue time. A header of ours that cannot be read is an error that names it:
//! the worker quarantines the record, it never guesses.

use bytes::Bytes;

use crate::{
    error::{Detail, Error},
    job::{Attempt, Headers, Job, JobId, JobKey, RESERVED_HEADER_PREFIX, Timestamp},
    partition::{Offset, Partition},
};

#[cfg(test)]
mod tests;

const ID: &str = "keylane-id";
const ATTEMPT: &str = "keylane-attempt";

/// What is appended to a log, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `None` only in records of other producers.
    pub key: Option<Bytes>,
    /// `None` is a null value ("no body").
    pub value: Option<Bytes>,
    /// Names and values in order; names need not be UTF-8, values may be null.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
    /// Milliseconds since 1970 UTC.
    pub timestamp: Timestamp,
}

/// A record and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Where it lies in its partition.
    pub offset: Offset,
    /// What was appended.
    pub record: Record,
}

impl From<Job> for Record {
    fn from(job: Job) -> Self {
        let mut headers = Vec::with_capacity(job.headers.len() + 2);
        headers.push((Bytes::from_static(ID.as_bytes()), Some(job.id.into())));
        if job.attempt > Attempt::FIRST {
            let value = job.attempt.0.to_string().into_bytes();
            headers.push((Bytes::from_static(ATTEMPT.as_bytes()), Some(value.into())));
        }
        headers.extend(job.headers.iter().map(|(name, value)| (name.clone(), value.cloned())));
        Self { key: Some(job.key.into()), value: job.payload, headers, timestamp: job.enqueued_at }
    }
}

impl Record {
    /// The job in this record.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the record has no usable key, or a header of ours that cannot be read.
    pub fn into_job(self, partition: Partition, offset: Offset) -> Result<Job, Error> {
        let place = || format!("record at partition {partition}, offset {offset}");
        let key = self.key.ok_or_else(|| {
            Error::Corrupt(
                Detail::new(format!("{} has no key: a record without one cannot be kept in order", place()))
                    .remedy("let that producer send a key"),
            )
        })?;
        let key = JobKey::try_from(key)
            .map_err(|e| Error::Corrupt(Detail::new(format!("{} has an unusable key", place())).because(e)))?;
        let mut id = None;
        let mut attempt = None;
        let mut headers = Vec::new();
        for (name, value) in self.headers {
            if !name.starts_with(RESERVED_HEADER_PREFIX.as_bytes()) {
                headers.push((name, value));
                continue;
            }
            let bad = || {
                Error::Corrupt(Detail::new(format!(
                    "{} has a header '{}' that cannot be read",
                    place(),
                    name.escape_ascii()
                )))
            };
            match &name[..] {
                n if n == ID.as_bytes() => {
                    let read = value.and_then(|text| JobId::try_from(text).ok()).ok_or_else(bad)?;
                    // Two that differ: which one is right would be a guess.
                    if id.replace(read).is_some_and(|first| Some(&first) != id.as_ref()) {
                        return Err(bad());
                    }
                }
                n if n == ATTEMPT.as_bytes() => {
                    let text = value.as_deref().and_then(|text| std::str::from_utf8(text).ok());
                    let read = text.and_then(attempt_of).ok_or_else(bad)?;
                    if attempt.replace(read).is_some_and(|first| first != read) {
                        return Err(bad());
                    }
                }
                // A later version's header: not ours to understand, and not the user's to see.
                _ => {}
            }
        }
        Ok(Job {
            id: id.unwrap_or_else(|| JobId::of_place(partition, offset)),
            key,
            payload: self.value,
            headers: Headers::from_log(headers),
            enqueued_at: self.timestamp,
            attempt: attempt.unwrap_or(Attempt::FIRST),
        })
    }

    /// Bytes of key, value and headers: what counts against a buffer's bound.
    pub fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(n, v)| n.len() + v.as_ref().map_or(0, Bytes::len)).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + headers
    }
}

/// Decimal digits as we write them: no sign, no zeros in front.
fn attempt_of(text: &str) -> Option<Attempt> {
    text.parse().ok().filter(|number: &u32| *number >= 1 && number.to_string() == text).map(Attempt)
}
