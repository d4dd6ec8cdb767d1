//! One event of a worker, held to the contract. It is passed on as it stands, so all of it is looked at.

use serde::Deserialize;

use super::files::Line;
use crate::{
    intake::is_time,
    snapshot::is_name,
    words::{EventType, Severity, event},
};

/// The fields that `docs/schemas/event.schema.json` allows, and no other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    schema: String,
    id: String,
    at: String,
    recorded_at: String,
    observer: String,
    episode: Option<String>,
    #[serde(rename = "type")]
    kind: EventType,
    #[serde(rename = "severity")]
    _severity: Severity,
    partitions: Vec<u32>,
    worker: Option<String>,
    from_worker: Option<String>,
    #[serde(rename = "reason")]
    _reason: Option<event::Reason>,
    #[serde(rename = "duration_ms")]
    _duration_ms: Option<u64>,
    #[serde(rename = "lag_jobs")]
    _lag_jobs: Option<u64>,
    count: Option<u64>,
    text: String,
}

/// The line, if it keeps the contract.
pub(super) fn read(line: &str) -> Option<Line> {
    let fields: Fields = serde_json::from_str(line).ok()?;
    let mut names = [&fields.observer].into_iter().chain(&fields.worker).chain(&fields.from_worker);
    let keeps = fields.schema == event::SCHEMA
        && is_id(&fields.id)
        && fields.episode.as_deref().is_none_or(is_id)
        && is_time(&fields.at)
        && is_time(&fields.recorded_at)
        && names.all(|name| is_name(name))
        && fields.partitions.len() <= 4_096
        && fields.count != Some(0)
        && (1..=400).contains(&fields.text.chars().count())
        && !fields.text.chars().any(char::is_control);
    keeps.then(|| Line { id: fields.id, kind: fields.kind, text: line.to_owned() })
}

fn is_id(id: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_digit() || (b.is_ascii_uppercase() && !matches!(b, b'I' | b'L' | b'O' | b'U'));
    id.len() == 26 && id.bytes().all(allowed)
}
