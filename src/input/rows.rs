//! CSV as RFC 4180 has it, read strictly: what could be read in two ways is a fault, not a guess.
//!
//! 1. Fields are parted by commas, rows by LF or CRLF. A field that begins with `"` ends at the next single `"`;
//!    `""` inside is one quote. A quote in the middle of any other field stands for itself.
//! 2. After a closing quote comes a comma, a line end or the end of the text; an open quote at the end is a fault.
//! 3. A row may have line breaks in quotes; its number is that of its first line. Blank lines are passed over.
//! 4. Nothing is trimmed.

use std::io::{self, Read};

use super::{Fault, MAX_LINE_BYTES, Rule, tape::Tape};

/// Rows of a tape.
pub(crate) struct Rows<R> {
    tape: Tape<R>,
    raw: Vec<u8>,
    fields: Fields,
}

/// One row.
pub(crate) struct Row<'a> {
    /// Of its first line, from 1.
    pub(crate) number: u64,
    /// As in the source, without the line end; cut at [`MAX_LINE_BYTES`].
    pub(crate) raw: &'a [u8],
    pub(crate) fields: Result<Vec<&'a str>, Fault>,
}

#[derive(Default)]
struct Fields {
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The first one counts.
    fault: Option<Fault>,
}

/// Where the scan is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    /// After a quote in a quoted field: its end, or the first half of `""`.
    QuoteSeen,
    /// After a closing quote and a CR: only LF may follow.
    ClosedCarriageReturn,
    /// After a CR outside quotes: the line end's first half, or a character.
    CarriageReturn,
    Done,
}

impl<R: Read> Rows<R> {
    pub(crate) fn new(tape: Tape<R>) -> Self {
        Self { tape, raw: Vec::new(), fields: Fields::default() }
    }

    pub(crate) fn tape(&self) -> &Tape<R> {
        &self.tape
    }

    pub(crate) fn tape_mut(&mut self) -> &mut Tape<R> {
        &mut self.tape
    }

    /// The next row that is not blank; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Row<'_>>> {
        self.tape.skip_byte_order_mark()?;
        loop {
            let number = self.tape.line();
            if !self.scan()? {
                return Ok(None);
            }
            if !self.raw.is_empty() {
                let fields = self.fields.finish();
                return Ok(Some(Row { number, raw: &self.raw, fields }));
            }
        }
    }

    /// Reads to the end of a row. `false` if there was nothing left.
    fn scan(&mut self) -> io::Result<bool> {
        self.raw.clear();
        self.fields.clear();
        let mut state = State::FieldStart;
        let mut any = false;
        loop {
            let buffer = self.tape.peek()?;
            if buffer.is_empty() {
                break;
            }
            any = true;
            let mut count = 0;
            for &byte in buffer {
                count += 1;
                state = self.fields.step(state, byte);
                if state == State::Done {
                    break;
                }
                if self.raw.len() < MAX_LINE_BYTES {
                    self.raw.push(byte);
                } else {
                    self.fields.too_long();
                }
            }
            self.tape.take(count);
            if state == State::Done {
                break;
            }
        }
        if self.raw.ends_with(b"\r") && state == State::Done {
            self.raw.pop();
        }
        if state != State::Done && any {
            self.fields.end_of_text(state);
        }
        Ok(any)
    }
}

impl Fields {
    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.fault = None;
    }

    fn push(&mut self, byte: u8) {
        if self.text.len() < MAX_LINE_BYTES {
            self.text.push(byte);
        }
    }

    fn end_field(&mut self) {
        if self.ends.len() < MAX_LINE_BYTES {
            self.ends.push(self.text.len());
        }
    }

    fn bad(&mut self, what: &str) {
        if self.fault.is_none() {
            let remedy = "a quote inside a quoted field is written twice; check this line and the ones before it";
            self.fault = Some(Fault::new(Rule::BadCsv, what, remedy));
        }
    }

    fn too_long(&mut self) {
        if self.fault.is_none() {
            self.fault = Some(Fault::new(
                Rule::LineTooLong,
                format!("the row has more than {MAX_LINE_BYTES} bytes"),
                "look for a quote that is never closed; else keep the body elsewhere and enqueue a reference to it",
            ));
        }
    }

    fn step(&mut self, state: State, byte: u8) -> State {
        match (state, byte) {
            (State::Done, _) => State::Done,
            (State::FieldStart, b'"') => State::Quoted,
            (State::Quoted, b'"') => State::QuoteSeen,
            (State::Quoted, _) => {
                self.push(byte);
                State::Quoted
            }
            (State::QuoteSeen, b'"') => {
                self.push(b'"');
                State::Quoted
            }
            (State::ClosedCarriageReturn, b'\n') => {
                self.end_field();
                State::Done
            }
            (State::ClosedCarriageReturn, _) => {
                self.bad("text follows a closing quote");
                State::Plain
            }
            (_, b',') => {
                if state == State::CarriageReturn {
                    self.push(b'\r');
                }
                self.end_field();
                State::FieldStart
            }
            (_, b'\n') => {
                self.end_field();
                State::Done
            }
            (State::QuoteSeen, b'\r') => State::ClosedCarriageReturn,
            (State::QuoteSeen, _) => {
                self.bad("text follows a closing quote");
                self.push(byte);
                State::Plain
            }
            (State::FieldStart | State::Plain, b'\r') => State::CarriageReturn,
            (State::CarriageReturn, b'\r') => {
                self.push(b'\r');
                State::CarriageReturn
            }
            (State::CarriageReturn, _) => {
                self.push(b'\r');
                self.push(byte);
                State::Plain
            }
            (State::FieldStart | State::Plain, _) => {
                self.push(byte);
                State::Plain
            }
        }
    }

    fn end_of_text(&mut self, state: State) {
        match state {
            State::Quoted => self.bad("a quote is never closed"),
            State::ClosedCarriageReturn => self.bad("text follows a closing quote"),
            State::CarriageReturn => self.push(b'\r'),
            State::FieldStart | State::Plain | State::QuoteSeen | State::Done => {}
        }
        self.end_field();
    }

    fn finish(&mut self) -> Result<Vec<&str>, Fault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let mut start = 0;
        let mut fields = Vec::with_capacity(self.ends.len());
        for &end in &self.ends {
            let field = std::str::from_utf8(&self.text[start..end]).map_err(|_| {
                Fault::new(
                    Rule::NotUtf8,
                    format!("field {} is not UTF-8", fields.len() + 1),
                    "convert the text to UTF-8",
                )
            })?;
            fields.push(field);
            start = end;
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type ReadRow = (u64, Result<Vec<String>, Rule>);

    fn all(source: &[u8]) -> Vec<ReadRow> {
        let mut rows = Rows::new(Tape::new(source));
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let fields = row.fields.map(|f| f.into_iter().map(str::to_owned).collect()).map_err(|f| f.rule);
            found.push((row.number, fields));
        }
        found
    }

    fn row(number: u64, fields: &[&str]) -> ReadRow {
        (number, Ok(fields.iter().map(|&f| f.to_owned()).collect()))
    }

    #[test]
    fn plain_rows_with_either_line_end_and_blank_lines() {
        assert_eq!(all(b"a,b\r\n\n\r\n,\nlast"), [row(1, &["a", "b"]), row(4, &["", ""]), row(5, &["last"])]);
        assert_eq!(all(b""), []);
        assert_eq!(all(b"a,"), [row(1, &["a", ""])]);
        assert_eq!(all(b"\xef\xbb\xbfa"), [row(1, &["a"])]);
    }

    #[test]
    fn quoted_fields_hold_commas_quotes_and_line_breaks() {
        assert_eq!(all(b"\"a,\"\"b\"\"\",c\n"), [row(1, &["a,\"b\"", "c"])]);
        assert_eq!(all(b"\"x\r\ny\",1\r\nz,2\n"), [row(1, &["x\r\ny", "1"]), row(3, &["z", "2"])]);
        assert_eq!(all(b"\"\"\n"), [row(1, &[""])], "an empty quoted field is a row, not a blank line");
        assert_eq!(all(b"\"end\""), [row(1, &["end"])]);
    }

    #[test]
    fn nothing_is_trimmed_and_a_quote_in_the_middle_stands_for_itself() {
        assert_eq!(all(b" a , 5\" pipe\n"), [row(1, &[" a ", " 5\" pipe"])]);
        assert_eq!(all(b"a\rb,c\r\r\n"), [row(1, &["a\rb", "c\r"])]);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_a_fault_and_the_next_row_is_found() {
        assert_eq!(all(b"\"a\"b,c\nd,e\n"), [(1, Err(Rule::BadCsv)), row(2, &["d", "e"])]);
        assert_eq!(all(b"x\n\"open,\nand so on"), [row(1, &["x"]), (2, Err(Rule::BadCsv))]);
        for text in ["\"a\"\rb\n", "\"a\"\r\"b\n", "\"a\"\r,b\n", "\"a\"\r"] {
            assert_eq!(all(text.as_bytes()), [(1, Err(Rule::BadCsv))], "{text:?}");
        }
        assert_eq!(all(b"\xff,a\nb\n"), [(1, Err(Rule::NotUtf8)), row(2, &["b"])]);
    }

    #[test]
    fn an_open_quote_does_not_pull_the_whole_file_into_memory() {
        let source = (&b"\""[..]).chain(io::repeat(b'x').take(4 * MAX_LINE_BYTES as u64));
        let mut rows = Rows::new(Tape::new(source));
        assert_eq!(rows.next().unwrap().unwrap().fields.unwrap_err().rule, Rule::LineTooLong);
        assert!(rows.raw.capacity() <= 2 * MAX_LINE_BYTES);
    }

    #[test]
    fn line_count_and_digest_hold_at_every_row() {
        let text = b"a,b\n\"1\n2\",3\nlast";
        let mut rows = Rows::new(Tape::new(&text[..]));
        let mut ends = Vec::new();
        while rows.next().unwrap().is_some() {
            ends.push((rows.tape().lines(), rows.tape().digest()));
        }
        for (lines, digest) in &ends {
            let mut tape = Tape::new(&text[..]);
            assert!(tape.skip_to_line(*lines).unwrap());
            assert_eq!(tape.digest(), *digest);
        }
        assert_eq!(ends.iter().map(|(l, _)| *l).collect::<Vec<_>>(), [1, 3, 4]);
    }
}
