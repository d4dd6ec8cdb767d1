//! Pure: which keys took the most time of late, in bounded memory.
//!
//! Space-Saving (Metwally, Agrawal, El Abbadi 2005): a fixed number of counters; a key without one takes over the smallest and its
//! count, so what is told of a key is never less than it took, and too much by the smallest counter at most. Short runs are sampled:
//! one of time `t` counts as [`GRAIN`] with the chance `t / GRAIN`, so the sum is right on the average and a million short jobs cost
//! next to nothing. All counts are halved now and then, by which "of late" is meant.

use std::{collections::HashMap, time::Duration};

use keylane_producer::JobKey;

/// Runs shorter than this are sampled.
pub(crate) const GRAIN: Duration = Duration::from_millis(10);
/// Keys that are counted.
const COUNTERS: usize = 128;

/// Time by key.
#[derive(Debug, Default)]
pub(crate) struct Spent(HashMap<JobKey, Duration>);

impl Spent {
    /// A run of the key took so long. `luck` in 0..1 decides whether a short one counts.
    pub(crate) fn add(&mut self, key: &JobKey, took: Duration, luck: impl FnOnce() -> f64) {
        let counts = if took >= GRAIN {
            took
        } else if luck() < took.as_secs_f64() / GRAIN.as_secs_f64() {
            GRAIN
        } else {
            return;
        };
        if let Some(spent) = self.0.get_mut(key) {
            *spent += counts;
            return;
        }
        let mut before = Duration::ZERO;
        if self.0.len() == COUNTERS
            && let Some(least) = self.0.iter().min_by_key(|(_, spent)| **spent).map(|(key, _)| key.clone())
        {
            before = self.0.remove(&least).unwrap_or_default();
        }
        self.0.insert(key.clone(), before + counts);
    }

    /// What was before counts half of it from now on.
    pub(crate) fn halve(&mut self) {
        self.0.retain(|_, spent| {
            *spent /= 2;
            *spent >= GRAIN
        });
    }

    /// What is told of the key.
    pub(crate) fn of(&self, key: &JobKey) -> Duration {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// The keys with the most, the most first.
    pub(crate) fn top(&self, most: usize) -> Vec<(JobKey, Duration)> {
        let mut all: Vec<_> = self.0.iter().map(|(key, spent)| (key.clone(), *spent)).collect();
        all.sort_unstable_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
        all.truncate(most);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> JobKey {
        JobKey::try_from(format!("key-{n}").as_str()).unwrap()
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_key_that_takes_more_than_its_share_is_found_among_many_and_memory_is_bounded() {
        let mut spent = Spent::default();
        for n in 0..100_000 {
            spent.add(&key(n), 10 * MS, || unreachable!("long enough"));
            if n % 50 == 0 {
                spent.add(&key(0), 1_000 * MS, || unreachable!("long enough"));
            }
        }
        assert!(spent.0.len() <= COUNTERS);
        let (hot, took) = spent.top(1).remove(0);
        assert_eq!(hot, key(0));
        assert!(took >= 2_000_000 * MS, "never less than it took");
        assert!(took <= 2_000_000 * MS + 3_000_000 * MS / 128, "and not much more: {took:?}");
    }

    #[test]
    fn short_runs_count_by_chance_and_right_on_the_average() {
        let mut spent = Spent::default();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..100_000 {
            spent.add(&key(1), MS / 10, || random.f64());
        }
        let told = spent.of(&key(1)).as_secs_f64();
        assert!((9.0..11.0).contains(&told), "10 s in runs of a tenth of a millisecond: {told}");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut spent = Spent::default();
        spent.add(&key(1), 1_000 * MS, || 0.0);
        (0..7).for_each(|_| spent.halve());
        assert!(spent.of(&key(1)) < 10 * MS && spent.0.is_empty());
    }
}
