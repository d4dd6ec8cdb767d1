//! Maps keyed by numbers that are ours: partitions, tickets. No stranger chooses them, so their hash need not be keyed;
//! maps keyed by what comes from outside (job keys) keep the standard one.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

/// A map keyed by our own numbers.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
/// A set of our own numbers.
pub(crate) type NumberSet<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;

/// Mixes each number in with one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

/// Odd, with its bits well spread: 2^64 by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(SPREAD);
    }

    /// The high bits are the well mixed ones, and a map takes its buckets from the low ones.
    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use keylane_producer::{Offset, Partition};

    use super::*;
    use crate::lanes::{Tenure, Ticket};

    #[test]
    fn neighbouring_tickets_are_spread_over_the_buckets() {
        let hash = BuildHasherDefault::<NumberHasher>::default();
        let tickets = (0..8).flat_map(|partition| {
            (0..512).map(move |offset| Ticket {
                partition: Partition(partition),
                tenure: Tenure(u64::from(partition) + 1),
                offset: Offset(1_000_000 + offset),
            })
        });
        let mut buckets = vec![0; 4_096];
        for ticket in tickets {
            buckets[usize::try_from(hash.hash_one(ticket) % 4_096).unwrap()] += 1;
        }
        // At random some 63 % of the buckets are taken, and 6 or 7 tickets share the fullest.
        assert!(buckets.iter().filter(|&&tickets| tickets > 0).count() > 2_000);
        assert!(buckets.iter().all(|&tickets| tickets <= 12));
    }
}
