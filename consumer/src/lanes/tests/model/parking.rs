//! Parked keys and their lines, the simple way.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{Doing, KEYS, World, name};
use crate::lanes::{Partition, Start, Ticket};

impl World {
    /// What a parked key had read back from its line is the line's again, unless its head runs or is being read.
    pub(super) fn leave_to_the_line(&mut self, partition: Partition, key: usize) {
        let p = self.partitions.get_mut(&partition).unwrap();
        if !p.parked.contains_key(&key) || !matches!(p.doing[&key], Doing::Nothing) {
            return;
        }
        let back = std::mem::take(p.from_line.entry(key).or_default());
        let mut line: VecDeque<_> = p.queues.get_mut(&key).unwrap().drain(..back).collect();
        let in_line = p.lines.entry(key).or_default();
        line.append(in_line);
        *in_line = line;
    }

    pub(super) fn stand(&mut self, partition: Partition, key: usize) -> Result<(), TestCaseError> {
        let Some(p) = self.partitions.get_mut(&partition) else { return Ok(()) };
        let stands = p.parked.contains_key(&key);
        prop_assert_eq!(self.lanes.stand(partition, p.tenure, &name(key)), !stands);
        if stands {
            return Ok(());
        }
        p.parked.insert(key, false);
        p.queues.entry(key).or_default();
        let doing = p.doing.entry(key).or_insert(Doing::Nothing);
        if matches!(doing, Doing::Waiting(_)) {
            *doing = Doing::Nothing;
        }
        self.leave_to_the_line(partition, key);
        Ok(())
    }

    /// What parked keys hold goes to their lines, in order and all of it.
    pub(super) fn moves(&mut self) -> Result<(), TestCaseError> {
        let moves = self.lanes.moves();
        for Start { ticket, key, job } in moves {
            prop_assert_eq!(job, ticket.offset.0);
            let key = (0..KEYS).find(|k| name(*k) == key).unwrap();
            let p = self.partitions.get_mut(&ticket.partition).unwrap();
            prop_assert!(!p.draining && p.parked.contains_key(&key) && p.tenure == ticket.tenure);
            let already = if let Doing::Moving(jobs) = p.doing[&key] { jobs } else { 0 };
            prop_assert!(matches!(p.doing[&key], Doing::Nothing | Doing::Moving(_)));
            prop_assert_eq!(p.queues[&key].get(already), Some(&ticket.offset));
            p.doing.insert(key, Doing::Moving(already + 1));
        }
        Ok(())
    }

    /// The first of those that are on their way to a line is there.
    pub(super) fn moved(&mut self, pick: usize) {
        let moving: Vec<_> = self
            .partitions
            .iter()
            .flat_map(|(&partition, p)| p.doing.iter().map(move |(&key, doing)| (partition, key, doing)))
            .filter_map(
                |(partition, key, doing)| if let Doing::Moving(n) = doing { Some((partition, key, *n)) } else { None },
            )
            .collect();
        let Some(&(partition, key, jobs)) = moving.get(pick % moving.len().max(1)) else { return };
        let p = self.partitions.get_mut(&partition).unwrap();
        let offset = p.queues.get_mut(&key).unwrap().pop_front().unwrap();
        p.lines.entry(key).or_default().push_back(offset);
        p.doing.insert(key, if jobs == 1 { Doing::Nothing } else { Doing::Moving(jobs - 1) });
        let ticket = Ticket { partition, tenure: p.tenure, offset };
        self.lanes.applied(ticket);
    }

    pub(super) fn release(&mut self, partition: Partition, key: usize) -> Result<(), TestCaseError> {
        let Some(p) = self.partitions.get_mut(&partition) else { return Ok(()) };
        let parked = p.parked.get(&key).copied();
        prop_assert_eq!(self.lanes.is_parked(partition, &name(key)), parked.is_some());
        prop_assert_eq!(self.lanes.release(partition, p.tenure, &name(key)), parked == Some(false));
        if parked.is_some() {
            p.parked.insert(key, true);
        }
        Ok(())
    }

    /// The line that was asked for comes.
    pub(super) fn line(&mut self, pick: usize) {
        let asked: Vec<_> = self
            .partitions
            .iter()
            .flat_map(|(&partition, p)| p.doing.iter().map(move |(&key, doing)| (partition, key, doing)))
            .filter(|(.., doing)| **doing == Doing::Returning)
            .map(|(partition, key, _)| (partition, key))
            .collect();
        let Some(&(partition, key)) = asked.get(pick % asked.len().max(1)) else { return };
        let p = self.partitions.get_mut(&partition).unwrap();
        let line = std::mem::take(p.lines.entry(key).or_default());
        let places: Vec<_> = line.iter().map(|offset| (*offset, self.sizes[offset])).collect();
        p.parked.remove(&key);
        p.from_line.insert(key, line.len());
        let newer = std::mem::replace(p.queues.entry(key).or_default(), line);
        p.queues.get_mut(&key).unwrap().extend(newer);
        p.doing.insert(key, Doing::Nothing);
        let tenure = p.tenure;
        self.lanes.line(partition, tenure, &name(key), &places);
    }
}
