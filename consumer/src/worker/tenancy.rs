//! One tenure of one partition, while it lasts: its fence, its watermark, what earlier owners left.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use keylane_producer::{JobKey, Offset, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::{
    clock::BootTime,
    fence::{Fence, Lease, Pass},
    lanes::Tenure,
    spent::Spent,
    store::{Claimed, Note, Progress},
    watermark::Watermark,
};

pub(crate) struct Tenancy {
    pub(crate) tenure: Tenure,
    pub(crate) fence: Arc<Fence>,
    pub(crate) pass: Option<Pass>,
    pub(crate) watermark: Watermark,
    /// Cancels what runs when the tenure ends.
    pub(crate) cancel: CancellationToken,
    /// What the group has committed, as far as this worker knows.
    pub(crate) committed: Option<Offset>,
    /// The end of the log when it was last fetched.
    pub(crate) end: Offset,
    /// When each job that was fetched was enqueued; some are finished by now.
    enqueued: VecDeque<(Offset, Timestamp)>,
    /// When something of it was done last, or it had no work.
    pub(crate) moved: BootTime,
    /// It was told that it stands still since then.
    pub(crate) stalled: Option<BootTime>,
    /// What earlier owners have done above the start.
    done: Progress,
    /// Keys that are parked.
    pub(crate) parked: HashSet<JobKey>,
    /// Jobs that a person wants left out, with what is written down of it.
    pub(crate) skips: HashMap<Offset, Box<str>>,
    /// The version that the row of each key had when its line was read back, for those whose rows are still there.
    pub(crate) lines_read: HashMap<JobKey, u64>,
    /// The time that keys of it took of late.
    pub(crate) spent: Spent,
    /// What people were told of it last.
    pub(crate) noted: Option<Note>,
    /// Rows to remove with the next write, since their lines were empty when a person wanted them run.
    pub(crate) resumed: Vec<(JobKey, u64)>,
    pub(crate) suspicion: Option<Suspicion>,
}

/// Times of fetched jobs that are kept before those of finished ones are taken out.
const SOME_TIMES: usize = 1_024;

/// One of these jobs may have killed an owner.
pub(crate) struct Suspicion {
    /// Jobs from here on cannot have been running when the last owner ended.
    pub(crate) below: Offset,
    /// Owners that died while it ran.
    pub(crate) deaths: HashMap<Offset, u32>,
}

impl Tenancy {
    /// The store says where to begin; what the group has committed only spares a commit.
    pub(crate) fn begin(
        tenure: Tenure,
        claimed: Claimed,
        committed: Option<Offset>,
        partition: keylane_producer::Partition,
        lease: &Arc<Lease>,
        window: usize,
    ) -> Self {
        let Claimed { token, pass, done, stopped, skips, clean, suspects } = claimed;
        let committed = committed.filter(|_| !done.anew || done.floor > 0);
        let start = Offset(done.floor);
        // After an owner that handed over only those that an earlier one died of.
        let below = if clean { Offset(0) } else { Offset(start.0.saturating_add(window as u64)) };
        let suspected = !clean || !suspects.is_empty();
        Self {
            tenure,
            fence: Fence::raise(partition, token, Arc::clone(lease)),
            pass,
            watermark: Watermark::starting_at(start),
            cancel: CancellationToken::new(),
            committed,
            // The log reaches as far as the group has committed, also where the store knows less.
            end: committed.map_or(start, |committed| committed.max(start)),
            enqueued: VecDeque::new(),
            moved: lease.clock().now(),
            stalled: None,
            done,
            parked: stopped.into_iter().map(|stopped| stopped.key).collect(),
            skips: skips.into_iter().map(|skip| (skip.offset, skip.text)).collect(),
            lines_read: HashMap::new(),
            spent: Spent::default(),
            noted: None,
            resumed: Vec::new(),
            suspicion: suspected.then(|| Suspicion { below, deaths: suspects.into_iter().collect() }),
        }
    }

    /// Jobs that are not finished.
    pub(crate) fn waiting(&self) -> u64 {
        let unread = self.end.0.saturating_sub(self.watermark.position().0);
        unread + self.watermark.unfinished() as u64
    }

    /// A job was fetched; they come in the order of their offsets.
    pub(crate) fn fetched(&mut self, offset: Offset, enqueued: Timestamp) {
        self.enqueued.push_back((offset, enqueued));
        // However many are finished above one that is not.
        if self.enqueued.len() > SOME_TIMES && self.enqueued.len() > 4 * self.watermark.unfinished() {
            self.enqueued.retain(|&(offset, _)| self.watermark.is_open(offset));
        }
    }

    /// When the oldest job that was fetched and is not finished was enqueued.
    pub(crate) fn oldest_waiting(&mut self) -> Option<Timestamp> {
        let done = self.watermark.committable();
        while self.enqueued.front().is_some_and(|&(offset, _)| offset < done) {
            self.enqueued.pop_front();
        }
        self.enqueued.front().map(|&(_, at)| at)
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

    /// Its key is parked: if a person has its line run, it begins anew.
    pub(crate) fn acquit(&mut self, offset: Offset) {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.deaths.remove(&offset);
        }
    }

    /// How many owners died while this job ran; `None` if it is above suspicion.
    pub(crate) fn deaths(&self, offset: Offset) -> Option<u32> {
        let suspicion = self.suspicion.as_ref()?;
        let known = suspicion.deaths.get(&offset).copied();
        known.or((offset < suspicion.below).then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use keylane_producer::Partition;

    use super::*;
    use crate::{
        clock::Clock,
        fence::{FenceToken, Generation},
    };

    fn taken_over(clean: bool, suspects: Vec<(Offset, u32)>) -> Tenancy {
        let token = FenceToken::minted(1, Generation::new(1).unwrap(), 1);
        let claimed = Claimed {
            token,
            pass: None,
            done: Progress::default(),
            stopped: Vec::new(),
            skips: Vec::new(),
            clean,
            suspects,
        };
        let lease = Lease::new(Clock::by_hand(), Duration::from_secs(1));
        Tenancy::begin(Tenure(1), claimed, None, Partition(0), &lease, 100)
    }

    #[test]
    fn the_store_says_where_to_begin_and_the_group_is_told_what_it_does_not_know() {
        let begun = |done| {
            let token = FenceToken::minted(1, Generation::new(1).unwrap(), 1);
            let claimed = Claimed {
                token,
                pass: None,
                done,
                stopped: Vec::new(),
                skips: Vec::new(),
                clean: true,
                suspects: Vec::new(),
            };
            let lease = Lease::new(Clock::by_hand(), Duration::from_secs(1));
            let tenancy = Tenancy::begin(Tenure(1), claimed, Some(Offset(7)), Partition(0), &lease, 100);
            (tenancy.watermark.position(), tenancy.to_commit())
        };
        let known = |floor, anew| Progress { floor, anew, ..Progress::default() };
        assert_eq!(begun(known(0, false)), (Offset(0), None), "what the store lost runs again");
        assert_eq!(begun(known(0, true)), (Offset(0), Some(Offset(0))), "and the group is told");
        assert_eq!(begun(known(9, false)), (Offset(9), Some(Offset(9))));
        assert_eq!(begun(known(9, true)), (Offset(9), Some(Offset(9))));
    }

    #[test]
    fn the_oldest_that_waits_is_known_and_memory_follows_what_is_not_finished() {
        let mut tenancy = taken_over(true, Vec::new());
        assert_eq!(tenancy.oldest_waiting(), None);
        for n in 0..10_000 {
            tenancy.watermark.deliver(Offset(n));
            tenancy.fetched(Offset(n), Timestamp(1_000 + n.cast_signed()));
            // The first one stays.
            if n > 0 {
                tenancy.watermark.finish(Offset(n));
            }
        }
        assert_eq!(tenancy.oldest_waiting(), Some(Timestamp(1_000)));
        assert!(tenancy.enqueued.len() <= SOME_TIMES + 1, "{}", tenancy.enqueued.len());
        tenancy.watermark.finish(Offset(0));
        assert_eq!(tenancy.oldest_waiting(), None);
    }

    #[test]
    fn nobody_is_suspected_after_an_owner_that_handed_over() {
        let tenancy = taken_over(true, Vec::new());
        assert_eq!((tenancy.deaths(Offset(0)), tenancy.deaths(Offset(7))), (None, None));
    }

    #[test]
    fn all_that_may_have_run_are_suspected_after_one_that_did_not() {
        let tenancy = taken_over(false, vec![(Offset(7), 2)]);
        assert_eq!([0, 7, 99, 100].map(|o| tenancy.deaths(Offset(o))), [Some(0), Some(2), Some(0), None]);
    }

    /// Else a rebalance between two deaths would start the count anew.
    #[test]
    fn deaths_are_remembered_across_an_owner_that_handed_over() {
        let mut tenancy = taken_over(true, vec![(Offset(7), 2)]);
        assert_eq!([0, 7, 99].map(|o| tenancy.deaths(Offset(o))), [None, Some(2), None]);
        tenancy.acquit(Offset(7));
        assert_eq!(tenancy.deaths(Offset(7)), None, "its key was parked");
    }
}
