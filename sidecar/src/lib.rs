//! The ownership snapshot and all that publishes it.
//!
//! Nothing here can name a fence token: the crate that mints it depends on this one, and Cargo forbids cycles.
//!
//! - [`snapshot`]: the contract; [`spool`]: the file in which a worker keeps it; [`words`]: its sentences
//! - [`metrics`]: the catalogue of all metrics, what a worker counts, and how they are shown
//! - `health`: whether a worker is well, by its file alone
//! - `publish`: the sidecar: one worker's file, served by a process that cannot connect anywhere
//! - `board`: what all sidecars say, merged and shown

#[cfg(feature = "board")]
pub mod board;
#[cfg(any(feature = "board", feature = "publish"))]
pub mod clock;
#[cfg(feature = "publish")]
pub mod health;
#[cfg(any(feature = "board", feature = "publish"))]
mod http;
#[cfg(any(feature = "board", feature = "publish"))]
pub mod intake;
pub mod metrics;
#[cfg(feature = "publish")]
pub mod publish;
pub mod snapshot;
pub mod spool;
pub mod words;

pub use snapshot::{
    Freshness, KeyView, Lag, Notice, Observer, PartitionState, PartitionView, QueueView, Scope, Snapshot,
};
pub use snapshot::{Totals, WhyUnknown, WorkerSession, WorkerState, WorkerView};
