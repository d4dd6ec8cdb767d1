use keylane_producer::{Attempt, Headers, Job, JobKey, Offset, Partition};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fence::{FenceToken, Generation, MemberId, Owner, Pass};

fn context(key: &[u8], payload: Option<&[u8]>, headers: &[(&[u8], Option<&[u8]>)]) -> JobContext {
    let mut all = Headers::default();
    for &(name, value) in headers {
        all.push(Bytes::copy_from_slice(name), value.map(Bytes::copy_from_slice)).unwrap();
    }
    JobContext {
        job: std::sync::Arc::new(Job {
            id: "j-1".parse().unwrap(),
            key: JobKey::try_from(key).unwrap(),
            payload: payload.map(Bytes::copy_from_slice),
            headers: all,
            enqueued_at: Timestamp(1_700_000_000_120),
            attempt: Attempt::FIRST,
        }),
        partition: Partition(3),
        offset: Offset(9_007_199_254_740_993),
        attempt: Attempt(2),
        pass: None,
        cancel: CancellationToken::new(),
    }
}

fn line_of(context: &JobContext) -> String {
    String::from_utf8(job_line(context, Duration::from_secs(30))).unwrap()
}

fn answer(line: &str) -> Result<Answer, String> {
    read_answer(line.as_bytes(), &"j-1".parse().unwrap()).map_err(|e| e.to_string())
}

fn result(json: &str) -> Answer {
    Answer::Done { result: Some(Bytes::copy_from_slice(json.as_bytes())) }
}

#[test]
fn a_job_line_has_exactly_these_fields() {
    let text = context(b"order-1", Some(br#"{"n":9007199254740993}"#), &[(b"trace", Some(b"t")), (b"null", None)]);
    assert_eq!(
        line_of(&text),
        concat!(
            r#"{"id":"j-1","key":"order-1","payload":"{\"n\":9007199254740993}","#,
            r#""headers":[["trace","t"],["null",null]],"partition":3,"offset":9007199254740993,"attempt":2,"#,
            r#""enqueued_at":"2023-11-14T22:13:20.120Z","time_limit_ms":30000}"#,
            "\n"
        )
    );
    let bytes = context(b"\xff\x00", Some(b"\xfe"), &[(b"\x80", Some(b"\x81"))]);
    assert_eq!(
        line_of(&bytes),
        concat!(
            r#"{"id":"j-1","key_base64":"/wA=","payload_base64":"/g==","#,
            r#""headers":[[{"base64":"gA=="},{"base64":"gQ=="}]],"partition":3,"offset":9007199254740993,"attempt":2,"#,
            r#""enqueued_at":"2023-11-14T22:13:20.120Z","time_limit_ms":30000}"#,
            "\n"
        )
    );
}

#[test]
fn the_fence_is_the_last_field_of_the_line_for_who_asked_and_in_no_other() {
    let owner = Owner::fresh(&MemberId::new("m").unwrap());
    let token = FenceToken::minted(1, Generation::new(5).unwrap(), 9);
    let pass = Pass::minted(7, Partition(3), token, &owner);
    let mut context = context(b"k", None, &[]);
    assert_eq!(fenced_job_line(&context, Duration::from_secs(30)), line_of(&context).as_bytes(), "no store gave one");
    context.pass = Some(pass.clone());
    assert!(!line_of(&context).contains("fence"));
    let line = String::from_utf8(fenced_job_line(&context, Duration::from_secs(30))).unwrap();
    let text = pass.of_job(context.offset);
    assert!(
        line.ends_with(&format!("\"time_limit_ms\":30000,\"sensitive_fence\":\"{}\"}}\n", text.reveal())),
        "{line}"
    );
    assert!(!format!("{context:?}").contains(text.reveal()));
}

#[test]
fn an_answer_holds_no_fence() {
    let pass = "keylane-fence-v1:".to_owned() + &"Ab-_".repeat(16);
    let told = answer(&format!(r#"{{"outcome":"done","result":{{"of":"{pass}"}}}}"#)).unwrap_err();
    assert!(told.contains("a result never holds the fence"), "{told}");
}

#[test]
fn no_body_and_an_empty_body_are_two_things() {
    assert!(line_of(&context(b"k", None, &[])).contains(r#""payload":null,"#));
    assert!(line_of(&context(b"k", Some(b""), &[])).contains(r#""payload":"","#));
}

#[test]
fn a_time_that_has_no_date_becomes_the_nearest_that_has() {
    assert_eq!(rfc_3339(Timestamp(-1)), "1969-12-31T23:59:59.999Z");
    assert!(rfc_3339(Timestamp(i64::MAX)).starts_with("9999-12-30T"));
    assert!(rfc_3339(Timestamp(i64::MIN)).starts_with("-009999-01-0"));
}

#[test]
fn no_reader_of_lines_finds_an_end_inside_a_job_line() {
    let context = context(b"k", Some("a\nb\r\u{85}c\u{2028}\u{2029}d\u{b}\u{c}\u{1c}".as_bytes()), &[]);
    let line = line_of(&context);
    let body = line.strip_suffix('\n').unwrap();
    assert!(!body.contains(['\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{85}', '\u{2028}', '\u{2029}']), "{body:?}");
    let back: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(back["payload"], "a\nb\r\u{85}c\u{2028}\u{2029}d\u{b}\u{c}\u{1c}");
}

#[test]
fn a_payload_that_json_readers_change_arrives_unchanged() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    for payload in [deep.as_str(), r#"{"a":1,"a":2}"#, "9007199254740993", r#""\ud800""#, "1e999", "-0.0"] {
        let back: Value = serde_json::from_str(&line_of(&context(b"k", Some(payload.as_bytes()), &[]))).unwrap();
        assert_eq!(back["payload"], payload);
    }
}

#[test]
fn each_form_of_an_answer_is_read() {
    assert_eq!(answer(r#"{"outcome":"done"}"#), Ok(Answer::Done { result: None }));
    assert_eq!(answer("  {\"outcome\" : \"done\",\"id\":\"j-1\"}\r"), Ok(Answer::Done { result: None }));
    let after = Some(Duration::from_secs(1));
    assert_eq!(
        answer(r#"{"outcome":"retry","reason":"busy","after_ms":1000}"#),
        Ok(Answer::Retry { reason: "busy".into(), after })
    );
    assert_eq!(
        answer(r#"{"id":null,"outcome":"retry","reason":"busy","after_ms":null}"#),
        Ok(Answer::Retry { reason: "busy".into(), after: None })
    );
    assert_eq!(answer(r#"{"outcome":"reject","reason":""}"#), Ok(Answer::Reject { reason: String::new() }));
}

#[test]
fn a_result_is_kept_as_its_exact_text() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    for json in ["null", "9007199254740993", "1.10", r#"{"a" : 1,"a":2}"#, r#""\ud800""#, deep.as_str()] {
        assert_eq!(answer(&format!(r#"{{"outcome":"done","result":{json}}}"#)), Ok(result(json)));
    }
}

#[test]
fn what_is_not_an_answer_is_refused_with_the_rule() {
    let deep = "[".repeat(100_000);
    for (line, rule) in [
        ("", "one JSON object"),
        ("done", "one JSON object"),
        (r#"["done"]"#, "one JSON object"),
        (deep.as_str(), "one JSON object"),
        ("{", "not an answer: EOF"),
        ("{}", "missing field `outcome`"),
        (r#"{"outcome":"ok"}"#, "unknown variant `ok`, expected one of `done`, `retry`, `reject`"),
        (r#"{"outcome":"done","extra":1}"#, "unknown field `extra`"),
        (r#"{"outcome":"done","outcome":"done"}"#, "duplicate field `outcome`"),
        (r#"{"outcome":"done"}{"outcome":"done"}"#, "trailing characters"),
        (r#"{"outcome":"done","result":[1,}"#, "not an answer"),
        (r#"{"outcome":"done","id":"j-2"}"#, "the job is j-1"),
        (r#"{"outcome":"done","reason":"x"}"#, "only 'result'"),
        (r#"{"outcome":"retry"}"#, "stand 'reason'"),
        (r#"{"outcome":"retry","reason":"x","result":null}"#, "stand 'reason'"),
        (r#"{"outcome":"retry","reason":"x","after_ms":-1}"#, "not an answer: invalid value"),
        (r#"{"outcome":"reject","reason":"x","after_ms":1}"#, "with 'reject'"),
    ] {
        let error = answer(line).unwrap_err();
        assert!(error.contains(rule), "{error}");
        assert!(error.len() < 600, "{error}");
    }
    assert!(read_answer(b"{\"outcome\":\"\xff\"}", &"j-1".parse().unwrap()).unwrap_err().to_string().contains("UTF-8"));
}

#[test]
fn an_error_shows_what_was_seen_printable_and_cut() {
    assert_eq!(printable(b"a\x1b[31m\xff\n"), "a\\u{1b}[31m\u{fffd}\\n");
    assert_eq!(printable(&[b'x'; 200]), "x".repeat(200));
    assert_eq!(printable(&[b'x'; 201]), "x".repeat(200) + "…");
    assert!(printable(&[0; 1_000]).len() <= SEEN_LIMIT + "…".len());
}

#[test]
fn a_line_longer_than_the_cap_is_refused_with_or_without_its_end() {
    assert_eq!(line_end(b"1234\n", 0, 4), Ok(Some(4)));
    assert_eq!(line_end(b"1234", 0, 4), Ok(None));
    assert!(line_end(b"12345", 0, 4).is_err());
    assert!(line_end(b"12345\n", 0, 4).is_err());
}

#[test]
fn a_second_line_is_out_of_step() {
    let error = line_end(b"one\ntwo", 0, 10).unwrap_err().to_string();
    assert!(error.contains("`two`") && error.contains("until the next job"), "{error}");
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(any::<u8>(), 1..40), any::<String>().prop_map(String::into_bytes)]
        .prop_filter("names and keys are not empty", |bytes| !bytes.is_empty())
}

/// As a handler reads it: text, or base64 in its own field or object.
fn bytes_of(text: &Value, base64: &Value) -> Option<Vec<u8>> {
    match (text.as_str(), base64.as_str()) {
        (Some(text), None) => Some(text.as_bytes().to_vec()),
        (None, Some(code)) => Some(BASE64.decode(code.as_bytes()).unwrap()),
        _ => None,
    }
}

proptest! {
    #[test]
    fn every_byte_of_a_job_arrives(
        key in bytes(),
        payload in proptest::option::of(prop_oneof![Just(Vec::new()), bytes()]),
        headers in proptest::collection::vec((bytes(), proptest::option::of(bytes())), 0..4),
    ) {
        let pairs: Vec<_> = headers.iter().map(|(n, v)| (n.as_slice(), v.as_deref())).collect();
        let line = line_of(&context(&key, payload.as_deref(), &pairs));
        prop_assert_eq!(line.matches('\n').count(), 1);
        let back: Value = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(bytes_of(&back["key"], &back["key_base64"]), Some(key));
        prop_assert_eq!(bytes_of(&back["payload"], &back["payload_base64"]), payload);
        let read: Vec<_> = back["headers"].as_array().unwrap().iter().map(|pair| {
            let [name, value] = [&pair[0], &pair[1]].map(|v| bytes_of(v, &v["base64"]));
            (name.unwrap(), value)
        }).collect();
        prop_assert_eq!(read, headers);
    }

    #[test]
    fn every_answer_is_read_back(reason in any::<String>(), after in proptest::option::of(any::<u32>())) {
        let retry = json!({"outcome": "retry", "reason": reason, "after_ms": after, "id": "j-1"}).to_string();
        let after = after.map(|ms| Duration::from_millis(ms.into()));
        prop_assert_eq!(answer(&retry), Ok(Answer::Retry { reason: reason.clone(), after }));
        let done = json!({"outcome": "done", "result": reason}).to_string();
        prop_assert_eq!(answer(&done), Ok(result(&json!(reason).to_string())));
    }

    #[test]
    fn no_output_can_break_the_reader(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Err(error) = read_answer(&line, &"j-1".parse().unwrap()) {
            prop_assert!(!error.to_string().chars().any(char::is_control));
        }
    }
}
