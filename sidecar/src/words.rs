//! What is seen, in plain sentences: made from enums, names and numbers, and from nothing else.
//!
//! 1. No text of a client library, of a job or of an error reaches a sentence.
//! 2. No sentence says more than was seen: what is not known is said to be not known, or left out.
//! 3. Jobs are never called lost: they run again.
//!
//! - [`happening`]: all that can happen, with what its sentence needs
//! - [`sentence`]: the sentence of each
//! - [`event`]: the same as a line for programs, by `docs/schemas/event.schema.json`
//! - [`change`]: what happened between two views
//! - [`fold`]: many events of one episode in one sentence
//! - [`headline()`]: the first thing to know; [`note()`]: one worker in one line
//! - [`contradiction`]: which report says otherwise than another

pub mod change;
pub mod contradiction;
pub mod event;
pub mod fold;
pub mod happening;
pub mod headline;
pub mod note;
pub(crate) mod phrase;
pub mod sentence;
#[cfg(test)]
pub(crate) mod testing;

pub use contradiction::contradictions;
pub use event::{Event, EventType, Severity};
pub use happening::{Before, Ended, Happening};
pub use headline::headline;
pub use note::note;
