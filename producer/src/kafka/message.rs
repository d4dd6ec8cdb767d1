//! A message as librdkafka holds it, to a record of ours and back, byte for byte.
//!
//! Header names are read past rust-rdkafka, which ends the process at a name that is not UTF-8 (0.39,
//! `BorrowedHeaders::try_get`), and can only be given names that are.

use std::{ffi::CStr, ptr};

use bytes::Bytes;
use rdkafka::{
    bindings as native,
    message::{BorrowedHeaders, OwnedHeaders},
    types::{RDKafkaMessage, RDKafkaRespErr},
};

use crate::{
    job::Timestamp,
    partition::Offset,
    record::{Record, StoredRecord},
};

type Header = (Bytes, Option<Bytes>);

/// What is larger than this besides its key has the key in a piece of its own.
const LARGE: usize = 1 << 10;

/// Reads a message that was fetched.
///
/// # Safety
/// `message` points to a message without an error, and the message or the event that owns it lives during the call.
#[expect(unsafe_code, reason = "rust-rdkafka gives no way to a header whose name is not UTF-8")]
pub unsafe fn read(message: *const RDKafkaMessage) -> StoredRecord {
    // SAFETY: by the caller's word it is a message that lives; its key and payload are its own, and copied here.
    unsafe {
        let fields = &*message;
        let (key, value) = (slice(fields.key.cast(), fields.key_len), slice(fields.payload.cast(), fields.len));
        let mut kind = native::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        let timestamp = native::rd_kafka_message_timestamp(message, &raw mut kind);
        let (list, count) = headers_of(message);
        let rest = lengths(value) + headers(list).map(|(name, value)| name.len() + lengths(value)).sum::<usize>();
        // In one piece: to find room for each part costs more than to copy it. But a key outlives its record in a worker's
        // tables, and would keep the whole piece alive.
        let apart = rest > LARGE;
        let mut whole = Vec::with_capacity(rest + if apart { 0 } else { lengths(key) });
        let key_apart = key.filter(|_| apart).map(Bytes::copy_from_slice);
        [key.filter(|_| !apart), value].into_iter().flatten().for_each(|part| whole.extend_from_slice(part));
        for (name, value) in headers(list) {
            whole.extend_from_slice(name);
            whole.extend_from_slice(value.unwrap_or_default());
        }
        let mut whole = Bytes::from(whole);
        let mut part = |length: usize| whole.split_to(length);
        let key = key_apart.or_else(|| key.map(|key| part(key.len())));
        let value = value.map(|value| part(value.len()));
        let mut copied = Vec::with_capacity(count);
        copied.extend(headers(list).map(|(name, value)| (part(name.len()), value.map(|value| part(value.len())))));
        let record = Record { key, value, headers: copied, timestamp: Timestamp(timestamp.max(0)) };
        StoredRecord { offset: Offset(fields.offset.unsigned_abs()), record }
    }
}

/// The message's list of headers, null if it has none, and how many it has.
///
/// # Safety
/// As [`read`].
#[expect(unsafe_code, reason = "as `read`")]
unsafe fn headers_of(message: *const RDKafkaMessage) -> (*mut native::rd_kafka_headers_t, usize) {
    let mut list = ptr::null_mut();
    // SAFETY: by the caller's word; the list belongs to the message.
    unsafe {
        match native::rd_kafka_message_headers(message, &raw mut list) {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => (list, native::rd_kafka_header_cnt(list)),
            _ => (ptr::null_mut(), 0),
        }
    }
}

/// Names and values in order.
///
/// # Safety
/// `list` is null or a list of headers that lives, and does not change, as long as what is returned.
#[expect(unsafe_code, reason = "as `read`")]
unsafe fn headers<'l>(list: *mut native::rd_kafka_headers_t) -> impl Iterator<Item = (&'l [u8], Option<&'l [u8]>)> {
    let header = move |index| {
        let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
        // SAFETY: by the caller's word; each name is a C string in the list, and each value as long as the call says.
        unsafe {
            let answer = native::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut length);
            (answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR)
                .then(|| (CStr::from_ptr(name).to_bytes(), slice(value.cast(), length)))
        }
    };
    (0..).take_while(move |_| !list.is_null()).map_while(header)
}

/// # Safety
/// `start` is null or points to that many bytes, which live and do not change as long as what is returned.
#[expect(unsafe_code, reason = "as `read`")]
unsafe fn slice<'l>(start: *const u8, length: usize) -> Option<&'l [u8]> {
    // SAFETY: by the caller's word.
    (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start, length) })
}

fn lengths(part: Option<&[u8]>) -> usize {
    part.map_or(0, <[u8]>::len)
}

/// Headers to send with a record; `None` if it has none.
#[expect(unsafe_code, reason = "rust-rdkafka takes no header whose name is not UTF-8")]
pub fn write_headers(headers: &[Header]) -> Option<OwnedHeaders> {
    if headers.is_empty() {
        return None;
    }
    let list = OwnedHeaders::new_with_capacity(headers.len());
    let target: *const BorrowedHeaders = list.as_borrowed();
    for (name, value) in headers {
        let (start, length) = value.as_ref().map_or((ptr::null(), 0), |v| (v.as_ptr(), v.len()));
        // SAFETY: `target` is librdkafka's list, which `list` owns and nobody else sees yet; name and value are copied.
        // Lengths fit: records are far below 2 GiB.
        unsafe {
            native::rd_kafka_header_add(
                target.cast_mut().cast(),
                name.as_ptr().cast(),
                name.len().cast_signed(),
                start.cast(),
                length.cast_signed(),
            );
        }
    }
    Some(list)
}
