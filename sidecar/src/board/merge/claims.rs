//! Pure: the claims on one partition become its state.

use std::collections::BTreeSet;

use super::{Heard, Merge};
use crate::{
    board::Now,
    snapshot::{Lag, PartitionState, PartitionView, WhyUnknown},
    words::event::{rfc3339, unix_ms},
};

/// Most names of claimants in a view.
const MOST_CLAIMANTS: usize = 8;

/// What was seen of a partition in the last view.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    state: PartitionState,
    since_wall_ms: i64,
    last_owner: Option<String>,
    last_completed_at: Option<String>,
}

/// One worker's word on a partition that it has or had.
#[derive(Clone, Copy)]
struct Claim<'a> {
    heard: &'a Heard,
    view: &'a PartitionView,
    silent: bool,
    /// What is left of the session by our clock.
    left_ms: Option<u64>,
}

impl Claim<'_> {
    fn name(&self) -> &String {
        &self.heard.view.worker
    }

    fn is(&self, state: PartitionState) -> bool {
        !self.silent && self.view.state == state
    }
}

impl Merge {
    pub(super) fn partitions(&mut self, count: Option<u32>, now: Now) -> Vec<PartitionView> {
        let said = self.workers.values().flat_map(|heard| &heard.said.partitions).map(|p| p.partition);
        let numbers: BTreeSet<u32> = (0..count.unwrap_or(0)).chain(said).chain(self.memory.keys().copied()).collect();
        let numbers = numbers.into_iter().filter(|&number| count.is_none_or(|count| number < count));
        let views: Vec<PartitionView> = numbers.map(|number| self.partition(number, count, now)).collect();
        for view in &views {
            self.remember(view, now);
        }
        views
    }

    fn remember(&mut self, view: &PartitionView, now: Now) {
        let before = self.memory.get(&view.partition);
        let since_wall_ms = match before {
            Some(before) if before.state == view.state => before.since_wall_ms,
            _ => now.wall_ms,
        };
        let owner = view.worker.clone().or_else(|| view.last_known_worker.clone());
        let last_owner = owner.or_else(|| before.and_then(|b| b.last_owner.clone()));
        let last_completed_at = view.last_completed_at.clone();
        self.memory.insert(view.partition, Memory { state: view.state, since_wall_ms, last_owner, last_completed_at });
    }

    fn claims(&self, number: u32, now: Now) -> Vec<Claim<'_>> {
        let living = self.workers.values().filter(|heard| !Self::is_stopped(heard));
        let claims = living.filter_map(|heard| {
            let said = &heard.said.partitions;
            let view = &said[said.binary_search_by_key(&number, |p| p.partition).ok()?];
            let claims =
                matches!(view.state, PartitionState::Held | PartitionState::Draining | PartitionState::Expired);
            let left_ms = view.session_remaining_ms.map(|left| left.saturating_sub(now.since(heard.asked_ms)));
            let silent = self.rules.silence_ends_ownership && self.is_silent(heard, now);
            claims.then_some(Claim { heard, view, silent, left_ms })
        });
        claims.collect()
    }

    fn partition(&self, number: u32, count: Option<u32>, now: Now) -> PartitionView {
        let claims = self.claims(number, now);
        let of = |state| claims.iter().copied().filter(|claim| claim.is(state)).collect::<Vec<_>>();
        let (held, draining) = (of(PartitionState::Held), of(PartitionState::Draining));
        let owners = if held.is_empty() { draining } else { held };
        let mut view = match owners.as_slice() {
            [owner] => self.owned(*owner, now),
            [] => self.unowned(number, &claims, count, now),
            [first, ..] if !self.rules.two_owners_contest => self.owned(*first, now),
            owners => self.contested(number, owners, now),
        };
        view.last_completed_at = self.last_completed(number, now);
        view
    }

    fn owned(&self, owner: Claim<'_>, now: Now) -> PartitionView {
        PartitionView {
            worker: Some(owner.name().clone()),
            claimants: Vec::new(),
            last_known_worker: None,
            since: owner.view.since.clone().filter(|_| !self.has_jumped(owner.heard, now)),
            session_remaining_ms: owner.left_ms,
            age_ms: Some(now.since(owner.heard.spoke_ms)),
            ..owner.view.clone()
        }
    }

    fn contested(&self, number: u32, owners: &[Claim<'_>], now: Now) -> PartitionView {
        let known = owners.iter().filter(|claim| claim.view.lag.jobs.is_some());
        let lag = known.max_by_key(|claim| claim.heard.spoke_ms).map(|claim| claim.view.lag.clone());
        let in_flight = owners.iter().map(|claim| claim.view.jobs_in_flight).sum();
        PartitionView {
            claimants: owners.iter().take(MOST_CLAIMANTS).map(|claim| claim.name().clone()).collect(),
            since: Some(rfc3339(self.seen_since(number, PartitionState::Contested, now))),
            lag: lag.unwrap_or_else(not_reported),
            jobs_in_flight: in_flight,
            age_ms: owners.iter().map(|claim| now.since(claim.heard.spoke_ms)).max(),
            ..blank(number, PartitionState::Contested)
        }
    }

    /// No fresh owner: expired, unknown or absent.
    fn unowned(&self, number: u32, claims: &[Claim<'_>], count: Option<u32>, now: Now) -> PartitionView {
        let youngest = |claims: &[Claim<'_>]| {
            claims.iter().max_by_key(|c| c.heard.spoke_ms).copied().map(|c| c.heard.view.worker.clone())
        };
        let last_known_worker = youngest(claims)
            .or_else(|| self.memory.get(&number).and_then(|memory| memory.last_owner.clone()))
            .or_else(|| self.said_to_have_held(number));
        // A worker that speaks and says that its own session ran out goes before one that is silent.
        let said: Vec<Claim<'_>> = claims.iter().copied().filter(|claim| claim.is(PartitionState::Expired)).collect();
        let may_run =
            claims.iter().any(|c| c.view.state != PartitionState::Expired && c.left_ms.is_none_or(|left| left > 0));
        if let Some(claim) = said.iter().max_by_key(|c| c.heard.spoke_ms) {
            let since = claim.view.since.clone().filter(|_| !self.has_jumped(claim.heard, now));
            return self.expired(number, *claim, since, now);
        }
        if may_run {
            let age_ms = claims.iter().map(|claim| now.since(claim.heard.spoke_ms)).min();
            return self.with_old_lag(
                claims,
                PartitionView { last_known_worker, age_ms, ..blank(number, PartitionState::Unknown) },
            );
        }
        if let Some(claim) = claims.iter().max_by_key(|c| c.heard.spoke_ms) {
            return self.expired(number, *claim, self.ran_out(*claim, now), now);
        }
        let covered = !self.rules.absence_needs_coverage || (self.is_covered(now) && !self.is_warming_up());
        if covered && count.is_some() {
            let since = Some(rfc3339(self.seen_since(number, PartitionState::Absent, now)));
            return PartitionView { last_known_worker, since, ..blank(number, PartitionState::Absent) };
        }
        PartitionView { last_known_worker, ..blank(number, PartitionState::Unknown) }
    }

    /// By the worker's own word if it had any on that, else by our clock.
    fn ran_out(&self, claim: Claim<'_>, now: Now) -> Option<String> {
        if claim.view.state == PartitionState::Expired {
            return claim.view.since.clone().filter(|_| !self.has_jumped(claim.heard, now));
        }
        let over_ms = now.since(claim.heard.asked_ms).checked_sub(claim.view.session_remaining_ms?)?;
        Some(rfc3339(now.wall_ms - over_ms.cast_signed()))
    }

    /// Of a silent worker its sidecar still knows what it had, also if we never saw it.
    fn said_to_have_held(&self, number: u32) -> Option<String> {
        self.workers.values().find_map(|heard| {
            let said = &heard.said.partitions;
            let at = said.binary_search_by_key(&number, |p| p.partition).ok()?;
            said[at].last_known_worker.clone()
        })
    }

    fn expired(&self, number: u32, claim: Claim<'_>, since: Option<String>, now: Now) -> PartitionView {
        let view = PartitionView {
            worker: Some(claim.name().clone()),
            since,
            session_remaining_ms: Some(0),
            age_ms: Some(now.since(claim.heard.spoke_ms)),
            token_present: Some(false),
            ..blank(number, PartitionState::Expired)
        };
        self.with_old_lag(&[claim], view)
    }

    /// The twin of "unknown is null": what a silent worker said last is shown as if it were so.
    fn with_old_lag(&self, claims: &[Claim<'_>], view: PartitionView) -> PartitionView {
        match claims.first() {
            Some(claim) if !self.rules.unknown_is_null => PartitionView { lag: claim.view.lag.clone(), ..view },
            _ => view,
        }
    }

    fn seen_since(&self, number: u32, state: PartitionState, now: Now) -> i64 {
        let before = self.memory.get(&number).filter(|memory| memory.state == state);
        before.map_or(now.wall_ms, |memory| memory.since_wall_ms)
    }

    /// A fact of the past: it stays when its teller goes silent.
    fn last_completed(&self, number: u32, now: Now) -> Option<String> {
        let said = self.workers.values().filter_map(|heard| {
            let said = &heard.said.partitions;
            let at = said.binary_search_by_key(&number, |p| p.partition).ok()?;
            said[at].last_completed_at.clone().filter(|_| !self.has_jumped(heard, now))
        });
        let remembered = self.memory.get(&number).and_then(|memory| memory.last_completed_at.clone());
        said.chain(remembered).max_by_key(|time| unix_ms(time))
    }
}

/// Nothing is known but the state.
fn blank(partition: u32, state: PartitionState) -> PartitionView {
    PartitionView {
        partition,
        state,
        worker: None,
        claimants: Vec::new(),
        last_known_worker: None,
        since: None,
        session_remaining_ms: None,
        lag: not_reported(),
        last_completed_at: None,
        jobs_in_flight: None,
        age_ms: None,
        token_present: None,
        keys_parked: None,
        keys: Vec::new(),
    }
}

fn not_reported() -> Lag {
    Lag { jobs: None, as_of: None, why_unknown: Some(WhyUnknown::NotReported) }
}
