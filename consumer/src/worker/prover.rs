//! The prover: commits offsets, which is also how ownership is proved, and closes what is given back.
//!
//! One order after another, so no commit of a partition is under way when it is released.

use std::{sync::Arc, time::Duration};

use crossbeam_channel::{Receiver, Sender};
use keylane_producer::{Offset, Partition};

use crate::{
    clock::{BootTime, Clock},
    fence::Fence,
    group::{Commit, CommitError, GroupControl},
    lanes::Tenure,
    store::{FencedStore, StoreSession},
};

/// What the prover is asked.
pub(crate) enum Order {
    /// Commit these watermarks, of the tenures named.
    Prove { commit: Commit, tenures: Vec<(Partition, Tenure, Offset)>, limit: Duration },
    /// Commit a last time, hand over in the store, release.
    Close { partition: Partition, closing: Option<Closing>, limit: Duration },
}

/// The last acts of a tenure.
pub(crate) struct Closing {
    pub(crate) tenure: Tenure,
    pub(crate) fence: Arc<Fence>,
    /// The watermark, if it is above what was committed.
    pub(crate) commit: Option<Commit>,
    /// Everything that started has ended.
    pub(crate) clean: bool,
}

/// What became of it.
pub(crate) enum Proved {
    /// `t0` was read before the call.
    Committed {
        t0: BootTime,
        took: Duration,
        commit: Commit,
        tenures: Vec<(Partition, Tenure, Offset)>,
        outcome: Result<(), CommitError>,
    },
    /// The partition is released, whatever came of its last commit.
    Closed { partition: Partition, tenure: Option<Tenure>, clean: bool },
}

/// Serves until the desk is gone.
pub(crate) fn serve<S: FencedStore>(
    group: &dyn GroupControl,
    mut store: S::Session,
    clock: &Clock,
    orders: &Receiver<Order>,
    answers: &Sender<Proved>,
) {
    for order in orders {
        let answer = match order {
            Order::Prove { commit, tenures, limit } => {
                let t0 = clock.now();
                let outcome = group.commit(&commit, limit);
                let took = clock.now().since(t0);
                Proved::Committed { t0, took, commit, tenures, outcome }
            }
            Order::Close { partition, closing, limit } => {
                let (tenure, clean) = match &closing {
                    Some(closing) => (Some(closing.tenure), close::<S>(group, &mut store, closing, limit)),
                    None => (None, true),
                };
                group.release(&[partition]);
                Proved::Closed { partition, tenure, clean }
            }
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}

/// Whether the partition was handed over in order. A last commit that fails costs nothing: the markers know.
fn close<S: FencedStore>(group: &dyn GroupControl, store: &mut S::Session, closing: &Closing, limit: Duration) -> bool {
    if let Some(commit) = &closing.commit
        && let Err(error) = group.commit(commit, limit)
    {
        tracing::debug!(partition = closing.fence.partition().0, %error, "the last commit failed; the markers know");
    }
    // Also if a drain was cut short: whoever says so is alive, and no job has killed it.
    let handed_over = matches!(store.hand_over(&closing.fence), Ok(Ok(())));
    closing.fence.give_up();
    closing.clean && handed_over
}
