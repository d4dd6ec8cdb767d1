//! Persons who steer while all else goes on.

use keylane_producer::Partition;

use super::{Event, PARTITIONS, World};

impl World {
    /// One act, of those that make sense as the store is now.
    pub(super) fn person(&mut self) {
        if !self.faults() {
            return;
        }
        let next = 50 + self.chance.below(400);
        self.after(next, Event::Person);
        if self.store_away_until > self.now() {
            return;
        }
        let partition = Partition(self.chance.below(u64::from(PARTITIONS)) as u32);
        let key = partition.0 as usize * 5 + self.chance.below(5) as usize;
        let stopped: Vec<_> = self.store.tables.stopped.keys().copied().collect();
        match self.chance.below(8) {
            0 | 1 => {
                self.note(|| format!("person: key {key} of partition {partition} is to stand still"));
                self.seen.pauses += u64::from(self.store.pause((partition, key)));
            }
            2 => {
                if let Some(place) = self.chance.of(&stopped) {
                    self.note(|| format!("person: {place:?} is to go on"));
                    self.store.replay(place);
                }
            }
            3 if self.chance.one_in(3) => {
                if let Some(place) = self.chance.of(&stopped) {
                    self.note(|| format!("person: the line of {place:?} is dropped"));
                    self.seen.dropped_lines += u64::from(self.store.drop_line(place));
                }
            }
            4 | 5 => {
                let end =
                    self.store.log.get(&partition).and_then(|log| log.last_key_value()).map_or(0, |(last, _)| *last);
                let offset = end.saturating_sub(self.chance.below(12));
                self.note(|| format!("person: partition {partition}, offset {offset} is skipped"));
                self.seen.skips += u64::from(self.store.skip(partition, offset));
            }
            6 | 7 => {
                let dead: Vec<_> = self.store.tables.dead.iter().copied().collect();
                if let Some((partition, offset)) = self.chance.of(&dead) {
                    self.note(|| format!("person: dead letter {offset} of partition {partition} is replayed"));
                    self.seen.replayed_letters += u64::from(self.store.replay_dead(partition, offset));
                }
            }
            _ => {}
        }
    }
}
