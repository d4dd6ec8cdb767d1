//! What other threads ask of the member: an inbox that the polling thread empties, and the two calls that wait for an
//! answer, each with a connection of its own so that neither waits for a poll, nor a poll for them.

use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keylane_producer::{Offset, Partition};
use rusqlite::Connection;

use super::{
    commit,
    schema::{self, Place},
};
use crate::{
    clock::{BootTime, Clock},
    error::Error,
    group::{Commit, CommitError, GroupControl, command::Command},
};

/// Between two tries of a commit.
const PAUSE: Duration = Duration::from_millis(1);

/// Commands on their way to the polling thread. It has no bound of its own: its users send a few commands for each
/// partition that they own.
#[derive(Default)]
pub(super) struct Inbox {
    commands: Mutex<VecDeque<Command>>,
    arrived: Condvar,
}

impl Inbox {
    fn send(&self, command: Command) {
        whole(&self.commands).push_back(command);
        self.arrived.notify_one();
    }

    pub(super) fn take(&self) -> Option<Command> {
        whole(&self.commands).pop_front()
    }

    /// For a command that could not be carried out yet.
    pub(super) fn put_back(&self, command: Command) {
        whole(&self.commands).push_front(command);
    }

    /// Waits until there is a command, or for `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let commands = whole(&self.commands);
        let waited = self.arrived.wait_timeout_while(commands, limit, |c| c.is_empty());
        drop(waited);
    }
}

/// No code panics while it holds one of these locks half-changed.
fn whole<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct LocalControl {
    place: Place,
    inbox: Arc<Inbox>,
    committing: Mutex<Connection>,
    reading: Mutex<Connection>,
    /// When the session was last restarted by a commit, so that the poll need not do it again. Boot nanoseconds.
    kept: AtomicU64,
}

impl LocalControl {
    pub(super) fn open(path: &Path, place: Place, inbox: Arc<Inbox>) -> Result<Self, Error> {
        let committing = schema::open(path)?;
        committing.busy_timeout(commit::TRY).map_err(place.failed("commit to"))?;
        Ok(Self {
            place,
            inbox,
            committing: Mutex::new(committing),
            reading: Mutex::new(schema::open_to_look(path)?),
            kept: AtomicU64::new(0),
        })
    }

    pub(super) fn kept(&self) -> BootTime {
        BootTime::from_nanos(self.kept.load(Ordering::Acquire))
    }
}

impl GroupControl for LocalControl {
    fn resume(&self, partition: Partition, from: Offset) {
        self.inbox.send(Command::Resume(partition, from));
    }

    fn go_on(&self, partition: Partition, from: Offset) {
        self.inbox.send(Command::GoOn(partition, from));
    }

    fn pause(&self, partition: Partition) {
        self.inbox.send(Command::Pause(partition));
    }

    fn release(&self, partitions: &[Partition]) {
        self.inbox.send(Command::Release(partitions.to_vec()));
    }

    fn rejoin(&self) {
        self.inbox.send(Command::Rejoin);
    }

    fn leave(&self) {
        self.inbox.send(Command::Leave);
    }

    fn commit(&self, commit: &Commit, limit: Duration) -> Result<(), CommitError> {
        // How long to wait is the machine's time, also when a test turns the clock that sessions count on.
        let waiting = Clock::boot();
        let until = waiting.now().plus(limit);
        loop {
            // Read before the commit, so that the poll never believes the session longer than the row says.
            let before = self.place.clock.now();
            match commit::carry_out(&mut whole(&self.committing), &self.place, commit) {
                // A lock was waited for inside the try; a full disk answers at once.
                Err(CommitError::Unavailable(_)) if waiting.now() < until => std::thread::park_timeout(PAUSE),
                Ok(()) => {
                    self.kept.fetch_max(before.nanos(), Ordering::AcqRel);
                    return Ok(());
                }
                refused => return refused,
            }
        }
    }

    fn committed(&self, partitions: &[Partition]) -> Result<BTreeMap<Partition, Option<Offset>>, Error> {
        commit::committed(&whole(&self.reading), &self.place, partitions)
    }
}
