//! One file a command: each has `run`, which answers the exit code or a [`crate::exit::Failure`].

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod enqueue;
pub(crate) mod queue;
pub(crate) mod work;
