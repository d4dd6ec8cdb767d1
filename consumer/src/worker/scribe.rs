//! A scribe: writes finished jobs under their fences, one transaction after another.

use crossbeam_channel::{Receiver, Sender};

use crate::{
    error::Error,
    store::{FencedStore, PartitionWrite, PartitionWritten, StoreSession},
};

/// A batch that was tried, whole, and what became of it.
pub(crate) struct Written<S: FencedStore> {
    pub(crate) batch: Vec<PartitionWrite<S>>,
    pub(crate) outcome: Result<Vec<PartitionWritten>, Error>,
}

/// Serves until the desk is gone.
pub(crate) fn serve<S: FencedStore>(
    mut session: S::Session,
    orders: &Receiver<Vec<PartitionWrite<S>>>,
    answers: &Sender<Written<S>>,
) {
    for mut batch in orders {
        let outcome = session.write(&mut batch);
        if answers.send(Written { batch, outcome }).is_err() {
            return;
        }
    }
}
