//! The wire format, held for ever: a change here makes records of running queues unreadable.

use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Key, value and headers as hex; `null` is null.
fn golden(record: &Record) -> (String, String, Vec<(String, String)>, i64) {
    let option = |bytes: Option<&Bytes>| bytes.map_or_else(|| "null".to_owned(), |b| hex(b));
    let headers = record.headers.iter().map(|(name, value)| (hex(name), option(value.as_ref()))).collect();
    (option(record.key.as_ref()), option(record.value.as_ref()), headers, record.timestamp.0)
}

fn pairs(texts: &[(&str, &str)]) -> Vec<(String, String)> {
    texts.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn job() -> Job {
    Job {
        id: "01JEXAMPLE0000000000000000".parse().unwrap(),
        key: JobKey::try_from("order-1").unwrap(),
        payload: Some(Bytes::from_static(b"{\"n\":1}")),
        headers: Headers::default(),
        enqueued_at: Timestamp(1_700_000_000_123),
        attempt: Attempt::FIRST,
    }
}

#[test]
fn a_job_is_this_record_for_ever() {
    let expected = (
        "6f726465722d31".to_owned(),
        "7b226e223a317d".to_owned(),
        // keylane-id
        pairs(&[("6b65796c616e652d6964", "30314a4558414d504c4530303030303030303030303030303030")]),
        1_700_000_000_123,
    );
    assert_eq!(golden(&Record::from(job())), expected);
    assert_eq!(Record::from(job()).into_job(Partition(0), Offset(0)).unwrap(), job());
}

#[test]
fn a_job_with_everything_is_this_record_for_ever() {
    let mut headers = Headers::default();
    headers.push("trace", Some(Bytes::from_static(b"\x00\xff"))).unwrap();
    headers.push(&b"\xff"[..], None).unwrap();
    headers.push("trace", Some(Bytes::new())).unwrap();
    let job = Job {
        key: JobKey::try_from(&b"\x00"[..]).unwrap(),
        payload: None,
        headers,
        attempt: Attempt(4_294_967_295),
        ..job()
    };
    let expected = (
        "00".to_owned(),
        "null".to_owned(),
        pairs(&[
            ("6b65796c616e652d6964", "30314a4558414d504c4530303030303030303030303030303030"),
            // keylane-attempt
            ("6b65796c616e652d617474656d7074", "34323934393637323935"),
            ("7472616365", "00ff"),
            ("ff", "null"),
            ("7472616365", ""),
        ]),
        1_700_000_000_123,
    );
    assert_eq!(golden(&Record::from(job.clone())), expected);
    assert_eq!(Record::from(job.clone()).into_job(Partition(0), Offset(0)).unwrap(), job);
}

#[test]
fn another_producer_s_record_is_named_by_its_place() {
    let record = Record { headers: vec![], ..Record::from(job()) };
    let job = record.into_job(Partition(3), Offset(41)).unwrap();
    assert_eq!(job.id.as_str(), "p3-o41");
    assert_eq!(job.attempt, Attempt::FIRST);
}

#[test]
fn a_record_that_cannot_be_a_job_says_why() {
    let plain = || Record::from(job());
    let with = |name: &'static str, value: Option<&'static str>| {
        let mut record = plain();
        record.headers.push((Bytes::from(name), value.map(Bytes::from)));
        record
    };
    let cases = [
        (Record { key: None, ..plain() }, "has no key"),
        (Record { key: Some(Bytes::new()), ..plain() }, "unusable key"),
        (Record { key: Some(vec![0; 1_025].into()), ..plain() }, "unusable key"),
        (with("keylane-id", None), "keylane-id"),
        (with("keylane-id", Some("")), "keylane-id"),
        (with("keylane-id", Some("another")), "keylane-id"),
        (with("keylane-attempt", None), "keylane-attempt"),
        (with("keylane-attempt", Some("0")), "keylane-attempt"),
        (with("keylane-attempt", Some("+2")), "keylane-attempt"),
        (with("keylane-attempt", Some("02")), "keylane-attempt"),
        (with("keylane-attempt", Some("4294967296")), "keylane-attempt"),
    ];
    for (record, reason) in cases {
        let error = record.into_job(Partition(2), Offset(7)).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        assert!(error.to_string().starts_with("record at partition 2, offset 7 "), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn a_later_version_s_header_is_not_the_user_s() {
    let mut record = Record::from(job());
    record.headers.push((Bytes::from("keylane-later"), Some(Bytes::from("x"))));
    assert_eq!(record.into_job(Partition(0), Offset(0)).unwrap(), job());
}
