//! What the lanes ask for, and what they hold, against the simple world.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{Doing, KEYS, ModelPartition, World, name};
use crate::lanes::{LaneAction, partition::PartitionLanes, tests::SMALL};

impl World {
    /// Pauses and resumes take turns; a reread asks for the front of a lane that could start but has no bytes.
    pub(super) fn see_actions(&mut self) -> Result<(), TestCaseError> {
        for action in self.lanes.actions() {
            match action {
                LaneAction::Pause(partition) => {
                    let p = self.partitions.get_mut(&partition).unwrap();
                    prop_assert!(!std::mem::replace(&mut p.paused, true), "paused twice");
                }
                LaneAction::Resume(partition) => {
                    let p = self.partitions.get_mut(&partition).unwrap();
                    prop_assert!(std::mem::replace(&mut p.paused, false), "resumed twice");
                    prop_assert!(!p.draining);
                    let held = &self.lanes.partitions[&partition];
                    prop_assert!(held.held_jobs * 2 < SMALL.held_jobs, "resumed only when half empty");
                }
                LaneAction::Return { partition, tenure, key } => {
                    let key = (0..KEYS).find(|k| name(*k) == key).unwrap();
                    let p = self.partitions.get_mut(&partition).unwrap();
                    prop_assert_eq!((tenure, p.parked.get(&key)), (p.tenure, Some(&true)));
                    prop_assert_eq!(
                        p.doing.insert(key, Doing::Returning),
                        Some(Doing::Nothing),
                        "nothing is on its way"
                    );
                }
                LaneAction::Reread { partition, tenure, key, offsets, from_line } => {
                    let key = (0..KEYS).find(|k| name(*k) == key).unwrap();
                    let p = self.partitions.get_mut(&partition).unwrap();
                    prop_assert_eq!(tenure, p.tenure);
                    prop_assert_eq!(&p.doing[&key], &Doing::Nothing);
                    prop_assert_eq!(from_line, p.from_line.get(&key).copied().unwrap_or(0).min(offsets.len()));
                    prop_assert!(!offsets.is_empty() && p.queues[&key].iter().zip(&offsets).all(|(a, b)| a == b));
                    p.doing.insert(key, Doing::Reading(offsets));
                }
            }
        }
        Ok(())
    }

    pub(super) fn compare(&self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.lanes.running(), self.slots.len());
        prop_assert!(self.slots.len() <= SMALL.running);
        prop_assert_eq!(self.lanes.partitions.len(), self.partitions.len());
        for (partition, model) in &self.partitions {
            let real = &self.lanes.partitions[partition];
            let known = model.queues.values().map(VecDeque::len).sum();
            prop_assert_eq!(self.lanes.counts(*partition), (known, model.parked.len()));
            prop_assert_eq!(real.line_jobs, model.from_line.values().sum::<usize>());
            let busy =
                model.doing.values().any(|d| matches!(d, Doing::Running(_) | Doing::Writing(_) | Doing::Moving(_)));
            prop_assert_eq!(self.lanes.is_idle(*partition), !busy);
            prop_assert!(real.knows_what_has_begun(), "word of a job finds its lane, and nothing else is kept for it");
            self.compare_bytes(model, real)?;
        }
        Ok(())
    }

    pub(super) fn compare_bytes(
        &self,
        model: &ModelPartition,
        real: &PartitionLanes<u64>,
    ) -> Result<(), TestCaseError> {
        let (mut jobs, mut bytes) = (0, 0);
        for (key, queue) in &model.queues {
            let Some(lane) = real.find(&name(*key)).map(|(_, lane)| lane) else {
                prop_assert!(queue.is_empty(), "a lane was forgotten");
                continue;
            };
            let places = lane.held.iter().map(|held| held.place.offset).chain(lane.bare.iter().map(|p| p.offset));
            prop_assert!(places.eq(queue.iter().copied()), "nothing lost, nothing out of order");
            let counted = queue.iter().take(lane.held.len() + lane.asked);
            bytes += counted.map(|offset| self.sizes[offset]).sum::<usize>();
            jobs += lane.held.len() + lane.asked;
        }
        prop_assert_eq!((real.held_jobs, real.held_bytes), (jobs, bytes));
        if known_is_above(real) {
            prop_assert!(model.paused, "a full partition is paused");
        }
        Ok(())
    }
}

fn known_is_above(real: &PartitionLanes<u64>) -> bool {
    !real.draining && (real.held_jobs >= SMALL.held_jobs || real.of_the_log() >= SMALL.known_jobs)
}
