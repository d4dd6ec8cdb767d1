//! Headers as one blob: for each header the length of its name, the name, the length of its value, the value.
//!
//! Lengths are 32 bits, big endian; `ffffffff` as the length of a value is null. No headers at all are a null column.

use bytes::Bytes;

/// A name, and its value or null.
pub type Pair = (Bytes, Option<Bytes>);

const NULL: u32 = u32::MAX;

/// Appends to `into`, which the caller reuses from record to record.
pub fn encode(headers: &[Pair], into: &mut Vec<u8>) {
    for (name, value) in headers {
        put(name, into);
        match value {
            Some(value) => put(value, into),
            None => into.extend_from_slice(&NULL.to_be_bytes()),
        }
    }
}

fn put(bytes: &[u8], into: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).expect("SQLite refuses a blob of 1 GB, and all of it is in memory");
    into.extend_from_slice(&length.to_be_bytes());
    into.extend_from_slice(bytes);
}

/// `None` if the blob is not of this form.
pub fn decode(blob: &[u8]) -> Option<Vec<Pair>> {
    // One allocation for all names and values of a record.
    let mut rest = Bytes::copy_from_slice(blob);
    let mut headers = Vec::new();
    while !rest.is_empty() {
        let name = take(&mut rest)??;
        headers.push((name, take(&mut rest)?));
    }
    Some(headers)
}

/// `None` if it is cut short; `Some(None)` is null.
fn take(rest: &mut Bytes) -> Option<Option<Bytes>> {
    let length = u32::from_be_bytes(cut(rest, 4)?.as_ref().try_into().ok()?);
    if length == NULL {
        return Some(None);
    }
    cut(rest, usize::try_from(length).ok()?).map(Some)
}

fn cut(rest: &mut Bytes, at: usize) -> Option<Bytes> {
    (at <= rest.len()).then(|| rest.split_to(at))
}
