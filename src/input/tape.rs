//! Bytes read once, in order, with a count of lines and a digest of all of them.

use std::io::{self, BufRead, BufReader, Read};

/// Large enough that a file is read in few calls, small enough to stay in the cache.
const BUFFER_BYTES: usize = 128 * 1_024;

/// A reader that knows how far it is.
pub(crate) struct Tape<R> {
    reader: BufReader<R>,
    hasher: blake3::Hasher,
    /// The last byte was a line end that is not in the digest yet: a file whose last line gets its line end later
    /// is still the same file up to there.
    line_end_is_open: bool,
    line_ends: u64,
    bytes: u64,
}

impl<R: Read> Tape<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, source),
            hasher: blake3::Hasher::new(),
            line_end_is_open: false,
            line_ends: 0,
            bytes: 0,
        }
    }

    /// Lines read so far; a last one without a line end counts.
    pub(crate) fn lines(&self) -> u64 {
        self.line_ends + u64::from(self.bytes > 0 && !self.line_end_is_open)
    }

    /// The number of the line that the next byte belongs to, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line_ends + 1
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Recognises everything read so far, without the last line's end.
    pub(crate) fn digest(&self) -> String {
        format!("blake3:{}", self.hasher.finalize().to_hex())
    }

    /// The source underneath.
    pub(crate) fn source(&self) -> &R {
        self.reader.get_ref()
    }

    /// Whether a whole line lies ready, so that reading it cannot wait.
    pub(crate) fn has_line_ready(&self) -> bool {
        self.reader.buffer().contains(&b'\n')
    }

    /// The bytes that come next; empty at the end.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    /// Takes the first `count` of the bytes that [`Tape::peek`] showed.
    pub(crate) fn take(&mut self, count: usize) {
        let taken = &self.reader.buffer()[..count];
        if taken.is_empty() {
            return;
        }
        if self.line_end_is_open {
            self.hasher.update(b"\n");
        }
        let ends = taken.iter().filter(|&&b| b == b'\n').count();
        self.line_ends += ends as u64;
        self.line_end_is_open = taken.ends_with(b"\n");
        self.hasher.update(taken.strip_suffix(b"\n").unwrap_or(taken));
        self.bytes += count as u64;
        self.reader.consume(count);
    }

    /// Passes over lines until `lines` of them were read. `false` if there are not that many.
    pub(crate) fn skip_to_line(&mut self, lines: u64) -> io::Result<bool> {
        while self.line_ends < lines {
            let missing = lines - self.line_ends;
            let buffer = self.peek()?;
            if buffer.is_empty() {
                return Ok(self.lines() == lines);
            }
            let count = end_of_lines(buffer, missing);
            self.take(count);
        }
        Ok(true)
    }

    /// Passes over a byte order mark at the very start.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the mark says that this is UTF-16.
    pub(crate) fn skip_byte_order_mark(&mut self) -> io::Result<()> {
        if self.bytes > 0 {
            return Ok(());
        }
        let head = self.peek()?;
        if head.starts_with(b"\xef\xbb\xbf") {
            self.take(3);
        } else if head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff") {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the text is UTF-16, not UTF-8"));
        }
        Ok(())
    }
}

/// How many bytes of `buffer` the first `lines` lines take, or all of it.
fn end_of_lines(buffer: &[u8], lines: u64) -> usize {
    let nth = usize::try_from(lines - 1).unwrap_or(usize::MAX);
    buffer.iter().enumerate().filter(|&(_, &b)| b == b'\n').nth(nth).map_or(buffer.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_lines(text: &str, lines: u64) -> (bool, String) {
        let mut tape = Tape::new(text.as_bytes());
        let all_there = tape.skip_to_line(lines).unwrap();
        (all_there, tape.digest())
    }

    #[test]
    fn a_digest_depends_on_every_byte_up_to_the_line_and_on_none_after_it() {
        assert_eq!(read_lines("a\nb\nc\n", 2), read_lines("a\nb\nX", 2));
        assert_ne!(read_lines("a\nb\nc\n", 2), read_lines("a\nB\nc\n", 2));
        assert_ne!(read_lines("a\nb\nc\n", 2), read_lines("ab\n\nc\n", 2));
    }

    #[test]
    fn a_last_line_that_gets_its_line_end_later_is_still_the_same() {
        assert_eq!(read_lines("a\nb", 2), read_lines("a\nb\nc\n", 2));
        assert_ne!(read_lines("a\nb", 2), read_lines("a\nbc\n", 2));
    }

    #[test]
    fn a_source_with_fewer_lines_says_so() {
        assert!(read_lines("a\nb", 2).0);
        assert!(!read_lines("a\nb\n", 3).0);
        assert!(!read_lines("", 1).0);
        assert!(read_lines("", 0).0);
    }

    #[test]
    fn the_digest_does_not_depend_on_how_the_bytes_were_taken() {
        let text = b"one\ntwo\n\nthree\r\nfour";
        let mut by_byte = Tape::new(&text[..]);
        while !by_byte.peek().unwrap().is_empty() {
            by_byte.take(1);
        }
        let mut at_once = Tape::new(&text[..]);
        at_once.peek().unwrap();
        at_once.take(text.len());
        assert_eq!(by_byte.digest(), at_once.digest());
        assert_eq!((by_byte.lines(), at_once.lines()), (5, 5));
    }

    #[test]
    fn a_byte_order_mark_is_passed_over_and_utf_16_is_named() {
        let mut tape = Tape::new(&b"\xef\xbb\xbf{}"[..]);
        tape.skip_byte_order_mark().unwrap();
        assert_eq!(tape.peek().unwrap(), b"{}");
        let error = Tape::new(&b"\xff\xfe{\0}\0"[..]).skip_byte_order_mark().unwrap_err();
        assert!(error.to_string().contains("UTF-16"));
    }
}
