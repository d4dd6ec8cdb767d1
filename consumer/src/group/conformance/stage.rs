//! Members on threads of their own, a test that directs them, and the time that passes meanwhile.
//!
//! 1. Time moves only after every polling member has ended a poll since it last moved, so that a slow machine expels
//!    nobody. (A clock that is the machine's moves by itself; adapters with such a clock bring wide bounds.)
//! 2. What a member holds is taken from the record before the group is told, so that no overlap is seen where none is.
//! 3. A promise that is found broken ends the test at the next wait.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use keylane_producer::{Offset, Partition};

use super::{Bench, seen::Seen};
use crate::{
    clock::{BootTime, Clock},
    error::Error,
    fence::{Generation, MemberId},
    group::{Commit, CommitError, Group, GroupControl, GroupEvent},
};

/// One poll of a member, so that it answers the director soon.
const POLL: Duration = Duration::from_millis(5);

/// How long a commit may wait for its answer.
const ANSWER: Duration = Duration::from_secs(5);

const POLLING: u8 = 0;
const HALTED: u8 = 1;
const ENDED: u8 = 2;

pub(super) struct Stage<B: Bench> {
    pub(super) bench: B,
    pub(super) partitions: u32,
    shared: Arc<Shared>,
    actors: Vec<Actor<B::Member>>,
    /// Polls of each member when time last moved.
    moved_at: Vec<u64>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Actor<M> {
    control: Arc<dyn GroupControl>,
    mode: Arc<AtomicU8>,
    thread: Option<JoinHandle<M>>,
    /// The test answers `Revoking` itself.
    holds_back: bool,
}

impl<B: Bench> Stage<B> {
    pub(super) fn new(partitions: u32, bench: B) -> Self {
        Self { bench, partitions, shared: Arc::default(), actors: Vec::new(), moved_at: Vec::new() }
    }

    pub(super) fn now(&self) -> BootTime {
        self.bench.clock().now()
    }

    /// One more member, which polls from now on.
    pub(super) fn enter(&mut self) -> usize {
        let mut group = self.bench.open();
        let control = group.control();
        let mode = Arc::new(AtomicU8::new(POLLING));
        let index = self.actors.len();
        self.shared.seen().members.push(super::seen::Member::default());
        let (shared, clock, direction) = (Arc::clone(&self.shared), self.bench.clock(), Arc::clone(&mode));
        let thread = std::thread::spawn(move || {
            act(index, &mut group, &shared, &clock, &direction);
            group
        });
        self.actors.push(Actor { control, mode, thread: Some(thread), holds_back: false });
        self.moved_at.push(0);
        index
    }

    /// As many members as there is a first share for, and they share.
    pub(super) fn enter_and_settle(&mut self) -> usize {
        let member = self.enter();
        self.settle();
        member
    }

    pub(super) fn settle(&mut self) {
        let partitions = self.partitions;
        self.wait_until("every partition has one live owner", |seen| seen.at_rest(partitions));
    }

    /// It stops polling and is still there.
    pub(super) fn halt(&mut self, member: usize) {
        self.actors[member].mode.store(HALTED, Ordering::Release);
        self.wait_for_halt(member);
    }

    /// It ends without a word to the group. Its control can still be used.
    pub(super) fn kill(&mut self, member: usize) {
        self.shared.seen().members[member].gone = true;
        self.actors[member].mode.store(ENDED, Ordering::Release);
        if let Some(group) = self.actors[member].thread.take().and_then(|thread| thread.join().ok()) {
            self.bench.kill(group);
        }
    }

    /// It leaves in order.
    pub(super) fn leave(&mut self, member: usize) {
        self.shared.seen().members[member].gone = true;
        self.actors[member].control.leave();
        self.wait_until("the member has left", |seen| seen.members[member].left);
    }

    /// It gives everything up and joins anew.
    pub(super) fn rejoin(&mut self, member: usize) {
        self.shared.seen().members[member].gone = true;
        let former = self.id(member);
        self.actors[member].control.rejoin();
        self.wait_until("the member has another id", |seen| seen.members[member].id.as_ref() != Some(&former));
        self.shared.seen().members[member].gone = false;
    }

    /// From now on the test itself answers when the group wants partitions back.
    pub(super) fn hold_back(&mut self, member: usize) {
        self.actors[member].holds_back = true;
    }

    pub(super) fn release_all(&mut self, member: usize) {
        self.actors[member].holds_back = false;
        self.answer_revokes();
    }

    pub(super) fn resume(&self, member: usize, partition: Partition, from: Offset) {
        self.shared.seen().members[member].resumes(partition, from);
        self.actors[member].control.resume(partition, from);
    }

    /// From where it was told last.
    pub(super) fn go_on(&self, member: usize, partition: Partition) {
        let from = self.look(|seen| seen.members[member].position(partition)).expect("it was resumed before");
        self.actors[member].control.go_on(partition, from);
    }

    pub(super) fn pause(&self, member: usize, partition: Partition) {
        self.actors[member].control.pause(partition);
    }

    pub(super) fn look<T>(&self, at: impl FnOnce(&Seen) -> T) -> T {
        at(&self.shared.seen())
    }

    pub(super) fn holds(&self, member: usize) -> BTreeMap<Partition, Generation> {
        self.look(|seen| seen.members[member].holds.iter().map(|(&p, held)| (p, held.generation)).collect())
    }

    pub(super) fn offsets(&self, member: usize, partition: Partition) -> Vec<Offset> {
        let of = |seen: &Seen| -> Vec<Offset> {
            seen.members[member].records.iter().filter(|(p, _)| *p == partition).map(|(_, o)| *o).collect()
        };
        self.look(of)
    }

    pub(super) fn id(&self, member: usize) -> MemberId {
        self.look(|seen| seen.members[member].id.clone()).expect("the member was told its id")
    }

    pub(super) fn generation(&self, member: usize) -> Generation {
        self.look(|seen| seen.members[member].generation).expect("the member was told a generation")
    }

    /// Commits with what the member knows, once.
    pub(super) fn try_commit(&self, member: usize, offsets: &[(Partition, Offset)]) -> Result<(), CommitError> {
        self.commit_as(member, &self.id(member), self.generation(member), offsets)
    }

    /// Commits with this id and generation through the member's control.
    pub(super) fn commit_as(
        &self,
        member: usize,
        id: &MemberId,
        generation: Generation,
        offsets: &[(Partition, Offset)],
    ) -> Result<(), CommitError> {
        let commit = Commit { member: id.clone(), generation, offsets: offsets.to_vec() };
        self.actors[member].control.commit(&commit, ANSWER)
    }

    /// Commits, again if the group's number moved on meanwhile.
    pub(super) fn commit(&mut self, member: usize, partition: Partition, offset: Offset) {
        let started = Clock::boot().now();
        loop {
            match self.try_commit(member, &[(partition, offset)]) {
                Ok(()) => return,
                Err(CommitError::GenerationMovedOn | CommitError::Unavailable(_)) => self.rounds(1),
                Err(refused) => panic!("the owner's commit was refused: {refused:?}"),
            }
            assert!(Clock::boot().now().since(started) < self.bench.patience(), "the owner cannot commit");
        }
    }

    pub(super) fn committed(&self, member: usize, partition: Partition) -> Option<Offset> {
        let answer = self.actors[member].control.committed(&[partition]);
        answer.expect("committed offsets can be read")[&partition]
    }

    /// Lets every polling member end this many polls, and time move as often.
    pub(super) fn rounds(&mut self, count: u64) {
        for _ in 0..count {
            let before: Vec<u64> = self.look(|seen| seen.members.iter().map(|m| m.polls).collect());
            let polling = self.polling();
            self.wait_until("every member polls", |seen| {
                polling.iter().all(|&m| seen.members[m].polls >= before[m] + 2)
            });
        }
    }

    /// Waits for a condition; members that are asked for partitions release them meanwhile, and time moves.
    pub(super) fn wait_until(&mut self, what: &str, met: impl Fn(&Seen) -> bool) {
        let started = Clock::boot().now();
        loop {
            self.answer_revokes();
            self.move_time();
            let seen = self.shared.seen();
            assert!(seen.broken.is_empty(), "the port's promise is broken: {:?}", seen.broken);
            if met(&seen) {
                return;
            }
            assert!(Clock::boot().now().since(started) < self.bench.patience(), "waited too long until {what}");
            drop(self.shared.changed.wait_timeout(seen, POLL));
        }
    }

    fn answer_revokes(&self) {
        for (index, actor) in self.actors.iter().enumerate().filter(|(_, actor)| !actor.holds_back) {
            let mut seen = self.shared.seen();
            let asked: Vec<Partition> = seen.members[index].revoking.iter().copied().collect();
            if !asked.is_empty() {
                seen.members[index].let_go(&asked);
                drop(seen);
                actor.control.release(&asked);
            }
        }
    }

    fn polling(&self) -> Vec<usize> {
        let polls = |actor: &Actor<B::Member>| actor.mode.load(Ordering::Acquire) == POLLING;
        self.actors.iter().enumerate().filter(|(_, actor)| polls(actor)).map(|(index, _)| index).collect()
    }

    fn move_time(&mut self) {
        let polls: Vec<u64> = self.look(|seen| seen.members.iter().map(|m| m.polls).collect());
        // Two ends of a poll: the first may have begun before time moved.
        if self.polling().iter().all(|&m| polls[m] >= self.moved_at[m] + 2) {
            self.bench.clock().advance(self.bench.session_timeout() / 50);
            self.moved_at = polls;
        }
    }

    fn wait_for_halt(&mut self, member: usize) {
        let before = self.look(|seen| seen.members[member].polls);
        // The poll that may be under way is the last one.
        self.wait_until("the member stands still", |seen| seen.members[member].polls > before);
    }
}

/// Ends the threads also when a test failed.
impl<B: Bench> Drop for Stage<B> {
    fn drop(&mut self) {
        self.actors.iter().for_each(|actor| actor.mode.store(ENDED, Ordering::Release));
        for thread in self.actors.iter_mut().filter_map(|actor| actor.thread.take()) {
            drop(thread.join());
        }
    }
}

fn act<M: Group>(index: usize, group: &mut M, shared: &Shared, clock: &Clock, mode: &AtomicU8) {
    while mode.load(Ordering::Acquire) != ENDED {
        if mode.load(Ordering::Acquire) == POLLING {
            let answer = group.poll(POLL, &mut |event: GroupEvent| shared.seen().note(index, event, clock.now()));
            if let Err(error) = answer.or_else(passing) {
                shared.seen().broken.push(format!("member {index} cannot go on: {}", error.detail().chain()));
            }
        } else {
            std::thread::park_timeout(POLL);
        }
        shared.seen().members[index].polls += 1;
        shared.changed.notify_all();
    }
}

fn passing(error: Error) -> Result<(), Error> {
    if error.is_transient() { Ok(()) } else { Err(error) }
}
