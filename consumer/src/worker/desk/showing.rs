//! What others are shown: states, counts and times. No number of a claim is read here.

use std::collections::HashMap;

use keylane_producer::Partition;
use keylane_sidecar::{PartitionState, WorkerState};

use super::{Desk, keys};
use crate::{
    clock::BootTime,
    handler::Handler,
    lanes::Tenure,
    ownership::Holding,
    store::FencedStore,
    worker::{
        glance::{Finished, Glance, Held, Load},
        tenancy::Tenancy,
    },
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
        let mut is_unsettled = self.ownership.membership().is_none() && self.lease.until() != BootTime::ZERO;
        for (partition, tenure, holding) in self.ownership.holdings() {
            let state = match holding {
                Holding::Draining { .. } | Holding::Closing => PartitionState::Draining,
                _ => PartitionState::Held,
            };
            is_unsettled |= holding == Holding::Claiming || state == PartitionState::Draining;
            let tenancy = self.tenancies.get_mut(&partition).filter(|t| t.tenure == tenure);
            // Assigned and not claimed yet, or refused: nobody who says that it holds a partition may be wrong about it.
            if tenancy.is_none() && state == PartitionState::Held {
                continue;
            }
            held.push(Held {
                partition,
                state,
                claimed: tenancy.is_some(),
                since: sight.held_since(partition, tenure, state, now),
                lag: tenancy.as_ref().zip(sight.read_at(partition, tenure)).map(|(t, at)| (t.waiting(), at)),
                last_completed: sight.completed_at(partition, tenure),
                in_flight: running.get(&(partition, tenure)).copied().unwrap_or(0),
                keys_parked: tenancy.as_ref().map_or(0, |tenancy| tenancy.parked.len() as u64),
                keys: tenancy.as_ref().map_or_else(Vec::new, |tenancy| keys::marked(self.settings.show_keys, tenancy)),
                oldest: tenancy.and_then(Tenancy::oldest_waiting),
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
        let rebalancing_since = sight.unsettled_since(is_unsettled, now);
        sight.show(Glance {
            at: now,
            state,
            since,
            until: self.lease.until(),
            held,
            in_flight,
            rebalancing_since,
            stuck_since: self.stuck_since,
            load: self.load(),
            finished: Finished::of(&self.summary),
            counts: self.counts.clone(),
        });
        self.sight = Some(sight);
    }

    fn load(&self) -> Load {
        let running = self.running.len();
        Load {
            running: running as u64,
            buffered: self.lanes.known().saturating_sub(running) as u64,
            keys_blocked: self.keys_waiting.len() as u64,
            slots: self.settings.lanes.running as u64,
            slots_busy: self.lanes.running() as u64,
            stalled: self.tenancies.values().filter(|tenancy| tenancy.stalled.is_some()).count() as u64,
            polled: self.lease.polled_at(),
        }
    }

    /// The worker holds nothing any more.
    pub(super) fn show_last(&mut self, state: WorkerState) {
        if let Some(sight) = self.sight.take() {
            sight.end(self.clock.now(), state, &self.summary, self.counts.clone());
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
