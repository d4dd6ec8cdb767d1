//! Jobs and faults of a source in order, whatever its format.

use std::io::{self, Read};

use keylane_producer::Job;

use super::{
    Fault, MAX_LINE_BYTES, Recipe, Rule,
    lines::Lines,
    recipe::{BoundCsvRecipe, JsonRecipe},
    rows::Rows,
    tape::Tape,
};

/// Reads a source item by item.
pub(crate) enum Items<R> {
    Json { lines: Lines<R>, recipe: JsonRecipe },
    Csv { rows: Rows<R>, recipe: BoundCsvRecipe },
}

/// One line that is not blank, or one row.
pub(crate) struct Item<'a> {
    /// Of its (first) line, from 1.
    pub(crate) line: u64,
    /// As in the source; cut if it is above the limit.
    pub(crate) raw: &'a [u8],
    pub(crate) job: Result<Job, Fault>,
}

impl<R: Read> Items<R> {
    /// Begins to read; a CSV's header row is read here.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the source's head says that it cannot be read.
    pub(crate) fn begin(source: R, recipe: Recipe) -> io::Result<Self> {
        let mut tape = Tape::new(source);
        tape.skip_byte_order_mark()?;
        match recipe {
            Recipe::Json(recipe) => Ok(Self::Json { lines: Lines::new(tape), recipe }),
            Recipe::Csv(recipe) => {
                let mut rows = Rows::new(tape);
                let names: Vec<String> = match rows.next()? {
                    None => return Err(unreadable("it is empty: CSV needs a header row")),
                    Some(row) => row
                        .fields
                        .map(|names| names.into_iter().map(str::to_owned).collect())
                        .map_err(|fault| unreadable(format!("its header row cannot be read: {fault}")))?,
                };
                let recipe = recipe.bind(names).map_err(unreadable)?;
                Ok(Self::Csv { rows, recipe })
            }
        }
    }

    /// How far it is.
    pub(crate) fn tape(&self) -> &Tape<R> {
        match self {
            Self::Json { lines, .. } => lines.tape(),
            Self::Csv { rows, .. } => rows.tape(),
        }
    }

    /// Passes over what was sent before. `false` if the source has fewer lines.
    pub(crate) fn skip_to_line(&mut self, lines_before: u64) -> io::Result<bool> {
        match self {
            Self::Json { lines, .. } => lines.tape_mut().skip_to_line(lines_before),
            Self::Csv { rows, .. } => rows.tape_mut().skip_to_line(lines_before),
        }
    }

    /// The next item; `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Item<'_>>> {
        match self {
            Self::Json { lines, recipe } => next_line(lines, recipe),
            Self::Csv { rows, recipe } => Ok(rows.next()?.map(|row| Item {
                line: row.number,
                raw: row.raw,
                job: row.fields.and_then(|fields| recipe.job(&fields)),
            })),
        }
    }
}

fn next_line<'a, R: Read>(lines: &'a mut Lines<R>, recipe: &JsonRecipe) -> io::Result<Option<Item<'a>>> {
    Ok(lines.next()?.map(|line| {
        let job = if line.is_whole() {
            recipe.job(line.text)
        } else {
            Err(Fault::new(
                Rule::LineTooLong,
                format!("the line has {} bytes: the limit is {MAX_LINE_BYTES}", line.length),
                "keep the body elsewhere and enqueue a reference to it",
            ))
        };
        Item { line: line.number, raw: line.text, job }
    }))
}

fn unreadable(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
