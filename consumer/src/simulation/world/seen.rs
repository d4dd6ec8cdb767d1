//! How often things happened that the guards are there for.

/// A count for each, and what can be done with all of them.
macro_rules! seen {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, Default)]
        pub(in crate::simulation) struct Seen {
            $($(#[$doc])* pub(in crate::simulation) $name: u64),+
        }

        impl Seen {
            pub(in crate::simulation) fn add(&mut self, more: &Self) {
                $(self.$name += more.$name;)+
            }

            pub(in crate::simulation) fn is_complete(&self) -> bool {
                $(self.$name > 0)&&+
            }
        }
    };
}

seen! {
    /// All that happened to a worker, the group or the store.
    events,
    refused_writes,
    refused_claims,
    refused_commits,
    disowned,
    rejoins,
    unknown_writes,
    unknown_claims,
    retries,
    stops,
    rereads,
    fenced_starts,
    words_of_old_tenures,
    drains,
    cut_drains,
    leaves,
    skipped_as_done,
    parks,
    returns,
    buried,
    /// By persons.
    pauses,
    stood_still,
    skips,
    dropped_lines,
    replayed_letters,
    /// Claims and jobs that a fail-over of the store lost.
    lost_claims,
    lost_jobs,
    /// Owners with nothing to write that found out.
    found_by_looking,
    /// Groups that began anew below the row, and resets by the operator.
    fences_ahead,
    resets,
    ended_by_reset,
}
