//! Numbers from a seed, and what they mean for a request on its way.

pub(in crate::simulation) struct Road {
    pub(in crate::simulation) delay: u64,
    pub(in crate::simulation) arrives: bool,
    pub(in crate::simulation) answered: bool,
}

/// A small generator (splitmix64): the same numbers on every machine.
pub(in crate::simulation) struct Chance(pub(super) u64);

impl Chance {
    pub(in crate::simulation) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// One of these.
    pub(in crate::simulation) fn of<T: Copy>(&mut self, some: &[T]) -> Option<T> {
        if some.is_empty() { None } else { Some(some[self.below(some.len() as u64) as usize]) }
    }

    pub(in crate::simulation) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}
