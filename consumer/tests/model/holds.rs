//! The protocol with all its guards, as far as the bounds go.

use super::{
    explore::{Graph, explore},
    progress::{self, Duty},
    protocol::{Bounds, Engine, Fault, Protocol, Step, Without},
    story::story,
    world::{Id, Life, Stage, World},
};

/// Every kind of fault.
pub(crate) const FAULTS: &[Fault] = &[
    Fault::LoseWrite,
    Fault::Freeze,
    Fault::Die,
    Fault::Move,
    Fault::DealTwice,
    Fault::TakeSeat,
    Fault::Restart,
    Fault::FailOver,
    Fault::LoseAnswer,
    Fault::CutCommit,
];

/// But the one that a store without timelines does not notice.
const OF_SQLITE: &[Fault] = &[
    Fault::Freeze,
    Fault::Die,
    Fault::Move,
    Fault::DealTwice,
    Fault::TakeSeat,
    Fault::Restart,
    Fault::FailOver,
    Fault::LoseAnswer,
    Fault::CutCommit,
];

/// More than the bounds that are tested here have.
pub(crate) const LIMIT: usize = 3_000_000;

pub(crate) const ONE_FAULT: Bounds =
    Bounds { engine: Engine::Postgres, faults: 1, kinds: FAULTS, jobs: [2, 1], notes: false, early_proofs: false };

/// Explores all of it, and fails with the story of what is broken.
fn explored(bounds: Bounds) -> (Protocol, Graph<Protocol>) {
    let protocol = Protocol::new(bounds, Without::Nothing);
    let graph = explore(&protocol, LIMIT);
    if let Some(broken) = graph.broken {
        panic!("{}", story(&protocol, &graph.way_to(broken), &[]));
    }
    println!("{bounds:?}: {} states, {} steps", graph.states.len(), graph.edge_count());
    (protocol, graph)
}

fn never_endless(
    protocol: &Protocol,
    graph: &Graph<Protocol>,
    duty: impl Fn(Step) -> Duty,
    pending: impl Fn(&World) -> bool,
) {
    if let Some(run) = progress::endless(graph, duty, pending) {
        panic!("{}", story(protocol, &run.way, &run.circle));
    }
}

/// Nothing is broken; every job is done at last; and what waits for an operator is what the documents name.
fn holds(bounds: Bounds) {
    let (protocol, graph) = explored(bounds);
    never_endless(&protocol, &graph, |step| step.duty(true), |world| !protocol.all_done(world));
    let waits = |world: &World| {
        let frozen = |&id: &Id| world.worker(id).life == Life::Frozen && world.worker(id).holds_lock();
        let operator = Id::ALL.iter().any(|id| protocol.waits_for_operator(world, *id));
        operator || (bounds.engine == Engine::Sqlite && Id::ALL.iter().any(frozen))
    };
    let pending = |world: &World| !protocol.all_done(world) && !waits(world);
    never_endless(&protocol, &graph, |step| step.duty(false), pending);
}

#[test]
fn with_any_one_fault_no_stale_effect_lands_and_every_job_is_done_on_postgres() {
    holds(ONE_FAULT);
}

#[test]
fn with_any_one_fault_no_stale_effect_lands_and_every_job_is_done_on_sqlite() {
    holds(Bounds { engine: Engine::Sqlite, kinds: OF_SQLITE, ..ONE_FAULT });
}

/// Proofs that began before a refusal was read, in flight around everything else.
#[test]
fn a_proof_from_before_the_refusal_raises_no_false_alarm() {
    let kinds = &[Fault::Move, Fault::DealTwice, Fault::Restart];
    holds(Bounds { kinds, jobs: [1, 0], early_proofs: true, ..ONE_FAULT });
}

/// While writers go on and on, a claim is decided.
#[test]
fn no_claim_waits_for_ever_behind_stale_writers() {
    let (protocol, graph) = explored(STARVING);
    for id in Id::ALL {
        never_endless(&protocol, &graph, cut_off, |world| waits_for_writers(&protocol, world, id));
    }
}

pub(crate) const STARVING: Bounds = Bounds { kinds: &[Fault::Move], jobs: [1, 0], notes: true, ..ONE_FAULT };

/// Workers that are cut off from the group, and need not hear of their loss.
pub(crate) fn cut_off(step: Step) -> Duty {
    match step {
        Step::Hear(_) | Step::FindOut(_) => Duty::Free,
        step => step.duty(true),
    }
}

/// A claim that would win is on its way. (A stale one may wait behind the owner's writes as long as it likes.)
pub(crate) fn waits_for_writers(protocol: &Protocol, world: &World, id: Id) -> bool {
    let claim = world.worker(id).claim.filter(|claim| matches!(claim.stage, Stage::Asked | Stage::Announced));
    claim.is_some_and(|claim| protocol.decision(&world.store.rows.fence, &claim).is_ok())
}
