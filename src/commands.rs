//! One file a command: each has `run`, which answers the exit code or a [`crate::exit::Failure`].

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod enqueue;
pub(crate) mod queue;
pub(crate) mod work;
