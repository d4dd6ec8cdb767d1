//! A group of workers as its sidecars would tell it, an hour of it in a moment.

use keylane_sidecar::{
    Freshness, KeyView, Lag, Observer, PartitionState, PartitionView, QueueView, Scope, Snapshot, Totals,
    WorkerSession, WorkerState, WorkerView,
    board::{Now, merge::Settings, record::Record},
    snapshot::{LONGEST_KEY, SCHEMA},
    words::event::rfc3339,
};

pub const SESSION_MS: u64 = 45_000;

pub fn settings() -> Settings {
    Settings {
        queue: "jobs".into(),
        group: "billing".into(),
        observer: Observer { name: "keylane-board".into(), version: "0.1.0".into() },
        stale_after_ms: 10_000,
        lost_after_ms: 20_000,
    }
}

pub fn name(worker: usize) -> String {
    format!("keylane-worker-{worker}")
}

/// A parked one that would run if it could, one that reads from the right, one as long as can be, and a hot one.
fn keys() -> Vec<KeyView> {
    let key = |shown: &str, waiting: Option<u64>| KeyView { shown: shown.into(), parked: waiting.is_none(), waiting };
    let long = "customer/00000000000000000042/".repeat(3);
    let long: String = long.chars().take(LONGEST_KEY - 1).chain(['\u{2026}']).collect();
    let hostile = "<img src=x onerror=evil()>";
    vec![
        key(hostile, None),
        key("\u{5dc}\u{5e7}\u{5d5}\u{5d7} 42", None),
        key(&long, None),
        key("hex:00c3281b", Some(1_234)),
    ]
}

/// What a worker says of itself.
pub fn report(worker: &str, count: u32, holds: &[(u32, PartitionState)], since_ms: i64, now: Now) -> Snapshot {
    let view = |&(partition, state): &(u32, PartitionState)| {
        let lag = u64::from(partition * 7 % 40);
        PartitionView {
            partition,
            state,
            worker: Some(worker.to_owned()),
            claimants: Vec::new(),
            last_known_worker: None,
            since: Some(rfc3339(since_ms)),
            session_remaining_ms: Some(if state == PartitionState::Expired { 0 } else { SESSION_MS - 2_000 }),
            lag: Lag { jobs: Some(lag), as_of: Some(rfc3339(now.wall_ms)), why_unknown: None },
            last_completed_at: Some(rfc3339(now.wall_ms - 700)),
            jobs_in_flight: Some(u64::from(lag > 0)),
            age_ms: Some(300),
            token_present: Some(true),
            keys_parked: Some(if partition == 1 { 31 } else { 0 }),
            keys: if partition == 1 { keys() } else { Vec::new() },
        }
    };
    let mut partitions: Vec<_> = holds.iter().map(view).collect();
    partitions.sort_by_key(|p| p.partition);
    let draining = partitions.iter().any(|p| p.state == PartitionState::Draining);
    Snapshot {
        schema: SCHEMA,
        scope: Scope::Worker,
        observed_at: rfc3339(now.wall_ms),
        observer: Observer { name: worker.to_owned(), version: "0.1.0".into() },
        queue: QueueView {
            cluster: "prod-eu".into(),
            topic: "jobs".into(),
            group: "billing".into(),
            partition_count: Some(count),
        },
        freshness: Freshness::Fresh,
        stale_after_ms: 10_000,
        workers: vec![WorkerView {
            worker: worker.to_owned(),
            state: if draining { WorkerState::Draining } else { WorkerState::Running },
            since: Some(rfc3339(now.wall_ms - 7_200_000)),
            last_seen_at: rfc3339(now.wall_ms - 300),
            age_ms: 300,
            freshness: Freshness::Fresh,
            partitions_held: Some(partitions.len() as u32),
            jobs_in_flight: Some(3),
            session: WorkerSession {
                timeout_ms: Some(SESSION_MS),
                remaining_ms: Some(SESSION_MS - 2_000),
                basis: "heartbeat",
            },
        }],
        totals: Totals::of(&partitions),
        partitions,
        notices: Vec::new(),
    }
}

/// Who holds what, as this stage wants it.
#[derive(Clone)]
pub struct Group {
    pub count: u32,
    /// Of each partition: its owner, and since when (Unix milliseconds).
    owners: Vec<(usize, i64)>,
    silent: Vec<usize>,
    draining: Vec<u32>,
    contested: Vec<(u32, usize)>,
}

pub const WORKERS: usize = 6;

impl Group {
    pub fn new(count: u32, at_ms: i64) -> Self {
        let owners = (0..count as usize).map(|p| (p % WORKERS, at_ms)).collect();
        Self { count, owners, silent: Vec::new(), draining: Vec::new(), contested: Vec::new() }
    }

    fn hand_over(&mut self, from: usize, to: &[usize], at_ms: i64) {
        for (partition, owner) in self.owners.iter_mut().enumerate().filter(|(_, (owner, _))| *owner == from) {
            *owner = (to[partition % to.len()], at_ms);
        }
    }

    /// What every sidecar that answers would say now.
    pub fn speak(&self, record: &mut Record, now: Now) {
        let names: Vec<String> = (0..WORKERS).map(|w| format!("10.0.0.{w}:9465")).collect();
        record.merge.expect(names.iter().map(String::as_str), now);
        for worker in (0..WORKERS).filter(|w| !self.silent.contains(w)) {
            let state =
                |p: u32| if self.draining.contains(&p) { PartitionState::Draining } else { PartitionState::Held };
            let own = self.owners.iter().enumerate().filter(|(_, (owner, _))| *owner == worker);
            let mut holds: Vec<(u32, PartitionState)> = own.map(|(p, _)| (p as u32, state(p as u32))).collect();
            holds
                .extend(self.contested.iter().filter(|(_, by)| *by == worker).map(|(p, _)| (*p, PartitionState::Held)));
            let since = self.owners.iter().filter(|(owner, _)| *owner == worker).map(|(_, at)| *at).max();
            record.merge.hear(&names[worker], report(&name(worker), self.count, &holds, since.unwrap_or(0), now), now);
        }
    }
}

/// An hour: a worker dies and others take over, another one is replaced in order; at its end one is silent, one hands over,
/// and two claim one partition.
pub fn an_hour(count: u32, end: Now) -> (Record, Group) {
    const MINUTE: u64 = 60_000;
    let mut record = Record::new(settings());
    let start = Now { boot_ms: end.boot_ms.saturating_sub(62 * MINUTE), wall_ms: end.wall_ms - 62 * 60_000 };
    let length = end.since(start.boot_ms);
    let mut group = Group::new(count, start.wall_ms);
    let mut passed = 0;
    while passed < length {
        let now = start.later(passed);
        let left = length - passed;
        group.silent.clear();
        if (25 * MINUTE..=26 * MINUTE).contains(&left) {
            group.silent.push(2);
        }
        if left <= 25 * MINUTE && left + 1_000 > 25 * MINUTE {
            group.hand_over(2, &[0, 1, 3], now.wall_ms);
        }
        if left <= 21 * MINUTE && left + 1_000 > 21 * MINUTE {
            for (partition, owner) in group.owners.iter_mut().enumerate().filter(|(p, _)| p % WORKERS == 2) {
                let _ = partition;
                *owner = (2, now.wall_ms);
            }
        }
        group.draining = if (9 * MINUTE + 1..9 * MINUTE + 8_000).contains(&left) { by(&group, 4) } else { Vec::new() };
        if left <= 9 * MINUTE && left + 1_000 > 9 * MINUTE {
            group.hand_over(4, &[5, 0], now.wall_ms);
        }
        group.speak(&mut record, now);
        record.look(now);
        passed += 1_000;
    }
    // The end, as the browser sees it: worker 3 is silent, partition 1 is handed over, two claim partition 5.
    group.silent = vec![3];
    group.draining = vec![1];
    group.contested = vec![(5, 0)];
    (record, group)
}

fn by(group: &Group, worker: usize) -> Vec<u32> {
    let own = group.owners.iter().enumerate().filter(|(_, (owner, _))| *owner == worker);
    own.map(|(p, _)| p as u32).collect()
}
