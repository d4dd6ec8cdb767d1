//! The ownership snapshot and all that publishes it. So far: the contract.
//!
//! Nothing here can name a fence token: the crate that mints it depends on this one, and Cargo forbids cycles.

#[cfg(feature = "board")]
pub mod board;
pub mod snapshot;
pub mod spool;
pub mod words;

pub use snapshot::{Freshness, Lag, Notice, Observer, PartitionState, PartitionView, QueueView, Scope, Snapshot};
pub use snapshot::{Totals, WhyUnknown, WorkerSession, WorkerState, WorkerView};
