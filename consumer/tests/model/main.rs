//! The ownership protocol, explored state by state within bounds: every order of steps, with faults anywhere.
//!
//! 1. No effect lands under an older claim once a newer one was granted, for any key.
//! 2. Each job's effect lands at most once, and after that of the job before it.
//! 3. When faults stop, every job is done at last; what waits for an operator is `fence_ahead`, or a process that is frozen
//!    in SQLite's one transaction, and the named step ends it.
//! 4. A claim is decided at last, however many writers go on.
//!
//! The workers' `Ownership` and the store's row rules are the real code. `twins` takes each guard away and tells what
//! happens: `cargo test -p keylane-consumer --test model twins -- --nocapture --test-threads 1`.
//! Bounds and sizes: docs/decisions/0009-protocol-model.md.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod explore;
mod group;
mod holds;
mod minds;
mod progress;
mod protocol;
mod store;
mod story;
mod twins;
mod workers;
mod world;
