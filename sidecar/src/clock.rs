//! The clock of whoever watches: its own, since it may not know the crate that mints tokens.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// One moment, on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the machine started, sleep included: ages and sessions are counted on it.
    pub boot_ms: u64,
    /// Unix time in milliseconds: shown, never counted on.
    pub wall_ms: i64,
}

impl Now {
    /// Reads both clocks.
    pub fn read() -> Self {
        let millis = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
        };
        Self { boot_ms: millis(ClockId::Boottime).cast_unsigned(), wall_ms: millis(ClockId::Realtime) }
    }

    /// The same moment so much later, on both clocks.
    #[cfg(any(feature = "board", test))]
    #[must_use]
    pub fn later(self, ms: u64) -> Self {
        Self { boot_ms: self.boot_ms + ms, wall_ms: self.wall_ms + ms.cast_signed() }
    }

    /// Milliseconds since that moment of the boot clock.
    pub fn since(self, boot_ms: u64) -> u64 {
        self.boot_ms.saturating_sub(boot_ms)
    }
}

/// Time that passed while the machine was awake: for how long something took.
pub(crate) fn running() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
