//! A set of offsets, kept as ranges: how progress stays exact and small whatever order jobs finish in.
//!
//! Ranges are inclusive, ascending and apart: two that touch are one. So a partition whose jobs are all done is one
//! range, and a set has one form only (`==` compares sets).

use std::collections::BTreeMap;

use super::Progress;

/// Offsets as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds every offset from `first` to `last`; nothing if `last < first`.
    pub fn add(&mut self, first: u64, last: u64) {
        if last < first {
            return;
        }
        let (mut first, mut last) = (first, last);
        if let Some((&f, &l)) = self.0.range(..=first).next_back()
            && l.saturating_add(1) >= first
        {
            first = f;
            last = last.max(l);
        }
        while let Some((&f, &l)) = self.0.range(first..=last.saturating_add(1)).next() {
            last = last.max(l);
            self.0.remove(&f);
        }
        self.0.insert(first, last);
    }

    /// Whether the offset is in it.
    pub fn contains(&self, offset: u64) -> bool {
        self.0.range(..=offset).next_back().is_some_and(|(_, &last)| last >= offset)
    }

    /// First and last of each range, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(&first, &last)| (first, last))
    }

    /// Whether exactly this range is one of the set's.
    pub fn has_range(&self, first: u64, last: u64) -> bool {
        self.0.get(&first) == Some(&last)
    }
}

impl FromIterator<(u64, u64)> for Ranges {
    fn from_iter<I: IntoIterator<Item = (u64, u64)>>(ranges: I) -> Self {
        let mut set = Self::default();
        ranges.into_iter().for_each(|(first, last)| set.add(first, last));
        set
    }
}

impl From<Ranges> for Progress {
    fn from(set: Ranges) -> Self {
        let floor = set.0.get(&0).map_or(0, |last| last + 1);
        Self { floor, ranges: set.iter().filter(|&(first, _)| first > 0).collect(), anew: false }
    }
}

impl Progress {
    /// Whether the offset is done.
    pub fn contains(&self, offset: u64) -> bool {
        let at = self.ranges.partition_point(|&(first, _)| first <= offset);
        offset < self.floor || at.checked_sub(1).is_some_and(|at| self.ranges[at].1 >= offset)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_hold_exactly_what_was_added(adds in prop::collection::vec((0..80_u64, 0..6_u64), 0..60)) {
            let mut set = Ranges::default();
            let mut reference = BTreeSet::new();
            for (first, more) in adds {
                set.add(first, first + more);
                reference.extend(first..=first + more);
            }
            let progress = Progress::from(set.clone());
            for offset in 0..100 {
                prop_assert_eq!(set.contains(offset), reference.contains(&offset));
                prop_assert_eq!(progress.contains(offset), reference.contains(&offset));
            }
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|two| two[0].1 + 1 < two[1].0), "apart: {:?}", ranges);
        }
    }

    #[test]
    fn the_last_offset_of_all_can_be_added() {
        let set = Ranges::from_iter([(u64::MAX, u64::MAX), (u64::MAX - 1, u64::MAX - 1)]);
        assert!(set.has_range(u64::MAX - 1, u64::MAX));
    }
}
