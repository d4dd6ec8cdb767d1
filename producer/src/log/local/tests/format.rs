//! The bytes of a row, held for ever, and any job through all of it.

use std::cell::RefCell;

use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestRunner};

use super::{super::headers, *};
use crate::job::{Attempt, Headers, Job, JobKey, Timestamp};

#[test]
fn a_record_is_this_row_for_ever() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 2, seven_days());
    let bytes = |b: &'static [u8]| Bytes::from_static(b);
    let full = Record {
        key: Some(bytes(b"\0k")),
        value: Some(bytes(b"{}")),
        headers: vec![
            (bytes(b"keylane-id"), Some(bytes(b"J1"))),
            (bytes(b"\xff"), None),
            (bytes(b"e"), Some(Bytes::new())),
        ],
        timestamp: Timestamp(1_700_000_000_123),
    };
    let bare = Record { key: None, value: None, headers: Vec::new(), timestamp: Timestamp(-1) };
    let empty = Record { value: Some(Bytes::new()), ..bare.clone() };
    log.append(&queue, [full, bare, empty].map(|r| (Partition(1), r)).to_vec(), None).unwrap();

    let sqlite = files.sqlite();
    let mut ask =
        sqlite.prepare("SELECT offset, at, quote(key), quote(value), quote(headers) FROM keylane_q1_p1").unwrap();
    let rows: Vec<(i64, i64, String, String, String)> = ask
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let row = |offset, at, texts: [&str; 3]| {
        let [key, value, headers] = texts.map(str::to_owned);
        (offset, at, key, value, headers)
    };
    let headers = "X'0000000A6B65796C616E652D6964000000024A3100000001FFFFFFFFFF000000016500000000'";
    let expected = [
        row(0, 1_700_000_000_123, ["X'006B'", "X'7B7D'", headers]),
        row(1, -1, ["NULL", "NULL", "NULL"]),
        row(2, -1, ["NULL", "X''", "NULL"]),
    ];
    assert_eq!(rows, expected);
    let counted: (i64, i64) = sqlite
        .query_row("SELECT next_offset, bytes FROM keylane_partition WHERE queue_id = 1 AND part = 1", [], |r| {
            Ok((r.get(0)?, r.get(1)?))
        })
        .unwrap();
    assert_eq!(counted, (3, 4));
}

#[test]
fn the_file_says_what_it_is() {
    let files = Files::new();
    files.log();
    let sqlite = files.sqlite();
    let pragma = |name: &str| sqlite.query_row(&format!("PRAGMA {name}"), [], |r| r.get::<_, i64>(0)).unwrap();
    assert_eq!(pragma("application_id"), i64::from(i32::from_be_bytes(*b"KLQ1")));
    assert_eq!(pragma("user_version"), 1);
    assert_eq!(pragma("page_size"), 4_096);
}

#[test]
fn headers_that_are_cut_short_are_not_read() {
    let pairs = [(Bytes::from("name"), Some(Bytes::from("value"))), (Bytes::from("n"), None)];
    let mut blob = Vec::new();
    headers::encode(&pairs, &mut blob);
    assert_eq!(headers::decode(&blob).unwrap(), pairs);
    let whole_headers = [0, 4 + 4 + 4 + 5, blob.len()];
    for length in 0..=blob.len() {
        assert_eq!(headers::decode(&blob[..length]).is_some(), whole_headers.contains(&length), "{length} bytes");
    }
    assert_eq!(headers::decode(&[0xff; 8]), None, "a name is never null");
}

#[test]
fn a_row_that_something_else_changed_is_corrupt() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 1, seven_days());
    fill(&mut log, &queue, 1);
    files.sqlite().execute("UPDATE keylane_q1_p0 SET headers = X'00'", []).unwrap();
    let error = log.read_at(&queue, Partition(0), &[Offset(0)]).unwrap_err();
    assert!(matches!(error, crate::Error::Corrupt(_)), "{error:?}");
}

fn any_job() -> impl Strategy<Value = Job> {
    let bytes = |size: std::ops::Range<usize>| prop::collection::vec(any::<u8>(), size).prop_map(Bytes::from);
    let name = bytes(1..20).prop_filter("reserved", |n| !n.to_ascii_lowercase().starts_with(b"keylane-"));
    let headers = prop::collection::vec((name, prop::option::of(bytes(0..30))), 0..6);
    let payload = prop::option::of(bytes(0..300));
    let attempt = prop_oneof![1..4u32, Just(u32::MAX)];
    (bytes(1..40), payload, headers, "[A-Za-z0-9:_-]{1,64}", any::<i64>(), attempt).prop_map(
        |(key, payload, pairs, id, at, attempt)| {
            let mut headers = Headers::default();
            pairs.into_iter().for_each(|(name, value)| headers.push(name, value).unwrap());
            Job {
                id: id.parse().unwrap(),
                key: JobKey::try_from(key).unwrap(),
                payload,
                headers,
                enqueued_at: Timestamp(at),
                attempt: Attempt(attempt),
            }
        },
    )
}

#[test]
fn any_job_that_was_stored_and_read_is_the_same_job() {
    let files = Files::new();
    let mut log = files.log();
    let queue = queue(&mut log, 1, seven_days());
    let log = RefCell::new(log);
    TestRunner::default()
        .run(&prop::collection::vec(any_job(), 1..4), |jobs| {
            let mut log = log.borrow_mut();
            let records = jobs.iter().map(|job| (Partition(0), Record::from(job.clone()))).collect();
            let receipts = log.append(&queue, records, None).unwrap();
            for (job, receipt) in jobs.iter().zip(receipts) {
                let found = log.read_at(&queue, Partition(0), &[receipt.offset]).unwrap().remove(0);
                prop_assert_eq!(&found.record.into_job(Partition(0), found.offset).unwrap(), job);
            }
            Ok(())
        })
        .unwrap();
}
