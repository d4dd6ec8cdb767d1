//! Ownership -> snapshot: the one place where what a group and a store know becomes what others are shown.
//!
//! **The token is left behind here.** What goes in (an [`Overview`], [`PartitionOverview`]s, log bounds) has none of its
//! numbers, and what comes out is plain data of a crate that cannot name it. So:
//!
//! 1. Every field is named: nothing is copied whole, flattened or formatted with `{:?}`.
//! 2. Of a claim it is shown only that there is one ([`PartitionView::token_present`]), by the same worker that the group
//!    says owns the partition.
//! 3. A worker whose session ran out is `expired`, never `held`, also before anybody expelled it.
//! 4. Unknown is `None` with a reason, never 0. Lag is jobs not finished; gaps that retention left are none.
//! 5. Sentences are made from names and counts only.
//!
//! What the embedded group cannot tell stays `None`: jobs in flight, the last completion, since when a drain lasts.

use std::{collections::BTreeMap, time::Duration};

use keylane_producer::{GroupName, Offset, Partition, QueueIdentity, Timestamp, log::Bounds};
use keylane_sidecar::{
    Freshness, Lag, Observer, PartitionState, PartitionView, QueueView, Scope, Snapshot, Totals, WhyUnknown,
    WorkerSession, WorkerState, WorkerView, snapshot::SCHEMA,
};

use crate::{
    group::{MemberOverview, Overview},
    store::{PartitionOverview, Progress},
};

pub(crate) mod counted;
mod keys;
mod notices;
pub(crate) mod own;
#[cfg(test)]
mod tests;

/// A worker that was silent for this long is stale; for twice as long, lost.
const STALE_AFTER: Duration = Duration::from_secs(10);

/// Everything that one look at the embedded engine found.
#[derive(Debug)]
pub struct Seen<'a> {
    /// When.
    pub at: Timestamp,
    /// Who looked.
    pub observer: &'a str,
    /// At which queue.
    pub queue: &'a QueueIdentity,
    /// At which group.
    pub group: &'a GroupName,
    /// What the group says.
    pub members: &'a Overview,
    /// What the store says; `None`: there is none yet.
    pub store: Option<&'a [PartitionOverview]>,
    /// What the log says, read after the store: an end that is read later can only be further. A partition that could
    /// not be asked is missing.
    pub bounds: &'a BTreeMap<Partition, Bounds>,
}

/// The snapshot of the whole group.
pub fn of_group(seen: &Seen<'_>) -> Snapshot {
    let partitions: Vec<PartitionView> = seen.queue.partitions.all().map(|p| partition(seen, p)).collect();
    let mut workers: Vec<WorkerView> = seen.members.members.iter().map(|member| worker(seen, member)).collect();
    workers.sort_by(|a, b| a.worker.cmp(&b.worker));
    Snapshot {
        schema: SCHEMA,
        scope: Scope::Group,
        observed_at: rfc3339(seen.at),
        observer: Observer { name: name(seen.observer), version: env!("CARGO_PKG_VERSION").to_owned() },
        queue: QueueView {
            cluster: name(&seen.queue.cluster),
            topic: name(seen.queue.name.as_str()),
            group: name(seen.group.as_str()),
            partition_count: Some(seen.queue.partitions.0.get()),
        },
        // The rows were read for this snapshot.
        freshness: Freshness::Fresh,
        stale_after_ms: ms(STALE_AFTER),
        totals: Totals::of(&partitions),
        notices: notices::of(seen),
        workers,
        partitions,
    }
}

/// The jobs of a partition that are not finished; `None` if the log could not be asked. As a worker would find it: the
/// store's markers decide, and the group's word counts only where the store knows nothing.
pub fn unfinished(bounds: Option<Bounds>, done: Option<&Progress>, committed: Option<Offset>) -> Option<u64> {
    let Bounds { start, end } = bounds?;
    let known = done.filter(|done| **done != Progress::default());
    let floor = known.map_or(committed.unwrap_or(start).0, |done| done.floor).clamp(start.0, end.0.max(start.0));
    let done_above: u64 = known.map_or(0, |done| {
        let within = done.ranges.iter().map(|&(first, last)| (first.max(floor), last.saturating_add(1).min(end.0)));
        within.map(|(first, after)| after.saturating_sub(first)).sum()
    });
    Some(end.0.saturating_sub(floor).saturating_sub(done_above))
}

fn partition(seen: &Seen<'_>, partition: Partition) -> PartitionView {
    let owner = seen.members.members.iter().find(|member| member.partitions.contains(&partition));
    let row = seen.store.and_then(|rows| rows.iter().find(|row| row.partition == partition));
    let claim = row.filter(|row| !row.handed_over).and_then(|row| row.worker.as_deref());
    let claimed = owner.is_some_and(|owner| claim == Some(&*owner.worker));
    let state = state(owner, partition);
    PartitionView {
        partition: partition.0,
        state,
        worker: owner.map(|owner| name(&owner.worker)),
        claimants: Vec::new(),
        last_known_worker: match owner {
            Some(_) => None,
            None => row.and_then(|row| row.worker.as_deref()).map(name),
        },
        since: match state {
            PartitionState::Held if claimed => row.and_then(|row| row.claimed_at).map(rfc3339),
            PartitionState::Expired => owner.map(|owner| rfc3339(ran_out(seen, owner))),
            _ => None,
        },
        session_remaining_ms: owner.and_then(session_left),
        lag: lag(seen, partition, row),
        last_completed_at: None,
        jobs_in_flight: None,
        age_ms: owner.map(|owner| ms(owner.silent_for)),
        token_present: seen.store.map(|_| claimed),
        keys_parked: None,
        keys: Vec::new(),
    }
}

fn state(owner: Option<&MemberOverview>, partition: Partition) -> PartitionState {
    match owner {
        None => PartitionState::Absent,
        Some(owner) if owner.expired => PartitionState::Expired,
        Some(owner) if owner.revoking.contains(&partition) => PartitionState::Draining,
        Some(_) => PartitionState::Held,
    }
}

fn lag(seen: &Seen<'_>, partition: Partition, row: Option<&PartitionOverview>) -> Lag {
    let committed = seen.members.committed.get(&partition).copied().flatten();
    match unfinished(seen.bounds.get(&partition).copied(), row.map(|row| &row.done), committed) {
        Some(jobs) => Lag { jobs: Some(jobs), as_of: Some(rfc3339(seen.at)), why_unknown: None },
        None => Lag { jobs: None, as_of: None, why_unknown: Some(WhyUnknown::NotReported) },
    }
}

fn worker(seen: &Seen<'_>, member: &MemberOverview) -> WorkerView {
    let alive = !member.expired;
    let since = if alive { member.member_for.map(|d| before(seen.at, d)) } else { Some(ran_out(seen, member)) };
    WorkerView {
        worker: name(&member.worker),
        state: if alive { WorkerState::Running } else { WorkerState::Unknown },
        since: since.map(rfc3339),
        last_seen_at: rfc3339(before(seen.at, member.silent_for)),
        age_ms: ms(member.silent_for),
        freshness: match member.silent_for {
            _ if !alive => Freshness::Lost,
            silent if silent >= STALE_AFTER * 2 => Freshness::Lost,
            silent if silent >= STALE_AFTER => Freshness::Stale,
            _ => Freshness::Fresh,
        },
        partitions_held: Some(if alive { u32::try_from(member.partitions.len()).unwrap_or(u32::MAX) } else { 0 }),
        jobs_in_flight: None,
        session: WorkerSession {
            timeout_ms: member.session.map(|session| ms(session).max(1)),
            remaining_ms: session_left(member),
            basis: "heartbeat",
        },
    }
}

/// In ms; `None` if the group does not tell.
fn session_left(member: &MemberOverview) -> Option<u64> {
    if member.expired { Some(0) } else { member.session_left.map(ms) }
}

/// When the member's session ended.
fn ran_out(seen: &Seen<'_>, member: &MemberOverview) -> Timestamp {
    before(seen.at, member.silent_for.saturating_sub(member.session.unwrap_or_default()))
}

fn before(at: Timestamp, ago: Duration) -> Timestamp {
    Timestamp(at.0.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)))
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A name as the contract allows it: any other character is shown as `_`.
fn name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | ':' | '-');
    let shown: String = text.chars().take(249).map(|c| if fits(c) { c } else { '_' }).collect();
    if shown.is_empty() { "_".to_owned() } else { shown }
}

/// UTC with exactly three decimals; what no calendar has is shown as its beginning.
fn rfc3339(time: Timestamp) -> String {
    let instant = jiff::Timestamp::from_millisecond(time.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    instant.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}
