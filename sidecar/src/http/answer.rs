//! How answers look: their types, what a browser may do with them, and their weight.

use std::io::Write;

use axum::{
    Json,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use serde::Serialize;

/// Nothing but our own files: no inline script or style, no other host, no frame around us, no form.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Adds to every answer what a browser may not do with it.
pub(crate) async fn secured(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

pub(crate) fn typed(kind: &'static str, body: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

pub(crate) fn plain(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

pub(crate) fn metrics(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

pub(crate) fn json<T: Serialize>(value: &T) -> Json<&T> {
    Json(value)
}

/// A page, packed for a browser that can unpack it: a row a partition packs to a tenth.
pub(crate) fn html(asked: &HeaderMap, html: String) -> Response {
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
