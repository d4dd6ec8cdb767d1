//! So many acts a second at most.

use std::{thread, time::Duration};

use keylane_consumer::clock::{BootTime, Clock};

/// When the next one may be.
pub(super) struct Pace {
    clock: Clock,
    every: Duration,
    next: BootTime,
}

impl Pace {
    pub(super) fn of(a_second: Option<u32>) -> Self {
        let clock = Clock::boot();
        let every = a_second.map_or(Duration::ZERO, |acts| Duration::from_secs(1) / acts.max(1));
        Self { next: clock.now(), clock, every }
    }

    /// Returns when it is time for the next.
    pub(super) fn wait(&mut self) {
        loop {
            let now = self.clock.now();
            if now >= self.next {
                self.next = now.plus(self.every);
                return;
            }
            thread::park_timeout(self.next.since(now));
        }
    }
}
