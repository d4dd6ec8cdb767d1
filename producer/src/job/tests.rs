use super::*;
use proptest::prelude::*;

fn key(bytes: &[u8]) -> JobKey {
    JobKey::try_from(bytes).unwrap()
}

#[test]
fn a_key_has_1_to_1024_bytes() {
    JobKey::try_from("").unwrap_err();
    assert_eq!(key(&[b'k'; MAX_KEY_BYTES]).as_bytes().len(), MAX_KEY_BYTES);
    let error = JobKey::try_from(&[b'k'; MAX_KEY_BYTES + 1][..]).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)));
    assert_eq!(error.to_string(), "key has 1025 bytes: keys have 1 to 1024 bytes");
}

#[test]
fn a_readable_key_is_shown_as_it_is() {
    for text in ["order-1", "a b", "Straße", "注文/1", "HEX:00", "hex", "-", "\u{1f6a2}"] {
        assert_eq!(key(text.as_bytes()).to_string(), text);
    }
}

#[test]
fn a_key_that_would_deceive_the_eye_is_shown_as_hex() {
    let hostile = [
        "hex:00",
        "a\nb",
        "\u{1b}[2J",
        "a\u{7f}",
        "a\u{85}",
        "a\u{202e}b",
        "a\u{2066}b",
        "a\u{200b}",
        "\u{feff}a",
        "a\u{ad}b",
        "a\u{61c}b",
        "a\u{a0}b",
        " a",
        "a ",
        " ",
        "a\tb",
        "a\u{3000}b",
        "a\u{fe0f}",
        "a\u{e0041}",
        "a\u{3164}",
    ];
    for text in hostile {
        let shown = key(text.as_bytes()).to_string();
        assert!(shown.starts_with("hex:"), "{text:?} is shown as {shown}");
        assert!(shown.is_ascii(), "{shown}");
    }
    assert_eq!(key(b"\xff\0").to_string(), "hex:ff00");
    assert_eq!(key(b"hex:00").to_string(), "hex:6865783a3030");
}

#[test]
fn hex_that_is_not_pairs_of_digits_is_refused() {
    for text in ["hex:", "hex:0", "hex:+f", "hex:-1", "hex:0x", "hex:0g", "hex: 0", "hex:\u{e9}", "hex:ff f"] {
        let error = text.parse::<JobKey>().unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{text}: {error:?}");
    }
    assert_eq!("hex:FfFf".parse::<JobKey>().unwrap(), key(b"\xff\xff"));
}

proptest! {
    #[test]
    fn a_key_s_text_reads_back_as_the_same_key(bytes in prop::collection::vec(any::<u8>(), 1..40)) {
        let key = key(&bytes);
        prop_assert_eq!(key.to_string().parse::<JobKey>().unwrap(), key);
    }

    #[test]
    fn a_key_of_text_reads_back_as_the_same_key(text in "(hex:)?[\\PC\\u{200b}\\u{202e} a0]{1,20}") {
        let key = key(text.as_bytes());
        prop_assert_eq!(key.to_string().parse::<JobKey>().unwrap(), key);
    }

    #[test]
    fn no_shown_key_has_a_control_character(text in "\\PC{0,5}[\\x00-\\x1f\\u{80}-\\u{9f}]\\PC{0,5}") {
        prop_assert!(!key(text.as_bytes()).to_string().contains(char::is_control));
    }
}

#[test]
fn an_id_is_1_to_64_plain_characters() {
    for text in ["a", "01J0-x_y:z", &"i".repeat(64)] {
        assert_eq!(text.parse::<JobId>().unwrap().as_str(), text);
    }
    for text in ["", " ", "a b", "a/b", "é", "a\n", &"i".repeat(65)] {
        assert!(matches!(text.parse::<JobId>(), Err(Error::Invalid(_))), "{text:?}");
    }
}

#[test]
fn made_ids_are_ids() {
    let place = JobId::of_place(crate::Partition(u32::MAX), crate::Offset(u64::MAX));
    assert_eq!(place.as_str().parse::<JobId>().unwrap(), place);
    let fresh = JobId::fresh();
    assert_eq!(fresh.as_str().parse::<JobId>().unwrap(), fresh);
    assert_ne!(fresh, JobId::fresh());
}

#[test]
fn a_payload_may_be_missing_empty_or_900_kib() {
    for payload in [None, Some(Bytes::new()), Some(Bytes::from(vec![0; MAX_PAYLOAD_BYTES]))] {
        assert_eq!(Job::new(key(b"k"), payload.clone()).unwrap().payload, payload);
    }
    let error = Job::new(key(b"k"), Some(Bytes::from(vec![0; MAX_PAYLOAD_BYTES + 1]))).unwrap_err();
    assert_eq!(error.to_string(), "payload has 921601 bytes: the limit is 921600");
}

#[test]
fn headers_of_ours_cannot_be_forged() {
    let mut headers = Headers::default();
    for name in ["keylane-id", "keylane-", "KeyLane-Attempt", "keylane-\u{1b}[2J"] {
        let error = headers.push(name, None).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{name:?}");
        assert!(!error.to_string().contains(char::is_control), "{error}");
    }
    headers.push("keylane", None).unwrap();
    headers.push("x-keylane-id", None).unwrap();
    assert_eq!(headers.len(), 2);
}

#[test]
fn headers_stop_at_their_limits() {
    let mut headers = Headers::default();
    headers.push("", None).unwrap_err();
    headers.push("n", Some(Bytes::from(vec![0; MAX_HEADER_BYTES]))).unwrap_err();
    assert!(headers.is_empty(), "a refused header leaves nothing");
    headers.push("n", Some(Bytes::from(vec![0; MAX_HEADER_BYTES - 1]))).unwrap();
    assert_eq!(headers.size(), MAX_HEADER_BYTES);
    headers.push("m", None).unwrap_err();

    let mut many = Headers::default();
    (0..MAX_HEADERS).for_each(|_| many.push("n", None).unwrap());
    assert!(many.push("n", None).unwrap_err().to_string().contains("1000"));
}

/// Rule 3 of the module: with Kafka's framing (up to 6 bytes a header) and ours, below its default limit.
#[test]
fn the_largest_job_fits_a_kafka_message() {
    let framing = 6 * MAX_HEADERS + 200;
    let ours = 2 * "keylane-attempt".len() + 64 + 10;
    assert!(MAX_KEY_BYTES + MAX_PAYLOAD_BYTES + MAX_HEADER_BYTES + framing + ours < 1_000_000);
}

#[test]
fn the_last_header_of_a_name_counts() {
    let mut headers = Headers::default();
    headers.push("a", Some(Bytes::from_static(b"1"))).unwrap();
    headers.push("a", None).unwrap();
    assert_eq!(headers.last(b"a"), Some(None));
    assert_eq!(headers.last(b"b"), None);
}
