//! Pure: again, when, or stop.

use std::time::Duration;

use keylane_producer::Attempt;

use crate::store::StopRule;

/// How often a job is tried, and how long its key waits between tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, at least 1. Default 5.
    pub attempts: u32,
    /// Longest wait before the second try; doubles with each further one. Default 1 s.
    pub first: Duration,
    /// No wait is longer, whatever the handler asks for. Default 5 min.
    pub longest: Duration,
    /// A try that would begin later than this after the first one failed is not made. Default: no such bound.
    pub give_up_after: Option<Duration>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 5, first: Duration::from_secs(1), longest: Duration::from_secs(300), give_up_after: None }
    }
}

/// What follows a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try again after this long; only the key waits.
    Again(Duration),
    /// No further try; why.
    Stop(StopRule),
}

impl RetryPolicy {
    /// After the try `attempt` failed, `failing` after the first one did. `asked` is the wait that the handler asked for.
    /// `luck` in 0..1 spreads the waits (full jitter), so that what failed together does not come back together.
    pub fn decide(&self, attempt: Attempt, failing: Duration, asked: Option<Duration>, luck: f64) -> Decision {
        if attempt.0 >= self.attempts {
            return Decision::Stop(StopRule::OutOfAttempts);
        }
        let wait = asked.map_or_else(|| self.wait(attempt, luck), |asked| asked.min(self.longest));
        if self.give_up_after.is_some_and(|limit| failing.saturating_add(wait) > limit) {
            return Decision::Stop(StopRule::OutOfTime);
        }
        Decision::Again(wait)
    }

    fn wait(&self, attempt: Attempt, luck: f64) -> Duration {
        let doublings = attempt.0.saturating_sub(1).min(31);
        let ceiling = self.first.saturating_mul(1 << doublings).min(self.longest);
        ceiling.mul_f64(luck.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts: 4,
        first: Duration::from_secs(1),
        longest: Duration::from_secs(3),
        give_up_after: None,
    };
    const OUT_OF_ATTEMPTS: Decision = Decision::Stop(StopRule::OutOfAttempts);

    #[test]
    fn waits_double_up_to_the_longest_and_then_it_stops() {
        let waits: Vec<_> = (1..=5).map(|n| POLICY.decide(Attempt(n), Duration::ZERO, None, 1.0)).collect();
        let secs = |s| Decision::Again(Duration::from_secs(s));
        assert_eq!(waits, [secs(1), secs(2), secs(3), OUT_OF_ATTEMPTS, OUT_OF_ATTEMPTS]);
    }

    #[test]
    fn a_handler_may_ask_for_a_wait_but_not_for_more_than_the_longest() {
        let asked = |s| POLICY.decide(Attempt(1), Duration::ZERO, Some(Duration::from_secs(s)), 0.5);
        assert_eq!(asked(2), Decision::Again(Duration::from_secs(2)));
        assert_eq!(asked(60), Decision::Again(Duration::from_secs(3)));
    }

    #[test]
    fn no_try_begins_later_than_the_bound_after_the_first_one_failed() {
        let policy = RetryPolicy { give_up_after: Some(Duration::from_secs(10)), attempts: u32::MAX, ..POLICY };
        let after = |failing, asked| {
            policy.decide(Attempt(3), Duration::from_secs(failing), Some(Duration::from_secs(asked)), 0.0)
        };
        assert_eq!(after(0, 2), Decision::Again(Duration::from_secs(2)));
        assert_eq!(after(8, 2), Decision::Again(Duration::from_secs(2)), "at the bound");
        assert_eq!(after(9, 2), Decision::Stop(StopRule::OutOfTime));
        assert_eq!(after(u64::MAX, 2), Decision::Stop(StopRule::OutOfTime));
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_the_longest(n in any::<u32>(), tries in any::<u32>(), luck in -1.0..2.0_f64) {
            let policy = RetryPolicy { attempts: tries, ..POLICY };
            match policy.decide(Attempt(n), Duration::ZERO, None, luck) {
                Decision::Again(wait) => prop_assert!(n < tries && wait <= policy.longest),
                stop => prop_assert!(n >= tries && stop == OUT_OF_ATTEMPTS),
            }
        }
    }
}
