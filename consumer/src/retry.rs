//! Pure: again, when, or stop.

use std::time::Duration;

use keylane_producer::Attempt;

/// How often a job is tried, and how long its key waits between tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, at least 1. Default 5.
    pub attempts: u32,
    /// Longest wait before the second try; doubles with each further one. Default 1 s.
    pub first: Duration,
    /// No wait is longer, whatever the handler asks for. Default 5 min.
    pub longest: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 5, first: Duration::from_secs(1), longest: Duration::from_secs(300) }
    }
}

/// What follows a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try again after this long; only the key waits.
    Again(Duration),
    /// All tries are used up.
    Stop,
}

impl RetryPolicy {
    /// After the try `attempt` failed. `asked` is the wait that the handler asked for. `luck` in 0..1 spreads the waits
    /// (full jitter), so that what failed together does not come back together.
    pub fn decide(&self, attempt: Attempt, asked: Option<Duration>, luck: f64) -> Decision {
        if attempt.0 >= self.attempts {
            return Decision::Stop;
        }
        if let Some(asked) = asked {
            return Decision::Again(asked.min(self.longest));
        }
        let doublings = attempt.0.saturating_sub(1).min(31);
        let ceiling = self.first.saturating_mul(1 << doublings).min(self.longest);
        Decision::Again(ceiling.mul_f64(luck.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POLICY: RetryPolicy =
        RetryPolicy { attempts: 4, first: Duration::from_secs(1), longest: Duration::from_secs(3) };

    #[test]
    fn waits_double_up_to_the_longest_and_then_it_stops() {
        let waits: Vec<_> = (1..=5).map(|n| POLICY.decide(Attempt(n), None, 1.0)).collect();
        let secs = |s| Decision::Again(Duration::from_secs(s));
        assert_eq!(waits, [secs(1), secs(2), secs(3), Decision::Stop, Decision::Stop]);
    }

    #[test]
    fn a_handler_may_ask_for_a_wait_but_not_for_more_than_the_longest() {
        let asked = |s| POLICY.decide(Attempt(1), Some(Duration::from_secs(s)), 0.5);
        assert_eq!(asked(2), Decision::Again(Duration::from_secs(2)));
        assert_eq!(asked(60), Decision::Again(Duration::from_secs(3)));
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_the_longest(n in any::<u32>(), tries in any::<u32>(), luck in -1.0..2.0_f64) {
            let policy = RetryPolicy { attempts: tries, ..POLICY };
            match policy.decide(Attempt(n), None, luck) {
                Decision::Again(wait) => prop_assert!(n < tries && wait <= policy.longest),
                Decision::Stop => prop_assert!(n >= tries),
            }
        }
    }
}
