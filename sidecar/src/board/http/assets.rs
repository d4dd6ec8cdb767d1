//! The page and its files as answers: their types and their weight.

use std::io::Write;

use axum::{
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};

pub(super) fn typed(kind: &'static str, body: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

/// A page, packed for a browser that can unpack it: a row a partition packs to a tenth.
pub(super) fn html(asked: &HeaderMap, html: String) -> Response {
    let kind = (header::CONTENT_TYPE, "text/html; charset=utf-8");
    let unpacks = asked.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok()).is_some_and(|v| v.contains("gzip"));
    match packed(html.as_bytes()).filter(|_| unpacks) {
        Some(packed) => {
            ([kind, (header::CONTENT_ENCODING, "gzip"), (header::VARY, "accept-encoding")], packed).into_response()
        }
        None => ([kind], html).into_response(),
    }
}

fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}
