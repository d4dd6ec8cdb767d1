//! Text that cannot become markup, and small parts that all sections use.

use std::{fmt, time::Duration};

/// Shown as it is: what could open a tag, an entity or an attribute is written as an entity, and what could turn the line
/// around or act on whoever copies it is made visible.
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    write!(f, "{}", c.escape_unicode())?;
                }
                c if c.is_control() => write!(f, "{}", c.escape_unicode())?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What is left of a worker's name where there is little room: what tells it from its like.
pub(super) fn short(name: &str) -> String {
    let tail = name.rsplit(['-', '.', '/', ':', '_']).next().unwrap_or(name);
    let tail: String = tail.chars().take(8).collect();
    if !tail.is_empty() && tail.bytes().all(|b| b.is_ascii_digit()) { format!("w{tail}") } else { tail }
}

/// A time so long ago: `3.4 s ago`, or `never`.
pub(super) fn ago(time: Option<&str>, now_ms: i64) -> String {
    match time.and_then(crate::words::event::unix_ms) {
        Some(at) => format!("{} ago", crate::words::phrase::duration(ms(u64::try_from(now_ms - at).unwrap_or(0)))),
        None => "-".to_owned(),
    }
}
