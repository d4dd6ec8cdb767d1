//! The protocol, pure: a job as one JSON line, one JSON line as an answer. `docs/handlers.md` is the same for people.
//!
//! 1. A payload travels as a JSON *string* (base64 if it is not UTF-8), never parsed: what was enqueued arrives byte for
//!    byte, whatever is inside.
//! 2. A job line holds nothing that could be mistaken for a right to write: no token, generation, claim or member. Only
//!    [`fenced_job_line`] holds one, for this job, under a name that says how it is to be treated; no answer may hold it.
//! 3. A result is kept as its exact text, never parsed into a tree: deep nesting costs no stack, numbers keep their digits.
//! 4. Whatever else a child writes is refused with what was seen and the rule, both cut to [`SEEN_LIMIT`] and printable.

use std::{borrow::Cow, fmt, io, time::Duration};

use bytes::Bytes;
use data_encoding::BASE64;
use keylane_producer::{JobId, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::{
    fence::{JobPass, redacted},
    handler::JobContext,
};

/// How much of a child's output is repeated in an error, in bytes.
const SEEN_LIMIT: usize = 200;

/// The line for this run of a job, newline included.
pub fn job_line(context: &JobContext, limit: Duration) -> Vec<u8> {
    line(context, limit, None)
}

/// The same for a handler that passes the store's fence by itself.
pub(super) fn fenced_job_line(context: &JobContext, limit: Duration) -> Vec<u8> {
    line(context, limit, context.sensitive_fence().as_ref().map(JobPass::reveal))
}

fn line(context: &JobContext, limit: Duration, sensitive_fence: Option<&str>) -> Vec<u8> {
    let job = &context.job;
    let wire = WireJob {
        id: job.id.as_str(),
        key: match Text::of(job.key.as_bytes()) {
            Text::Utf8(text) => WireKey::Utf8(text),
            Text::Base64 { base64 } => WireKey::Base64(base64),
        },
        payload: match job.payload.as_deref().map(Text::of) {
            None => WirePayload::Utf8(None),
            Some(Text::Utf8(text)) => WirePayload::Utf8(Some(text)),
            Some(Text::Base64 { base64 }) => WirePayload::Base64(base64),
        },
        headers: job
            .headers
            .iter()
            .map(|(name, value)| (Text::of(name), value.map(Bytes::as_ref).map(Text::of)))
            .collect(),
        partition: context.partition.0,
        offset: context.offset.0,
        attempt: context.attempt.0,
        enqueued_at: rfc_3339(job.enqueued_at),
        time_limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        sensitive_fence,
    };
    let mut line = Vec::with_capacity(job.payload.as_ref().map_or(0, Bytes::len) + 512);
    wire.serialize(&mut serde_json::Serializer::with_formatter(&mut line, OneLine))
        .expect("strings and numbers always serialize, and a Vec takes every write");
    line.push(b'\n');
    line
}

/// The field set and its order are a contract; the golden line in the tests holds it.
#[derive(Serialize)]
struct WireJob<'a> {
    id: &'a str,
    #[serde(flatten)]
    key: WireKey<'a>,
    #[serde(flatten)]
    payload: WirePayload<'a>,
    headers: Vec<(Text<'a>, Option<Text<'a>>)>,
    partition: u32,
    offset: u64,
    attempt: u32,
    enqueued_at: String,
    time_limit_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitive_fence: Option<&'a str>,
}

#[derive(Serialize)]
enum WireKey<'a> {
    #[serde(rename = "key")]
    Utf8(&'a str),
    #[serde(rename = "key_base64")]
    Base64(String),
}

#[derive(Serialize)]
enum WirePayload<'a> {
    #[serde(rename = "payload")]
    Utf8(Option<&'a str>),
    #[serde(rename = "payload_base64")]
    Base64(String),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Text<'a> {
    Utf8(&'a str),
    Base64 { base64: String },
}

impl<'a> Text<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        std::str::from_utf8(bytes).map_or_else(|_| Self::Base64 { base64: BASE64.encode(bytes) }, Self::Utf8)
    }
}

/// Escapes what JSON allows in a string but some readers of lines take for the end of one: Node's `readline` stops at
/// U+2028 and U+2029, others at U+0085.
struct OneLine;

impl serde_json::ser::Formatter for OneLine {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut written = 0;
        for (at, separator) in fragment.match_indices(['\u{85}', '\u{2028}', '\u{2029}']) {
            writer.write_all(&fragment.as_bytes()[written..at])?;
            separator.chars().try_for_each(|c| write!(writer, "\\u{:04x}", u32::from(c)))?;
            written = at + separator.len();
        }
        writer.write_all(&fragment.as_bytes()[written..])
    }
}

/// UTC with three decimals; a time outside the years -9999 to 9999 (another producer's) becomes the nearest inside.
fn rfc_3339(time: Timestamp) -> String {
    let nearest = if time.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
    format!("{:.3}", jiff::Timestamp::from_millisecond(time.0).unwrap_or(nearest))
}

/// What a child said about a job.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is done; the result is JSON text, exactly as written.
    Done { result: Option<Bytes> },
    /// Try again, not before `after` if given.
    Retry { reason: String, after: Option<Duration> },
    /// It cannot be done.
    Reject { reason: String },
}

/// Reads an answer, without its newline.
pub(super) fn read_answer(line: &[u8], job: &JobId) -> Result<Answer, ProtocolError> {
    let wrong = |rule: &str| ProtocolError::new(line, rule);
    let text = std::str::from_utf8(line).map_err(|_| wrong("an answer is UTF-8"))?;
    // serde would also take an array, field by field.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(wrong(r#"an answer is one JSON object, such as {"outcome":"done"}"#));
    }
    let wire: WireAnswer = serde_json::from_str(text).map_err(|e| wrong(&format!("not an answer: {e}")))?;
    if wire.id.is_some_and(|id| id != job.as_str()) {
        return Err(wrong(&format!("the job is {job}: an answer's id, if given, is its job's")));
    }
    match (wire.outcome, wire.result, wire.reason, wire.after_ms) {
        (WireOutcome::Done, Some(result), ..) if matches!(redacted(result.get()), Cow::Owned(_)) => {
            Err(wrong("a result never holds the fence"))
        }
        (WireOutcome::Done, result, None, None) => {
            Ok(Answer::Done { result: result.map(|json| Bytes::copy_from_slice(json.get().as_bytes())) })
        }
        (WireOutcome::Retry, None, Some(reason), after) => {
            Ok(Answer::Retry { reason, after: after.map(Duration::from_millis) })
        }
        (WireOutcome::Reject, None, Some(reason), None) => Ok(Answer::Reject { reason }),
        (WireOutcome::Done, ..) => Err(wrong("with 'done' only 'result' and 'id' may stand")),
        (WireOutcome::Retry, ..) => Err(wrong("with 'retry' stand 'reason', and if wanted 'after_ms' and 'id'")),
        (WireOutcome::Reject, ..) => Err(wrong("with 'reject' stand 'reason', and if wanted 'id'")),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireAnswer<'a> {
    outcome: WireOutcome,
    id: Option<String>,
    #[serde(borrow, default, deserialize_with = "given")]
    result: Option<&'a RawValue>,
    reason: Option<String>,
    after_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum WireOutcome {
    Done,
    Retry,
    Reject,
}

/// `"result":null` is a result: the JSON value null.
fn given<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Finds the end of the first line of what was heard so far; bytes before `seen` are known to hold none.
pub(super) fn line_end(heard: &[u8], seen: usize, cap: usize) -> Result<Option<usize>, ProtocolError> {
    let end = heard[seen..].iter().position(|&byte| byte == b'\n').map(|at| seen + at);
    if end.unwrap_or(heard.len()) > cap {
        return Err(ProtocolError::new(heard, &format!("an answer has at most {cap} bytes")));
    }
    match end {
        Some(end) if end + 1 < heard.len() => {
            Err(ProtocolError::new(&heard[end + 1..], "after an answer nothing is written until the next job"))
        }
        end => Ok(end),
    }
}

/// A child wrote what the protocol does not allow: what was seen, and the rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProtocolError {
    seen: String,
    rule: String,
}

impl ProtocolError {
    pub(super) fn new(seen: &[u8], rule: &str) -> Self {
        Self { seen: printable(seen), rule: printable(rule.as_bytes()) }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handler wrote `{}`: {}", self.seen, self.rule)
    }
}

/// As an error repeats it: at most 200 bytes, and a mark where more was cut; control and hidden characters are escaped.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for c in String::from_utf8_lossy(&bytes[..bytes.len().min(SEEN_LIMIT)]).chars() {
        let hidden = c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        let width = if hidden { c.escape_default().count() } else { c.len_utf8() };
        if text.len() + width > SEEN_LIMIT {
            return text + "…";
        }
        if hidden { text.extend(c.escape_default()) } else { text.push(c) }
    }
    if bytes.len() > SEEN_LIMIT { text + "…" } else { text }
}

#[cfg(test)]
mod tests;
