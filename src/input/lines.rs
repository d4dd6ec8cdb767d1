//! NDJSON: one line after another, never one above the limit in memory.
//!
//! A line ends with LF or CRLF, which are not part of it; the last one may lack its end. A byte order mark at the very
//! start is passed over, and so is a line of nothing but white space; both count.

use std::io::{self, Read};

use super::{MAX_LINE_BYTES, tape::Tape};

/// Lines of a tape.
pub(crate) struct Lines<R> {
    tape: Tape<R>,
    line: Vec<u8>,
}

/// One line.
pub(crate) struct Line<'a> {
    /// From 1.
    pub(crate) number: u64,
    /// Without its line end; only the beginning if the line is above [`MAX_LINE_BYTES`].
    pub(crate) text: &'a [u8],
    /// How long it is in the source.
    pub(crate) length: u64,
}

impl Line<'_> {
    /// Whether `text` is all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.length == self.text.len() as u64
    }
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(tape: Tape<R>) -> Self {
        Self { tape, line: Vec::new() }
    }

    pub(crate) fn tape(&self) -> &Tape<R> {
        &self.tape
    }

    pub(crate) fn tape_mut(&mut self) -> &mut Tape<R> {
        &mut self.tape
    }

    /// The next line that is not blank; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.tape.skip_byte_order_mark()?;
        loop {
            let number = self.tape.line();
            let Some(length) = self.read()? else { return Ok(None) };
            let is_blank = self.line.trim_ascii().is_empty() && length == self.line.len() as u64;
            if !is_blank {
                return Ok(Some(Line { number, text: &self.line, length }));
            }
        }
    }

    /// Reads one line into `self.line`, as far as it fits; answers how long it is.
    fn read(&mut self) -> io::Result<Option<u64>> {
        let mut length = 0_u64;
        let mut any = false;
        self.line.clear();
        loop {
            let buffer = self.tape.peek()?;
            if buffer.is_empty() {
                if !any {
                    return Ok(None);
                }
                break;
            }
            any = true;
            let end = buffer.iter().position(|&b| b == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            // One byte above the limit is kept: it may be the CR of a line that just fits.
            let room = (MAX_LINE_BYTES + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            length += part.len() as u64;
            let count = part.len() + usize::from(end.is_some());
            self.tape.take(count);
            if end.is_some() {
                break;
            }
        }
        if length == self.line.len() as u64 && self.line.ends_with(b"\r") {
            self.line.pop();
            length -= 1;
        }
        self.line.truncate(MAX_LINE_BYTES);
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: &[u8]) -> Vec<(u64, String)> {
        let mut lines = Lines::new(Tape::new(source));
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push((line.number, String::from_utf8_lossy(line.text).into_owned()));
        }
        found
    }

    fn numbered(lines: &[&str]) -> Vec<(u64, String)> {
        (1..).zip(lines.iter().map(|&l| l.to_owned())).collect()
    }

    #[test]
    fn line_ends_are_lf_or_crlf_and_the_last_may_be_missing() {
        assert_eq!(all(b"a\nb\r\nc"), numbered(&["a", "b", "c"]));
        assert_eq!(all(b"a\n"), numbered(&["a"]));
        assert_eq!(all(b""), numbered(&[]));
        assert_eq!(all(b"a\rb\n"), numbered(&["a\rb"]), "a lone CR does not end a line");
    }

    #[test]
    fn blank_lines_are_passed_over_and_counted() {
        assert_eq!(all(b"\n \t\r\na\n\n"), [(3, "a".to_owned())]);
        assert_eq!(all(b"\n"), []);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_line() {
        assert_eq!(all(b"\xef\xbb\xbfa\nb"), numbered(&["a", "b"]));
    }

    #[test]
    fn a_line_above_the_limit_is_never_held_whole_and_the_next_one_is_found() {
        let long = (MAX_LINE_BYTES as u64) * 5;
        let source = io::repeat(b'x').take(long).chain(&b"\nnext\n"[..]);
        let mut lines = Lines::new(Tape::new(source));
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.length, line.is_whole()), (long, false));
        assert!(lines.line.capacity() <= 3 * MAX_LINE_BYTES);
        let next = lines.next().unwrap().unwrap();
        assert_eq!((next.number, next.text), (2, &b"next"[..]));
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_whole_with_either_line_end() {
        for end in ["\n", "\r\n", ""] {
            let source = io::repeat(b'x').take(MAX_LINE_BYTES as u64).chain(end.as_bytes());
            let mut lines = Lines::new(Tape::new(source));
            let line = lines.next().unwrap().unwrap();
            assert!(line.is_whole() && line.text.len() == MAX_LINE_BYTES);
        }
    }
}
