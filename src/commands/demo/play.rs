//! Directs the actors, waits for what must happen, and tells what changed meanwhile.

use std::{collections::BTreeMap, time::Duration};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use keylane_consumer::clock::{BootTime, Clock};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};

use super::{
    actors::{Actor, Role},
    sight::{Late, Sight, Watch},
    stage::Scene,
    story::{Event, Story},
};
use crate::{
    cli::Global,
    exit::{Code, Failure},
    output::Output,
};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(25);
/// Owners are shown once they have been the same for this long: a take-over is a claim for each partition.
const SETTLED: Duration = Duration::from_millis(200);
/// Late writes that land come many after another; they are told together.
const TOGETHER: Duration = Duration::from_secs(1);
/// How often a freeze may hit a process inside a transaction.
const FREEZES: u32 = 50;
/// For what a worker does when it is asked to end.
const LAST_ACTS: Duration = Duration::from_secs(20);

pub(super) struct Play<'a> {
    story: Story<'a>,
    interrupts: Receiver<()>,
    clock: Clock,
    actors: Vec<Actor>,
    watch: Option<Watch>,
    seen: Sight,
    told: Told,
}

/// What was told of what is seen.
#[derive(Default)]
struct Told {
    owners: Vec<Option<Role>>,
    owners_since: BootTime,
    quarters: u64,
    refused: Late,
    landed: Late,
    landed_at: BootTime,
}

impl<'a> Play<'a> {
    /// From here on a signal ends the play, not the process.
    pub(super) fn begin(global: &Global, output: &'a mut Output) -> Result<Self, Failure> {
        let failed = |e: &std::io::Error| Failure::new(Code::Bug, "cannot listen to signals").because(e);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| failed(&e))?;
        let (interrupt, interrupts) = bounded(1);
        let listen = move || {
            for _ in signals.forever() {
                let _ = interrupt.try_send(()); // full: it was said before
            }
        };
        std::thread::Builder::new().name("keylane-signals".into()).spawn(listen).map_err(|e| failed(&e))?;
        Ok(Self {
            story: Story::begin(global, output),
            interrupts,
            clock: Clock::boot(),
            actors: Vec::new(),
            watch: None,
            seen: Sight::default(),
            told: Told::default(),
        })
    }

    pub(super) fn tell(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        self.story.tell(event)
    }

    pub(super) fn start_actors(&mut self, scene: &Scene, fenced: bool, shown: bool) -> Result<(), Failure> {
        let watch = Watch::open(scene)?;
        for role in Role::ALL {
            self.actors.push(Actor::start(role, scene, fenced, shown)?);
        }
        self.watch = Some(watch);
        let workers: BTreeMap<Role, u32> = self.actors.iter().map(|actor| (actor.role(), actor.pid())).collect();
        self.story.tell(&Event::Started { workers: &workers, jobs: scene.jobs })
    }

    /// Waits until it holds, and tells what happens meanwhile.
    pub(super) fn until(
        &mut self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut(&Sight) -> bool,
    ) -> Result<(), Failure> {
        let by = self.clock.now().plus(limit);
        loop {
            for actor in &mut self.actors {
                actor.must_live()?;
            }
            self.look()?;
            if holds(&self.seen) {
                return Ok(());
            }
            if self.clock.now() >= by {
                return Err(waited_in_vain(what, limit));
            }
            self.rest()?;
        }
    }

    /// Stops the worker where it stands, though not inside a transaction. Answers which partitions it holds.
    pub(super) fn freeze(&mut self, role: Role) -> Result<Vec<u32>, Failure> {
        for _ in 0..FREEZES {
            self.actor(role).freeze()?;
            if self.watch().writers_are_free()? {
                // What it held when it stopped, not when it was last looked at.
                self.look()?;
                self.tell_owners()?;
                let partitions = self.seen.partitions_of(role);
                self.story.tell(&Event::Frozen { worker: role, partitions: &partitions })?;
                return Ok(partitions);
            }
            self.actor(role).thaw()?;
            self.rest()?;
        }
        Err(Failure::new(Code::Failed, format!("{role} was inside a transaction at each of {FREEZES} freezes"))
            .remedy("the disk is very slow or busy: set TMPDIR to a folder on another one"))
    }

    pub(super) fn thaw(&mut self, role: Role) -> Result<(), Failure> {
        self.actor(role).thaw()?;
        self.story.tell(&Event::Thawed { worker: role })
    }

    pub(super) fn kill(&mut self, role: Role) -> Result<(), Failure> {
        self.tell_owners()?;
        let partitions = self.seen.partitions_of(role);
        self.actor(role).kill();
        self.story.tell(&Event::Killed { worker: role, partitions: &partitions })
    }

    /// Asks those who are left to end, and waits for them.
    pub(super) fn end_actors(&mut self) -> Result<(), Failure> {
        self.tell_landed()?;
        self.story.tell(&Event::Finished { jobs: self.seen.applied_in_all() })?;
        self.actors.iter().try_for_each(Actor::ask_to_end)?;
        let by = self.clock.now().plus(LAST_ACTS);
        loop {
            let mut all = true;
            for actor in &mut self.actors {
                all &= actor.has_ended()?;
            }
            if all {
                return Ok(());
            }
            if self.clock.now() >= by {
                return Err(waited_in_vain("the workers ended", LAST_ACTS));
            }
            self.rest()?;
        }
    }

    /// Until a signal comes.
    pub(super) fn wait_for_the_user(&self) {
        let _ = self.interrupts.recv(); // the thread that listens never ends
    }

    fn actor(&mut self, role: Role) -> &mut Actor {
        self.actors.iter_mut().find(|actor| actor.role() == role).expect("every role has its actor")
    }

    fn watch(&mut self) -> &mut Watch {
        self.watch.as_mut().expect("it is opened before the actors start")
    }

    /// Until the next look, or a signal.
    fn rest(&self) -> Result<(), Failure> {
        match self.interrupts.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Failure::new(Code::Interrupted, "interrupted")),
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        let sight = self.watch().look()?;
        let now = self.clock.now();
        if sight.owners != self.seen.owners {
            self.told.owners_since = now;
        }
        self.seen = sight;
        if now.since(self.told.owners_since) >= SETTLED {
            self.tell_owners()?;
        }
        self.tell_progress()?;
        let refused = risen(&self.told.refused, &self.seen.refused);
        self.told.refused.clone_from(&self.seen.refused);
        for (worker, late) in &refused {
            self.story.tell(&Event::Refused { worker, jobs: late.jobs, partitions: &late.partitions })?;
        }
        if now.since(self.told.landed_at) >= TOGETHER {
            self.tell_landed()?;
        }
        Ok(())
    }

    fn tell_owners(&mut self) -> Result<(), Failure> {
        if self.told.owners == self.seen.owners || self.seen.owners.contains(&None) {
            return Ok(());
        }
        self.told.owners.clone_from(&self.seen.owners);
        self.story.tell(&Event::Owners { owners: &self.seen.owners })
    }

    fn tell_progress(&mut self) -> Result<(), Failure> {
        let (applied, jobs) = (self.seen.applied_in_all(), self.story.jobs());
        let quarters = applied * 4 / jobs.max(1);
        if quarters > self.told.quarters && quarters < 4 {
            self.told.quarters = quarters;
            self.story.tell(&Event::Progress { applied, jobs })?;
        }
        Ok(())
    }

    fn tell_landed(&mut self) -> Result<(), Failure> {
        let landed = risen(&self.told.landed, &self.seen.landed);
        if !landed.is_empty() {
            self.told.landed.clone_from(&self.seen.landed);
            self.told.landed_at = self.clock.now();
        }
        landed.iter().try_for_each(|(worker, late)| {
            self.story.tell(&Event::Landed { worker, jobs: late.jobs, partitions: &late.partitions })
        })
    }
}

#[derive(Default)]
struct LateOf {
    jobs: u64,
    partitions: Vec<u32>,
}

/// What is new, by worker.
fn risen(before: &Late, now: &Late) -> BTreeMap<Box<str>, LateOf> {
    let mut risen = BTreeMap::<Box<str>, LateOf>::new();
    for ((worker, partition), &jobs) in now {
        let new = jobs - before.get(&(worker.clone(), *partition)).copied().unwrap_or(0);
        if new > 0 {
            let late = risen.entry(worker.clone()).or_default();
            late.jobs += new;
            late.partitions.push(*partition);
        }
    }
    risen
}

fn waited_in_vain(what: &str, limit: Duration) -> Failure {
    Failure::new(Code::Failed, format!("waited {} s in vain until {what}", limit.as_secs()))
        .remedy("if the machine is very busy, try again; else 'keylane demo --keep' keeps the workers' logs")
}
