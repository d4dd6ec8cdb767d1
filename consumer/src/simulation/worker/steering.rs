//! What persons want of an owner, and lines that are read back.

use keylane_producer::{Offset, Partition};

use crate::{
    lanes::{Tenure, Ticket},
    simulation::{
        Without,
        store::{Key, Stopped},
        world::{Inside, World},
    },
};

impl World {
    /// What stands in the rows now: keys that are released or paused, and jobs to leave out.
    pub(super) fn steered(&mut self, worker: usize) {
        if self.store_away_until > self.now() {
            return;
        }
        let process = &mut self.workers[worker];
        for (&partition, part) in &mut process.parts {
            let rows = self.store.tables.stopped.iter();
            let rows = rows.filter(|((of, _), row)| *of == partition && (row.released || row.paused));
            let rows: Vec<(Key, Stopped)> = rows.map(|((_, key), row)| (*key, *row)).collect();
            part.lines_read.retain(|key, _| rows.iter().any(|(of, _)| of == key));
            part.heard.clear();
            for (key, row) in rows {
                let read = part.lines_read.get(&key);
                if row.released && read.is_some_and(|&read| read >= row.version || self.without == Without::LineVersion)
                {
                    continue;
                }
                if !row.released {
                    part.heard.insert(key, row.version);
                    if self.without == Without::Stand {
                        continue;
                    }
                }
                self.seen.stood_still += u64::from(process.lanes.stand(partition, part.tenure, &self.keys[key]));
                if row.released {
                    process.lanes.release(partition, part.tenure, &self.keys[key]);
                }
            }
            part.skips = self.store.skips(partition);
        }
        // One that waits for another try need not wait to be left out.
        let parts = self.workers[worker].parts.iter();
        let skips = parts.flat_map(|(&partition, part)| {
            part.skips.iter().map(move |&offset| Ticket { partition, tenure: part.tenure, offset: Offset(offset) })
        });
        for ticket in skips.collect::<Vec<_>>() {
            self.workers[worker].lanes.due(ticket);
        }
    }

    /// An owner that is not the newest reads what it may not run; the row stops it.
    pub(super) fn line_read(&mut self, worker: usize, partition: Partition, tenure: Tenure, key: Key) {
        if self.store_away_until > self.now() {
            return self.inside(worker, 100, Inside::Line { partition, tenure, key });
        }
        let Some(part) = self.workers[worker].part(partition, tenure) else { return };
        self.seen.returns += 1;
        let (version, line) = self.store.read_line(partition, key);
        part.lines_read.insert(key, version);
        if line.is_empty() {
            part.resumed.push((key, version));
        }
        let jobs: Vec<_> = line.into_iter().map(|offset| (Offset(offset), 100)).collect();
        self.workers[worker].lanes.line(partition, tenure, &self.keys[key], &jobs);
    }

    pub(super) fn is_skipped(&self, worker: usize, ticket: Ticket) -> bool {
        self.workers[worker].parts.get(&ticket.partition).is_some_and(|part| part.skips.contains(&ticket.offset.0))
    }

    /// The key stands still because a person wants it to, and this owner has heard of that.
    pub(super) fn stands_still(&self, worker: usize, partition: Partition, key: Key) -> bool {
        let heard = self.workers[worker].parts.get(&partition).and_then(|part| part.heard.get(&key));
        let row = self.store.tables.stopped.get(&(partition, key));
        row.zip(heard).is_some_and(|(row, heard)| row.paused && !row.released && row.version == *heard)
    }
}
