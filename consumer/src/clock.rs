//! The only reader of time. Nothing else in this crate asks what time it is, so a test can turn the hand.
//!
//! Deadlines count on `CLOCK_BOOTTIME`: it goes on while the machine sleeps, as the group's own clock does.
//! `std::time::Instant` stops then (on Linux), so a worker that slept would believe its deadline far away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine started, sleep included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BootTime(u64);

impl BootTime {
    /// The start of the machine.
    pub const ZERO: Self = Self(0);
    /// Never.
    pub const NEVER: Self = Self(u64::MAX);

    /// From nanoseconds since the start.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub fn nanos(self) -> u64 {
        self.0
    }

    /// Milliseconds since the start.
    pub fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// This much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long from `earlier` to this; zero if it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Where the time comes from: the machine, or a hand that a test turns.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Boot,
    Hand(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's.
    pub fn boot() -> Self {
        Self(Source::Boot)
    }

    /// One that stands still until [`Clock::advance`] is called on it or a clone.
    pub fn by_hand() -> Self {
        Self(Source::Hand(Arc::new(AtomicU64::new(1_000_000_000))))
    }

    /// Now. About 30 ns on Linux.
    pub fn now(&self) -> BootTime {
        match &self.0 {
            Source::Boot => {
                let time = clock_gettime(ClockId::Boottime);
                BootTime(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
            }
            Source::Hand(nanos) => BootTime(nanos.load(Ordering::SeqCst)),
        }
    }

    /// Turns the hand of a clock made by [`Clock::by_hand`]; the machine's cannot be turned.
    pub fn advance(&self, by: Duration) {
        if let Source::Hand(nanos) = &self.0 {
            nanos.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::SeqCst);
        }
    }
}
