//! A partition whose lanes are full is held, not paused (docs/decisions/0006): what the client has fetched of it is not fetched
//! again. Counted in bytes of the brokers' answers to fetches, dropped ones included, by the client's own debug lines.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use keylane_consumer::{
    Error,
    clock::Clock,
    group::{
        Group, GroupControl, GroupEvent,
        kafka::{Assignor, KafkaGroup},
    },
};
use keylane_producer::{Job, JobKey, Offset, Partition, kafka::PropertySource, partition_of};

use crate::{
    fetched,
    rig::{How, LIMIT, Rig, slow_teller},
};

const P0: Partition = Partition(0);
const P1: Partition = Partition(1);

/// Small enough to be held.
const SMALL: usize = 200;
/// Too large for it.
const LARGE: usize = 4 << 10;

/// One at a time: the client's lines do not say whose they are.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A queue with so many jobs in each partition, of payloads that cannot be compressed; clients on it say what they fetch.
fn filled(partitions: u32, each: usize, payload: usize) -> Rig {
    let mut rig = Rig::with(partitions, Assignor::Cooperative, |settings, group| {
        // What is on its way from the polling thread when the lanes are full (16 pages) is less than they hold: what is more
        // than that is read again, one by one.
        group.poll_records = 20;
        settings.lanes.held_jobs = 800;
        settings.lanes.running = 4;
    });
    rig.settings.set("debug=protocol", PropertySource::File).unwrap();
    let mut left: BTreeMap<Partition, usize> = rig.queue.partitions.all().map(|p| (p, each)).collect();
    let mut jobs = Vec::new();
    for n in 0.. {
        let key = format!("key{n}");
        let left = left.get_mut(&partition_of(key.as_bytes(), rig.queue.partitions)).unwrap();
        if *left > 0 {
            *left -= 1;
            let payload: Bytes = std::iter::repeat_with(|| fastrand::u8(..)).take(payload).collect();
            jobs.push(Job::new(JobKey::try_from(key.as_str()).unwrap(), Some(payload)).unwrap());
        }
        if jobs.len() == each * partitions as usize {
            break;
        }
    }
    let mut enqueuer = rig.enqueuer();
    while !jobs.is_empty() {
        enqueuer.send(jobs.split_off(jobs.len().saturating_sub(1_000))).unwrap();
    }
    rig
}

/// A member that no worker drives, and what it was told.
struct Member {
    group: KafkaGroup,
    control: Arc<dyn GroupControl>,
    owned: Vec<Partition>,
    records: Vec<(Partition, Offset)>,
    /// Where the next record of each is expected.
    next: BTreeMap<Partition, Offset>,
}

impl Member {
    fn of(group: KafkaGroup) -> Self {
        let control = group.control();
        Self { group, control, owned: Vec::new(), records: Vec::new(), next: BTreeMap::new() }
    }

    /// One poll, which gives back at once what is asked back.
    fn poll(&mut self, wait: Duration) {
        let mut events = Vec::new();
        let answer = self.group.poll(wait, &mut |event| events.push(event));
        assert!(answer.as_ref().err().is_none_or(Error::is_transient), "{answer:?}");
        for event in events {
            match event {
                GroupEvent::Assigned(given) => self.owned.extend(given.partitions),
                GroupEvent::Revoking(back) => {
                    self.owned.retain(|p| !back.contains(p));
                    self.control.release(&back);
                }
                GroupEvent::Lost(lost) => self.owned.retain(|p| !lost.contains(p)),
                GroupEvent::Records { partition, from, records, position, .. } => {
                    assert_eq!(Some(from), self.next.insert(partition, position), "a page follows on the one before");
                    self.records.extend(records.into_iter().map(|record| (partition, record.offset)));
                }
                _ => {}
            }
        }
        self.owned.sort_unstable();
    }

    fn resume(&mut self, partition: Partition, from: Offset) {
        self.next.insert(partition, from);
        self.control.resume(partition, from);
    }

    fn go_on(&mut self, partition: Partition) {
        self.control.go_on(partition, self.next[&partition]);
    }

    /// As a worker whose lanes are full; what comes after it would be too much.
    fn fill_up(&mut self, partition: Partition) {
        self.control.pause(partition);
        let before = self.offsets(partition).len();
        // Long enough for what was fetched again to come.
        for _ in 0..5 {
            self.poll(Duration::from_millis(5));
        }
        assert_eq!(self.offsets(partition).len(), before, "a full partition is told more");
    }

    fn offsets(&self, partition: Partition) -> Vec<u64> {
        self.records.iter().filter(|(of, _)| *of == partition).map(|(_, offset)| offset.0).collect()
    }
}

/// All members poll until it is so.
fn until(what: &str, members: &mut [&mut Member], is_so: impl Fn(&[&mut Member]) -> bool) {
    let clock = Clock::boot();
    let end = clock.now().plus(LIMIT);
    while !is_so(members) {
        assert!(clock.now() < end, "waited in vain until {what}");
        members.iter_mut().for_each(|member| member.poll(Duration::from_millis(5)));
    }
}

/// Reads the queue to its end, never full: the bytes that it takes to fetch all of it once.
fn fetch_once(member: &mut Member, rig: &Rig, each: usize) -> u64 {
    let all: Vec<Partition> = rig.queue.partitions.all().collect();
    until("it has all", &mut [member], |m| m[0].owned == all);
    let before = fetched::bytes();
    all.iter().for_each(|&p| member.resume(p, Offset(0)));
    until("it has read all", &mut [member], |m| all.iter().all(|&p| m[0].offsets(p).len() >= each));
    fetched::bytes() - before
}

/// The bytes of all there is, without what a client fetches twice where it begins: the fewest of three readings.
fn size(member: &mut Member, rig: &Rig, each: usize) -> u64 {
    (0..3)
        .map(|_| {
            member.records.clear();
            fetch_once(member, rig, each)
        })
        .min()
        .unwrap()
}

/// Reads the only partition to its end, and is full after each page. How many times over it was fetched.
fn read_page_by_page(mut member: Member, rig: &Rig, jobs: usize) -> f64 {
    let once = size(&mut member, rig, jobs);
    member.records.clear();
    let before = fetched::bytes();
    member.resume(P0, Offset(0));
    loop {
        let told = member.records.len();
        until("more comes", &mut [&mut member], |m| m[0].records.len() > told);
        if member.records.len() >= jobs {
            break;
        }
        member.fill_up(P0);
        member.go_on(P0);
    }
    let all: Vec<u64> = (0..jobs as u64).collect();
    assert_eq!(member.offsets(P0), all, "each record once, in order");
    let times = (fetched::bytes() - before) as f64 / once as f64;
    println!("{}: {jobs} records were fetched {times:.2} times", rig.topic());
    times
}

#[test]
fn a_full_partition_is_held_and_each_of_its_records_is_fetched_once() {
    let _alone = alone();
    let rig = filled(1, 6_000, SMALL);
    let times = read_page_by_page(Member::of(rig.member("holds")), &rig, 6_000);
    assert!((0.9..1.5).contains(&times), "fetched {times} times");
}

/// The twin.
#[test]
fn without_holding_a_full_partition_is_fetched_again_and_again() {
    let _alone = alone();
    let rig = filled(1, 3_000, SMALL);
    let times = read_page_by_page(Member::of(rig.member("pauses").pausing()), &rig, 3_000);
    assert!(times > 5.0, "fetched {times} times");
}

/// Of them a few are more than a client should keep (R33 holds how much that is).
#[test]
fn a_full_partition_of_large_records_is_paused_and_not_held() {
    let _alone = alone();
    let rig = filled(1, 1_500, LARGE);
    let times = read_page_by_page(Member::of(rig.member("large")), &rig, 1_500);
    assert!(times > 2.0, "fetched {times} times: the client has kept what it should not");
}

/// Reads the only partition to its end, and is full after each page, of which it has taken in nothing when it goes on. How many
/// times over it was fetched.
fn go_on_behind(resumes: bool) -> f64 {
    let jobs = 300;
    let rig = filled(1, jobs, SMALL);
    let mut member = Member::of(rig.member("behind"));
    let once = size(&mut member, &rig, jobs);
    member.records.clear();
    let before = fetched::bytes();
    member.resume(P0, Offset(0));
    let (mut taken_in, mut told) = (Offset(0), Offset(0));
    while member.offsets(P0).last() != Some(&(jobs as u64 - 1)) {
        until("more comes", &mut [&mut member], |m| m[0].next[&P0] > told);
        member.fill_up(P0);
        let before = mem::replace(&mut told, member.next[&P0]);
        if resumes {
            member.resume(P0, taken_in);
        } else {
            member.control.go_on(P0, taken_in);
        }
        taken_in = before;
    }
    let times = (fetched::bytes() - before) as f64 / once as f64;
    println!("{}: fetched {times:.2} times, resumed: {resumes}", rig.topic());
    times
}

#[test]
fn what_is_on_its_way_when_a_full_partition_goes_on_is_fetched_once() {
    let _alone = alone();
    let times = go_on_behind(false);
    assert!((0.9..1.5).contains(&times), "fetched {times} times");
}

/// The twin: so it was.
#[test]
fn resumed_from_below_what_is_on_its_way_it_is_fetched_again_and_again() {
    let _alone = alone();
    let times = go_on_behind(true);
    assert!(times > 5.0, "fetched {times} times");
}

/// A member that holds both partitions, and what it was told of `P1` before.
fn held(rig: &Rig) -> (Member, Vec<u64>) {
    let mut first = Member::of(rig.member("first"));
    until("it has both", &mut [&mut first], |m| m[0].owned == [P0, P1]);
    first.resume(P0, Offset(0));
    first.resume(P1, Offset(0));
    let mut full = Vec::new();
    while full.len() < 2 {
        let flows = |m: &Member| [P0, P1].into_iter().find(|p| !full.contains(p) && !m.offsets(*p).is_empty());
        until("each flows", &mut [&mut first], |m| flows(m[0]).is_some());
        let flowing = flows(&first).unwrap();
        first.fill_up(flowing);
        full.push(flowing);
    }
    let told = first.offsets(P1);
    (first, told)
}

#[test]
fn a_partition_that_is_revoked_while_held_flows_to_the_next_owner_and_again_when_it_comes_back() {
    let _alone = alone();
    let rig = filled(2, 1_000, SMALL);
    let (mut first, _) = held(&rig);
    let mut second = Member::of(rig.member("second"));
    until("they share", &mut [&mut first, &mut second], |m| m[0].owned.len() == 1 && m[1].owned.len() == 1);
    let (stays, moves) = (first.owned[0], second.owned[0]);
    let (before, all) = (first.offsets(moves), (0..1_000).collect::<Vec<u64>>());
    let from = first.next[&moves];
    second.resume(moves, from);
    first.go_on(stays);
    until("each has all", &mut [&mut first, &mut second], |m| {
        m[0].offsets(stays).len() >= 1_000 && m[1].offsets(moves).len() >= 1_000 - before.len()
    });
    assert_eq!(first.offsets(stays), all, "what stayed is told once, over the rebalance");
    assert_eq!([before.clone(), second.offsets(moves)].concat(), all, "the next owner goes on where the first one was");
    assert_eq!(first.offsets(moves), before, "what the client had kept of it is told nobody");

    second.control.leave();
    until("it comes back", &mut [&mut first, &mut second], |m| m[0].owned == [P0, P1]);
    first.resume(moves, from);
    until("the rest of it", &mut [&mut first], |m| m[0].offsets(moves).len() >= 1_000);
    assert_eq!(first.offsets(moves), all, "it is held no more");
}

#[test]
fn a_partition_that_is_wanted_from_elsewhere_while_held_is_told_from_there() {
    let _alone = alone();
    let rig = filled(2, 1_000, SMALL);
    let (mut member, told) = held(&rig);
    for from in [0, 500, told.len() as u64 + 1, 3] {
        let before = member.offsets(P1).len();
        member.resume(P1, Offset(from));
        until("the rest", &mut [&mut member], |m| m[0].next[&P1] >= Offset(1_000));
        assert_eq!(member.offsets(P1)[before..], (from..1_000).collect::<Vec<u64>>(), "from {from}");
        // Held again, at its end.
        member.fill_up(P1);
    }
    member.go_on(P0);
    until("the other one", &mut [&mut member], |m| m[0].offsets(P0).len() >= 1_000);
    assert_eq!(member.offsets(P0), (0..1_000).collect::<Vec<u64>>(), "it was held all the while");
}

#[test]
fn a_group_that_is_lost_while_partitions_are_held_is_joined_anew_and_all_flows() {
    let _alone = alone();
    let rig = filled(2, 1_000, SMALL);
    let (mut member, told) = held(&rig);
    member.control.rejoin();
    until("it gave all up", &mut [&mut member], |m| m[0].owned.is_empty());
    until("it has both again", &mut [&mut member], |m| m[0].owned == [P0, P1]);
    [P0, P1].iter().for_each(|&p| member.go_on(p));
    until("all", &mut [&mut member], |m| [P0, P1].iter().all(|&p| m[0].offsets(p).len() >= 1_000));
    for partition in [P0, P1] {
        assert_eq!(member.offsets(partition), (0..1_000).collect::<Vec<u64>>());
    }
    assert!(told.len() < 1_000, "else nothing was held");
}

/// The whole worker, whose lanes are full nearly all the time. How many times over it fetched, what it read again included.
fn work_with_full_lanes(each: usize, how: &How) -> f64 {
    let rig = filled(2, each, SMALL);
    let mut reader = Member::of(rig.member("reader"));
    let once = size(&mut reader, &rig, each);
    reader.control.leave();
    until("it has left", &mut [&mut reader], |m| m[0].owned.is_empty());
    let before = fetched::bytes();
    let handler = slow_teller("worker", Duration::from_millis(1));
    let summary = rig.start("worker", &How { until_empty: true, ..how.clone() }, handler, |_| {}).join();
    assert_eq!((summary.applied, summary.clean), (2 * each as u64, true));
    rig.assert_once_in_order(2 * each);
    let times = (fetched::bytes() - before) as f64 / once as f64;
    println!("{}: fetched {times:.2} times", rig.topic());
    times
}

#[test]
fn a_worker_whose_lanes_are_full_fetches_each_record_once_and_does_it_once_in_order() {
    let _alone = alone();
    let times = work_with_full_lanes(10_000, &How::default());
    assert!((0.9..1.5).contains(&times), "fetched {times} times");
}

/// The twin: nothing is lost or repeated, but most of what the brokers send is thrown away.
#[test]
fn without_holding_a_worker_whose_lanes_are_full_fetches_again_and_again() {
    let _alone = alone();
    let times = work_with_full_lanes(5_000, &How { pausing: true, ..How::default() });
    assert!(times > 3.0, "fetched {times} times");
}

/// The count above can count.
#[test]
fn what_is_fetched_is_counted() {
    let _alone = alone();
    let rig = filled(1, 1_000, SMALL);
    let mut member = Member::of(rig.member("counts"));
    for _ in 0..3 {
        member.records.clear();
        let counted = fetch_once(&mut member, &rig, 1_000);
        assert!(counted >= 1_000 * SMALL as u64, "{counted} bytes of {}", 1_000 * SMALL);
    }
}
