//! Bytes of jobs, as people and programs are shown them.

use data_encoding::BASE64;
use keylane_producer::Record;
use serde::Serialize;

use crate::output::printable;

/// Text, or base64 of what is none: nothing is lost.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Bytes<'a> {
    Text(&'a str),
    Base64 { base64: String },
}

impl<'a> Bytes<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Base64 { base64: BASE64.encode(bytes) },
        }
    }
}

/// What a record carries.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    /// Null: no body.
    payload: Option<Bytes<'a>>,
    headers: Vec<(Bytes<'a>, Option<Bytes<'a>>)>,
}

impl<'a> Body<'a> {
    pub(crate) fn of(record: &'a Record) -> Self {
        let headers = record.headers.iter().map(|(name, value)| (Bytes::of(name), value.as_deref().map(Bytes::of)));
        Self { payload: record.value.as_deref().map(Bytes::of), headers: headers.collect() }
    }
}

/// The begin of a payload, or what it is.
pub(crate) fn preview(payload: Option<&[u8]>) -> String {
    const MOST: usize = 60;
    let Some(bytes) = payload else { return "no body".to_owned() };
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().count() <= MOST => printable(text).into_owned(),
        Ok(text) => format!("{}… ({} bytes)", printable(&text.chars().take(MOST).collect::<String>()), bytes.len()),
        Err(_) => format!("{} bytes that are no text: -o json", bytes.len()),
    }
}
