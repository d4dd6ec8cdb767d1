//! What the rest of the worker asks of the polling thread, whatever the group is.

use keylane_producer::{Offset, Partition};

/// Carried out at the next turn of the poll, in order. What each means: [`super::GroupControl`].
#[derive(Debug)]
pub(super) enum Command {
    Resume(Partition, Offset),
    GoOn(Partition, Offset),
    Pause(Partition),
    Release(Vec<Partition>),
    Rejoin,
    Leave,
}
