//! Every state that a machine can reach, breadth first, so that the way to the first broken one is a shortest one.
//!
//! States are kept whole and compared whole: no two are taken for one because of a hash.

use std::{collections::HashMap, hash::Hash};

/// Something with states and steps between them.
pub(crate) trait Machine {
    type State: Copy + Eq + Hash;
    type Step: Copy + Eq;

    fn start(&self) -> Self::State;

    /// Appends the steps that are possible here.
    fn steps(&self, state: &Self::State, steps: &mut Vec<Self::Step>);

    fn take(&self, state: &Self::State, step: Self::Step) -> Self::State;

    /// Whether this state must never be. It is not gone on from.
    fn is_broken(&self, state: &Self::State) -> bool;
}

/// What was reached, and how.
pub(crate) struct Graph<M: Machine> {
    pub(crate) states: Vec<M::State>,
    /// How each state was first reached; the start by nothing.
    from: Vec<Option<(u32, M::Step)>>,
    /// Where each state's steps begin in `edges`; one more entry than states.
    first_edge: Vec<u32>,
    edges: Vec<(M::Step, u32)>,
    /// The first broken state.
    pub(crate) broken: Option<u32>,
}

/// Explores until everything is seen or something is broken.
///
/// # Panics
/// After `limit` states: the bounds of the machine are not what they were taken for.
pub(crate) fn explore<M: Machine>(machine: &M, limit: usize) -> Graph<M> {
    let start = machine.start();
    let mut graph =
        Graph { states: vec![start], from: vec![None], first_edge: vec![0], edges: Vec::new(), broken: None };
    let mut known = HashMap::from([(start, 0)]);
    let mut steps = Vec::new();
    let mut at = 0;
    while at < graph.states.len() {
        let state = graph.states[at];
        steps.clear();
        machine.steps(&state, &mut steps);
        for &step in &steps {
            let next = machine.take(&state, step);
            let to = *known.entry(next).or_insert_with(|| {
                graph.states.push(next);
                graph.from.push(Some((index(at), step)));
                index(graph.states.len() - 1)
            });
            graph.edges.push((step, to));
            if machine.is_broken(&next) {
                graph.broken = Some(to);
                return graph;
            }
        }
        graph.first_edge.push(index(graph.edges.len()));
        assert!(graph.states.len() <= limit, "more than {limit} states");
        at += 1;
    }
    graph
}

impl<M: Machine> Graph<M> {
    /// The steps from a state, and where they lead.
    pub(crate) fn edges(&self, state: u32) -> &[(M::Step, u32)] {
        let [first, end] = [0, 1].map(|next| self.first_edge[state as usize + next] as usize);
        &self.edges[first..end]
    }

    /// How many steps there are between all states.
    pub(crate) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The steps of a shortest way from the start to this state.
    pub(crate) fn way_to(&self, state: u32) -> Vec<M::Step> {
        let mut way: Vec<_> = std::iter::successors(self.from[state as usize], |(from, _)| self.from[*from as usize])
            .map(|(_, step)| step)
            .collect();
        way.reverse();
        way
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("far fewer states than that are explored")
}
