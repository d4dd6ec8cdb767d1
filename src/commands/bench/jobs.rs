//! The jobs of every figure: 10,000 keys in turn, payloads of 200 bytes.

use bytes::Bytes;
use keylane_producer::{Job, JobKey};

use crate::exit::Failure;

/// How many keys the jobs have.
pub(super) const KEYS: u64 = 10_000;
/// Jobs, and bare rows, in one transaction.
pub(super) const BATCH: u64 = 1_000;
const PAYLOAD_BYTES: usize = 200;

/// Keys and a payload, made before anything is measured.
pub(super) struct Jobs {
    keys: Vec<JobKey>,
    payload: Bytes,
}

impl Jobs {
    pub(super) fn prepare() -> Result<Self, Failure> {
        // Neighbours in time are not neighbours in the key's order.
        let key = |n: u64| JobKey::try_from(format!("customer-{:05}", n * 7_919 % KEYS).as_str());
        let keys = (0..KEYS).map(key).collect::<Result<_, _>>()?;
        Ok(Self { keys, payload: Bytes::from(vec![b'x'; PAYLOAD_BYTES]) })
    }

    /// The `n`-th job, made now: with a fresh id, as every enqueue does it.
    pub(super) fn job(&self, n: u64) -> Result<Job, Failure> {
        Ok(Job::new(self.key(n).clone(), Some(self.payload.clone()))?)
    }

    pub(super) fn key(&self, n: u64) -> &JobKey {
        &self.keys[usize::try_from(n % KEYS).expect("below 10,000")]
    }

    pub(super) fn payload(&self) -> &Bytes {
        &self.payload
    }
}

/// The batches of so many jobs: first and behind the last of each.
pub(super) fn batches(jobs: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    (0..jobs.div_ceil(BATCH)).map(move |batch| batch * BATCH..jobs.min((batch + 1) * BATCH))
}
