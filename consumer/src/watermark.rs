//! Pure: which offset may be committed. One for each tenure of a partition; dropped with it, never carried over.
//!
//! 1. The watermark is never above an offset that was delivered and is not finished.
//! 2. It never falls within a tenure.
//! 3. What it holds in memory follows the unfinished offsets, however many above them are finished.
//! 4. Offsets that do not exist (compacted, expired, transaction markers) count as finished as soon as the log has
//!    been read past them: nothing waits for a hole.

use std::collections::VecDeque;

use keylane_producer::Offset;

/// Delivered offsets and which of them are finished.
#[derive(Debug)]
pub struct Watermark {
    /// Delivered, from the lowest unfinished on; ascending.
    open: VecDeque<Entry>,
    /// How many of `open` are finished: they lie above an unfinished one.
    finished: usize,
    /// Everything below it was delivered or does not exist.
    position: u64,
}

#[derive(Debug)]
struct Entry {
    offset: u64,
    finished: bool,
}

impl Watermark {
    /// Begins at the offset from which the log is read.
    pub fn starting_at(start: Offset) -> Self {
        Self { open: VecDeque::new(), finished: 0, position: start.0 }
    }

    /// A record came that is to be run. `false` if it came before: deliver each once.
    pub fn deliver(&mut self, offset: Offset) -> bool {
        if offset.0 < self.position {
            return false;
        }
        self.open.push_back(Entry { offset: offset.0, finished: false });
        self.position = offset.0 + 1;
        true
    }

    /// The log was read up to here: what was not delivered below it needs no run.
    pub fn advance(&mut self, position: Offset) {
        self.position = self.position.max(position.0);
    }

    /// The job at this offset is finished. `false` if it is not open: never delivered, or finished before.
    pub fn finish(&mut self, offset: Offset) -> bool {
        let Some(at) = self.find(offset.0) else { return false };
        if std::mem::replace(&mut self.open[at].finished, true) {
            return false;
        }
        self.finished += 1;
        while self.open.front().is_some_and(|e| e.finished) {
            self.open.pop_front();
            self.finished -= 1;
        }
        // Finished offsets above an unfinished one say nothing that their absence does not say.
        if self.finished > 64 && self.finished * 2 > self.open.len() {
            self.open.retain(|e| !e.finished);
            self.finished = 0;
        }
        true
    }

    fn find(&self, offset: u64) -> Option<usize> {
        // Without a gap between them, it is as many entries behind the first as offsets.
        let behind = usize::try_from(offset.checked_sub(self.open.front()?.offset)?).ok()?;
        if self.open.get(behind).is_some_and(|entry| entry.offset == offset) {
            return Some(behind);
        }
        self.open.binary_search_by_key(&offset, |entry| entry.offset).ok()
    }

    /// The watermark: everything below it is finished or does not exist.
    pub fn committable(&self) -> Offset {
        Offset(self.open.front().map_or(self.position, |e| e.offset))
    }

    /// Where the log is read on.
    pub fn position(&self) -> Offset {
        Offset(self.position)
    }

    /// How far reading is ahead of the watermark.
    pub fn span(&self) -> u64 {
        self.position - self.committable().0
    }

    /// Whether this offset was delivered and is not finished.
    pub fn is_open(&self, offset: Offset) -> bool {
        self.open.binary_search_by_key(&offset.0, |e| e.offset).is_ok_and(|at| !self.open[at].finished)
    }

    /// Delivered and not finished.
    pub fn unfinished(&self) -> usize {
        self.open.len() - self.finished
    }
}

#[cfg(test)]
mod commits;
#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hole_in_the_log_does_not_hold_the_watermark() {
        let mut watermark = Watermark::starting_at(Offset(0));
        assert!(watermark.deliver(Offset(3)));
        assert!(watermark.deliver(Offset(9)));
        watermark.advance(Offset(20));
        assert_eq!(watermark.committable(), Offset(3));
        assert!(watermark.finish(Offset(3)));
        assert_eq!(watermark.committable(), Offset(9));
        assert!(watermark.finish(Offset(9)));
        assert_eq!(watermark.committable(), Offset(20));
    }

    #[test]
    fn an_offset_counts_once() {
        let mut watermark = Watermark::starting_at(Offset(5));
        assert!(!watermark.deliver(Offset(4)), "below the start");
        assert!(watermark.deliver(Offset(5)));
        assert!(!watermark.deliver(Offset(5)), "came before");
        assert!(!watermark.finish(Offset(6)), "never came");
        assert!(watermark.finish(Offset(5)));
        assert!(!watermark.finish(Offset(5)), "finished before");
    }

    /// R13: any number of jobs may finish above one that does not end.
    #[test]
    fn memory_follows_what_is_unfinished() {
        let mut watermark = Watermark::starting_at(Offset(0));
        assert!(watermark.deliver(Offset(0)));
        for offset in (1..100_000).map(Offset) {
            assert!(watermark.deliver(offset));
            assert!(watermark.finish(offset));
            assert!(watermark.open.len() < 200);
        }
        assert_eq!((watermark.committable(), watermark.unfinished()), (Offset(0), 1));
        assert!(watermark.finish(Offset(0)));
        assert_eq!(watermark.committable(), Offset(100_000));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Deliver { skip: u64 },
        Advance { by: u64 },
        Finish { pick: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4_u64).prop_map(|skip| Step::Deliver { skip }),
            (0..5_u64).prop_map(|by| Step::Advance { by }),
            any::<usize>().prop_map(|pick| Step::Finish { pick }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Against a model that keeps sets: R14, the commit follows "done", never "seen"; R16, it never falls.
        #[test]
        fn the_watermark_is_the_lowest_offset_without_an_end(steps in prop::collection::vec(step(), 0..400)) {
            let mut watermark = Watermark::starting_at(Offset(0));
            let mut unfinished = BTreeSet::new();
            let mut position = 0;
            let mut last = 0;
            for step in steps {
                match step {
                    Step::Deliver { skip } => {
                        let offset = position + skip;
                        prop_assert!(watermark.deliver(Offset(offset)));
                        unfinished.insert(offset);
                        position = offset + 1;
                    }
                    Step::Advance { by } => {
                        position += by;
                        watermark.advance(Offset(position));
                    }
                    Step::Finish { pick } => {
                        if let Some(&offset) = unfinished.iter().nth(pick % unfinished.len().max(1)) {
                            unfinished.remove(&offset);
                            prop_assert!(watermark.finish(Offset(offset)));
                        }
                    }
                }
                let expected = unfinished.first().copied().unwrap_or(position);
                prop_assert_eq!(watermark.committable(), Offset(expected));
                prop_assert_eq!(watermark.position(), Offset(position));
                prop_assert_eq!(watermark.unfinished(), unfinished.len());
                prop_assert!(expected >= last);
                last = expected;
            }
        }
    }
}
