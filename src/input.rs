//! Jobs out of a stream of lines or rows: pure, without a log, a clock or a terminal.
//!
//! 1. Memory stays flat: one line or row is held at a time, and none above [`MAX_LINE_BYTES`] is held whole.
//! 2. Nothing is guessed. What is not a job for certain is a [`Fault`] that names its line, rule and remedy.
//! 3. Nothing but the pointers' way is parsed: the rest of a document is passed over without recursion, so its depth
//!    does not matter, and what is sent are the bytes of the source.
//! 4. [`tape::Tape`] knows at any time how many lines were read and a digest of them all: what a checkpoint needs.

pub(crate) mod fault;
pub(crate) mod items;
pub(crate) mod key;
pub(crate) mod lines;
pub(crate) mod pointer;
pub(crate) mod recipe;
pub(crate) mod rows;
pub(crate) mod tape;

pub(crate) use fault::{Fault, Rule};
pub(crate) use items::Items;
pub(crate) use key::{KeyEncoding, KeyRules};
pub(crate) use pointer::{Pointer, field_names};
pub(crate) use recipe::{CsvRecipe, JsonRecipe, Recipe};
pub(crate) use tape::Tape;

/// Longest line or row that is looked at, in bytes. A payload may have less; the rest of a line can be other fields.
pub(crate) const MAX_LINE_BYTES: usize = 8 * 1_024 * 1_024;
