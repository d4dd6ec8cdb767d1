//! Whether what is pending ends, however the steps fall: the part that a search for broken states cannot answer.
//!
//! A run may go on for ever, or end, with something pending. It counts if it is fair: a step that stays possible is taken
//! at last. (Weak fairness; a step that is possible only now and then may be passed over for ever.) So look, among the
//! states where it is pending, for one without a fair step, and for a circle that passes over no step that is possible all
//! around. Circles are looked for as strongly connected components: a run may go round all of one.

use std::collections::{HashMap, HashSet, VecDeque};

use super::explore::{Graph, Machine};

/// What a step is to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// Taken at last if it stays possible.
    Fair,
    /// May be taken or not.
    Free,
    /// Is not taken any more.
    Over,
}

/// A run in which something is pending for ever: how it begins, and what it then does again and again (nothing: it ends).
pub(crate) struct Endless<S> {
    pub(crate) way: Vec<S>,
    pub(crate) circle: Vec<S>,
}

/// A shortest such run among those that end; if none ends, one that goes round.
pub(crate) fn endless<M: Machine>(
    graph: &Graph<M>,
    duty: impl Fn(M::Step) -> Duty,
    pending: impl Fn(&M::State) -> bool,
) -> Option<Endless<M::Step>>
where
    M::Step: std::hash::Hash,
{
    let pending: Vec<bool> = graph.states.iter().map(pending).collect();
    let run = Run { graph, duty, pending };
    let all = 0..u32::try_from(graph.states.len()).expect("states are counted in 32 bits");
    let end = all.clone().find(|&at| run.pending[at as usize] && run.fair_steps(at).next().is_none());
    if let Some(end) = end {
        return Some(Endless { way: graph.way_to(end), circle: Vec::new() });
    }
    let circle = run.components().into_iter().filter(|component| run.is_fair_circle(component));
    let circle = circle.min_by_key(|component| component.iter().min().copied())?;
    let entry = *circle.iter().min().expect("a component is not empty");
    Some(Endless { way: graph.way_to(entry), circle: run.round(&circle, entry) })
}

struct Run<'g, M: Machine, D> {
    graph: &'g Graph<M>,
    duty: D,
    pending: Vec<bool>,
}

impl<M: Machine, D: Fn(M::Step) -> Duty> Run<'_, M, D>
where
    M::Step: std::hash::Hash,
{
    fn fair_steps(&self, at: u32) -> impl Iterator<Item = M::Step> {
        let steps = self.graph.edges(at).iter().map(|(step, _)| *step);
        steps.filter(|step| (self.duty)(*step) == Duty::Fair)
    }

    /// Steps that are still taken and after which it is still pending.
    fn onward(&self, at: u32) -> impl Iterator<Item = (M::Step, u32)> {
        let edges = self.graph.edges(at).iter().copied();
        edges.filter(|(step, to)| (self.duty)(*step) != Duty::Over && self.pending[*to as usize])
    }

    /// A run that goes round all of it for ever passes over no fair step: each is taken, or is impossible somewhere.
    fn is_fair_circle(&self, component: &[u32]) -> bool {
        let inside: HashSet<_> = component.iter().copied().collect();
        let mut taken = HashSet::new();
        let mut always: Option<HashSet<M::Step>> = None;
        for &at in component {
            taken.extend(self.onward(at).filter(|(_, to)| inside.contains(to)).map(|(step, _)| step));
            let here: HashSet<_> = self.fair_steps(at).collect();
            always = Some(always.map_or(here.clone(), |always| always.intersection(&here).copied().collect()));
        }
        !taken.is_empty() && always.is_none_or(|always| always.is_subset(&taken))
    }

    /// One way round from `entry`, through as much of the component as it takes to pass over no fair step.
    fn round(&self, component: &[u32], entry: u32) -> Vec<M::Step> {
        let inside: HashSet<_> = component.iter().copied().collect();
        let mut passed_over: HashSet<_> = self.fair_steps(entry).collect();
        let (mut round, mut at) = (Vec::new(), entry);
        // Each leg goes to the nearest place where one more of them is taken or impossible.
        while !passed_over.is_empty() {
            let pass = |step: M::Step, to: u32| passed_over.contains(&step) || !self.all_possible(to, &passed_over);
            let Some(leg) = self.leg(&inside, at, pass) else { break };
            for (step, to) in leg {
                passed_over.remove(&step);
                let here: HashSet<_> = self.fair_steps(to).collect();
                passed_over.retain(|step| here.contains(step));
                round.push(step);
                at = to;
            }
        }
        if at != entry || round.is_empty() {
            let back = self.leg(&inside, at, |_, to| to == entry).expect("the component is strongly connected");
            round.extend(back.into_iter().map(|(step, _)| step));
        }
        round
    }

    fn all_possible(&self, at: u32, steps: &HashSet<M::Step>) -> bool {
        let here: HashSet<_> = self.fair_steps(at).collect();
        steps.is_subset(&here)
    }

    /// The shortest way inside whose last step is wanted.
    fn leg(
        &self,
        inside: &HashSet<u32>,
        start: u32,
        wanted: impl Fn(M::Step, u32) -> bool,
    ) -> Option<Vec<(M::Step, u32)>> {
        let mut from: HashMap<u32, (u32, M::Step)> = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for (step, to) in self.onward(at).filter(|(_, to)| inside.contains(to)) {
                if wanted(step, to) {
                    let mut leg = vec![(step, to)];
                    let mut back = at;
                    while back != start {
                        let (earlier, step) = from[&back];
                        leg.push((step, back));
                        back = earlier;
                    }
                    leg.reverse();
                    return Some(leg);
                }
                if to != start && !from.contains_key(&to) {
                    from.insert(to, (at, step));
                    queue.push_back(to);
                }
            }
        }
        None
    }

    /// The strongly connected components of what is pending (Tarjan's algorithm, without recursion).
    fn components(&self) -> Vec<Vec<u32>> {
        const UNSEEN: u32 = u32::MAX;
        let count = self.graph.states.len();
        let (mut number, mut low) = (vec![UNSEEN; count], vec![0; count]);
        let mut on_stack = vec![false; count];
        let (mut stack, mut components, mut next) = (Vec::new(), Vec::new(), 0);
        for root in (0..count).filter(|&at| self.pending[at]) {
            if number[root] != UNSEEN {
                continue;
            }
            let root = u32::try_from(root).expect("states are counted in 32 bits");
            let mut path: Vec<(u32, Vec<u32>)> = Vec::new();
            let mut enter = Some(root);
            loop {
                if let Some(at) = enter.take() {
                    (number[at as usize], low[at as usize]) = (next, next);
                    next += 1;
                    stack.push(at);
                    on_stack[at as usize] = true;
                    path.push((at, self.onward(at).map(|(_, to)| to).collect()));
                }
                let Some((at, open)) = path.last_mut() else { break };
                let at = *at as usize;
                if let Some(to) = open.pop() {
                    if number[to as usize] == UNSEEN {
                        enter = Some(to);
                    } else if on_stack[to as usize] {
                        low[at] = low[at].min(number[to as usize]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent as usize] = low[*parent as usize].min(low[at]);
                }
                if low[at] == number[at] {
                    let size = stack.iter().rev().position(|&s| s as usize == at).expect("it is on the stack") + 1;
                    let component = stack.split_off(stack.len() - size);
                    component.iter().for_each(|&s| on_stack[s as usize] = false);
                    components.push(component);
                }
            }
        }
        components
    }
}
