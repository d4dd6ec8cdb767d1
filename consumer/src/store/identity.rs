//! What is pinned of a queue's identity, and that it is still the same.

use keylane_producer::QueueIdentity;

use crate::error::{Detail, Error};

/// What must not change under a running worker.
pub(super) struct Facts {
    pub(super) cluster: String,
    pub(super) incarnation: String,
    pub(super) partitions: u32,
    pub(super) hash: String,
    pub(super) former: String,
}

/// As they are kept: `3,6`.
pub(super) fn former_counts(text: &str) -> Vec<u32> {
    text.split(',').filter_map(|count| count.parse().ok()).collect()
}

impl Facts {
    /// Refuses another identity: which fact, and what to do about it.
    pub(super) fn compare(&self, queue: &QueueIdentity) -> Result<(), Error> {
        let same_queue = "a queue of this name was made anew: its offsets begin again and old markers would hide new \
                          jobs; use another group, a store of its own, or forget the old ones: keylane fence reset";
        let same_count = "a count change moves keys: make a new queue, drain this one and switch; where it has happened \
                          already: keylane fence reset";
        let differs = |fact: &str, pinned: &str, found: &str, remedy: &str| {
            Err(Error::Invalid(
                Detail::new(format!(
                    "the {fact} of queue '{}' is {found}, but the store was pinned to {pinned}",
                    queue.name
                ))
                .remedy(remedy),
            ))
        };
        let (partitions, hash) = (queue.partitions.0.get(), queue.hash.as_str());
        if self.cluster != *queue.cluster {
            let remedy = "this store belongs to another broker's queue: check --broker and --store; if the queue has moved \
                          there: keylane fence reset";
            return differs("cluster", &self.cluster, &queue.cluster, remedy);
        }
        if self.partitions != partitions {
            return differs("partition count", &self.partitions.to_string(), &partitions.to_string(), same_count);
        }
        if self.hash != hash {
            return differs("key hash", &self.hash, hash, same_count);
        }
        if self.incarnation != *queue.incarnation.0 {
            return differs("incarnation", &self.incarnation, &queue.incarnation.0, same_queue);
        }
        Ok(())
    }
}
