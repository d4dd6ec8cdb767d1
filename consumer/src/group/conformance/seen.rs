//! What the members of a test were told, in one order, and which promise of the port that breaks.

use std::collections::{BTreeMap, BTreeSet};

use keylane_producer::{Offset, Partition};

use crate::{
    clock::BootTime,
    fence::{Generation, MemberId},
    group::{Assignment, GroupEvent},
};

/// All members of one test.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) members: Vec<Member>,
    /// Promises that did not hold.
    pub(super) broken: Vec<String>,
    newest: BTreeMap<Partition, Generation>,
}

/// One of them.
#[derive(Default)]
pub(super) struct Member {
    pub(super) id: Option<MemberId>,
    /// The group's number as last told.
    pub(super) generation: Option<Generation>,
    /// What it holds: assigned and neither released nor lost.
    pub(super) holds: BTreeMap<Partition, Held>,
    /// What the group wants back.
    pub(super) revoking: BTreeSet<Partition>,
    /// Every record that came.
    pub(super) records: Vec<(Partition, Offset)>,
    pub(super) left: bool,
    /// It is dead or about to lose what it holds, so another owner is no surprise.
    pub(super) gone: bool,
    /// Polls that ended.
    pub(super) polls: u64,
}

/// One partition that a member holds.
pub(super) struct Held {
    pub(super) generation: Generation,
    pub(super) since: BootTime,
    /// Nothing below it may come; `None` before it is resumed.
    next: Option<Offset>,
}

impl Seen {
    /// Takes note of what a member was told at `now`.
    pub(super) fn note(&mut self, member: usize, event: GroupEvent, now: BootTime) {
        match event {
            GroupEvent::Assigned(assignment) => self.assigned(member, assignment, now),
            GroupEvent::MovedOn { member: id, generation } => {
                let seen = &mut self.members[member];
                (seen.id, seen.generation) = (Some(id), Some(generation));
            }
            GroupEvent::Revoking(partitions) => self.members[member].revoking.extend(partitions),
            GroupEvent::Lost(partitions) => self.lost(member, &partitions),
            GroupEvent::Records { partition, from, records, position, end } => {
                let offsets: Vec<Offset> = records.iter().map(|r| r.offset).collect();
                if let Err(why) = self.members[member].fetched(partition, from, &offsets, position, end) {
                    self.broken.push(format!("member {member}, partition {partition}: {why}"));
                }
            }
            GroupEvent::Left => self.members[member].left = true,
        }
    }

    fn assigned(&mut self, member: usize, assignment: Assignment, now: BootTime) {
        let Assignment { member: id, generation, partitions, replaces_all } = assignment;
        if replaces_all {
            let lost: Vec<_> = self.members[member].holds.keys().copied().collect();
            self.members[member].let_go(&lost);
        }
        for &partition in &partitions {
            if self.newest.insert(partition, generation).is_some_and(|before| before >= generation) {
                self.broken.push(format!("partition {partition} was assigned again without a higher generation"));
            }
            let others = self.members.iter().enumerate().filter(|(at, m)| *at != member && !m.gone);
            for (other, _) in others.filter(|(_, m)| m.holds.contains_key(&partition)) {
                self.broken.push(moved(partition, &format!("{other} and {member} own it")));
            }
            let held = Held { generation, since: now, next: None };
            if self.members[member].holds.insert(partition, held).is_some() {
                self.broken.push(format!("partition {partition} was assigned to {member}, which holds it"));
            }
        }
        let seen = &mut self.members[member];
        (seen.id, seen.generation) = (Some(id), Some(generation));
    }

    /// No member of a test loses anything unless the test is hard on it.
    fn lost(&mut self, member: usize, partitions: &[Partition]) {
        if !self.members[member].gone {
            self.broken.extend(partitions.iter().map(|&p| moved(p, &format!("{member} lost it"))));
        }
        self.members[member].let_go(partitions);
    }

    /// Whether every partition has one owner that lives, each live member has a share, and all know one generation.
    pub(super) fn at_rest(&self, partitions: u32) -> bool {
        let live: Vec<&Member> = self.members.iter().filter(|m| !m.gone && !m.left).collect();
        let held: usize = live.iter().map(|m| m.holds.len()).sum();
        held == usize::try_from(partitions).expect("a small count")
            && live.iter().all(|m| m.revoking.is_empty() && !m.holds.is_empty() && m.generation.is_some())
            && live.iter().all(|m| m.generation == live[0].generation)
    }
}

fn moved(partition: Partition, how: &str) -> String {
    format!("partition {partition} moved without its owner's release: {how}")
}

impl Member {
    pub(super) fn let_go(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.holds.remove(partition);
            self.revoking.remove(partition);
        }
    }

    /// The test resumes it.
    pub(super) fn resumes(&mut self, partition: Partition, from: Offset) {
        if let Some(held) = self.holds.get_mut(&partition) {
            held.next = Some(from);
        }
    }

    /// Where its next page begins, once it was resumed.
    pub(super) fn position(&self, partition: Partition) -> Option<Offset> {
        self.holds.get(&partition)?.next
    }

    fn fetched(
        &mut self,
        p: Partition,
        from: Offset,
        offsets: &[Offset],
        position: Offset,
        end: Offset,
    ) -> Result<(), &'static str> {
        let held = self.holds.get_mut(&p).ok_or("records came after it was released or lost")?;
        let next = held.next.ok_or("records came before it was resumed")?;
        if from > next {
            return Err("a page began beyond the end of the one before: records may be missing");
        }
        let ordered = offsets.windows(2).all(|pair| pair[0] < pair[1]);
        if !ordered || offsets.first().is_some_and(|&first| first < next) {
            return Err("records came out of order, or below where it was resumed");
        }
        if position < next || position > end || offsets.last().is_some_and(|&last| last >= position) {
            return Err("the position is not between the last record and the end of the log");
        }
        held.next = Some(position);
        self.records.extend(offsets.iter().map(|&offset| (p, offset)));
        Ok(())
    }
}

/// The suite must be able to fail: each promise has a made-up story that breaks it.
#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use keylane_producer::{Record, StoredRecord, Timestamp};

    use super::*;

    const P: Partition = Partition(0);

    fn assigned(generation: u64) -> GroupEvent {
        GroupEvent::Assigned(Assignment {
            member: MemberId::new("m").unwrap(),
            generation: Generation::new(generation).unwrap(),
            partitions: vec![P],
            replaces_all: false,
        })
    }

    fn records(offsets: &[u64]) -> GroupEvent {
        let record = Record { key: None, value: Some(Bytes::new()), headers: Vec::new(), timestamp: Timestamp(0) };
        GroupEvent::Records {
            partition: P,
            from: Offset(0),
            records: offsets.iter().map(|&o| StoredRecord { offset: Offset(o), record: record.clone() }).collect(),
            position: Offset(offsets.iter().max().map_or(0, |o| o + 1)),
            end: Offset(10),
        }
    }

    fn story(tell: impl FnOnce(&mut Seen)) -> Vec<String> {
        let mut seen = Seen { members: vec![Member::default(), Member::default()], ..Seen::default() };
        tell(&mut seen);
        seen.broken
    }

    #[test]
    fn a_proper_story_breaks_nothing() {
        let broken = story(|seen| {
            seen.note(0, assigned(1), BootTime::ZERO);
            seen.members[0].resumes(P, Offset(3));
            seen.note(0, records(&[3, 4, 7]), BootTime::ZERO);
            seen.members[0].let_go(&[P]);
            seen.note(1, assigned(2), BootTime::ZERO);
        });
        assert_eq!(broken, Vec::<String>::new());
    }

    #[test]
    fn two_owners_are_seen() {
        let broken = story(|seen| {
            seen.note(0, assigned(1), BootTime::ZERO);
            seen.note(1, assigned(2), BootTime::ZERO);
        });
        assert!(broken[0].contains("0 and 1 own it"), "{broken:?}");
    }

    #[test]
    fn a_generation_that_does_not_rise_is_seen() {
        let broken = story(|seen| {
            seen.note(0, assigned(2), BootTime::ZERO);
            seen.members[0].let_go(&[P]);
            seen.note(1, assigned(2), BootTime::ZERO);
        });
        assert!(broken[0].contains("without a higher generation"), "{broken:?}");
    }

    #[test]
    fn a_loss_without_reason_is_seen() {
        let broken = story(|seen| {
            seen.note(0, assigned(1), BootTime::ZERO);
            seen.note(0, GroupEvent::Lost(vec![P]), BootTime::ZERO);
        });
        assert!(broken[0].contains("0 lost it"), "{broken:?}");
    }

    #[test]
    fn a_record_before_resume_is_seen() {
        let broken = story(|seen| {
            seen.note(0, assigned(1), BootTime::ZERO);
            seen.note(0, records(&[0]), BootTime::ZERO);
        });
        assert!(broken[0].contains("before it was resumed"), "{broken:?}");
    }

    #[test]
    fn a_record_after_lost_is_seen() {
        let broken = story(|seen| {
            seen.note(0, assigned(1), BootTime::ZERO);
            seen.members[0].resumes(P, Offset(0));
            seen.members[0].gone = true;
            seen.note(0, GroupEvent::Lost(vec![P]), BootTime::ZERO);
            seen.note(0, records(&[0]), BootTime::ZERO);
        });
        assert!(broken[0].contains("released or lost"), "{broken:?}");
    }

    #[test]
    fn a_page_that_leaves_records_out_is_seen() {
        let broken = story(|seen| {
            seen.note(0, assigned(1), BootTime::ZERO);
            seen.members[0].resumes(P, Offset(2));
            let page = GroupEvent::Records {
                partition: P,
                from: Offset(3),
                records: Vec::new(),
                position: Offset(5),
                end: Offset(10),
            };
            seen.note(0, page, BootTime::ZERO);
        });
        assert!(broken[0].contains("may be missing"), "{broken:?}");
    }

    #[test]
    fn records_out_of_order_are_seen() {
        for offsets in [&[4, 3][..], &[1]] {
            let broken = story(|seen| {
                seen.note(0, assigned(1), BootTime::ZERO);
                seen.members[0].resumes(P, Offset(2));
                seen.note(0, records(offsets), BootTime::ZERO);
            });
            assert!(broken[0].contains("out of order"), "{broken:?}");
        }
    }
}
