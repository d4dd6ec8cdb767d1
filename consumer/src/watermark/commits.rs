//! R14: one partition, polled, started, finished, failed, revoked, assigned and committed in any order, under the real lanes. What
//! is committed is never above an offset that has no final outcome.

use std::collections::BTreeSet;

use keylane_producer::{JobKey, Offset, Partition};
use proptest::{prelude::*, test_runner::TestRunner};

use super::Watermark;
use crate::lanes::{LaneLimits, Lanes, Tenure, Ticket};

/// 10,000, by the rule's own words.
const SEEDS: u32 = 10_000;
const P0: Partition = Partition(0);
const KEYS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Poll {
        records: usize,
    },
    Start,
    Finish {
        pick: usize,
    },
    Fail {
        pick: usize,
    },
    /// A commit sets out.
    Commit,
    /// It arrives.
    Arrive,
    Revoke,
    Assign,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1..6_usize).prop_map(|records| Step::Poll { records }),
        4 => Just(Step::Start),
        3 => any::<usize>().prop_map(|pick| Step::Finish { pick }),
        1 => any::<usize>().prop_map(|pick| Step::Fail { pick }),
        2 => Just(Step::Commit),
        2 => Just(Step::Arrive),
        1 => Just(Step::Revoke),
        2 => Just(Step::Assign),
    ];
    prop::collection::vec(step, 0..80)
}

/// Where a commit takes its offset from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Done,
    /// The twin.
    Seen,
}

struct World {
    /// Key by offset; `None` is no record: compacted, or a marker of a transaction.
    log: Vec<Option<usize>>,
    keys: Vec<JobKey>,
    done: BTreeSet<u64>,
    committed: u64,
    /// Of which tenure, and what.
    under_way: Option<(Tenure, u64)>,
    tenures: u64,
    owner: Option<Owner>,
    /// Retries, and jobs that were started and not done when their partition was revoked.
    failed: u64,
    cut: u64,
}

struct Owner {
    tenure: Tenure,
    watermark: Watermark,
    lanes: Lanes<()>,
    running: Vec<Ticket>,
}

impl World {
    fn new(log: Vec<Option<usize>>) -> Self {
        let keys = (0..KEYS).map(|key| JobKey::try_from(&*format!("k{key}")).expect("it is a key")).collect();
        let (done, owner, under_way) = (BTreeSet::new(), None, None);
        Self { log, keys, done, committed: 0, under_way, tenures: 0, owner, failed: 0, cut: 0 }
    }

    fn take(&mut self, step: &Step, from: From) {
        match (step, &mut self.owner) {
            (Step::Assign, None) => {
                self.tenures += 1;
                let tenure = Tenure(self.tenures);
                let mut lanes = Lanes::new(LaneLimits::default());
                lanes.open(P0, tenure);
                let watermark = Watermark::starting_at(Offset(self.committed));
                self.owner = Some(Owner { tenure, watermark, lanes, running: Vec::new() });
            }
            (Step::Revoke, Some(owner)) => {
                self.cut += owner.running.len() as u64;
                self.owner = None;
            }
            (Step::Poll { records }, Some(owner)) => {
                for _ in 0..*records {
                    let offset = owner.watermark.position();
                    let Some(&record) = self.log.get(usize::try_from(offset.0).expect("a short log")) else { return };
                    match record.filter(|_| !self.done.contains(&offset.0)) {
                        Some(key) if owner.watermark.deliver(offset) => {
                            owner.lanes.offer(P0, owner.tenure, offset, self.keys[key].clone(), (), 1);
                        }
                        _ => owner.watermark.advance(offset.next()),
                    }
                }
            }
            (Step::Start, Some(owner)) => owner.running.extend(owner.lanes.start().map(|start| start.ticket)),
            (Step::Finish { pick } | Step::Fail { pick }, Some(owner)) if !owner.running.is_empty() => {
                let ticket = owner.running.swap_remove(pick % owner.running.len());
                assert!(owner.lanes.ended(ticket));
                if matches!(step, Step::Fail { .. }) {
                    self.failed += 1;
                    owner.lanes.wait(ticket);
                    owner.lanes.due(ticket);
                } else {
                    self.done.insert(ticket.offset.0);
                    owner.watermark.finish(ticket.offset);
                    owner.lanes.applied(ticket);
                }
            }
            (Step::Commit, Some(owner)) if self.under_way.is_none() => {
                let offset =
                    if from == From::Done { owner.watermark.committable() } else { owner.watermark.position() };
                self.under_way = Some((owner.tenure, offset.0));
            }
            (Step::Arrive, _) => {
                // The group refuses it once it has given the partition to another.
                let commit = self.under_way.take().filter(|(tenure, _)| tenure.0 == self.tenures);
                self.committed = commit.map_or(self.committed, |(_, offset)| offset.max(self.committed));
            }
            _ => {}
        }
    }

    /// The first job that is committed and has no outcome.
    fn lost(&self) -> Option<u64> {
        let below = self.log.iter().zip(0..self.committed);
        below
            .filter(|(record, offset)| record.is_some() && !self.done.contains(offset))
            .map(|(_, offset)| offset)
            .next()
    }
}

fn runs(seeds: u32, from: From) -> Result<(u64, u64), String> {
    let log = prop::collection::vec(prop::option::weighted(0.85, 0..KEYS), 30);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(seeds));
    let (failed, cut) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let run = |(log, steps): (Vec<Option<usize>>, Vec<Step>)| {
        let mut world = World::new(log);
        for step in &steps {
            world.take(step, from);
            prop_assert_eq!(world.lost(), None, "committed {} and not done", world.committed);
        }
        failed.set(failed.get() + world.failed);
        cut.set(cut.get() + world.cut);
        Ok(())
    };
    runner.run(&(log, steps()), run).map_err(|error| error.to_string())?;
    Ok((failed.get(), cut.get()))
}

#[test]
fn what_is_committed_has_an_outcome_in_whatever_order_things_happen() {
    let (failed, cut) = runs(SEEDS, From::Done).unwrap_or_else(|lost| panic!("{lost}"));
    assert!(failed > 1_000 && cut > 1_000, "{failed} tries failed and {cut} jobs were cut short: it was worth it");
}

#[test]
fn a_commit_of_what_was_seen_loses_a_job_that_never_ran() {
    let lost = runs(SEEDS, From::Seen).expect_err("the twin shows it");
    assert!(lost.contains("and not done"), "{lost}");
}
