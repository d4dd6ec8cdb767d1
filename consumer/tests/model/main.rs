//! The ownership protocol, explored state by state.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod explore;
mod group;
mod minds;
mod progress;
mod protocol;
mod store;
mod workers;
mod world;

use explore::explore;
use protocol::*;

#[test]
fn sizes() {
    const ALL: &[Fault] = &[Fault::Freeze, Fault::Die, Fault::Move, Fault::DealTwice, Fault::TakeSeat, Fault::Restart, Fault::FailOver, Fault::LoseAnswer, Fault::CutCommit];
    for engine in [Engine::Sqlite, Engine::Postgres] {
        for faults in 0..=2 {
            for jobs in [[1, 1], [2, 1]] {
            let bounds = Bounds { engine, faults, kinds: ALL, jobs, notes: false, early_proofs: true };
            let protocol = Protocol::new(bounds, Without::Nothing);
            let graph = explore(&protocol, 3_000_000);
            println!("{engine:?} {faults} {jobs:?}: {} states {} edges broken {:?}", graph.states.len(), graph.edge_count(), graph.broken.map(|b| (graph.states[b as usize].broken, graph.way_to(b))));
            for operator in [true, false] {
                let e = progress::endless(&graph, |s: Step| s.duty(operator), |w| !protocol.all_done(w));
                println!("   operator {operator}: {:?}", e.map(|e| (e.way, e.circle)));
            }
            }
        }
    }
}
