//! Commits, and what they prove.

use keylane_producer::Offset;

use super::{LOOK_EVERY, PROVE_EVERY, Part};
use crate::{
    ownership::Ownership,
    simulation::{
        Without,
        group::Refused,
        world::{CommitRequest, Event, Inside, World},
    },
};

impl World {
    pub(super) fn prove(&mut self, worker: usize) {
        let now = self.now();
        let process = &mut self.workers[worker];
        let Some((name, (_, generation))) = process.name.zip(process.ownership.membership()) else { return };
        if std::mem::replace(&mut process.committing, true) {
            return;
        }
        let (generation, process) = (*generation, process.process);
        let parts = self.workers[worker].parts.iter();
        let offsets = parts.map(|(partition, part)| (*partition, self.committable(part))).collect();
        let tenures = self.workers[worker].parts.values().map(|part| part.tenure).collect();
        let commit = CommitRequest { name, generation, offsets, tenures, t0: self.clock.now() };
        self.workers[worker].next_proof = now + PROVE_EVERY;
        let cut = self.workers[worker].cut_until > now;
        let road = self.road();
        // One connection: a commit arrives before its answer is given up, or never.
        let delay = road.delay.min(350);
        if road.arrives && !cut {
            let (commit, answered) = (commit.clone(), road.answered);
            self.after(delay, Event::CommitArrives { worker, process, commit, answered });
        }
        if cut || !road.arrives || !road.answered {
            self.inside(worker, 400, Inside::Committed(commit, None));
        }
    }

    /// Never less than the group has: a store that went back has its jobs run again, and the group need not know.
    pub(super) fn committable(&self, part: &Part) -> Offset {
        let Part { watermark, committed, .. } = part;
        let done = if self.without == Without::Watermark { watermark.position() } else { watermark.committable() };
        committed.map_or(done, |committed| committed.max(done))
    }

    /// An owner compares its rows also when it has nothing to write.
    pub(super) fn look(&mut self, worker: usize) {
        self.workers[worker].next_look = self.now() + LOOK_EVERY;
        let process = &self.workers[worker];
        let claims = process.parts.iter();
        let claims = claims.filter_map(|(p, part)| Some((*p, part.tenure, part.fence.check().ok()?.token())));
        let (process, claims) = (process.process, claims.collect());
        let road = self.road();
        if road.arrives {
            self.after(road.delay, Event::LookArrives { worker, process, claims });
        }
    }

    pub(super) fn committed(&mut self, worker: usize, commit: &CommitRequest, answer: Option<&Result<(), Refused>>) {
        self.workers[worker].committing = false;
        match answer {
            Some(Ok(())) => {
                // The group has it, whichever tenure it was sent in.
                let only_its_own = self.without == Without::GroupsWord;
                for ((partition, offset), tenure) in commit.offsets.iter().zip(&commit.tenures) {
                    let part = self.workers[worker].parts.get_mut(partition);
                    if let Some(part) = part.filter(|part| !only_its_own || part.tenure == *tenure) {
                        part.committed = part.committed.max(Some(*offset));
                    }
                }
                let (until, actions) = self.workers[worker].ownership.proved(commit.t0, commit.generation);
                self.workers[worker].lease.proved(until);
                self.act(worker, |_| actions);
            }
            Some(Err(Refused::UnknownMember)) if self.workers[worker].name == Some(commit.name) => {
                self.seen.disowned += 1;
                self.workers[worker].name = None;
                self.workers[worker].lease.disproved();
                self.act(worker, Ownership::disowned);
            }
            Some(Err(Refused::NotOwner(partition))) => {
                self.seen.refused_commits += 1;
                // Without this, one partition that is another's would keep the whole worker from proving.
                let named = commit.offsets.iter().zip(&commit.tenures).find(|((of, _), _)| of == partition);
                let (_, &tenure) = named.expect("it was in the commit");
                self.act(worker, |ownership| ownership.not_owner(*partition, tenure));
            }
            Some(Err(_)) => self.seen.refused_commits += 1,
            None => {}
        }
    }
}
