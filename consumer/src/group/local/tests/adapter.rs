//! What only the embedded group promises. Members are polled in turn, by a clock that is turned by hand.

use keylane_producer::{Offset, Partition};
use rusqlite::Connection;

use super::*;
use crate::{
    fence::{Generation, MemberId},
    group::{Commit, CommitError, GroupWatch, MemberOverview},
};

const P0: Partition = Partition(0);
const P1: Partition = Partition(1);
const SESSION: Duration = Duration::from_secs(15);
const ANSWER: Duration = Duration::from_secs(10);

fn turn(group: &mut LocalGroup) -> Vec<GroupEvent> {
    let mut events = Vec::new();
    group.poll(Duration::ZERO, &mut |event| events.push(event)).unwrap();
    events
}

fn assigned(events: &[GroupEvent]) -> Vec<Partition> {
    let of = |event: &GroupEvent| match event {
        GroupEvent::Assigned(assignment) => assignment.partitions.clone(),
        _ => Vec::new(),
    };
    events.iter().flat_map(of).collect()
}

fn lost(events: &[GroupEvent]) -> Vec<Partition> {
    let of = |event: &GroupEvent| if let GroupEvent::Lost(lost) = event { lost.clone() } else { Vec::new() };
    events.iter().flat_map(of).collect()
}

fn revoking(events: &[GroupEvent]) -> Vec<Partition> {
    let of = |event: &GroupEvent| if let GroupEvent::Revoking(asked) = event { asked.clone() } else { Vec::new() };
    events.iter().flat_map(of).collect()
}

fn fetched(events: &[GroupEvent]) -> Vec<(Partition, usize)> {
    let of = |event: &GroupEvent| match event {
        GroupEvent::Records { partition, records, .. } => Some((*partition, records.len())),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn told(events: &[GroupEvent]) -> (MemberId, Generation) {
    let of = |event: &GroupEvent| match event {
        GroupEvent::Assigned(assignment) => Some((assignment.member.clone(), assignment.generation)),
        GroupEvent::MovedOn { member, generation } => Some((member.clone(), *generation)),
        _ => None,
    };
    events.iter().filter_map(of).next_back().expect("the member was told who it is")
}

fn commit(
    group: &LocalGroup,
    (member, generation): &(MemberId, Generation),
    offsets: &[(Partition, u64)],
) -> Result<(), CommitError> {
    let offsets = offsets.iter().map(|&(p, o)| (p, Offset(o))).collect();
    group.control().commit(&Commit { member: member.clone(), generation: *generation, offsets }, ANSWER)
}

fn committed(group: &LocalGroup, partition: Partition) -> Option<Offset> {
    group.control().committed(&[partition]).unwrap()[&partition]
}

/// Holds the file's write lock as another process would.
fn locked(folder: &Folder) -> Connection {
    let connection = schema::open(&folder.path()).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

#[test]
fn a_partition_of_another_member_cannot_be_committed() {
    let folder = Folder::with_queue(2);
    let (mut first, mut second) = (folder.open(), folder.open());
    turn(&mut first);
    turn(&mut second);
    let asked = revoking(&turn(&mut first));
    first.control().release(&asked);
    let me = told(&turn(&mut first));
    assert!(matches!(commit(&first, &me, &[(asked[0], 1)]), Err(CommitError::NotOwner(p)) if p == asked[0]));
    assert_eq!(committed(&first, asked[0]), None);
}

#[test]
fn a_commit_that_goes_back_is_a_bug_and_changes_nothing() {
    let folder = Folder::with_queue(2);
    let mut group = folder.open();
    let me = told(&turn(&mut group));
    commit(&group, &me, &[(P0, 5)]).unwrap();
    let answer = commit(&group, &me, &[(P1, 1), (P0, 4)]);
    assert!(matches!(answer, Err(CommitError::Fatal(Error::Bug(_)))), "{answer:?}");
    assert_eq!((committed(&group, P0), committed(&group, P1)), (Some(Offset(5)), None));
}

#[test]
fn a_member_whose_session_ran_out_cannot_commit_though_nobody_expelled_it() {
    let folder = Folder::with_queue(1);
    let mut group = folder.open();
    let me = told(&turn(&mut group));
    folder.clock.advance(SESSION - Duration::from_nanos(1));
    commit(&group, &me, &[]).unwrap();
    folder.clock.advance(SESSION);
    assert!(matches!(commit(&group, &me, &[]), Err(CommitError::UnknownMember)));
}

#[test]
fn a_member_that_slept_through_its_session_loses_all_and_joins_anew() {
    let folder = Folder::with_queue(2);
    folder.append(P0, 3);
    let mut group = folder.open();
    let before = told(&turn(&mut group));
    group.control().resume(P0, Offset(0));
    folder.clock.advance(SESSION);
    let events = turn(&mut group);
    assert_eq!(lost(&events), [P0, P1]);
    assert_eq!(fetched(&events), [], "it was fetched for a member that is none");
    let events = turn(&mut group);
    let after = told(&events);
    assert_eq!(assigned(&events), [P0, P1]);
    assert!(after.0 != before.0 && after.1 > before.1);
}

#[test]
fn a_member_that_is_told_nothing_keeps_its_session_by_polling() {
    let folder = Folder::with_queue(1);
    let (mut group, mut other) = (folder.open(), folder.open());
    turn(&mut group);
    turn(&mut other);
    turn(&mut group);
    for _ in 0..100 {
        folder.clock.advance(SESSION / 10);
        assert_eq!(lost(&turn(&mut group)), []);
        turn(&mut other);
    }
}

#[test]
fn a_drain_that_never_ends_is_cut_off_at_the_rebalance_timeout_and_not_before() {
    let folder = Folder::with_queue(2);
    let (mut stuck, mut heir) = (folder.open(), folder.open());
    let before = told(&turn(&mut stuck));
    assert_eq!(assigned(&turn(&mut heir)), []);
    let asked = revoking(&turn(&mut stuck));
    assert_eq!(asked.len(), 1);
    for _ in 0..59 {
        folder.clock.advance(Duration::from_secs(1));
        assert_eq!((lost(&turn(&mut stuck)), assigned(&turn(&mut heir))), (vec![], vec![]));
    }
    folder.clock.advance(Duration::from_secs(2));
    assert_eq!(lost(&turn(&mut stuck)), asked);
    let events = turn(&mut heir);
    assert_eq!(assigned(&events), asked);
    assert!(told(&events).1 > before.1);
}

#[test]
fn an_answer_that_comes_too_late_does_not_give_up_what_was_assigned_anew() {
    let folder = Folder::with_queue(2);
    let (mut owner, mut heir) = (folder.open(), folder.open());
    turn(&mut owner);
    turn(&mut heir);
    let asked = revoking(&turn(&mut owner));
    heir.control().leave();
    turn(&mut heir);
    for _ in 0..61 {
        folder.clock.advance(Duration::from_secs(1));
        turn(&mut owner);
    }
    owner.control().release(&asked);
    assert_eq!(turn(&mut owner).len(), 0);
    let seen = GroupReader::open(&folder.path(), &folder.queue, &Folder::group(), folder.clock.clone())
        .and_then(|mut reader| reader.overview())
        .unwrap();
    assert_eq!(seen.members[0].partitions, [P0, P1]);
}

#[test]
fn a_member_of_another_boot_is_dead() {
    let folder = Folder::with_queue(2);
    let elsewhen = Place { boot: "another boot".into(), ..folder.place() };
    let mut dead = LocalGroup::at(&folder.path(), &folder.queue, elsewhen, LocalGroupSettings::default()).unwrap();
    assert_eq!(assigned(&turn(&mut dead)), [P0, P1]);
    assert_eq!(assigned(&turn(&mut folder.open())), [P0, P1]);
}

#[test]
fn an_heir_that_dies_before_the_release_does_not_keep_the_partition_from_being_owned() {
    let folder = Folder::with_queue(2);
    let mut owner = folder.open();
    turn(&mut owner);
    let mut heir = folder.open();
    turn(&mut heir);
    let asked = revoking(&turn(&mut owner));
    heir.control().leave();
    turn(&mut heir);
    owner.control().release(&asked);
    assert_eq!(assigned(&turn(&mut owner)), asked, "its last owner gets it again");
}

#[test]
fn a_poll_goes_on_while_a_commit_waits_for_the_lock() {
    let folder = Folder::with_queue(1);
    folder.append(P0, 3);
    let mut group = folder.open();
    let me = told(&turn(&mut group));
    let lock = locked(&folder);
    std::thread::scope(|scope| {
        let control = group.control();
        let committing = scope.spawn(move || {
            let offsets = vec![(P0, Offset(1))];
            control.commit(&Commit { member: me.0, generation: me.1, offsets }, Duration::from_secs(60))
        });
        group.control().resume(P0, Offset(0));
        assert_eq!(fetched(&turn(&mut group)), [(P0, 3)]);
        assert!(!committing.is_finished());
        lock.execute_batch("COMMIT").unwrap();
        committing.join().unwrap().unwrap();
    });
    assert_eq!(committed(&group, P0), Some(Offset(1)));
}

#[test]
fn a_commit_that_finds_the_file_locked_says_so_within_its_limit() {
    let folder = Folder::with_queue(1);
    let mut group = folder.open();
    let (member, generation) = told(&turn(&mut group));
    let _lock = locked(&folder);
    let commit = Commit { member, generation, offsets: vec![] };
    let answer = group.control().commit(&commit, Duration::from_millis(50));
    assert!(matches!(answer, Err(CommitError::Unavailable(Error::Unavailable(_)))), "{answer:?}");
}

#[test]
fn a_file_that_is_locked_for_seconds_makes_polls_unavailable_and_costs_nothing_else() {
    let folder = Folder::with_queue(1);
    let mut group = folder.open();
    let me = told(&turn(&mut group));
    let lock = locked(&folder);
    folder.clock.advance(Duration::from_secs(3));
    let limit = Clock::boot().now().plus(Duration::from_secs(60));
    let error = loop {
        match group.poll(Duration::from_millis(100), &mut |event| panic!("{event:?}")) {
            Err(error) => break error,
            Ok(()) => assert!(Clock::boot().now() < limit),
        }
    };
    assert!(error.is_transient(), "{error:?}");
    let again = group.poll(Duration::from_millis(100), &mut |event| panic!("{event:?}"));
    assert!(again.is_err(), "it is away until it answers, not back in between");
    lock.execute_batch("COMMIT").unwrap();
    assert_eq!(turn(&mut group).len(), 0);
    commit(&group, &me, &[(P0, 1)]).unwrap();
}

#[test]
fn nothing_is_fetched_while_a_locked_file_hides_whether_the_session_ran_out() {
    let folder = Folder::with_queue(1);
    let mut group = folder.open();
    turn(&mut group);
    folder.append(P0, 3);
    let lock = locked(&folder);
    folder.clock.advance(SESSION);
    group.control().resume(P0, Offset(0));
    assert_eq!(turn(&mut group).len(), 0);
    lock.execute_batch("COMMIT").unwrap();
    assert_eq!(lost(&turn(&mut group)), [P0]);
}

#[test]
fn an_idle_member_writes_a_heartbeat_in_each_interval_and_else_nothing() {
    let folder = Folder::with_queue(1);
    let mut group = folder.open();
    turn(&mut group);
    turn(&mut group);
    let other = schema::open(&folder.path()).unwrap();
    let version = || -> i64 { other.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let before = version();
    for _ in 0..50 {
        turn(&mut group);
    }
    assert_eq!(version(), before);
    folder.clock.advance(Duration::from_secs(1));
    turn(&mut group);
    assert_ne!(version(), before);
}

#[test]
fn a_commit_spares_the_next_heartbeat() {
    let folder = Folder::with_queue(1);
    let mut group = folder.open();
    let me = told(&turn(&mut group));
    folder.clock.advance(Duration::from_millis(900));
    commit(&group, &me, &[]).unwrap();
    let other = schema::open(&folder.path()).unwrap();
    let version = || -> i64 { other.query_row("PRAGMA data_version", [], |row| row.get(0)).unwrap() };
    let before = version();
    folder.clock.advance(Duration::from_millis(200));
    turn(&mut group);
    assert_eq!(version(), before);
}

#[test]
fn a_partition_that_is_not_owned_is_not_resumed() {
    let folder = Folder::with_queue(1);
    folder.append(P0, 3);
    let (mut owner, mut other) = (folder.open(), folder.open());
    turn(&mut owner);
    turn(&mut other);
    other.control().resume(P0, Offset(0));
    assert_eq!(fetched(&turn(&mut other)), []);
    owner.control().resume(P0, Offset(0));
    assert_eq!(fetched(&turn(&mut owner)), [(P0, 3)]);
}

#[test]
fn a_partition_that_is_to_be_released_is_not_fetched_any_more() {
    let folder = Folder::with_queue(1);
    let mut owner = folder.member_with(LocalGroupSettings { partition_records: 1, ..Default::default() });
    turn(&mut owner);
    folder.append(P0, 3);
    owner.control().resume(P0, Offset(0));
    assert_eq!(fetched(&turn(&mut owner)), [(P0, 1)]);
    let connection = schema::open(&folder.path()).unwrap();
    let asked = "UPDATE keylane_assignment SET revoke_by = 9000000000000000000;
                 UPDATE keylane_group SET generation = generation + 1";
    connection.execute_batch(asked).unwrap();
    let events = turn(&mut owner);
    assert_eq!((revoking(&events), fetched(&events)), (vec![P0], vec![]));
}

#[test]
fn a_long_partition_does_not_starve_the_others() {
    let folder = Folder::with_queue(3);
    folder.append(P0, 100);
    folder.append(P1, 2);
    folder.append(Partition(2), 2);
    let mut group =
        folder.member_with(LocalGroupSettings { poll_records: 10, partition_records: 9, ..Default::default() });
    turn(&mut group);
    for partition in [P0, P1, Partition(2)] {
        group.control().resume(partition, Offset(0));
    }
    assert_eq!(fetched(&turn(&mut group)), [(P0, 9), (P1, 1)]);
    assert_eq!(fetched(&turn(&mut group)), [(Partition(2), 2), (P0, 8)]);
    assert_eq!(fetched(&turn(&mut group)), [(P1, 1), (P0, 9)]);
}

#[test]
fn a_poll_stops_after_the_record_that_reaches_its_bytes() {
    let folder = Folder::with_queue(1);
    folder.append(P0, 10); // of 2 bytes each
    let mut group = folder.member_with(LocalGroupSettings { poll_bytes: 5, ..Default::default() });
    turn(&mut group);
    group.control().resume(P0, Offset(0));
    assert_eq!(fetched(&turn(&mut group)), [(P0, 3)]);
}

#[test]
fn a_partition_that_is_caught_up_tells_nothing() {
    let folder = Folder::with_queue(2);
    folder.append(P0, 3);
    let mut group = folder.open();
    turn(&mut group);
    group.control().resume(P0, Offset(0));
    group.control().resume(P1, Offset(0));
    assert_eq!(fetched(&turn(&mut group)), [(P0, 3)]);
    assert_eq!(turn(&mut group).len(), 0);
    folder.append(P1, 1);
    assert_eq!(fetched(&turn(&mut group)), [(P1, 1)]);
}

#[test]
fn a_member_that_left_stays_out() {
    let folder = Folder::with_queue(1);
    let mut group = folder.open();
    group.control().leave();
    let events = turn(&mut group);
    assert!(matches!(events.last(), Some(GroupEvent::Left)), "{events:?}");
    assert_eq!(turn(&mut group).len(), 0);
    assert_eq!(overview(&folder.path(), &folder.queue, &Folder::group()).unwrap().members, []);
}

#[test]
fn an_overview_shows_an_expired_member_and_does_not_expel_it() {
    let folder = Folder::with_queue(2);
    let mut group = folder.member_with(LocalGroupSettings { worker: "host/7".into(), ..Default::default() });
    let me = told(&turn(&mut group));
    commit(&group, &me, &[(P1, 4)]).unwrap();
    let mut reader = GroupReader::open(&folder.path(), &folder.queue, &Folder::group(), folder.clock.clone()).unwrap();
    folder.clock.advance(Duration::from_secs(5));
    let mut seen = reader.overview().unwrap();
    let mut member = MemberOverview {
        worker: "host/7".into(),
        member_for: Some(Duration::from_secs(5)),
        expired: false,
        session_left: Some(Duration::from_secs(10)),
        session: Some(SESSION),
        silent_for: Duration::from_secs(5),
        partitions: vec![P0, P1],
        revoking: vec![],
    };
    assert_eq!(seen.members, [member.clone()]);
    assert_eq!(seen.committed, [(P0, None), (P1, Some(Offset(4)))].into());
    folder.clock.advance(SESSION);
    member = MemberOverview {
        member_for: Some(Duration::from_secs(20)),
        expired: true,
        session_left: None,
        silent_for: Duration::from_secs(20),
        ..member
    };
    for _ in 0..2 {
        seen = reader.overview().unwrap();
        assert_eq!(seen.members, [member.clone()]);
    }
}

#[test]
fn a_group_that_nobody_joined_can_be_looked_at() {
    let folder = Folder::with_queue(1);
    let seen = overview(&folder.path(), &folder.queue, &Folder::group()).unwrap();
    assert_eq!((seen.members, seen.committed), (vec![], [(P0, None)].into()));
}

#[test]
fn everything_is_finished_when_each_partition_is_committed_to_its_end() {
    let folder = Folder::with_queue(2);
    let mut group = folder.open();
    let me = told(&turn(&mut group));
    let mut reader = GroupReader::open(&folder.path(), &folder.queue, &Folder::group(), folder.clock.clone()).unwrap();
    let mut finished = || {
        let overview = reader.overview().unwrap();
        let mut log = LocalLog::open(&folder.path(), Open::Existing, Patience::Patient).unwrap();
        overview.is_finished(|partition| log.bounds(&folder.queue, partition).ok())
    };
    assert!(finished());
    let last = folder.append(P1, 3)[2];
    assert!(!finished());
    commit(&group, &me, &[(P1, last.0)]).unwrap();
    assert!(!finished());
    commit(&group, &me, &[(P1, last.next().0)]).unwrap();
    assert!(finished());
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    let folder = Folder::with_queue(1);
    let good = LocalGroupSettings::default;
    let bad = [
        (LocalGroupSettings { worker: "".into(), ..good() }, "worker"),
        (LocalGroupSettings { session_timeout: Duration::ZERO, ..good() }, "session timeout"),
        (LocalGroupSettings { rebalance_timeout: Duration::MAX, ..good() }, "rebalance timeout"),
        (LocalGroupSettings { poll_records: 0, ..good() }, "records a poll"),
        (LocalGroupSettings { partition_records: 0, ..good() }, "records a partition"),
        (LocalGroupSettings { poll_bytes: 0, ..good() }, "bytes a poll"),
        (LocalGroupSettings { partition_bytes: usize::MAX, ..good() }, "bytes a partition"),
    ];
    for (settings, name) in bad {
        let answer = LocalGroup::open(&folder.path(), &folder.queue, &Folder::group(), Clock::boot(), settings);
        let error = answer.err().expect(name);
        assert!(matches!(&error, Error::Invalid(detail) if detail.what().contains(name)), "{error:?}");
    }
}
