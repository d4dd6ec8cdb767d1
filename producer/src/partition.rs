//! Key to partition, as Java's default partitioner does it, so that any Java-compatible producer agrees.
//!
//! The vectors in the tests hold this for ever: a change here moves keys to other partitions under running
//! workers. Mixing producers that hash otherwise voids per-key order; the worker quarantines what it can see.

use std::{fmt, num::NonZeroU32};

/// A partition's number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record's place in its partition, from 0. Offsets rise and may have gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

impl Offset {
    /// The place after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many partitions a queue has; pinned in its identity, since another count moves keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionCount(pub NonZeroU32);

impl PartitionCount {
    /// All partitions, ascending.
    pub fn all(self) -> impl Iterator<Item = Partition> {
        (0..self.0.get()).map(Partition)
    }
}

impl fmt::Display for PartitionCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The partition of a key: `(murmur2(key) & 0x7fffffff) mod count`.
pub fn partition_of(key: &[u8], count: PartitionCount) -> Partition {
    Partition((murmur2(key) & 0x7fff_ffff) % count.0)
}

/// MurmurHash2, 32 bit, with the seed and the byte order of Kafka's Java client.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;

    let mut hash = SEED ^ u32::try_from(data.len()).expect("no record holds a key of 4 GiB");
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes(word.try_into().expect("a chunk of 4")).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, &byte) in rest.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_12(key: &str) -> u32 {
        partition_of(key.as_bytes(), PartitionCount(NonZeroU32::new(12).unwrap())).0
    }

    #[test]
    fn a_key_has_the_partition_that_java_gives_it() {
        let found = ["a", "order-1", "order-2", "kafka", ""].map(of_12);
        assert_eq!(found, [4, 10, 3, 4, 9]);
    }

    /// The hash values that Apache Kafka's own tests publish for its Java implementation.
    #[test]
    fn the_hash_has_the_values_of_kafka_s_own_tests() {
        let known: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }
}
