//! One look at group, store and log together. It opens, reads and writes nothing down.

use std::{collections::BTreeMap, ops::ControlFlow};

use keylane_consumer::{
    group::GroupWatch,
    store::{NoteRead, Progress, RefusedWrites, StoppedKey},
    view::{self, Seen},
};
use keylane_producer::{GroupName, Log, Offset, Partition, QueueIdentity, Timestamp, log::Bounds, partition_of};
use keylane_sidecar::{PartitionState, Snapshot};

use crate::{broker, cli::Global, commands::queue::identity, exit::Failure, store::Store};

/// Open connections, to look again and again.
pub(crate) struct Eye {
    pub(crate) queue: QueueIdentity,
    pub(crate) log: Box<dyn Log>,
    group: GroupName,
    reader: Box<dyn GroupWatch>,
    store: Store,
}

/// What was seen at one moment.
pub(crate) struct Picture {
    pub(crate) at: Timestamp,
    pub(crate) snapshot: Snapshot,
    /// Also those that were released and do not run yet.
    pub(crate) stopped: Vec<(Partition, StoppedKey)>,
    pub(crate) refused: Vec<(Partition, RefusedWrites)>,
    /// Partitions with records in quarantine, and how many.
    pub(crate) quarantined: Vec<(Partition, u64)>,
    /// Partitions with dead letters, and how many.
    pub(crate) dead: Vec<(Partition, u64)>,
    /// What the owners of partitions tell of them, where somebody owns them now.
    pub(crate) notes: Vec<(Partition, NoteRead)>,
    /// How far the store's clock is ahead of this machine's, in milliseconds, if it has one of its own. Nothing depends on it.
    pub(crate) clock_skew_ms: Option<i64>,
}

impl Eye {
    pub(crate) fn open(global: &Global) -> Result<Self, Failure> {
        let mut log = broker::open(global)?;
        let queue = identity(&mut *log, global)?;
        let store = Store::named(global)?;
        let reader = broker::watch(global, &queue)?;
        Ok(Self { queue, log, group: global.group.clone(), reader, store })
    }

    pub(crate) fn look(&mut self) -> Result<Picture, Failure> {
        let store = self.store.look(&self.queue, &self.group)?;
        let clock_skew_ms = self.store.clock_skew()?;
        let members = self.reader.overview()?;
        // The ends last: they can only be further than what is done.
        let mut bounds = BTreeMap::new();
        for partition in self.queue.partitions.all() {
            let row = store.iter().flatten().find(|row| row.partition == partition);
            let committed = members.committed.get(&partition).copied().flatten();
            bounds.insert(partition, self.bounds(partition, row.map(|row| &row.done), committed)?);
        }
        let at = Timestamp::now();
        let snapshot = view::of_group(&Seen {
            at,
            observer: "keylane-status",
            queue: &self.queue,
            group: &self.group,
            members: &members,
            store: store.as_deref(),
            bounds: &bounds,
        });
        let (stopped, refused, quarantined, dead, notes) = (vec![], vec![], vec![], vec![], vec![]);
        let mut picture = Picture { at, snapshot, stopped, refused, quarantined, dead, notes, clock_skew_ms };
        for row in store.into_iter().flatten() {
            picture.stopped.extend(row.stopped.into_iter().map(|key| (row.partition, key)));
            picture.refused.extend(row.refused.into_iter().map(|refused| (row.partition, refused)));
            picture.dead.extend((row.dead > 0).then_some((row.partition, row.dead)));
            if picture.is_worked_on(row.partition) {
                picture.notes.extend(row.note.map(|note| (row.partition, note)));
            }
            picture.quarantined.extend((row.quarantined > 0).then_some((row.partition, row.quarantined)));
        }
        // A key that stands still in two places: its older line first.
        let count = self.queue.partitions;
        picture.stopped.sort_by_key(|(partition, row)| partition_of(row.key.as_bytes(), count) == *partition);
        Ok(picture)
    }
}

/// A partition that seems to have no more than so many jobs left is looked through: they may be none.
const FEW: u64 = 64;

impl Eye {
    /// Where the partition's jobs begin and end. The log may end with markers of transactions, which are no jobs.
    fn bounds(
        &mut self,
        partition: Partition,
        done: Option<&Progress>,
        committed: Option<Offset>,
    ) -> Result<Bounds, Failure> {
        let mut bounds = self.log.bounds(&self.queue, partition)?;
        if matches!(view::unfinished(Some(bounds), done, committed), Some(1..=FEW)) {
            let from = Offset(bounds.end.0.saturating_sub(FEW)).max(bounds.start);
            let mut end = from;
            self.log.keys(&self.queue, partition, from, &mut |offset, _| {
                end = offset.next();
                ControlFlow::Continue(())
            })?;
            bounds.end = end;
        }
        Ok(bounds)
    }
}

/// Which jobs of a partition may not be done, as its owner would find it.
pub(crate) struct Unfinished {
    pub(crate) partition: Partition,
    /// Everything below it is done.
    pub(crate) from: Offset,
    /// The end of the log.
    pub(crate) end: Offset,
    /// What is done of the rest.
    pub(crate) done: Progress,
}

impl Eye {
    /// Of one partition, or of all of them.
    pub(crate) fn unfinished(&mut self, only: Option<Partition>) -> Result<Vec<Unfinished>, Failure> {
        let mut rows = self.store.look(&self.queue, &self.group)?.unwrap_or_default();
        let committed = self.reader.overview()?.committed;
        let meant = self.queue.partitions.all().filter(|partition| only.is_none_or(|only| only == *partition));
        meant
            .map(|partition| {
                let row = rows.iter_mut().find(|row| row.partition == partition);
                let done = row.map(|row| std::mem::take(&mut row.done)).unwrap_or_default();
                let Bounds { start, end } = self.log.bounds(&self.queue, partition)?;
                let says = if done == Progress::default() {
                    committed.get(&partition).copied().flatten().unwrap_or(start)
                } else {
                    Offset(done.floor)
                };
                Ok(Unfinished { partition, from: says.max(start), end, done })
            })
            .collect()
    }
}

impl Picture {
    /// Whether somebody works on the partition now.
    pub(crate) fn is_worked_on(&self, partition: Partition) -> bool {
        let owned = |state| matches!(state, PartitionState::Held | PartitionState::Draining);
        self.snapshot.partitions.iter().any(|p| p.partition == partition.0 && owned(p.state))
    }
}
