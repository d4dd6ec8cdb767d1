//! Who may act. Tokens are minted from a store's answer and checked here, nowhere else.
//!
//! 1. [`FenceToken`] has no number that can be printed, no `Serialize`, no `From<u64>`: it cannot slip into a
//!    snapshot or a format string. `Debug` prints `[fence]`.
//! 2. Starting a job, writing to a store and committing an offset each take the [`Permit`] that [`Fence::check`]
//!    returns, so code that skips the check does not compile.
//! 3. The check is a look, not a lock. It makes windows small; the row in the store makes them harmless.

use std::{
    fmt,
    num::NonZeroU64,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use keylane_producer::Partition;

use crate::clock::{BootTime, Clock};

mod pass;

pub use pass::{JobPass, Pass, redacted};

/// The group's number, raised at every completed join. Below 1 there is none, and no claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(NonZeroU64);

impl Generation {
    /// `None` for 0: a member outside the group has no generation (on Kafka it reads -1, and -1 skips every check).
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    pub(crate) fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[generation]")
    }
}

/// What a write must match in the partition's row: epoch, generation and the claim number that the store minted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FenceToken {
    pub(crate) epoch: u64,
    pub(crate) generation: Generation,
    pub(crate) claim: u64,
}

impl FenceToken {
    /// Only a store adapter mints one, from the row that it just won.
    pub(crate) fn minted(epoch: u64, generation: Generation, claim: u64) -> Self {
        Self { epoch, generation, claim }
    }
}

impl fmt::Debug for FenceToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[fence]")
    }
}

/// Names a claimant: the member id and a nonce made fresh for each claim, so that two claims of one member are two.
#[derive(Clone, PartialEq, Eq)]
pub struct Owner(Box<str>);

impl Owner {
    /// For one claim of this member.
    pub fn fresh(member: &MemberId) -> Self {
        Self(format!("{}/{}", member.0, ulid::Ulid::generate()).into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[owner]")
    }
}

/// The group's name for a member. Never empty: Kafka skips every check for an empty one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(Box<str>);

impl MemberId {
    /// `None` if it is empty.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[member]")
    }
}

/// Why an act was refused. Someone newer owns the partition, or may: stop, touch nothing, do not retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fenced {
    /// The worker cannot prove any more that the group still counts it as a member.
    #[error("the proof of ownership is too old")]
    DeadlinePassed,
    /// The polling thread stood still, so the group may have given the partition away.
    #[error("the polling thread stands still")]
    PollStalled,
    /// The group asked for the partition back, or took it.
    #[error("the partition was given up")]
    GivenUp,
    /// The worker is ending.
    #[error("the worker is ending")]
    Ending,
    /// The store's row belongs to a newer claim.
    #[error("the store has a newer owner for the partition")]
    NewerClaim,
}

/// This worker's standing in the group, shared by all its fences: how long it may believe in its ownership.
#[derive(Debug)]
pub struct Lease {
    clock: Clock,
    until: AtomicU64,
    polled: AtomicU64,
    poll_limit: Duration,
    ended: AtomicBool,
    deadline_off: bool,
}

impl Lease {
    /// Proves nothing yet: every check fails until the first [`Lease::proved`].
    pub fn new(clock: Clock, poll_limit: Duration) -> Arc<Self> {
        Self::with_guards(clock, poll_limit, Guards::default())
    }

    /// As [`Lease::new`], with a guard taken away: for twin tests and `demo`.
    pub fn with_guards(clock: Clock, poll_limit: Duration, guards: Guards) -> Arc<Self> {
        let polled = clock.now().nanos();
        Arc::new(Self {
            clock,
            until: AtomicU64::new(0),
            polled: AtomicU64::new(polled),
            poll_limit,
            ended: AtomicBool::new(false),
            deadline_off: !guards.deadline,
        })
    }

    /// The group confirmed membership and generation. `until` counts from before the call that did. A deadline never
    /// moves back: of two proofs under way, the later start decides.
    pub fn proved(&self, until: BootTime) {
        self.until.fetch_max(until.nanos(), Ordering::AcqRel);
    }

    /// The group said that this member is not one any more: nothing is proved until the next success.
    pub fn disproved(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// The polling thread turned.
    pub fn polled(&self) {
        self.polled.store(self.clock.now().nanos(), Ordering::Release);
    }

    /// When it last turned.
    pub fn polled_at(&self) -> BootTime {
        BootTime::from_nanos(self.polled.load(Ordering::Acquire))
    }

    /// No act from now on.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Until when ownership is proved; the start of the machine if it is not.
    pub fn until(&self) -> BootTime {
        BootTime::from_nanos(self.until.load(Ordering::Acquire))
    }

    /// The clock that the deadline counts on.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Looks whether this worker may act at all.
    ///
    /// # Errors
    /// [`Fenced`], with the reason.
    pub fn check(&self) -> Result<(), Fenced> {
        self.check_at(self.clock.now())
    }

    fn check_at(&self, now: BootTime) -> Result<(), Fenced> {
        if self.ended.load(Ordering::Acquire) {
            return Err(Fenced::Ending);
        }
        if self.deadline_off {
            return Ok(());
        }
        let now = now.nanos();
        if now >= self.until.load(Ordering::Acquire) {
            return Err(Fenced::DeadlinePassed);
        }
        if BootTime::from_nanos(now).since(self.polled_at()) > self.poll_limit {
            return Err(Fenced::PollStalled);
        }
        Ok(())
    }
}

/// This worker's hold on one partition under one claim. Handlers and writers share it; a partition that was lost and
/// regained has another one.
pub struct Fence {
    partition: Partition,
    token: FenceToken,
    given_up: AtomicBool,
    lease: Arc<Lease>,
}

impl Fence {
    /// For a claim that the store just granted.
    pub fn raise(partition: Partition, token: FenceToken, lease: Arc<Lease>) -> Arc<Self> {
        Arc::new(Self { partition, token, given_up: AtomicBool::new(false), lease })
    }

    /// For a claim that was granted too late to be used: good for one thing, to hand it over. Nothing ran under it, so no
    /// deadline of the worker's matters; the row decides as always.
    pub(crate) fn unused(partition: Partition, token: FenceToken) -> Arc<Self> {
        let lease = Lease::with_guards(Clock::boot(), Duration::MAX, Guards { deadline: false, ..Guards::default() });
        Self::raise(partition, token, lease)
    }

    /// The partition it stands for.
    pub fn partition(&self) -> Partition {
        self.partition
    }

    /// Looks whether this worker may act on the partition now.
    ///
    /// # Errors
    /// [`Fenced`], with the reason.
    pub fn check(&self) -> Result<Permit<'_>, Fenced> {
        self.check_at(self.lease.clock.now())
    }

    /// The same, for whoever has read the clock just before: a time that was read earlier is wrong after the process stood
    /// still.
    pub(crate) fn check_at(&self, now: BootTime) -> Result<Permit<'_>, Fenced> {
        if self.given_up.load(Ordering::Acquire) {
            return Err(Fenced::GivenUp);
        }
        self.lease.check_at(now)?;
        Ok(Permit { fence: self })
    }

    /// From now on every check fails; there is no way back.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fence({}, {:?})", self.partition, self.token)
    }
}

/// The answer of a check: whoever holds one has looked. Short-lived; look again before the next act.
#[derive(Debug)]
pub struct Permit<'f> {
    fence: &'f Fence,
}

impl Permit<'_> {
    /// The partition it is for.
    pub fn partition(&self) -> Partition {
        self.fence.partition
    }

    /// What a store must find in its row.
    pub(crate) fn token(&self) -> FenceToken {
        self.fence.token
    }
}

/// Which guards stand. Only twin tests and `keylane demo` take one away, to show what it holds off; no flag or
/// setting of a real worker reaches this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guards {
    /// The store compares the row with the token in the transaction of the write.
    pub row: bool,
    /// The worker stops by its own clock when it cannot prove ownership.
    pub deadline: bool,
    /// The worker throws away what was running when it learns that a partition is lost.
    pub let_go: bool,
    /// Before it claims, the worker looks whether the queue is still the one that the store has pinned.
    pub identity: bool,
    /// All writes of a partition go over one connection.
    pub one_way: bool,
    /// An owner that has nothing to write looks whether the store still knows its claims.
    pub look: bool,
}

impl Default for Guards {
    fn default() -> Self {
        Self { row: true, deadline: true, let_go: true, identity: true, one_way: true, look: true }
    }
}

#[cfg(test)]
mod tests;
