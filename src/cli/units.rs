//! Durations and sizes on the command line: `7d`, `1GiB`.

use std::time::Duration;

/// A number with `ms`, `s`, `m`, `h`, `d` or `w`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let milliseconds = scaled(
        text,
        &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)],
    );
    milliseconds.map(Duration::from_millis).ok_or_else(|| {
        format!("'{text}' is no duration: a whole number with ms, s, m, h, d or w, for instance 30s or 7d")
    })
}

/// A number with nothing or `B`, or with `KiB`, `MiB`, `GiB`, `TiB` (1,024) or `kB`, `MB`, `GB`, `TB` (1,000).
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let units = [
        ("", 1),
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ];
    scaled(text, &units)
        .ok_or_else(|| format!("'{text}' is no size: a whole number with KiB, MiB, GiB or none, for instance 1GiB"))
}

/// A retention limit: `None` is no limit.
pub(crate) type Limit<T> = Option<T>;

/// A duration, or `forever`.
pub(crate) fn age_limit(text: &str) -> Result<Limit<Duration>, String> {
    if text == "forever" { Ok(None) } else { duration(text).map(Some) }
}

/// A size, or `none`.
pub(crate) fn bytes_limit(text: &str) -> Result<Limit<u64>, String> {
    if text == "none" { Ok(None) } else { bytes(text).map(Some) }
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The shortest exact form of a duration: `7d`, `90s`.
pub(crate) fn duration_text(duration: Duration) -> String {
    let ms = duration.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    let fitting = units.iter().find(|(_, size)| ms >= *size && ms.is_multiple_of(*size));
    fitting.map_or_else(|| format!("{ms}ms"), |(name, size)| format!("{}{name}", ms / size))
}

/// The shortest exact form of a size: `1GiB`, `1000B`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let units = [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fitting = units.iter().find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size));
    fitting.map_or_else(|| format!("{bytes}B"), |(name, size)| format!("{}{name}", bytes / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_written() {
        for text in ["7d", "36h", "90s", "5m", "250ms"] {
            assert_eq!(duration_text(duration(text).unwrap()), text);
        }
        for text in ["1GiB", "3MiB", "1000B", "1536KiB"] {
            assert_eq!(bytes_text(bytes(text).unwrap()), text);
        }
        assert_eq!(bytes("10 MB"), Ok(10_000_000));
        assert_eq!(bytes("5"), Ok(5));
        assert_eq!((age_limit("forever"), bytes_limit("none")), (Ok(None), Ok(None)));
    }

    #[test]
    fn what_has_no_unit_or_does_not_fit_is_refused() {
        for text in ["", "7", "d", "1.5h", "-1s", "7 days", "99999999999999999999s", "9999999999999999w"] {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["", "GiB", "1g", "-1", "99999999999TiB"] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
