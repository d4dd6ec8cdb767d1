//! Where a key's jobs lie.

use keylane_producer::{Partition, PartitionCount, partition_of};

/// The queue's partition count, and the ones it had before an operator accepted more.
pub(crate) struct Places {
    pub(crate) count: PartitionCount,
    pub(crate) former: Vec<PartitionCount>,
}

impl Places {
    /// Where jobs of this key are put now.
    pub(crate) fn of(&self, key: &[u8]) -> Partition {
        partition_of(key, self.count)
    }

    /// Whether jobs of this key were ever put there. Between a raised count and the end of the older jobs a key may have
    /// jobs in two partitions, so two at once: who raises a count says so.
    pub(crate) fn ever_of(&self, key: &[u8], partition: Partition) -> bool {
        self.of(key) == partition || self.former.iter().any(|&count| partition_of(key, count) == partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_an_earlier_count_are_at_home_where_it_put_them() {
        let count = |n: u32| n.to_string().parse::<PartitionCount>().unwrap();
        let before = Places { count: count(6), former: Vec::new() };
        let after = Places { count: count(6), former: vec![count(3)] };
        let moved = (0..100)
            .map(|n| format!("key-{n}"))
            .find(|key| partition_of(key.as_bytes(), count(3)) != partition_of(key.as_bytes(), count(6)));
        let key = moved.unwrap();
        let old = partition_of(key.as_bytes(), count(3));
        assert!(!before.ever_of(key.as_bytes(), old) && after.ever_of(key.as_bytes(), old));
        let elsewhere = (0..6).map(Partition).find(|&p| p != old && p != after.of(key.as_bytes())).unwrap();
        assert!(!after.ever_of(key.as_bytes(), elsewhere));
    }
}
