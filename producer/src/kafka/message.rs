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

/// Reads a message that was fetched.
///
/// # Safety
/// `message` points to a message without an error, and the message or the event that owns it lives during the call.
#[expect(unsafe_code, reason = "rust-rdkafka gives no way to a header whose name is not UTF-8")]
pub unsafe fn read(message: *const RDKafkaMessage) -> StoredRecord {
    // SAFETY: by the caller's word it is a message that lives; its key and payload are its own, and copied here.
    unsafe {
        let fields = &*message;
        let key = copy(fields.key.cast(), fields.key_len);
        let value = copy(fields.payload.cast(), fields.len);
        let mut kind = native::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        let timestamp = native::rd_kafka_message_timestamp(message, &raw mut kind);
        let record = Record { key, value, headers: read_headers(message), timestamp: Timestamp(timestamp.max(0)) };
        StoredRecord { offset: Offset(fields.offset.unsigned_abs()), record }
    }
}

/// # Safety
/// As [`read`].
#[expect(unsafe_code, reason = "as `read`")]
unsafe fn read_headers(message: *const RDKafkaMessage) -> Vec<Header> {
    // SAFETY: the list belongs to the message, which lives; each name is a C string in it, and each value as long as
    // the call says.
    unsafe {
        let mut list = ptr::null_mut();
        if native::rd_kafka_message_headers(message, &raw mut list) != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Vec::new();
        }
        let mut headers = Vec::with_capacity(native::rd_kafka_header_cnt(list));
        for index in 0.. {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            let answer = native::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut length);
            if answer != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                break;
            }
            let name = Bytes::copy_from_slice(CStr::from_ptr(name).to_bytes());
            headers.push((name, copy(value.cast(), length)));
        }
        headers
    }
}

/// # Safety
/// `start` is null or points to that many bytes.
#[expect(unsafe_code, reason = "as `read`")]
unsafe fn copy(start: *const u8, length: usize) -> Option<Bytes> {
    // SAFETY: by the caller's word.
    (!start.is_null()).then(|| Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(start, length) }))
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
