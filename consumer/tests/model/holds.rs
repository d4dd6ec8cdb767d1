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
pub(crate) const LIMIT: usize = 8_000_000;

pub(crate) const ONE_FAULT: Bounds = Bounds {
    engine: Engine::Postgres,
    faults: 1,
    kinds: FAULTS,
    restarts: 1,
    jobs: [2, 1],
    notes: false,
    early_proofs: false,
};

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
    // With two faults nobody may be left to do anything.
    let nobody = |world: &World| Id::ALL.iter().all(|&id| world.worker(id).life == Life::Frozen);
    never_endless(&protocol, &graph, |step| step.duty(true), |world| !protocol.all_done(world) && !nobody(world));
    let waits = |world: &World| {
        let frozen = |&id: &Id| world.worker(id).life == Life::Frozen && world.worker(id).holds_lock();
        let operator = Id::ALL.iter().any(|id| protocol.waits_for_operator(world, *id));
        operator || nobody(world) || (bounds.engine == Engine::Sqlite && Id::ALL.iter().any(frozen))
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

const TWO_FAULTS: Bounds = Bounds { faults: 2, jobs: [2, 0], ..ONE_FAULT };

/// Two faults of any kind, anywhere, but a group that begins anew.
#[test]
fn with_any_two_faults_no_stale_effect_lands_and_every_job_is_done() {
    let kinds = FAULTS.iter().copied().filter(|kind| *kind != Fault::Restart).collect::<Vec<_>>().leak();
    holds(Bounds { kinds, ..TWO_FAULTS });
}

/// A group that begins anew, and another fault beside it: of those that change who is the owner and what the store knows of it;
/// with `KEYLANE_MODEL=all` of every kind, also that it begins anew again. That takes a minute or two.
#[test]
fn with_a_group_that_begins_anew_and_another_fault_no_stale_effect_lands_and_every_job_is_done() {
    let some = &[Fault::LoseWrite, Fault::Move, Fault::Restart, Fault::FailOver, Fault::LoseAnswer];
    if std::env::var("KEYLANE_MODEL").is_ok_and(|which| which == "all") {
        holds(Bounds { restarts: 2, ..TWO_FAULTS });
    } else {
        holds(Bounds { kinds: some, ..TWO_FAULTS });
    }
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
