//! What the program prints: text for people, JSON for programs.
//!
//! 1. Colours only on a terminal, and not with `NO_COLOR` or `--color never`.
//! 2. A table is aligned on a terminal and tab-separated off it; nothing is ever cut.
//! 3. Text from outside is made printable: it cannot move the cursor, colour the screen or turn the line around.
//! 4. A reader that went away (a closed pipe) ends the program quietly.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
};

use clap::ValueEnum;
use serde::Serialize;

use crate::exit::{Code, Failure};

/// For whom results and errors are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// People: sentences and tables.
    #[default]
    Text,
    /// Programs: one JSON object or one a line.
    Json,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always, also into a pipe.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Whether to colour what goes to this stream.
    pub(crate) fn applies_to(self, stream: &impl IsTerminal) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        }
    }
}

/// How errors look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) format: Format,
    /// On standard error.
    pub(crate) color: bool,
}

/// Standard output, in the format asked for.
pub(crate) struct Output {
    format: Format,
    is_terminal: bool,
    stream: io::BufWriter<io::Stdout>,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        let stdout = io::stdout();
        Self { format, is_terminal: stdout.is_terminal(), stream: io::BufWriter::new(stdout) }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Whether a person looks at it as it comes.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// One line of text, made printable.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        let printed = writeln!(self.stream, "{}", printable(text));
        self.checked(printed)
    }

    /// One JSON value on a line of its own.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).expect("our own types always serialize");
        // A program gets the text as it is; a terminal gets the same values.
        let text = if self.is_terminal { escaped_json(&text) } else { text };
        let printed = writeln!(self.stream, "{text}");
        self.checked(printed)
    }

    /// A table, as this stream wants it.
    pub(crate) fn table(&mut self, table: &Table) -> Result<(), Failure> {
        let text = if self.is_terminal { table.aligned() } else { table.tab_separated() };
        let printed = self.stream.write_all(text.as_bytes());
        self.checked(printed)
    }

    /// Bytes as they are, for scripts that are generated.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let printed = self.stream.write_all(bytes);
        self.checked(printed)
    }

    /// Shows all that was printed so far.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.stream.flush();
        self.checked(flushed)
    }

    fn checked(&self, result: io::Result<()>) -> Result<(), Failure> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::reader_left(),
            _ => Failure::new(Code::Unavailable, "cannot write to standard output").because(&error),
        })
    }
}

/// Rows under a header.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|&h| h.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: &[&dyn std::fmt::Display]) {
        self.rows.push(cells.iter().map(|c| printable(&c.to_string()).into_owned()).collect());
    }

    fn tab_separated(&self) -> String {
        self.rows.iter().map(|row| row.join("\t") + "\n").collect()
    }

    fn aligned(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &w)| format!("{cell:<w$}")).collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// The text with every character that could act on a terminal, or reorder or hide text, written as `\u{..}`.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
    }
    Cow::Owned(plain)
}

/// The same JSON with every such character as `\u....`: outside of strings there is none.
fn escaped_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if acts(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// Control characters, line and paragraph separators, marks of direction, and what has no width.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// A count with its thousands apart: `27,004`.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 line", "27,004 lines".
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_act_on_a_terminal() {
        assert_eq!(printable("plain ä 漢 'q'"), "plain ä 漢 'q'");
        assert_eq!(printable("a\x1b[31mb\r\nc\u{202e}d\u{9b}e"), "a\\u{1b}[31mb\\r\\nc\\u{202e}d\\u{9b}e");
        assert_eq!(printable("\u{2066}\u{feff}\u{e0041}\u{61c}"), "\\u{2066}\\u{feff}\\u{e0041}\\u{61c}");
    }

    #[test]
    fn json_on_a_terminal_has_the_same_values_and_acts_no_more() {
        let value = serde_json::json!({ "k\u{9b}": "a\u{202e}b\u{e0041}\u{7f}ä" });
        let escaped = escaped_json(&value.to_string());
        assert_eq!(escaped, r#"{"k\u009b":"a\u202eb\udb40\udc41\u007fä"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn a_table_is_aligned_on_a_terminal_and_tab_separated_off_it() {
        let mut table = Table::new(&["NAME", "RECORDS"]);
        table.row(&[&"a\tb", &12]);
        assert_eq!(table.tab_separated(), "NAME\tRECORDS\na\\tb\t12\n");
        assert_eq!(table.aligned(), "NAME  RECORDS\na\\tb  12\n");
    }

    #[test]
    fn counts_are_read_at_a_glance() {
        assert_eq!([0, 999, 1_000, 27_004, 1_234_567].map(grouped), ["0", "999", "1,000", "27,004", "1,234,567"]);
        assert_eq!([counted(1, "line"), counted(2, "line")], ["1 line", "2 lines"]);
    }
}
