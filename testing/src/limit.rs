//! Waiting for a condition, with a limit.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Until when something is waited for.
pub(super) struct Limit {
    start: Instant,
    length: Duration,
}

impl Limit {
    pub(super) fn of(length: Duration) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the limit of a wait in a test")]
        Self { start: Instant::now(), length }
    }

    /// A nap before the condition is looked at again; an error once the limit has passed, with what was waited for.
    pub(super) fn nap(&self, what: impl FnOnce() -> String) -> Result<()> {
        if self.start.elapsed() >= self.length {
            bail!("waited {} s in vain for {}", self.length.as_secs(), what());
        }
        // Between two looks at the condition.
        std::thread::park_timeout(Duration::from_millis(30));
        Ok(())
    }
}
