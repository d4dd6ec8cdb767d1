//! How often things happened that the guards are there for.

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::simulation) struct Seen {
    /// All that happened to a worker, the group or the store.
    pub(in crate::simulation) events: u64,
    pub(in crate::simulation) refused_writes: u64,
    pub(in crate::simulation) refused_claims: u64,
    pub(in crate::simulation) refused_commits: u64,
    pub(in crate::simulation) disowned: u64,
    pub(in crate::simulation) rejoins: u64,
    pub(in crate::simulation) unknown_writes: u64,
    pub(in crate::simulation) unknown_claims: u64,
    pub(in crate::simulation) retries: u64,
    pub(in crate::simulation) stops: u64,
    pub(in crate::simulation) rereads: u64,
    pub(in crate::simulation) fenced_starts: u64,
    pub(in crate::simulation) words_of_old_tenures: u64,
    pub(in crate::simulation) drains: u64,
    pub(in crate::simulation) cut_drains: u64,
    pub(in crate::simulation) leaves: u64,
    pub(in crate::simulation) skipped_as_done: u64,
    pub(in crate::simulation) parks: u64,
    pub(in crate::simulation) returns: u64,
}

impl Seen {
    fn each(&mut self) -> [&mut u64; 19] {
        let Self { refused_writes: a, refused_claims: b, refused_commits: c, disowned: d, rejoins: e, .. } = self;
        let Self { unknown_writes: f, unknown_claims: g, retries: h, stops: i, rereads: j, .. } = self;
        let Self { fenced_starts: k, words_of_old_tenures: l, drains: m, cut_drains: n, leaves: o, .. } = self;
        let Self { skipped_as_done: p, parks: q, returns: r, events: s, .. } = self;
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s]
    }

    pub(in crate::simulation) fn add(&mut self, more: &Self) {
        let mut more = *more;
        self.each().into_iter().zip(more.each()).for_each(|(sum, more)| *sum += *more);
    }

    pub(in crate::simulation) fn is_complete(mut self) -> bool {
        self.each().into_iter().all(|count| *count > 0)
    }
}
