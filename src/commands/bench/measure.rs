//! Numbers from rounds: medians with their spread, and ratios of sides that ran one after the other.

use keylane_consumer::clock::Clock;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::exit::Failure;

/// A median, and the least and the most that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Of at least one number.
    pub(super) fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_by(f64::total_cmp);
        let middle = numbers.len() / 2;
        let median = if numbers.len().is_multiple_of(2) {
            f64::midpoint(numbers[middle - 1], numbers[middle])
        } else {
            numbers[middle]
        };
        Self { median, min: numbers[0], max: numbers[numbers.len() - 1] }
    }
}

/// Ours and theirs, round for round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) ours: Spread,
    pub(super) theirs: Spread,
    /// Of each round's two numbers, so that what slows the machine for a while weighs on both sides alike.
    pub(super) ratio: Spread,
}

impl Pair {
    pub(super) fn of(rounds: &[(f64, f64)]) -> Self {
        Self {
            ours: Spread::of(rounds.iter().map(|&(ours, _)| ours)),
            theirs: Spread::of(rounds.iter().map(|&(_, theirs)| theirs)),
            ratio: Spread::of(rounds.iter().map(|&(ours, theirs)| ours / theirs)),
        }
    }
}

/// Runs both sides in each round. Which of them goes first alternates.
pub(super) fn side_by_side<A, B>(
    rounds: u32,
    mut ours: impl FnMut() -> Result<A, Failure>,
    mut theirs: impl FnMut() -> Result<B, Failure>,
) -> Result<Vec<(A, B)>, Failure> {
    let mut seen = Vec::new();
    for round in 0..rounds {
        seen.push(if round % 2 == 0 {
            let first = ours()?;
            (first, theirs()?)
        } else {
            let first = theirs()?;
            (ours()?, first)
        });
    }
    Ok(seen)
}

/// Jobs a second while `act` runs.
pub(super) fn rate(jobs: u64, act: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let clock = Clock::boot();
    let begun = clock.now();
    act()?;
    Ok(jobs as f64 / clock.now().since(begun).as_secs_f64())
}

/// Seconds of processor time that all threads of this process have used.
pub(super) fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_the_spread_around_it() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0]).median, 2.5);
    }

    #[test]
    fn a_ratio_is_of_the_two_sides_of_a_round() {
        // The second round was slow for both: its ratio is the same.
        let pair = Pair::of(&[(100.0, 200.0), (10.0, 20.0)]);
        assert_eq!(pair.ratio, Spread { median: 0.5, min: 0.5, max: 0.5 });
    }

    #[test]
    fn the_sides_take_turns_in_going_first() {
        let order = std::cell::RefCell::new(String::new());
        let say = |side| {
            order.borrow_mut().push(side);
            Ok(())
        };
        side_by_side(3, || say('o'), || say('t')).unwrap();
        assert_eq!(order.into_inner(), "ottoot");
    }
}
