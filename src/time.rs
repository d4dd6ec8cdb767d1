//! Times, durations and ranges as people read them.

use std::time::Duration;

use jiff::{Timestamp as Instant, tz::TimeZone};
use keylane_producer::Timestamp;

/// RFC 3339, UTC, three decimals: `2026-12-01T14:02:30.120Z`.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    format(time, "%Y-%m-%dT%H:%M:%S%.3fZ", TimeZone::UTC)
}

/// The local time of day: `14:02:30`.
pub(crate) fn clock(time: Timestamp) -> String {
    format(time, "%H:%M:%S", TimeZone::system())
}

fn format(time: Timestamp, pattern: &str, zone: TimeZone) -> String {
    let instant = Instant::from_millisecond(time.0).unwrap_or(Instant::UNIX_EPOCH);
    instant.to_zoned_datetime(zone).strftime(pattern).to_string()
}

/// In the largest fitting unit, two figures: `4 ms`, `1.8 s`, `6 min`.
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.001 => "under 1 ms".to_owned(),
        s if s < 1.0 => format!("{:.0} ms", s * 1_000.0),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7_200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// `0-2, 7`, from numbers in ascending order.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let text = |&(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_ranges_are_short() {
        let text = |ms| short(Duration::from_millis(ms));
        assert_eq!(
            [text(0), text(4), text(1_840), text(59_000), text(400_000)],
            ["under 1 ms", "4 ms", "1.8 s", "59 s", "7 min"]
        );
        assert_eq!(ranges(&[0, 1, 2, 7, 9, 10]), "0-2, 7, 9, 10");
        assert_eq!(rfc3339(Timestamp(1_764_597_750_120)), "2025-12-01T14:02:30.120Z");
    }
}
