//! What there is in the model: a group, a store with one partition's row, two workers and what is on its way.
//!
//! Everything is a small value, so that a state can be kept and compared whole. What begins with `truth` decides nothing in
//! the protocol: it is what somebody who sees everything would know, and what a run is judged by.

use keylane_consumer::store::ClaimRefused;

/// A worker's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Id {
    A,
    B,
}

impl Id {
    pub(crate) const ALL: [Self; 2] = [Self::A, Self::B];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// A key of the partition; its jobs are a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    X,
    Y,
}

impl Key {
    pub(crate) const ALL: [Self; 2] = [Self::X, Self::Y];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X => "x",
            Self::Y => "y",
        }
    }
}

/// How many jobs of each key, from its first on.
pub(crate) type PerKey = [u8; 2];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) group: Group,
    pub(crate) store: Store,
    workers: [Worker; 2],
    /// The claim of a process that is gone, still on its way.
    pub(crate) stray: Option<Claim>,
    pub(crate) faults_left: u8,
    pub(crate) broken: Option<Broken>,
}

impl World {
    pub(crate) fn new(group: Group, workers: [Worker; 2], faults_left: u8) -> Self {
        Self { group, store: Store::new(), workers, stray: None, faults_left, broken: None }
    }

    pub(crate) fn worker(&self, id: Id) -> &Worker {
        &self.workers[id as usize]
    }

    pub(crate) fn worker_mut(&mut self, id: Id) -> &mut Worker {
        &mut self.workers[id as usize]
    }

    /// A claim on its way to the store: a worker's, or the stray one.
    pub(crate) fn claim_mut(&mut self, whose: Whose) -> &mut Option<Claim> {
        match whose {
            Whose::Worker(id) => &mut self.worker_mut(id).claim,
            Whose::Nobody => &mut self.stray,
        }
    }

    pub(crate) fn claim(&self, whose: Whose) -> Option<&Claim> {
        match whose {
            Whose::Worker(id) => self.worker(id).claim.as_ref(),
            Whose::Nobody => self.stray.as_ref(),
        }
    }

    pub(crate) fn break_by(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    /// Whether a writer has checked the row and not ended its transaction.
    pub(crate) fn is_locked(&self) -> bool {
        self.workers.iter().any(Worker::holds_lock)
    }
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// An effect landed under an older claim after a newer one was granted.
    Stale,
    /// A job's effect landed a second time.
    Twice,
    /// An effect landed before that of an earlier job of its key.
    OutOfOrder,
    /// A worker said that the fence is ahead, and the group had not begun anew.
    FalseAlarm,
    /// The group's number rises and rises.
    NoEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group {
    pub(crate) generation: u8,
    pub(crate) owner: Option<Id>,
    /// The membership that each worker has, if any.
    pub(crate) seats: [Option<Seat>; 2],
    /// How often the group was deleted and began anew.
    pub(crate) truth_restarts: u8,
    /// How often the partition was given.
    pub(crate) truth_gives: u8,
}

/// Tells a membership from the same worker's last one.
pub(crate) type Seat = bool;

/// The partition given to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Given {
    /// As the worker reads it.
    pub(crate) generation: u8,
    pub(crate) truth_restarts: u8,
    pub(crate) truth_give: u8,
}

/// What the group tells a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Assigned(Given),
    Lost,
    MovedOn(u8),
}

/// What a worker was told and has not heard, oldest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Inbox([Option<Told>; 8]);

impl Inbox {
    pub(crate) fn push(&mut self, told: Told) {
        let last = self.0.iter_mut().flatten().last();
        match (last, told) {
            (Some(Told::MovedOn(number)), Told::MovedOn(newer)) => *number = newer,
            _ => *self.0.iter_mut().find(|slot| slot.is_none()).expect("faults are few") = Some(told),
        }
    }

    pub(crate) fn first(&self) -> Option<Told> {
        self.0[0]
    }

    pub(crate) fn pop(&mut self) -> Option<Told> {
        let first = self.0[0].take();
        self.0.rotate_left(1);
        first
    }

    /// The assignment that was told last and not heard.
    pub(crate) fn unheard(&mut self) -> Option<&mut Given> {
        match self.0.iter_mut().flatten().last() {
            Some(Told::Assigned(given)) => Some(given),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) rows: Rows,
    /// What a failover brings back: the rows as they were before the last claim; and before the last write under it.
    pub(crate) before_claim: Option<Rows>,
    pub(crate) before_write: Option<Rows>,
    /// Which history the server is in: another one after each failover.
    pub(crate) timeline: u8,
    pub(crate) truth_resets: u8,
    /// Numbers each grant. It never falls, as a claim number that rises by random steps never comes again.
    pub(crate) truth_grants: u8,
}

impl Store {
    fn new() -> Self {
        let fence = Fence {
            epoch: 1,
            generation: 0,
            owner: None,
            claim: 0,
            announced: (1, 0),
            timeline: 0,
            newest: Grant::default(),
        };
        let rows = Rows { fence, keys: [(0, 0); 2], done: [0; 2] };
        Self { rows, before_claim: None, before_write: None, timeline: 0, truth_resets: 0, truth_grants: 0 }
    }
}

/// What a commit writes, and a failover can lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rows {
    pub(crate) fence: Fence,
    /// Generation and grant of a fence for each key: only for the twin that has no other.
    pub(crate) keys: [(u8, u8); 2],
    /// How many jobs of each key have their marker.
    pub(crate) done: PerKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fence {
    pub(crate) epoch: u8,
    pub(crate) generation: u8,
    pub(crate) owner: Option<Owner>,
    pub(crate) claim: u8,
    /// The intent: epoch and generation of the newest claim that announced itself.
    pub(crate) announced: (u8, u8),
    /// In which history it was claimed.
    pub(crate) timeline: u8,
    /// The newest granted claim that these rows know of.
    pub(crate) newest: Grant,
}

/// A granted claim, as somebody who sees everything knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    pub(crate) truth_number: u8,
    pub(crate) truth_give: u8,
    pub(crate) truth_restarts: u8,
    pub(crate) truth_resets: u8,
}

/// Fresh for each claim: a worker, its assignment (no two have the same) and its tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) id: Id,
    pub(crate) give: u8,
    pub(crate) tenure: u8,
}

/// What a write must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token {
    pub(crate) epoch: u8,
    pub(crate) generation: u8,
    pub(crate) claim: u8,
    pub(crate) truth_number: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub(crate) tenure: u8,
    pub(crate) generation: u8,
    pub(crate) owner: Owner,
    /// The epoch that the session was opened in.
    pub(crate) session: u8,
    pub(crate) given: Given,
    /// How often the fence was reset before the process began.
    pub(crate) truth_since: u8,
    pub(crate) stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// To be asked again when the row has changed: asking in vain changes nothing.
    Later,
    /// On its way.
    Asked,
    /// Announced; it waits for the writers in flight.
    Announced,
    Granted(Token, PerKey),
    Refused(ClaimRefused),
    /// No answer.
    Failed,
}

/// Whose claim is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    Worker(Id),
    Nobody,
}

impl Whose {
    pub(crate) const ALL: [Self; 3] = [Self::Worker(Id::A), Self::Worker(Id::B), Self::Nobody];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    Up,
    Frozen,
    Down,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) life: Life,
    /// The membership that it believes it has.
    pub(crate) seat: Option<Seat>,
    /// What its next membership will be.
    pub(crate) next_seat: Seat,
    /// The epoch that its session with the store was opened in.
    pub(crate) session: u8,
    pub(crate) truth_since: u8,
    /// Its `Ownership`, the real one: which of those that were met.
    pub(crate) ownership: u16,
    pub(crate) given: Given,
    pub(crate) inbox: Inbox,
    pub(crate) claim: Option<Claim>,
    pub(crate) hold: Option<Hold>,
    /// The write of each key that is in the store.
    pub(crate) lanes: [Option<Write>; 2],
    /// The write of a handler that goes on after the partition was lost.
    pub(crate) late: Option<(Key, Write)>,
    /// Transactions that carry no job (a note for the next owner, a write tried again) and hold the lock all the same.
    pub(crate) notes: [bool; 2],
    pub(crate) proof: Option<Proof>,
    /// It wants to leave the group and join anew.
    pub(crate) rejoins: bool,
}

impl Worker {
    pub(crate) fn is_up(&self) -> bool {
        self.life == Life::Up
    }

    pub(crate) fn holds_lock(&self) -> bool {
        let late = self.late.map(|(_, write)| write);
        self.notes.contains(&true) || self.lanes.into_iter().flatten().chain(late).any(|write| write.locked)
    }

    /// Its transactions are rolled back.
    pub(crate) fn roll_back(&mut self) {
        self.notes = [false; 2];
        self.lanes = [None; 2];
        if self.late.is_some_and(|(_, write)| write.checked) {
            self.late = None;
        }
    }
}

/// The partition, while its jobs may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) tenure: u8,
    pub(crate) token: Token,
    /// What this worker knows to be done.
    pub(crate) done: PerKey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Write {
    pub(crate) job: u8,
    pub(crate) token: Token,
    /// It has looked at the row.
    pub(crate) checked: bool,
    /// And holds it.
    pub(crate) locked: bool,
}

/// A commit that the group took, and whose answer is not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proof {
    pub(crate) generation: u8,
    /// It began before the last refusal was read.
    pub(crate) early: bool,
}
