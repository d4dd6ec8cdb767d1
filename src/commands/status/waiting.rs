//! How many jobs wait behind a stopped key: the log's records of that key after the one it stopped at.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use keylane_consumer::store::StoppedKey;
use keylane_producer::{Log, Offset, Partition, QueueIdentity};

use crate::exit::Failure;

/// Most records of a partition that are looked through: about a second. Beyond it nobody counts.
const MOST_RECORDS: u64 = 2_000_000;

/// For each stopped key in order; `None` if there are too many records to look through.
pub(super) fn behind(
    log: &mut dyn Log,
    queue: &QueueIdentity,
    stopped: &[(Partition, StoppedKey)],
) -> Result<Vec<Option<u64>>, Failure> {
    let mut counts = vec![Some(0); stopped.len()];
    let mut by_partition: BTreeMap<Partition, HashMap<&[u8], usize>> = BTreeMap::new();
    for (at, (partition, key)) in stopped.iter().enumerate() {
        by_partition.entry(*partition).or_default().insert(key.key.as_bytes(), at);
    }
    for (partition, keys) in by_partition {
        let first = keys.values().map(|&at| stopped[at].1.offset).min().unwrap_or(Offset(0));
        let mut left = MOST_RECORDS;
        log.keys(queue, partition, first, &mut |offset, key| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            if let Some(&at) = key.and_then(|key| keys.get(key))
                && offset > stopped[at].1.offset
            {
                counts[at] = counts[at].map(|count| count + 1);
            }
            ControlFlow::Continue(())
        })?;
        if left == 0 {
            keys.values().for_each(|&at| counts[at] = None);
        }
    }
    Ok(counts)
}
