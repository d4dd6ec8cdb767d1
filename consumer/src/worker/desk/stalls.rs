//! The watchdog of partitions: one that has work, and in which nothing was done for a stated time, is told once, with the cause
//! as far as this worker knows it. It decides nothing.

use std::time::Duration;

use keylane_producer::Partition;

use super::Desk;
use crate::{
    clock::BootTime,
    handler::Handler,
    notice::{Notice, StallCause},
    store::FencedStore,
    worker::tenancy::Tenancy,
};

/// How often it looks, at most; a shorter bound is looked at as often as it is long.
const LOOK: Duration = Duration::from_secs(1);

impl<S: FencedStore, H: Handler<S>> Desk<S, H> {
    /// Tells which partitions stand still, and which move again.
    pub(super) fn look_for_stalls(&mut self, now: BootTime) {
        if now < self.next_stall_look {
            return;
        }
        self.next_stall_look = now.plus(LOOK.min(self.settings.stall_after));
        let mut stalled = Vec::new();
        for (&partition, tenancy) in &mut self.tenancies {
            let waiting = tenancy.waiting();
            if waiting == 0 {
                tenancy.moved = now;
            }
            let after = now.since(tenancy.moved);
            match tenancy.stalled {
                Some(since) if tenancy.moved > since => {
                    tenancy.stalled = None;
                    (self.notices)(Notice::MovesAgain { partition, after: tenancy.moved.since(since) });
                }
                None if after >= self.settings.stall_after => {
                    tenancy.stalled = Some(tenancy.moved);
                    stalled.push((partition, after, waiting));
                }
                _ => {}
            }
        }
        for (partition, after, waiting) in stalled {
            let cause = self.stall_cause(partition, now);
            (self.notices)(Notice::Stalled { partition, after, waiting, cause });
        }
        self.stuck_since = self.stuck_since(now);
    }

    /// Since when every partition that has work was told to stand still, and nothing that is known here holds any of them up: only then
    /// could a new process do better.
    fn stuck_since(&self, now: BootTime) -> Option<BootTime> {
        let with_work = || self.tenancies.iter().filter(|(_, tenancy)| tenancy.waiting() > 0);
        let since = with_work().filter_map(|(_, tenancy)| tenancy.stalled).max()?;
        let is_stuck = |partition, tenancy: &Tenancy| {
            tenancy.stalled.is_some() && self.stall_cause(partition, now) == StallCause::Unknown
        };
        with_work().all(|(&partition, tenancy)| is_stuck(partition, tenancy)).then_some(since)
    }

    /// Something of it was done, or went to its line.
    pub(super) fn has_moved(&mut self, partition: Partition) {
        let now = self.clock.now();
        if let Some(tenancy) = self.tenancies.get_mut(&partition) {
            tenancy.moved = now;
        }
    }

    /// What holds the whole worker first, then what holds the partition.
    pub(super) fn stall_cause(&self, partition: Partition, now: BootTime) -> StallCause {
        if let Err(why) = self.lease.check() {
            return StallCause::Halted(why);
        }
        if let Some((&what, _)) = self.away.iter().min_by_key(|&(_, since)| *since) {
            return StallCause::Away(what);
        }
        if self.outbox.full.contains_key(&partition) {
            return StallCause::LinesFull;
        }
        let running = self.running.iter().filter(|(ticket, _)| ticket.partition == partition);
        if let Some((_, run)) = running.min_by_key(|(_, run)| run.since) {
            return StallCause::Runs { job: run.job.id.clone(), since: now.since(run.since) };
        }
        if let Some((_, waits)) = self.keys_waiting.iter().find(|(ticket, _)| ticket.partition == partition) {
            return StallCause::WaitsForItsNextTry(waits.key.clone());
        }
        if self.lanes.running() >= self.settings.lanes.running {
            return StallCause::NoFreeHand;
        }
        StallCause::Unknown
    }
}
