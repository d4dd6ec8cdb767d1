//! The clerk: what must not be done on the desk because it waits for store or log, one order after another.

use std::{sync::Arc, time::Duration};

use crossbeam_channel::{Receiver, Sender};
use keylane_producer::{JobKey, Log, Offset, Partition, QueueIdentity, StoredRecord};

use crate::{
    clock::{BootTime, Clock},
    error::{Detail, Error},
    fence::{Fence, Fenced, Guards},
    group::GroupControl,
    lanes::{Tenure, Ticket},
    store::{Candidate, ClaimError, Claimed, FencedStore, Line, Note, PartitionOverview, Steering, StoreSession},
};

/// What the clerk is asked.
pub(crate) enum Order {
    /// Claim a partition, and ask the group how far it is.
    Claim { candidate: Candidate, tenure: Tenure },
    /// Give back a claim under which nothing ran.
    HandOver(Arc<Fence>),
    /// Note that these jobs are about to start, and that these are then all that run under suspicion.
    Starting { fence: Arc<Fence>, tickets: Vec<Ticket>, running: Vec<Offset> },
    /// Read these records again.
    Reread(Reread),
    /// Read which jobs are in the line of this key.
    Line { partition: Partition, tenure: Tenure, key: JobKey },
    /// Look what persons want of these partitions; `anyway`: also if nothing changed since the last look.
    Look { partitions: Vec<Partition>, anyway: bool },
    /// Tell people of a partition.
    Note { fence: Arc<Fence>, note: Option<Note> },
    /// Look whether every job of the queue is finished.
    Survey,
    /// Look whether the queue is still the one that the store has pinned: if it was made anew, nobody need join anew.
    Identify,
}

/// Records that a lane keeps the places of only.
pub(crate) struct Reread {
    pub(crate) partition: Partition,
    pub(crate) tenure: Tenure,
    pub(crate) key: JobKey,
    pub(crate) offsets: Vec<Offset>,
    /// How many, from the first on, are in the key's line; the log may not have them any more.
    pub(crate) from_line: usize,
}

/// What became of it.
pub(crate) enum Answer {
    Claimed {
        partition: Partition,
        tenure: Tenure,
        outcome: Result<(Claimed, Option<Offset>), ClaimError>,
    },
    HandedOver,
    Started {
        fence: Arc<Fence>,
        tickets: Vec<Ticket>,
        outcome: Result<Result<(), Fenced>, Error>,
    },
    Reread {
        order: Reread,
        outcome: Result<Vec<StoredRecord>, Error>,
    },
    Line {
        partition: Partition,
        tenure: Tenure,
        key: JobKey,
        outcome: Result<Line, Error>,
    },
    /// Of these partitions; `None`: nothing changed since the last look.
    Looked(Vec<Partition>, Result<Option<Steering>, Error>),
    Noted {
        partition: Partition,
        outcome: Result<Result<(), Fenced>, Error>,
    },
    Surveyed(Result<Vec<Remaining>, Error>),
    /// Why the queue is another one, if it is.
    Identified(Result<Option<Detail>, Error>),
}

/// What is left to do in a partition, as group, log and store tell.
pub(crate) struct Remaining {
    /// Whether the group committed up to the end of the log, and no line is to be replayed.
    pub(crate) finished: bool,
    /// Keys that are parked.
    pub(crate) parked: usize,
}

/// Holds one connection to the store and one to the log.
pub(crate) struct Clerk<S: FencedStore> {
    log: Box<dyn Log>,
    store: S::Session,
    group: Arc<dyn GroupControl>,
    queue: QueueIdentity,
    /// The store changed, and not every partition was looked at since.
    unseen: bool,
    clock: Clock,
    guards: Guards,
    /// When it was last looked whether the queue is still the one that the store has pinned.
    identified: BootTime,
}

/// How often the queue's identity is looked at; claims come many at once, and one look does for all of them.
pub(crate) const IDENTIFY: Duration = Duration::from_secs(1);

impl<S: FencedStore> Clerk<S> {
    pub(crate) fn new(
        log: Box<dyn Log>,
        store: S::Session,
        group: Arc<dyn GroupControl>,
        queue: QueueIdentity,
        clock: Clock,
        guards: Guards,
    ) -> Self {
        Self { log, store, group, queue, unseen: false, clock, guards, identified: BootTime::ZERO }
    }

    /// Serves until the desk is gone.
    pub(crate) fn serve(mut self, orders: &Receiver<Order>, answers: &Sender<Answer>) {
        for order in orders {
            if answers.send(self.carry_out(order)).is_err() {
                return;
            }
        }
    }

    fn carry_out(&mut self, order: Order) -> Answer {
        match order {
            Order::Claim { candidate, tenure } => {
                let partition = candidate.partition;
                Answer::Claimed { partition, tenure, outcome: self.claim(candidate) }
            }
            Order::HandOver(fence) => {
                // It only spares the next owner a suspicion: not worth another try.
                let _ = self.store.hand_over(&fence);
                Answer::HandedOver
            }
            Order::Starting { fence, tickets, running } => {
                Answer::Started { outcome: self.store.starting(&fence, &running), fence, tickets }
            }
            Order::Reread(order) => Answer::Reread { outcome: self.reread(&order), order },
            Order::Line { partition, tenure, key } => {
                Answer::Line { partition, tenure, outcome: self.store.line(partition, &key), key }
            }
            Order::Look { partitions, anyway } => {
                let seen = self.look(&partitions, anyway);
                Answer::Looked(partitions, seen)
            }
            Order::Note { fence, note } => {
                Answer::Noted { partition: fence.partition(), outcome: self.store.note(&fence, note.as_ref()) }
            }
            Order::Survey => Answer::Surveyed(self.survey()),
            Order::Identify => Answer::Identified(self.identify()),
        }
    }

    fn reread(&mut self, order: &Reread) -> Result<Vec<StoredRecord>, Error> {
        let (in_line, in_log) = order.offsets.split_at(order.from_line);
        let mut found = Vec::with_capacity(order.offsets.len());
        if !in_line.is_empty() {
            let parked = self.store.parked(order.partition, &order.key, in_line)?;
            found.extend(parked.into_iter().map(|job| job.stored));
        }
        if !in_log.is_empty() {
            found.extend(self.log.read_at(&self.queue, order.partition, in_log)?);
        }
        Ok(found)
    }

    fn claim(&mut self, mut candidate: Candidate) -> Result<(Claimed, Option<Offset>), ClaimError> {
        if let Some(other) = self.identify()? {
            return Err(Error::Refused(other).into());
        }
        let partition = candidate.partition;
        candidate.begin = self.group.committed(&[partition])?.get(&partition).copied().flatten();
        let claimed = self.store.claim(&candidate)?;
        Ok((claimed, candidate.begin))
    }

    /// A queue that was deleted and made anew, or got more partitions, is another one: nothing of it is claimed.
    fn identify(&mut self) -> Result<Option<Detail>, Error> {
        let now = self.clock.now();
        let lately = self.identified != BootTime::ZERO && now < self.identified.plus(IDENTIFY);
        if lately || !self.guards.identity {
            return Ok(None);
        }
        let found = self.log.identity(&self.queue.name)?;
        if found == self.queue {
            self.identified = now;
            return Ok(None);
        }
        let (name, was, is) = (&self.queue.name, &self.queue, &found);
        let detail = if is.incarnation == was.incarnation && is.cluster == was.cluster {
            format!(
                "queue '{name}' has {} partitions now, not the {} that the store has pinned: keys would change their \
                 places while they are worked on",
                is.partitions, was.partitions
            )
        } else {
            format!(
                "queue '{name}' is another one now: made as {} in {}, and not as {} in {}, which the store has pinned",
                is.incarnation.0, is.cluster, was.incarnation.0, was.cluster
            )
        };
        let remedy = "see keylane queue describe; to accept it: keylane fence reset, then start the workers again";
        Ok(Some(Detail::new(detail).remedy(remedy)))
    }

    fn look(&mut self, partitions: &[Partition], anyway: bool) -> Result<Option<Steering>, Error> {
        // A hint is kept until all partitions were looked at because of it: a look at one of them does not use it up.
        if !anyway {
            self.unseen |= self.store.changed()?;
            if !self.unseen {
                return Ok(None);
            }
        }
        let steering = self.store.steering(partitions)?;
        self.unseen &= anyway;
        Ok(Some(steering))
    }

    fn survey(&mut self) -> Result<Vec<Remaining>, Error> {
        let all: Vec<_> = self.queue.partitions.all().collect();
        let committed = self.group.committed(&all)?;
        let overview = self.store.overview()?;
        let parked =
            |p| overview.iter().filter(move |o: &&PartitionOverview| o.partition == p).flat_map(|o| &o.stopped);
        all.into_iter()
            .map(|partition| {
                let bounds = self.log.bounds(&self.queue, partition)?;
                let done = committed.get(&partition).copied().flatten().unwrap_or(bounds.start);
                let replays = parked(partition).any(|key| key.released);
                let finished = done.max(bounds.start) >= bounds.end && !replays;
                Ok(Remaining { finished, parked: parked(partition).count() })
            })
            .collect()
    }
}
