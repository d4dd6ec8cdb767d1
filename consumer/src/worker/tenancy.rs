//! One tenure of one partition, while it lasts: its fence, its watermark, what earlier owners left.

use std::{collections::HashMap, sync::Arc};

use keylane_producer::{JobKey, Offset};
use tokio_util::sync::CancellationToken;

use crate::{
    fence::{Fence, Lease},
    lanes::Tenure,
    store::{Claimed, Progress},
    watermark::Watermark,
};

pub(crate) struct Tenancy {
    pub(crate) tenure: Tenure,
    pub(crate) fence: Arc<Fence>,
    pub(crate) watermark: Watermark,
    /// Cancels what runs when the tenure ends.
    pub(crate) cancel: CancellationToken,
    /// What the group has committed, as far as this worker knows.
    pub(crate) committed: Option<Offset>,
    /// The end of the log when it was last fetched.
    pub(crate) end: Offset,
    /// What earlier owners have done above the start.
    done: Progress,
    /// Rows of stopped keys, by the version that was read.
    pub(crate) stopped: HashMap<JobKey, u64>,
    /// Rows to remove with the next write, since their keys run again.
    pub(crate) resumed: Vec<(JobKey, u64)>,
    pub(crate) suspicion: Option<Suspicion>,
}

/// After an unclean take-over: one of these jobs may have killed the last owner.
pub(crate) struct Suspicion {
    /// Jobs from here on cannot have been running then.
    pub(crate) below: Offset,
    /// Owners that died while it ran.
    pub(crate) deaths: HashMap<Offset, u32>,
}

impl Tenancy {
    /// The first tenure's begin: the store decides where; the group's word counts only where the store knows nothing.
    pub(crate) fn begin(
        tenure: Tenure,
        claimed: Claimed,
        committed: Option<Offset>,
        partition: keylane_producer::Partition,
        lease: &Arc<Lease>,
        window: usize,
    ) -> Self {
        let Claimed { token, done, stopped, clean, suspects } = claimed;
        let start = if done == Progress::default() { committed.unwrap_or(Offset(0)) } else { Offset(done.floor) };
        let below = Offset(start.0.saturating_add(window as u64));
        Self {
            tenure,
            fence: Fence::raise(partition, token, Arc::clone(lease)),
            watermark: Watermark::starting_at(start),
            cancel: CancellationToken::new(),
            committed,
            end: start,
            done,
            stopped: stopped.into_iter().map(|s| (s.key, s.version)).collect(),
            resumed: Vec::new(),
            suspicion: (!clean).then(|| Suspicion { below, deaths: suspects.into_iter().collect() }),
        }
    }

    /// Whether an earlier owner has done this offset.
    pub(crate) fn is_done(&self, offset: Offset) -> bool {
        let after = self.done.ranges.partition_point(|&(first, _)| first <= offset.0);
        offset.0 < self.done.floor || after.checked_sub(1).is_some_and(|at| offset.0 <= self.done.ranges[at].1)
    }

    /// The watermark, if the group does not know it yet.
    pub(crate) fn to_commit(&self) -> Option<Offset> {
        let watermark = self.watermark.committable();
        self.committed.is_none_or(|committed| committed < watermark).then_some(watermark)
    }

    /// How many owners died while this job ran; `None` if it is above suspicion.
    pub(crate) fn deaths(&self, offset: Offset) -> Option<u32> {
        let suspicion = self.suspicion.as_ref()?;
        let known = suspicion.deaths.get(&offset).copied();
        known.or((offset < suspicion.below).then_some(0))
    }
}
