//! What others are shown: states, counts and times. No number of a claim is read here.

use std::collections::HashMap;

use keylane_producer::Partition;
use keylane_sidecar::{PartitionState, WorkerState};

use super::Desk;
use crate::{
    clock::BootTime,
    handler::Handler,
    lanes::Tenure,
    ownership::Holding,
    store::FencedStore,
    worker::sight::{Glance, Held},
};

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    /// Puts down what the worker holds, when it is time.
    pub(super) fn show(&mut self, now: BootTime) {
        let Some(mut sight) = self.sight.take_if(|sight| sight.next() <= now) else { return };
        let mut running: HashMap<(Partition, Tenure), u64> = HashMap::new();
        for ticket in self.running.keys() {
            *running.entry((ticket.partition, ticket.tenure)).or_default() += 1;
        }
        let mut held = Vec::new();
        for (partition, tenure, holding) in self.ownership.holdings() {
            let state = match holding {
                Holding::Draining { .. } | Holding::Closing => PartitionState::Draining,
                _ => PartitionState::Held,
            };
            let tenancy = self.tenancies.get(&partition).filter(|t| t.tenure == tenure);
            // Assigned and not claimed yet, or refused: nobody who says that it holds a partition may be wrong about it.
            if tenancy.is_none() && state == PartitionState::Held {
                continue;
            }
            held.push(Held {
                partition,
                state,
                claimed: tenancy.is_some(),
                since: sight.held_since(partition, tenure, state, now),
                lag: tenancy.zip(sight.read_at(partition, tenure)).map(|(t, at)| (t.waiting(), at)),
                last_completed: sight.completed_at(partition, tenure),
                in_flight: running.get(&(partition, tenure)).copied().unwrap_or(0),
            });
        }
        held.sort_by_key(|held| held.partition);
        let state = match (self.end_by, self.ownership.membership()) {
            (Some(_), _) => WorkerState::Draining,
            (None, None) if self.lease.until() == BootTime::ZERO => WorkerState::Starting,
            (None, _) => WorkerState::Running,
        };
        let since = sight.worker_since(state, now);
        let in_flight = self.running.len() as u64;
        sight.show(Glance { at: now, state, since, until: self.lease.until(), held, in_flight });
        self.sight = Some(sight);
    }

    /// The worker holds nothing any more.
    pub(super) fn show_last(&mut self, state: WorkerState) {
        if let Some(sight) = self.sight.take() {
            sight.end(self.clock.now(), state, self.summary.cut_short.len() as u64);
        }
    }

    pub(super) fn show_completed(&mut self, partition: Partition, tenure: Tenure) {
        let now = self.clock.now();
        if let Some(sight) = &mut self.sight {
            sight.was_completed(partition, tenure, now);
        }
    }

    pub(super) fn show_read(&mut self, partition: Partition, tenure: Tenure) {
        let now = self.clock.now();
        if let Some(sight) = &mut self.sight {
            sight.was_read(partition, tenure, now);
        }
    }
}
