//! Ownership, fencing, lanes, handlers and the fenced write.
//!
//! Decide in pure code, act at the edge. [`ownership`], [`lanes`], [`watermark`] and [`retry`] take events and return
//! actions; they have no I/O, clock, thread or `async`. What touches the world is behind three ports: [`group`], [`store`]
//! and [`handler`]. [`worker`] is the loop that ties them.

pub mod clock;
pub mod error;
pub mod fence;
pub mod group;
pub mod handler;
pub mod lanes;
pub mod notice;
mod numbers;
pub mod ownership;
pub mod retry;
mod spent;
pub mod store;
pub mod view;
pub mod watermark;
pub mod worker;

#[cfg(test)]
mod simulation;

pub use error::Error;
pub use fence::{Fence, FenceToken, Fenced, Generation, Permit};
pub use handler::{Done, Handler, JobContext, Outcome, Retry};
pub use notice::Notice;
pub use store::{Effect, FencedStore};
pub use worker::{Parts, ShowKeys, Summary, Worker, WorkerHandle, WorkerSettings};
