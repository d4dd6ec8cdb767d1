//! The embedded group: members are processes (or threads) of one machine that share the queue file. No leader, no
//! daemon. Why it is so: `docs/decisions/0003-embedded-group.md`.
//!
//! 1. The generation rises at every change of members or owners and never restarts.
//! 2. A partition has one owner in a generation; it moves from a live member only when that one released it, or did
//!    not within its rebalance timeout.
//! 3. A member whose session ran out is expelled by whoever sees it first, and itself sees it before it fetches.
//! 4. Commits are compared with the group's rows in their own transaction.
//!
//! A poll writes a heartbeat at most once each interval; else it reads. A write that finds the file locked is tried again
//! at the next turn, and fetching goes on meanwhile. To drop a [`LocalGroup`] without `leave` is silent death.

use std::{path::Path, sync::Arc, time::Duration};

use keylane_producer::{GroupName, QueueIdentity};
use rusqlite::Connection;

use self::{
    control::{Inbox, LocalControl},
    fetch::Fetch,
    held::Held,
    schema::Place,
};
use super::{Group, GroupControl, GroupEvent, command::Command};
use crate::{
    clock::{BootTime, Clock},
    error::Error,
};

pub use self::{
    overview::{GroupReader, overview},
    settings::LocalGroupSettings,
};

mod assignment;
mod commit;
mod control;
mod fetch;
mod held;
mod membership;
mod overview;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

/// How long one try of a poll's write waits for the write lock; fetching waits with it.
const TRY: Duration = Duration::from_millis(20);

/// How long writes may fail before a poll says so: what [`keylane_producer::sqlite::Patience::Brisk`] allows.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks at an idle file: from the shortest after something happened to the longest, which is what an idle
/// consumer waits for a record. A look costs about 10 µs, a nap some 30 µs more.
const SHORTEST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(10);

/// One member of a group, from join to join: each time it joins it has another member id.
pub struct LocalGroup {
    connection: Connection,
    place: Place,
    settings: LocalGroupSettings,
    inbox: Arc<Inbox>,
    control: Arc<LocalControl>,
    fetch: Fetch,
    part: Part,
    /// When the last look at the deadlines of this and the other members was.
    kept: BootTime,
    /// `PRAGMA data_version` at the last look; `None` if this connection itself wrote since.
    seen: Option<i64>,
    nap: Duration,
    failing: Option<Failing>,
}

/// The part that this member has in the group.
enum Part {
    Outside,
    Member(Held),
    Left,
}

/// Writes that fail and are tried again.
struct Failing {
    since: BootTime,
    /// What the last turn failed with, until a poll says it.
    latest: Option<Error>,
}

impl LocalGroup {
    /// Opens a member-to-be; the first poll joins.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range. [`Error::NotFound`] if file or queue are gone.
    /// [`Error::Refused`], [`Error::Unavailable`], [`Error::Corrupt`] as the file answers.
    pub fn open(
        path: &Path,
        queue: &QueueIdentity,
        group: &GroupName,
        clock: Clock,
        settings: LocalGroupSettings,
    ) -> Result<Self, Error> {
        let place = Place::find(&schema::open_log(path)?, queue, group, clock)?;
        Self::at(path, queue, place, settings)
    }

    fn at(path: &Path, queue: &QueueIdentity, place: Place, settings: LocalGroupSettings) -> Result<Self, Error> {
        settings.check()?;
        let connection = schema::open(path)?;
        connection.busy_timeout(TRY).map_err(place.failed("join"))?;
        let inbox = Arc::new(Inbox::default());
        Ok(Self {
            connection,
            control: Arc::new(LocalControl::open(path, place.clone(), Arc::clone(&inbox))?),
            fetch: Fetch::new(schema::open_log(path)?, queue.clone(), place.clone(), &settings),
            place,
            settings,
            inbox,
            part: Part::Outside,
            kept: BootTime::ZERO,
            seen: None,
            nap: SHORTEST_NAP,
            failing: None,
        })
    }
}

impl Group for LocalGroup {
    fn poll(&mut self, limit: Duration, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        // How long to wait is the machine's time, also when a test turns the clock that sessions count on.
        let waiting = Clock::boot();
        let started = waiting.now();
        loop {
            let mut told = false;
            self.turn(waiting.now(), &mut |event| {
                told = true;
                sink(event);
            })?;
            if told {
                self.nap = SHORTEST_NAP;
                return Ok(());
            }
            let left = limit.saturating_sub(waiting.now().since(started));
            if left.is_zero() {
                return self.failing_for_long(waiting.now());
            }
            self.rest(left.min(self.nap));
            self.nap = (self.nap + self.nap / 4).min(LONGEST_NAP);
        }
    }

    fn control(&self) -> Arc<dyn GroupControl> {
        Arc::clone(&self.control) as Arc<dyn GroupControl>
    }
}

impl LocalGroup {
    /// Takes part once. Only reading has to succeed: a write that cannot be made now is tried again.
    fn turn(&mut self, now: BootTime, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        if matches!(self.part, Part::Left) {
            return Ok(());
        }
        let kept = self.keep();
        match kept.and(self.obey(sink)) {
            Ok(()) => self.failing = None,
            Err(latest) if latest.is_transient() => {
                let since = self.failing.as_ref().map_or(now, |failing| failing.since);
                self.failing = Some(Failing { since, latest: Some(latest) });
            }
            Err(error) => return Err(error),
        }
        self.learn(sink)?;
        if self.may_be_expired() {
            return Ok(());
        }
        self.fetch.deliver(sink)
    }

    /// The file was locked for so long that others may count this member as dead once they can write.
    fn may_be_expired(&self) -> bool {
        let kept = self.kept.max(self.control.kept());
        self.failing.is_some() && self.place.clock.now() >= kept.plus(self.settings.session_timeout)
    }

    /// Until a command comes, or for `limit`.
    fn rest(&self, limit: Duration) {
        if self.failing.is_some() {
            // A command may be what fails: it must not wake the poll again and again.
            std::thread::park_timeout(limit);
        } else {
            self.inbox.wait(limit);
        }
    }

    /// Joins if it is outside; else, once each interval, restarts the session and expels those whose own ran out.
    fn keep(&mut self) -> Result<(), Error> {
        let now = self.place.clock.now();
        let Part::Member(held) = &self.part else {
            let held = Held::nothing(membership::fresh_member());
            membership::join(&mut self.connection, &self.place, held.member(), None, &self.settings)?;
            self.joined(held, now);
            return Ok(());
        };
        let interval = self.settings.heartbeat_interval();
        if now < self.kept.plus(interval) {
            return Ok(());
        }
        let silent = now >= self.control.kept().plus(interval);
        if silent || membership::overdue(&self.connection, &self.place)? {
            membership::keep(&mut self.connection, &self.place, held.member())?;
            self.seen = None;
        }
        self.kept = now;
        Ok(())
    }

    /// Carries out what other threads asked for, in order.
    fn obey(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        while let Some(command) = self.inbox.take() {
            if let Err(error) = self.carry_out(&command, sink) {
                self.inbox.put_back(command);
                return Err(error);
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, command: &Command, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        let Part::Member(held) = &mut self.part else {
            if matches!(command, Command::Leave) {
                self.left(sink);
            }
            return Ok(());
        };
        match command {
            Command::Resume(partition, from) | Command::GoOn(partition, from) if held.may_read(*partition) => {
                self.fetch.resume(*partition, *from);
            }
            Command::Resume(..) | Command::GoOn(..) => {}
            Command::Pause(partition) => self.fetch.stop(*partition),
            Command::Release(partitions) => {
                // One that was taken and given anew before the answer came is not what the answer was about.
                let asked = held.asked_for(partitions);
                membership::release(&mut self.connection, &self.place, held.member(), &asked)?;
                self.seen = None;
                asked.into_iter().for_each(|p| held.let_go(p));
            }
            Command::Rejoin => {
                let now = self.place.clock.now();
                let next = Held::nothing(membership::fresh_member());
                let former = Some(held.member());
                membership::join(&mut self.connection, &self.place, next.member(), former, &self.settings)?;
                self.lose_everything(sink);
                self.joined(next, now);
            }
            Command::Leave => {
                membership::leave(&mut self.connection, &self.place, held.member())?;
                self.lose_everything(sink);
                self.left(sink);
            }
        }
        Ok(())
    }

    /// Tells what changed since the last look at the group's rows.
    fn learn(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        let version = self.version()?;
        if self.seen == Some(version) {
            return Ok(());
        }
        self.fetch.look_again()?;
        if let Part::Member(held) = &mut self.part {
            match membership::news(&mut self.connection, &self.place, held.member(), held.generation())? {
                None => {}
                Some(Some(standing)) => held.learn(&standing, &mut |event| {
                    if let GroupEvent::Lost(partitions) | GroupEvent::Revoking(partitions) = &event {
                        partitions.iter().for_each(|&p| self.fetch.stop(p));
                    }
                    sink(event);
                }),
                Some(None) => {
                    self.lose_everything(sink);
                    self.part = Part::Outside;
                }
            }
        }
        self.seen = Some(version);
        Ok(())
    }

    fn joined(&mut self, held: Held, now: BootTime) {
        self.part = Part::Member(held);
        self.kept = now;
        self.seen = None;
    }

    fn left(&mut self, sink: &mut dyn FnMut(GroupEvent)) {
        self.part = Part::Left;
        sink(GroupEvent::Left);
    }

    fn lose_everything(&mut self, sink: &mut dyn FnMut(GroupEvent)) {
        let Part::Member(held) = &self.part else { return };
        let lost = held.partitions();
        lost.iter().for_each(|&p| self.fetch.stop(p));
        if !lost.is_empty() {
            sink(GroupEvent::Lost(lost));
        }
    }

    /// Changes when another connection has committed to the file.
    fn version(&self) -> Result<i64, Error> {
        self.connection
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut ask| ask.query_row([], |row| row.get(0)))
            .map_err(self.place.failed("look at"))
    }

    fn failing_for_long(&mut self, now: BootTime) -> Result<(), Error> {
        match &mut self.failing {
            Some(failing) if now.since(failing.since) >= PATIENCE => failing.latest.take().map_or(Ok(()), Err),
            _ => Ok(()),
        }
    }
}
