//! What an answer by HTTP means for the job. Pure.

use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use keylane_consumer::{
    FencedStore,
    fence::redacted,
    handler::{
        Outcome, Retry,
        child::{outcome_of, printable},
    },
};
use keylane_producer::JobId;

/// Status, and what else counts of it.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) is_json: bool,
    pub(super) retry_after: Option<String>,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn outcome<S: FencedStore>(self, job: &JobId, now: Timestamp) -> Outcome<S> {
        match self.status {
            200 | 201 | 204 if self.is_json && !self.body.is_empty() => outcome_of(&self.body, job),
            200 | 201 | 204 => Outcome::done(),
            202 => self.again("accepting a job is not finishing it: answer when it is done", now),
            200..300 => self.again("of this kind only 200, 201 and 204 say that a job is done", now),
            300..400 => self.again("no redirect is followed", now),
            401 | 403 | 407 | 410 => {
                self.again("the handler refuses whoever asks: look at its settings, and at --url", now)
            }
            404 | 408 | 409 | 421 | 423 | 425 | 429 | 500.. => self.again("it is tried again", now),
            400..500 => Outcome::reject(self.told("it cannot be done")),
            _ => self.again("that is no status of an answer", now),
        }
    }

    fn again<S: FencedStore>(self, rule: &str, now: Timestamp) -> Outcome<S> {
        let after = self.retry_after.as_deref().and_then(|text| wait(text, now));
        Outcome::Retry(Retry { reason: self.told(rule), after })
    }

    /// For people, with the beginning of the body and without any fence in it.
    fn told(&self, rule: &str) -> String {
        let mut text = format!("the handler answered {}: {rule}", self.status);
        // Cut after it is hidden: half a fence is one too.
        let body = redacted(&String::from_utf8_lossy(&self.body)).trim().to_owned();
        if !body.is_empty() {
            text.push_str(&format!("; it said `{}`", printable(body.as_bytes())));
        }
        text
    }
}

/// In seconds, or a date.
fn wait(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use keylane_consumer::{handler::Done, store::sqlite::SqliteStore};

    use super::*;

    fn outcome(status: u16, is_json: bool, retry_after: Option<&str>, body: &str) -> Outcome<SqliteStore> {
        let retry_after = retry_after.map(str::to_owned);
        let answer = Answer { status, is_json, retry_after, body: Bytes::copy_from_slice(body.as_bytes()) };
        answer.outcome(&"01JD0000000000000000000000".parse().unwrap(), "2026-12-03T06:00:00Z".parse().unwrap())
    }

    fn letter(outcome: &Outcome<SqliteStore>) -> char {
        match outcome {
            Outcome::Done(_) => 'd',
            Outcome::Retry(_) => 'a',
            Outcome::Reject(_) => 'r',
        }
    }

    #[test]
    fn a_status_says_whether_a_job_is_done_is_tried_again_or_cannot_be_done() {
        let of = |status| letter(&outcome(status, false, None, ""));
        assert!([200, 201, 204].into_iter().all(|status| of(status) == 'd'));
        let again = [
            202, 203, 206, 301, 302, 307, 401, 403, 404, 408, 409, 410, 421, 423, 425, 429, 500, 502, 503, 504, 599,
            999, 100,
        ];
        for status in again {
            assert_eq!(of(status), 'a', "{status}");
        }
        for status in [400, 402, 405, 406, 411, 413, 414, 415, 416, 417, 422, 426, 431, 451] {
            assert_eq!(of(status), 'r', "{status}");
        }
    }

    #[test]
    fn a_json_body_of_success_is_an_answer_of_the_protocol() {
        let result = outcome(200, true, None, r#"{"outcome":"done","result":{"a":1.0}}"#);
        assert!(matches!(&result, Outcome::Done(Done::Result(json)) if &json[..] == br#"{"a":1.0}"#));
        let retry = outcome(200, true, None, "{\"outcome\":\"retry\",\"reason\":\"soon\",\"after_ms\":7}\n");
        assert!(matches!(&retry, Outcome::Retry(retry) if retry.after == Some(Duration::from_millis(7))));
        assert_eq!(letter(&outcome(201, true, None, r#"{"outcome":"reject","reason":"no"}"#)), 'r');
        assert_eq!(letter(&outcome(200, true, None, r#"{"ok":true}"#)), 'a', "not an answer of it");
        assert_eq!(letter(&outcome(200, true, None, r#"{"outcome":"done","id":"another"}"#)), 'a');
        assert_eq!(letter(&outcome(200, false, None, "thanks")), 'd', "no JSON, no answer: the status says it");
    }

    #[test]
    fn a_wait_is_told_in_seconds_or_by_a_date() {
        let after = |text| match outcome(503, false, Some(text), "") {
            Outcome::Retry(retry) => retry.after,
            _ => unreachable!("503 is tried again"),
        };
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(after("Thu, 03 Dec 2026 06:00:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(after("Thu, 03 Dec 2026 05:00:00 GMT"), Some(Duration::ZERO), "it is past");
        assert_eq!((after("soon"), after("-1"), after("1.5")), (None, None, None));
    }

    #[test]
    fn what_it_said_is_cut_and_holds_no_fence() {
        let fence = format!("keylane-fence-v1:{}", "A".repeat(64));
        let body = format!("{}{fence}", "x".repeat(150));
        for outcome in [outcome(500, false, None, &body), outcome(422, false, None, &body)] {
            let (Outcome::Retry(Retry { reason, .. }) | Outcome::Reject(reason)) = outcome else {
                unreachable!("neither is done")
            };
            assert!(reason.contains("[fence]") && !reason.contains("AAAA"), "{reason}");
        }
        let long = outcome(422, false, None, &"x".repeat(10_000));
        assert!(matches!(long, Outcome::Reject(reason) if reason.len() < 400));
        let stored = outcome(200, true, None, &format!(r#"{{"outcome":"done","result":"{fence}"}}"#));
        assert_eq!(letter(&stored), 'a', "a result never holds it");
    }
}
