//! The board: it asks every sidecar, merges what they say, and shows it: a page, JSON, text, events.
//!
//! 1. It only reads. No route changes anything, and what it knows is in its memory alone.
//! 2. What is not known is shown as not known: nobody is an owner on old word.
//! 3. Time is counted on the board's own boot clock; the times in reports are shown, never computed with.
//!
//! - [`merge`]: pure: reports of workers -> the view of the group
//! - [`history`]: who held what, what happened, how many jobs waited; bounded
//! - [`record`]: the three tied together, one step a look
//! - [`ask`]: finding sidecars and asking them
//! - [`http`]: the routes;  [`page`]: the page;  [`autoscale`]: what more workers would change

pub mod ask;
pub mod autoscale;
pub mod history;
pub mod http;
pub mod merge;
pub mod page;
pub mod record;

pub use crate::clock::Now;
