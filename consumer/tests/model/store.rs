//! The store's steps: claims that arrive, transactions that time out, failover and the operator's reset.

use keylane_consumer::store::{
    ClaimRefused,
    rule::{Claimant, Row, Won},
};

use super::{
    protocol::{Engine, Fault, Protocol, Step, Without},
    world::{Claim, Fence, Grant, Id, Key, Life, Owner, Stage, Token, Whose, World},
};

impl Protocol {
    pub(crate) fn store_steps(&self, world: &World, steps: &mut Vec<Step>) {
        for whose in Whose::ALL {
            match world.claim(whose).map(|claim| claim.stage) {
                Some(Stage::Asked) if self.announces() => steps.push(Step::Announce(whose)),
                Some(Stage::Asked | Stage::Announced) if !world.is_locked() => steps.push(Step::Decide(whose)),
                _ => {}
            }
        }
        if world.stray.is_some() {
            steps.push(Step::Vanish);
        }
        for id in Id::ALL {
            let stuck = world.worker(id).life == Life::Frozen && world.worker(id).holds_lock();
            if stuck && self.bounds.engine == Engine::Postgres && self.without != Without::IdleTimeout {
                steps.push(Step::TimeOut(id));
            }
            if stuck && self.bounds.engine == Engine::Sqlite {
                steps.push(Step::EndProcess(id));
            }
        }
        if !world.is_locked() && Id::ALL.iter().any(|&id| self.waits_for_operator(world, id)) {
            steps.push(Step::ResetFence);
        }
    }

    fn announces(&self) -> bool {
        self.bounds.engine == Engine::Postgres && self.without != Without::Intent
    }

    pub(crate) fn announce(&self, world: &mut World, whose: Whose) {
        let claim = world.claim_mut(whose).as_mut().expect("a claim is on its way");
        claim.stage = Stage::Announced;
        let mine = (claim.session, claim.generation);
        let fence = &mut world.store.rows.fence;
        fence.announced = fence.announced.max(mine);
    }

    /// The claim's transaction, which waited for the writers in flight.
    pub(crate) fn decide(&self, world: &mut World, whose: Whose) {
        let claim = *world.claim(whose).expect("a claim is on its way");
        let before = world.store.rows;
        let answer = match self.decision(&before.fence, &claim) {
            Ok(_) => {
                let token = self.raise(world, &claim);
                world.store.before_write = None;
                if self.has_fault(Fault::FailOver) {
                    world.store.before_claim = Some(before);
                }
                Stage::Granted(token, before.done)
            }
            Err(why) => Stage::Refused(why),
        };
        match whose {
            Whose::Worker(id) => world.worker_mut(id).claim = Some(Claim { stage: answer, ..claim }),
            Whose::Nobody => world.stray = None,
        }
    }

    /// The real rule, or what a twin makes of it.
    pub(crate) fn decision(&self, fence: &Fence, claim: &Claim) -> Result<Won, ClaimRefused> {
        let row = row(fence, self.announces());
        let claimant =
            Claimant { epoch: claim.session.into(), generation: claim.generation.into(), owner: Some(claim.owner) };
        match row.decide(&claimant) {
            Err(ClaimRefused::EqualGeneration) if self.without == Without::StrictClaim => Ok(Won::Anew),
            decided => decided,
        }
    }

    fn raise(&self, world: &mut World, claim: &Claim) -> Token {
        let store = &mut world.store;
        store.truth_grants += 1;
        let fence = &mut store.rows.fence;
        fence.generation = claim.generation;
        fence.owner = Some(claim.owner);
        fence.timeline = store.timeline;
        fence.claim = if self.without == Without::RandomClaimNumber { fence.claim + 1 } else { store.truth_grants };
        let grant = Grant {
            truth_number: store.truth_grants,
            truth_give: claim.given.truth_give,
            truth_restarts: claim.given.truth_restarts,
            truth_resets: store.truth_resets,
        };
        if self.supersedes(claim, &fence.newest) {
            fence.newest = grant;
        }
        Token { epoch: fence.epoch, generation: fence.generation, claim: fence.claim, truth_number: grant.truth_number }
    }

    /// Whether a claim is of no older assignment than the newest granted one. Of two assignments by a group that began anew
    /// in between, nothing in the store can tell the order until the fence is reset: the later claim counts.
    fn supersedes(&self, claim: &Claim, newest: &Grant) -> bool {
        let began_anew = claim.given.truth_restarts != newest.truth_restarts;
        let unseen = began_anew && claim.truth_since >= newest.truth_resets;
        claim.given.truth_give >= newest.truth_give || (unseen && self.without != Without::Excuse)
    }

    /// A worker takes the partition without asking the store: in the twins that claim nothing on assignment.
    pub(crate) fn take_unclaimed(&self, world: &mut World, claim: &Claim) -> Token {
        let store = &mut world.store;
        store.truth_grants += 1;
        let number = store.truth_grants;
        let fence = &mut store.rows.fence;
        if claim.given.truth_give >= fence.newest.truth_give {
            fence.newest = Grant {
                truth_number: number,
                truth_give: claim.given.truth_give,
                truth_restarts: claim.given.truth_restarts,
                truth_resets: store.truth_resets,
            };
        }
        Token { epoch: fence.epoch, generation: claim.generation, claim: number, truth_number: number }
    }

    /// The check of a write: whether the row is this claim's.
    pub(crate) fn admits(&self, world: &mut World, key: Key, token: &Token) -> bool {
        let rows = &mut world.store.rows;
        let fence = &mut rows.fence;
        let first_write_raises = |held: (u8, u8)| (token.generation, token.truth_number) >= held;
        match self.without {
            Without::PartitionFence => {
                let held = &mut rows.keys[key as usize];
                let wins = first_write_raises(*held);
                if wins {
                    *held = (token.generation, token.truth_number);
                }
                wins
            }
            Without::ClaimOnAssignment => {
                let wins = first_write_raises((fence.generation, fence.claim));
                if wins {
                    (fence.generation, fence.claim) = (token.generation, token.claim);
                }
                wins
            }
            Without::ClaimNumber => {
                let number = fence.claim.into();
                row(fence, self.announces()).admits(token.epoch.into(), token.generation.into(), number)
            }
            _ => {
                let same_history = fence.timeline == world.store.timeline || !self.heeds_timelines();
                let row = row(fence, self.announces());
                same_history && row.admits(token.epoch.into(), token.generation.into(), token.claim.into())
            }
        }
    }

    /// Whether a writer may begin beside those in flight.
    pub(crate) fn can_begin(&self, world: &World) -> bool {
        self.bounds.engine == Engine::Postgres || !world.is_locked()
    }

    fn heeds_timelines(&self) -> bool {
        self.bounds.engine == Engine::Postgres && self.without != Without::Timeline
    }

    /// All connections are cut.
    pub(crate) fn fail_over(&self, world: &mut World, loses_claim: bool) {
        let store = &mut world.store;
        let copy = if loses_claim { &mut store.before_claim } else { &mut store.before_write };
        store.rows = copy.take().expect("there is something to go back to");
        // What is older than the copy cannot come back from it.
        (store.before_claim, store.before_write) = (None, None);
        store.timeline += 1;
        world.stray = None;
        for id in Id::ALL {
            let worker = world.worker_mut(id);
            worker.roll_back();
            if let Some(claim) = &mut worker.claim
                && matches!(claim.stage, Stage::Asked | Stage::Announced)
            {
                claim.stage = Stage::Failed;
            }
        }
    }

    pub(crate) fn reset_fence(&self, world: &mut World) {
        let store = &mut world.store;
        store.truth_resets += 1;
        let fence = &mut store.rows.fence;
        (fence.generation, fence.owner) = (0, None);
        if self.without == Without::Epoch {
            fence.announced = (fence.epoch, 0);
        } else {
            fence.epoch += 1;
        }
        // A reset is made on every copy.
        (store.before_claim, store.before_write) = (None, None);
    }
}

fn row(fence: &Fence, announced: bool) -> Row<Option<Owner>> {
    let (epoch, generation) = fence.announced;
    Row {
        epoch: fence.epoch.into(),
        generation: fence.generation.into(),
        owner: fence.owner,
        claim: fence.claim.into(),
        closed: false,
        announced: announced.then_some((epoch.into(), generation.into())),
    }
}
