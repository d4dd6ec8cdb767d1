//! A scribe: writes finished jobs under their fences, one transaction after another.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use crate::{
    clock::Clock,
    error::Error,
    store::{FencedStore, PartitionWrite, PartitionWritten, StoreSession},
};

/// A batch that was tried, whole, and what became of it.
pub(crate) struct Written<S: FencedStore> {
    pub(crate) batch: Vec<PartitionWrite<S>>,
    pub(crate) outcome: Result<Vec<PartitionWritten>, Error>,
    pub(crate) took: Duration,
}

/// Serves until the desk is gone.
pub(crate) fn serve<S: FencedStore>(
    mut session: S::Session,
    clock: &Clock,
    orders: &Receiver<Vec<PartitionWrite<S>>>,
    answers: &Sender<Written<S>>,
) {
    for mut batch in orders {
        let begun = clock.now();
        let outcome = session.write(&mut batch);
        let took = clock.now().since(begun);
        if answers.send(Written { batch, outcome, took }).is_err() {
            return;
        }
    }
}
