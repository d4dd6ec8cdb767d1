//! What each state looks like, that all of it keeps the contract, and that no number of a token gets through.

use std::num::NonZeroU32;

use keylane_producer::{Attempt, Incarnation, JobId, JobKey, PartitionCount, queue::KeyHash};
use serde_json::Value;

use super::*;
use crate::store::{RefusedWrites, StopReason, StopRule, StoppedKey};

const P0: Partition = Partition(0);
const P1: Partition = Partition(1);
const AT: Timestamp = Timestamp(1_764_597_751_412);

struct Look {
    queue: QueueIdentity,
    group: GroupName,
    members: Overview,
    store: Option<Vec<PartitionOverview>>,
    bounds: BTreeMap<Partition, Bounds>,
}

impl Look {
    /// Two partitions of ten jobs, nobody there, nothing done.
    fn new() -> Self {
        let partitions = PartitionCount(NonZeroU32::new(2).unwrap());
        let bounds = Bounds { start: Offset(0), end: Offset(10) };
        Self {
            queue: QueueIdentity {
                cluster: "cluster-1".into(),
                name: "jobs".parse().unwrap(),
                incarnation: Incarnation("made-1".into()),
                partitions,
                hash: KeyHash::Murmur2,
            },
            group: "workers".parse().unwrap(),
            members: Overview { members: vec![], committed: [(P0, None), (P1, None)].into() },
            store: None,
            bounds: [(P0, bounds), (P1, bounds)].into(),
        }
    }

    fn member(mut self, member: MemberOverview) -> Self {
        self.members.members.push(member);
        self
    }

    fn rows(mut self, rows: [PartitionOverview; 2]) -> Self {
        self.store = Some(rows.into());
        self
    }

    fn snapshot(&self) -> Snapshot {
        let Self { queue, group, members, bounds, .. } = self;
        of_group(&Seen {
            at: AT,
            observer: "keylane-status",
            queue,
            group,
            members,
            store: self.store.as_deref(),
            bounds,
        })
    }
}

/// Alive, with both partitions.
fn alive(worker: &str) -> MemberOverview {
    MemberOverview {
        worker: worker.into(),
        member_for: Some(Duration::from_secs(60)),
        expired: false,
        session_left: Some(Duration::from_millis(14_600)),
        session: Some(Duration::from_secs(15)),
        silent_for: Duration::from_millis(400),
        partitions: vec![P0, P1],
        revoking: vec![],
    }
}

/// Silent for 21 s of a session of 15 s.
fn gone(worker: &str) -> MemberOverview {
    MemberOverview { expired: true, session_left: None, silent_for: Duration::from_secs(21), ..alive(worker) }
}

fn row(partition: Partition, worker: Option<&str>) -> PartitionOverview {
    PartitionOverview {
        partition,
        worker: worker.map(Into::into),
        claimed_at: worker.map(|_| Timestamp(AT.0 - 30_000)),
        closed: false,
        handed_over: worker.is_none(),
        done: Progress::default(),
        stopped: vec![],
        refused: vec![],
        quarantined: 0,
        dead: 0,
        note: None,
    }
}

fn stopped_key() -> StoppedKey {
    StoppedKey {
        key: JobKey::try_from("k").unwrap(),
        offset: Offset(3),
        id: Some("j-1".parse::<JobId>().unwrap()),
        attempts: Attempt(5),
        reason: StopReason { rule: StopRule::Rejected, text: "\u{1b}[31mno\u{202e}".into() },
        since: AT,
        version: 1,
        released: false,
        jobs: 1,
        last: Offset(3),
    }
}

#[test]
fn a_partition_whose_owner_lives_and_claimed_it_is_held() {
    let snapshot = Look::new().member(alive("w1")).rows([row(P0, Some("w1")), row(P1, None)]).snapshot();
    let [held, claiming] = &snapshot.partitions[..] else { panic!("{:?}", snapshot.partitions) };
    assert_eq!(
        (held.state, held.worker.as_deref(), held.token_present),
        (PartitionState::Held, Some("w1"), Some(true))
    );
    assert_eq!(held.since.as_deref(), Some("2025-12-01T14:02:01.412Z"));
    assert_eq!((held.session_remaining_ms, held.age_ms), (Some(14_600), Some(400)));
    assert_eq!(
        (claiming.state, claiming.token_present),
        (PartitionState::Held, Some(false)),
        "assigned, not claimed yet"
    );
    assert_eq!(claiming.since, None);
    assert_eq!(snapshot.workers[0].state, WorkerState::Running);
    assert_eq!(snapshot.workers[0].freshness, Freshness::Fresh);
    assert_eq!(snapshot.notices, []);
}

#[test]
fn a_claim_of_another_worker_or_one_that_was_handed_over_is_not_the_owner_s() {
    let handed_over = PartitionOverview { handed_over: true, ..row(P1, Some("w1")) };
    let snapshot = Look::new().member(alive("w1")).rows([row(P0, Some("w2")), handed_over]).snapshot();
    assert_eq!(snapshot.partitions.iter().map(|p| p.token_present).collect::<Vec<_>>(), [Some(false), Some(false)]);
    let no_store = Look::new().member(alive("w1")).snapshot();
    assert_eq!(no_store.partitions[0].token_present, None, "nobody can say");
}

#[test]
fn a_partition_that_was_asked_back_is_draining() {
    let member = MemberOverview { revoking: vec![P1], ..alive("w1") };
    let snapshot = Look::new().member(member).snapshot();
    assert_eq!(snapshot.partitions[0].state, PartitionState::Held);
    assert_eq!(snapshot.partitions[1].state, PartitionState::Draining);
    assert_eq!(snapshot.partitions[1].worker.as_deref(), Some("w1"));
}

#[test]
fn a_silent_owner_s_partition_is_expired_and_never_held() {
    let member = MemberOverview { revoking: vec![P1], ..gone("w1") };
    let snapshot = Look::new().member(member).rows([row(P0, Some("w1")), row(P1, Some("w1"))]).snapshot();
    for partition in &snapshot.partitions {
        assert_eq!((partition.state, partition.session_remaining_ms), (PartitionState::Expired, Some(0)));
        assert_eq!(partition.since.as_deref(), Some("2025-12-01T14:02:25.412Z"), "when its session ended");
    }
    let worker = &snapshot.workers[0];
    assert_eq!((worker.state, worker.freshness), (WorkerState::Unknown, Freshness::Lost));
    assert_eq!((worker.partitions_held, worker.session.remaining_ms), (Some(0), Some(0)));
    assert_eq!(snapshot.totals.expired, 2);
    assert_eq!(
        snapshot.notices[0].text,
        "w1 went silent 21 s ago and its 15 s session has run out. Partitions 0, 1 wait for a new owner."
    );
}

#[test]
fn a_partition_that_nobody_has_is_absent_and_names_its_last_owner() {
    let snapshot = Look::new().rows([row(P0, Some("w1")), row(P1, None)]).snapshot();
    let [last, never] = &snapshot.partitions[..] else { panic!("{:?}", snapshot.partitions) };
    assert_eq!((last.state, last.worker.as_deref()), (PartitionState::Absent, None));
    assert_eq!(last.last_known_worker.as_deref(), Some("w1"));
    assert_eq!((last.session_remaining_ms, last.age_ms, last.since.as_deref()), (None, None, None));
    assert_eq!((never.state, never.last_known_worker.as_deref()), (PartitionState::Absent, None));
    assert_eq!(snapshot.notices[0].code, "no_worker");
}

#[test]
fn lag_is_jobs_not_finished_by_the_store_s_markers_else_by_what_was_committed() {
    let bounds = |start, end| Some(Bounds { start: Offset(start), end: Offset(end) });
    let done = |floor, ranges: &[(u64, u64)]| Progress { floor, ranges: ranges.to_vec(), anew: false };
    assert_eq!(unfinished(bounds(0, 10), None, None), Some(10), "nothing was ever finished");
    assert_eq!(unfinished(bounds(0, 10), None, Some(Offset(4))), Some(6));
    assert_eq!(unfinished(bounds(0, 10), Some(&done(3, &[(5, 5), (8, 9)])), Some(Offset(0))), Some(4));
    assert_eq!(unfinished(bounds(0, 10), Some(&done(0, &[])), Some(Offset(4))), Some(6), "the store knows nothing");
    let anew = Progress { anew: true, ..Progress::default() };
    assert_eq!(
        unfinished(bounds(0, 10), Some(&anew), Some(Offset(4))),
        Some(10),
        "the group speaks of an earlier queue"
    );
    assert_eq!(unfinished(bounds(5_000_000, 5_000_010), None, None), Some(10), "what retention took is no lag");
    assert_eq!(unfinished(bounds(7, 7), Some(&done(7, &[])), None), Some(0));
    assert_eq!(unfinished(bounds(0, 10), Some(&done(12, &[])), None), Some(0), "an older end than the markers");
    assert_eq!(unfinished(bounds(0, 10), Some(&done(4, &[(6, u64::MAX)])), None), Some(2));
    assert_eq!(unfinished(None, Some(&done(4, &[])), Some(Offset(4))), None, "the log could not be asked");
}

#[test]
fn unknown_lag_is_null_with_a_reason_and_no_zero() {
    let mut look = Look::new();
    look.bounds.remove(&P1);
    let snapshot = look.snapshot();
    assert_eq!(snapshot.partitions[1].lag.jobs, None);
    assert_eq!(snapshot.partitions[1].lag.why_unknown, Some(WhyUnknown::NotReported));
    assert_eq!((snapshot.totals.lag_jobs, snapshot.totals.lag_partitions_known), (Some(10), 1));
}

#[test]
fn a_name_that_the_contract_does_not_allow_is_shown_so_that_it_does() {
    assert_eq!(name("host 1/7\u{1b}[31m\u{202e}ä"), "host_1/7__31m__");
    assert_eq!((name(""), name(&"x".repeat(300)).len()), ("_".to_owned(), 249));
}

/// One of everything.
fn all_states() -> Vec<Look> {
    let troubled = PartitionOverview {
        stopped: vec![stopped_key()],
        refused: vec![RefusedWrites { worker: "w2".into(), writes: 3, jobs: 12, last: AT }],
        quarantined: 2,
        ..row(P0, Some("w1"))
    };
    let half = |worker: &str, partition| MemberOverview { partitions: vec![partition], ..alive(worker) };
    let mut unknown_lag = Look::new();
    unknown_lag.bounds.clear();
    vec![
        Look::new(),
        unknown_lag,
        Look::new().rows([row(P0, Some("w1")), row(P1, None)]),
        Look::new().member(alive("w1")).rows([troubled, row(P1, None)]),
        Look::new().member(half("w\u{1b}1 ä", P0)).member(MemberOverview { revoking: vec![P1], ..half("w2", P1) }),
        Look::new().member(gone("w1")).rows([row(P0, Some("w1")), row(P1, Some("w1"))]),
        (0..70).fold(Look::new(), |look, n| look.member(gone(&format!("w{n}")))),
    ]
}

fn schema() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(include_str!("../../../docs/schemas/snapshot.schema.json")).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn every_state_keeps_the_published_schema() {
    let schema = schema();
    for look in all_states() {
        let json = serde_json::to_value(look.snapshot()).unwrap();
        let faults: Vec<_> = schema.iter_errors(&json).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert_eq!(faults, Vec::<String>::new(), "{json:#}");
    }
}

#[test]
fn the_schema_refuses_a_field_that_it_does_not_name() {
    let schema = schema();
    let mut json = serde_json::to_value(Look::new().snapshot()).unwrap();
    assert!(schema.is_valid(&json));
    json["partitions"][0]["generation"] = 1.into();
    assert!(!schema.is_valid(&json), "the test above can fail");
}

/// Names of members, and of what is in them: `partitions[].lag.jobs`.
fn shape(value: &Value, at: &str, into: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(k, v)| {
            into.insert(format!("{at}.{k}"));
            shape(v, &format!("{at}.{k}"), into);
        }),
        Value::Array(items) => items.iter().for_each(|v| shape(v, &format!("{at}[]"), into)),
        _ => {}
    }
}

#[test]
fn the_shape_is_the_published_example_s() {
    let example: Value = serde_json::from_str(include_str!("../../../docs/schemas/snapshot.example.json")).unwrap();
    let (mut published, mut ours) = Default::default();
    shape(&example, "", &mut published);
    // The embedded group never sees two claimants at once.
    published.remove(".partitions[].claimants");
    for look in all_states() {
        shape(&serde_json::to_value(look.snapshot()).unwrap(), "", &mut ours);
    }
    assert_eq!(ours, published);
}
