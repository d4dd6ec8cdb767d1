//! One file a command: each has `run`, which answers the exit code or a [`crate::exit::Failure`].

pub(crate) mod bench;
pub(crate) mod board;
mod body;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod demo;
pub(crate) mod enqueue;
pub(crate) mod fence;
pub(crate) mod health;
pub(crate) mod hot;
pub(crate) mod narrate;
mod pace;
pub(crate) mod parked;
pub(crate) mod pause;
pub(crate) mod peek;
pub(crate) mod push;
pub(crate) mod queue;
pub(crate) mod results;
pub(crate) mod retry;
pub(crate) mod sidecar;
pub(crate) mod skip;
pub(crate) mod status;
pub(crate) mod timeline;
pub(crate) mod why;
pub(crate) mod work;
