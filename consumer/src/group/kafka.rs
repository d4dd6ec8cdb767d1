//! The group on Kafka: a classic consumer group, whose generation is the token.
//!
//! - `client`: one librdkafka consumer, decides nothing
//! - `control`: commits and what else other threads ask
//! - `watch`: looking at a group from outside
//! - `rebalance`: what the group gives and wants back
//! - `reads`: which partitions are read, and how far; pure
//!
//! 1. The generation is read at the start of the answer to an assignment and bound to its partitions. It is never "the
//!    current one": two members can read the same number for one partition (a metadata change while an assignment waits
//!    for its answer), and then the store decides.
//! 2. What is assigned is taken at once and paused; nothing waits for a store on the polling thread.
//! 3. What is asked back is given back when it is drained. Meanwhile the poll goes on, so the partitions that stay (with
//!    the cooperative assignor) go on too. What the group has lost already is given back at once.
//! 4. Commits are sent by the thread that asks. A member that waits in a join has its commits waiting behind it, on the
//!    same connection: no loss, no proof.
//! 5. A member that leaves waits for the coordinator, but not for long.
//!
//! Refused at start, with the reason: see `keylane_producer::kafka::settings`.

use std::{cell::Cell, collections::BTreeMap, sync::Arc, time::Duration};

use keylane_producer::{
    GroupName, Offset, Partition, QueueIdentity,
    kafka::{
        KafkaContext, KafkaSettings,
        events::Event,
        rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    },
};

use self::{client::Client, control::KafkaControl, reads::Reads, rebalance::Revoked};
use super::{Group, GroupControl, GroupEvent, command::Command};
use crate::{
    clock::{BootTime, Clock},
    error::{Detail, Error},
    fence::{Generation, MemberId},
};

pub use self::{
    settings::{Assignor, KafkaGroupSettings},
    watch::KafkaGroupReader,
};

mod client;
mod control;
mod reads;
mod rebalance;
mod settings;
mod watch;

/// How long leaving may take: the answer of a coordinator that is there takes milliseconds.
const FAREWELL: Duration = Duration::from_secs(3);

/// How long one try to read from elsewhere may take: the client's own thread answers it.
const SEEK: Duration = Duration::from_millis(500);

/// Between two of them: a partition that was just assigned is not ready for a moment.
const SEEK_AGAIN: Duration = Duration::from_millis(2);

/// How long brokers may not know the topic: they hear of a new one after each other.
const MISSING: Duration = Duration::from_secs(30);

/// While leaving: how often to look whether it is done.
const LOOK_ROUND: Duration = Duration::from_millis(20);

/// Without ever having been a member: how long a refusal may last before it ends the worker.
const REFUSED: Duration = Duration::from_secs(10);

/// One member of a group.
pub struct KafkaGroup {
    client: Arc<Client>,
    control: Arc<KafkaControl>,
    queue: QueueIdentity,
    cooperative: bool,
    /// Full partitions are held; without it they are paused, which a twin looks at.
    holds: bool,
    reads: Reads,
    part: Part,
    /// Who it was when it was last told.
    standing: Option<(MemberId, Generation)>,
    /// What was asked back and is not given back yet.
    revoked: Option<Revoked>,
    /// To be read from there, once the client is ready for it: a partition that was just assigned is not for a moment.
    waiting: BTreeMap<Partition, Offset>,
    /// Since when the brokers do not know the topic.
    missing: Option<BootTime>,
    /// Why no broker is there, as long as none is.
    away: Option<String>,
    opened: BootTime,
}

/// The part that this member has in the group.
#[derive(Debug, PartialEq)]
enum Part {
    Member,
    /// It leaves as this member, and joins anew when it has left or this time is over.
    Departing(Option<MemberId>, BootTime),
    /// It joins anew, and waits for an id that is not this one.
    Rejoining(Option<MemberId>),
    /// It leaves, and goes without an answer after this.
    Leaving(BootTime),
    Left,
}

impl KafkaGroup {
    /// Opens a member-to-be; the first polls join.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that does not fit.
    pub fn open(
        settings: &KafkaSettings,
        queue: &QueueIdentity,
        group: &GroupName,
        behaviour: &KafkaGroupSettings,
    ) -> Result<Self, Error> {
        behaviour.check()?;
        let cooperative = behaviour.assignor == Assignor::Cooperative;
        let failed =
            |error: &KafkaError| KafkaContext::new(settings.clone()).explain("cannot make a Kafka consumer", error);
        let config = behaviour.config(settings, group);
        let context = KafkaContext::new(settings.clone());
        let client = Client::open(&config, context, queue.name.as_str(), cooperative).map_err(|e| failed(&e))?;
        client.subscribe().map_err(|e| failed(&e))?;
        let client = Arc::new(client);
        Ok(Self {
            control: Arc::new(KafkaControl::new(Arc::clone(&client))),
            client,
            queue: queue.clone(),
            cooperative,
            holds: true,
            reads: Reads::new(behaviour.poll_records, behaviour.poll_bytes),
            part: Part::Member,
            standing: None,
            revoked: None,
            waiting: BTreeMap::new(),
            missing: None,
            away: None,
            opened: Clock::boot().now(),
        })
    }
}

#[cfg(feature = "conformance")]
impl KafkaGroup {
    /// Takes away the comparison of a commit's member and generation with what the client is: for the twins.
    #[must_use]
    pub fn unguarded(self) -> Self {
        self.control.shared().unchecked = true;
        self
    }

    /// Full partitions are paused, which has the client fetch them again: for the twins.
    #[must_use]
    pub fn pausing(mut self) -> Self {
        self.holds = false;
        self
    }

    /// As if the client had met an error that it cannot get over.
    pub fn fail_for_good(&self, why: &str) {
        self.client.fail_for_good(why);
    }
}

impl Group for KafkaGroup {
    fn poll(&mut self, limit: Duration, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        let clock = Clock::boot();
        let started = clock.now();
        let told = Cell::new(false);
        let sink = &mut |event: GroupEvent| {
            told.set(true);
            sink(event);
        };
        while self.part != Part::Left {
            self.obey(sink)?;
            self.learn_from_commits(sink)?;
            let left = limit.saturating_sub(clock.now().since(started));
            // With something in hand: only what is there already.
            let in_hand = told.get() || self.reads.have_pages();
            let wait = match self.part {
                _ if in_hand => Duration::ZERO,
                Part::Leaving(_) | Part::Departing(..) => left.min(LOOK_ROUND),
                Part::Member if !self.waiting.is_empty() => left.min(SEEK_AGAIN),
                _ => left,
            };
            let mut event = self.client.poll(wait);
            if event.is_none() && (in_hand || left.is_zero()) {
                break;
            }
            // What is there already comes with it.
            while let Some(told) = event {
                self.take_in(told, sink)?;
                event = if self.reads.are_full() { None } else { self.client.poll(Duration::ZERO) };
            }
            self.go_on_leaving(clock.now(), sink);
            self.go_on_rejoining(clock.now())?;
            if left.is_zero() || self.reads.are_full() {
                break;
            }
        }
        self.deliver(sink);
        self.trouble(clock.now())
    }

    fn control(&self) -> Arc<dyn GroupControl> {
        Arc::clone(&self.control) as Arc<dyn GroupControl>
    }
}

impl KafkaGroup {
    /// Carries out what other threads asked for, in order.
    fn obey(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        loop {
            // Not in the condition of a loop: the lock must be free while a command is carried out.
            let Some(command) = self.control.shared().commands.pop_front() else { break };
            if self.part != Part::Member && !matches!(command, Command::Leave) {
                continue;
            }
            match command {
                Command::Resume(partition, from) if self.reads.resume(partition, from) => {
                    self.client.let_go_on(partition);
                }
                Command::GoOn(partition, from) if self.reads.go_on(partition, from) => {
                    self.client.let_go_on(partition);
                }
                Command::Resume(partition, from) | Command::GoOn(partition, from) => {
                    self.waiting.insert(partition, from);
                }
                // What is fetched already is not fetched again; unless it is wanted from elsewhere, and that has not begun.
                Command::Pause(partition)
                    if self.holds && !self.waiting.contains_key(&partition) && self.reads.hold(partition) =>
                {
                    self.client.hold(partition);
                }
                Command::Pause(partition) => {
                    self.stop_reading(partition);
                    if self.owns(partition) {
                        self.did("pause a partition", self.client.pause(&[partition]))?;
                    }
                }
                Command::Release(partitions) => self.release(&partitions)?,
                Command::Rejoin => self.rejoin(sink)?,
                Command::Leave => self.leave(sink)?,
            }
        }
        self.begin_reading();
        Ok(())
    }

    fn begin_reading(&mut self) {
        for (partition, from) in std::mem::take(&mut self.waiting) {
            let asked_back = self.revoked.as_ref().is_some_and(|revoked| revoked.partitions.contains(&partition));
            if !self.owns(partition) || asked_back {
                continue;
            }
            match self.client.read_from(partition, from, SEEK) {
                Ok(()) => self.reads.begin(partition, from),
                Err(error) => {
                    tracing::debug!(partition = partition.0, %error, "cannot read from here yet");
                    self.waiting.insert(partition, from);
                }
            }
        }
    }

    fn stop_reading(&mut self, partition: Partition) {
        if self.reads.stop(partition) {
            self.client.let_go_on(partition);
        }
        self.waiting.remove(&partition);
    }

    fn leave(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        if matches!(self.part, Part::Leaving(_) | Part::Left) {
            return Ok(());
        }
        self.lose_everything(sink)?;
        self.control.shared().closing = true;
        let now = Clock::boot().now();
        self.part = match (&self.away, self.client.close()) {
            // Nobody is there to hear it: the group finds out by itself after the session.
            (Some(_), _) | (_, Err(_)) => Part::Leaving(now),
            (None, Ok(())) => Part::Leaving(now.plus(FAREWELL)),
        };
        Ok(())
    }

    fn go_on_leaving(&mut self, now: BootTime, sink: &mut dyn FnMut(GroupEvent)) {
        if matches!(self.part, Part::Leaving(until) if now >= until || self.client.is_closed()) {
            self.part = Part::Left;
            sink(GroupEvent::Left);
        }
    }

    /// What commits on other threads were told.
    fn learn_from_commits(&mut self, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        let (disowned, moved_on) = {
            let mut shared = self.control.shared();
            if std::mem::take(&mut shared.alive) {
                self.away = None;
            }
            (std::mem::take(&mut shared.disowned), shared.moved_on.take())
        };
        if disowned && self.part == Part::Member && self.revoked.is_some() {
            // The client waits for our answer before it looks after itself.
            self.lose_everything(sink)?;
        }
        if let (Some((member, generation)), Some((known, told))) = (moved_on, &mut self.standing)
            && member == *known
            && generation > *told
        {
            *told = generation;
            sink(GroupEvent::MovedOn { member, generation });
        }
        Ok(())
    }

    fn take_in(&mut self, event: Event, sink: &mut dyn FnMut(GroupEvent)) -> Result<(), Error> {
        match event {
            Event::Record(partition, record) => {
                (self.away, self.missing) = (None, None);
                self.reads.record(partition, record);
            }
            Event::End(partition, end) => self.reads.end(partition, end),
            Event::Assign(partitions) => {
                self.away = None;
                if !partitions.is_empty() {
                    self.missing = None;
                }
                self.deliver(sink);
                self.assigned(partitions, sink)?;
            }
            Event::Revoke(partitions) => {
                self.deliver(sink);
                self.asked_back(partitions, sink)?;
            }
            Event::Error(RDKafkaErrorCode::AllBrokersDown, _, why) => self.away = Some(why),
            Event::Error(code, partition, why) => {
                if matches!(code, RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) {
                    self.missing.get_or_insert_with(|| Clock::boot().now());
                }
                let partition = partition.map(|p| p.0);
                tracing::debug!(?code, ?partition, why, "the Kafka client has trouble");
            }
            Event::Other => {}
        }
        Ok(())
    }

    fn owns(&self, partition: Partition) -> bool {
        self.control.shared().owned.contains_key(&partition)
    }

    fn deliver(&mut self, sink: &mut dyn FnMut(GroupEvent)) {
        for page in self.reads.take() {
            let known = self.client.end(page.partition).unwrap_or(page.position).max(page.position);
            // Behind the last record there may be markers of transactions: no jobs.
            let end = if page.at_end { page.position } else { known };
            let (partition, from, position) = (page.partition, page.from, page.position);
            sink(GroupEvent::Records { partition, from, records: page.records, position, end });
        }
    }

    /// Whether the client can go on, and whether anybody is there.
    fn trouble(&self, now: BootTime) -> Result<(), Error> {
        let context = self.client.context();
        if let Some(why) = context.fatal() {
            let detail = Detail::new("the Kafka client cannot go on").because(why);
            return Err(Error::Refused(detail.remedy("see the reason, and start the worker again")));
        }
        if self.standing.is_none()
            && now.since(self.opened) > REFUSED
            && let Some(refusal) = context.refusal("cannot join the group")
        {
            return Err(refusal.into());
        }
        if self.missing.is_some_and(|since| now.since(since) > MISSING) {
            let name = &self.queue.name;
            return Err(Error::NotFound(
                Detail::new(format!("the topic of queue '{name}' is not there any more")).remedy(
                    "make it again, and start the worker again; if it holds other jobs then: keylane fence reset",
                ),
            ));
        }
        match &self.away {
            Some(why) => Err(Error::Unavailable(Detail::new("no Kafka broker is there").because(why.clone()))),
            None => Ok(()),
        }
    }

    fn did(&self, what: &str, answer: KafkaResult<()>) -> Result<(), Error> {
        answer.map_err(|error| {
            if let Some(why) = self.client.context().fatal() {
                return Error::Refused(Detail::new("the Kafka client cannot go on").because(why));
            }
            Error::Bug(Detail::new(format!("cannot {what}")).because(error.to_string()))
        })
    }
}
