//! The small parts of a sentence: times, durations, counts, names, partitions.

use std::time::Duration;

/// Longest name that a sentence spells out. A pod's name fits; what is longer is cut in the middle.
const LONGEST_NAME: usize = 40;

/// Ranges of partitions that a sentence spells out.
const MOST_RANGES: usize = 6;

/// Names that a sentence spells out.
const MOST_NAMES: usize = 3;

/// `14:02:19 UTC`.
pub(crate) fn clock(at_ms: i64) -> String {
    let seconds = at_ms.div_euclid(1_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02} UTC", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// In the largest fitting unit, two figures: `4 ms`, `1.8 s`, `6 min`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.001 => "under 1 ms".to_owned(),
        s if s < 0.9995 => format!("{:.0} ms", s * 1_000.0),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 119.5 => format!("{s:.0} s"),
        s if s < 7_170.0 => format!("{:.0} min", s / 60.0),
        s if s < 171_000.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

/// `1,234`.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `no jobs`, `1 job`, `1,234 jobs`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    match count {
        0 => format!("no {noun}s"),
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", number(count)),
    }
}

/// The name, cut in its middle if it is longer than a sentence can bear.
pub(crate) fn name(name: &str) -> String {
    let count = name.chars().count();
    if count <= LONGEST_NAME {
        return name.to_owned();
    }
    let half = LONGEST_NAME / 2 - 1;
    let head: String = name.chars().take(half).collect();
    let tail: String = name.chars().skip(count - half).collect();
    format!("{head}…{tail}")
}

/// `a`, `a and b`, `a, b and c`, `a, b, c and 2 others`.
pub(crate) fn names(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(MOST_NAMES).map(|n| name(n)).collect();
    let others = names.len() - shown.len();
    match (shown.as_slice(), others) {
        ([], _) => "nobody".to_owned(),
        ([one], _) => one.clone(),
        ([head @ .., last], 0) => format!("{} and {last}", head.join(", ")),
        (shown, 1) => format!("{} and 1 other", shown.join(", ")),
        (shown, others) => format!("{} and {others} others", shown.join(", ")),
    }
}

/// `no partition`, `partition 3`, `partitions 0, 2–4`, `12 partitions (0–11)`.
pub(crate) fn partitions(partitions: &[u32]) -> String {
    match partitions.len() {
        0 => "no partition".to_owned(),
        1 => format!("partition {}", partitions[0]),
        2..10 => format!("partitions {}", ranges(partitions)),
        many => format!("{} partitions ({})", number(many as u64), ranges(partitions)),
    }
}

/// `0–2, 7`, from numbers in ascending order; the seventh range and what follows are counted.
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
        _ => format!("{first}–{last}"),
    };
    let shown = parts.iter().take(MOST_RANGES).map(text).collect::<Vec<_>>().join(", ");
    let rest: u32 = parts.iter().skip(MOST_RANGES).map(|(first, last)| last - first + 1).sum();
    if rest == 0 { shown } else { format!("{shown} and {rest} more") }
}

/// The first letter made large.
pub(crate) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_sentences_are_short() {
        let text = |ms| duration(Duration::from_millis(ms));
        assert_eq!(
            [text(0), text(4), text(1_840), text(59_000), text(360_000), text(90_000_000)],
            ["under 1 ms", "4 ms", "1.8 s", "59 s", "6 min", "25 h"]
        );
        assert_eq!([text(999), text(9_990), text(119_900)], ["999 ms", "10 s", "2 min"]);
        assert_eq!(clock(1_764_597_750_120), "14:02:30 UTC");
        assert_eq!(partitions(&[0, 1, 2, 7, 9, 10]), "partitions 0–2, 7, 9, 10");
        assert_eq!(partitions(&(0..12).collect::<Vec<_>>()), "12 partitions (0–11)");
        assert_eq!(ranges(&(0..20).map(|n| n * 2).collect::<Vec<_>>()), "0, 2, 4, 6, 8, 10 and 14 more");
        assert_eq!(counted(1_234, "job"), "1,234 jobs");
        let five: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!([names(&five[..1]), names(&five[..2])], ["a", "a and b"]);
        assert_eq!([names(&five[..3]), names(&five)], ["a, b and c", "a, b, c and 2 others"]);
        assert_eq!(name(&"x".repeat(300)).chars().count(), 39);
    }
}
