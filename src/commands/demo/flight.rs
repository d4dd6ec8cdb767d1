//! A departure, as the shipped events have it.

use serde::Deserialize;

/// 4,327 departures from New York in January 2013: `data/README.md`.
pub(super) const EVENTS: &str = include_str!("../../../data/flights.ndjson");

/// What the ledger keeps of a departure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    /// The aircraft: the key of the event.
    pub(super) tail: String,
    pub(super) origin: String,
    pub(super) dest: String,
    pub(super) miles: i64,
}

#[derive(Deserialize)]
struct Line {
    tailnum: String,
    origin: String,
    dest: String,
    distance: String,
}

impl Flight {
    /// From an event's line.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| format!("no departure: {error}"))?;
        let miles = line.distance.parse().map_err(|_| format!("the distance {:?} is no number", line.distance))?;
        Ok(Self { tail: line.tailnum, origin: line.origin, dest: line.dest, miles })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_event_can_be_read() {
        let flights: Vec<Flight> = EVENTS.lines().map(|line| Flight::parse(line.as_bytes()).unwrap()).collect();
        assert_eq!(flights.len(), 4_327);
        assert!(flights.iter().all(|flight| !flight.tail.is_empty() && flight.miles > 0));
        assert!(Flight::parse(b"{}").is_err());
    }
}
