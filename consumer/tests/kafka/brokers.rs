//! Brokers that die, freeze and move under whole workers. These tests harm a cluster of their own, one after another.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use keylane_consumer::{
    Notice,
    clock::Clock,
    fence::Guards,
    group::{
        Commit, CommitError, Group, GroupEvent, GroupWatch,
        kafka::{Assignor, KafkaGroupReader},
    },
};
use keylane_producer::{
    Offset, Partition,
    kafka::rdkafka::{
        Message, TopicPartitionList,
        consumer::{BaseConsumer, Consumer},
        error::KafkaError,
    },
};
use keylane_testing::kafka::{Cluster, Options, shared};

use crate::rig::{Rig, Running, slow_teller, teller, wait_for};

/// The cluster, and the right to harm it.
struct Turn {
    cluster: &'static Cluster,
    _turn: MutexGuard<'static, ()>,
}

fn my_turn() -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    static OWN: OnceLock<Cluster> = OnceLock::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let cluster = OWN.get_or_init(|| Cluster::start(&Options::new(3)).unwrap());
    cluster.wait_ready().unwrap();
    Turn { cluster, _turn: turn }
}

/// Brokers that stand still, until this is dropped.
struct Frozen {
    cluster: &'static Cluster,
    brokers: Vec<usize>,
}

impl Frozen {
    fn new(cluster: &'static Cluster, brokers: impl IntoIterator<Item = usize>) -> Self {
        let brokers: Vec<usize> = brokers.into_iter().collect();
        brokers.iter().for_each(|&broker| cluster.pause(broker).unwrap());
        Self { cluster, brokers }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.brokers.iter().for_each(|&broker| self.cluster.resume(broker).unwrap());
    }
}

/// A broker that is dead, until this is dropped.
struct Killed(&'static Cluster, usize);

impl Killed {
    fn new(cluster: &'static Cluster, broker: usize) -> Self {
        cluster.kill(broker).unwrap();
        Self(cluster, broker)
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.restart(self.1).unwrap();
    }
}

/// R39, R14: with the coordinator's broker dead, work goes on by itself, and what the group has committed never falls.
#[test]
fn when_the_coordinator_dies_all_flows_again_and_no_offset_goes_back() {
    let turn = my_turn();
    disturbed(turn.cluster, |rig, flows| {
        let dead = Killed::new(turn.cluster, turn.cluster.coordinator(rig.topic()).unwrap());
        println!("the coordinator's broker died: all flows again after {:?}", flows());
        drop(dead);
        println!("it is back: all flows after {:?}", flows());
    });
}

/// R39: an orderly move harms nobody, so it is one of the brokers that all tests share.
#[test]
fn when_the_coordinator_moves_all_flows_again_and_no_offset_goes_back() {
    disturbed(shared(3), |rig, flows| {
        for _ in 0..3 {
            rig.cluster().move_coordinator(rig.topic()).unwrap();
            rig.enqueue_evenly(50);
            println!("the coordinator moved: all flows again after {:?}", flows());
        }
    });
}

/// Two workers under load, disturbed meanwhile; `flows` waits until both go on, and tells how long it took.
fn disturbed(cluster: &'static Cluster, disturb: impl FnOnce(&Rig, &dyn Fn() -> Duration)) {
    let rig = Rig::on(cluster, 6, Assignor::Cooperative, |settings, _| settings.lanes.running = 2);
    rig.enqueue_evenly(200);
    let handler = |name: &str| slow_teller(name, Duration::from_millis(10));
    let workers = [rig.spawn("first", handler("first")), rig.spawn("second", handler("second"))];
    rig.wait_for("they share", || workers.iter().all(|worker| worker.owned() == 3));
    disturb(&rig, &|| flows_again(&rig, &workers));
    rig.enqueue_evenly(1);
    rig.wait_for("all is done and committed", || rig.lag() == 0);
    let jobs: i64 = cluster.list_offsets(rig.topic()).unwrap().iter().map(|bounds| bounds.end).sum();
    assert!(workers.into_iter().all(|worker| worker.end().clean));
    rig.assert_once_in_order(usize::try_from(jobs).unwrap());
    let commits = commits(&rig);
    assert!(commits.len() > 20, "{commits:?}");
    let mut last = BTreeMap::new();
    for (partition, offset) in commits {
        let before = last.insert(partition, offset).unwrap_or(0);
        assert!(before <= offset, "what is committed of partition {partition} fell from {before} to {offset}");
    }
}

/// Until each worker has done something more, or all is done.
fn flows_again(rig: &Rig, workers: &[Running]) -> Duration {
    let start = Clock::boot().now();
    let of = |worker: &str| rig.count(&format!("SELECT count(*) FROM told WHERE worker = '{worker}'"));
    let (first, second, before) = (of("first"), of("second"), rig.told_count());
    rig.wait_for("all flows again", || {
        assert!(!workers.iter().any(Running::is_over), "no worker ends because of it");
        let committed: i64 = rig.committed().unwrap_or_default().values().sum();
        of("first") > first && of("second") > second && committed > i64::try_from(before).unwrap() || rig.lag() == 0
    });
    Clock::boot().now().since(start)
}

/// All that the group ever committed, as it stands in the brokers' own topic. (What a coordinator answers just after its
/// election may be older than that: it knows late what is replicated.)
fn commits(rig: &Rig) -> Vec<(i32, i64)> {
    const TOPIC: &str = "__consumer_offsets";
    let mut config = rig.settings.config();
    config.set("group.id", "looks-at-commits").set("enable.partition.eof", "true").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut all = TopicPartitionList::new();
    let partitions = i32::try_from(rig.cluster().list_offsets(TOPIC).unwrap().len()).unwrap();
    for partition in 0..partitions {
        all.add_partition_offset(TOPIC, partition, keylane_producer::kafka::rdkafka::Offset::Beginning).unwrap();
    }
    consumer.assign(&all).unwrap();
    let (mut found, mut ends) = (Vec::new(), 0);
    wait_for("all of it is read", || {
        while let Some(answer) = consumer.poll(Duration::from_millis(20)) {
            match answer {
                Ok(record) => found.extend(commit_in(rig.topic(), record.key(), record.payload())),
                Err(KafkaError::PartitionEOF(_)) => ends += 1,
                Err(error) => println!("{error}"),
            }
        }
        ends >= partitions
    });
    found
}

/// The key has version, group, topic and partition; the value a version and the offset.
fn commit_in(name: &str, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<(i32, i64)> {
    let (mut key, value) = (key?, value?);
    let mut take = |count: usize| {
        let (taken, rest) = key.split_at_checked(count)?;
        key = rest;
        Some(taken)
    };
    let version = take(2)?;
    if version[1] > 1 {
        return None;
    }
    for _ in 0..2 {
        let length = u16::from_be_bytes(take(2)?.try_into().ok()?);
        if take(usize::from(length))? != name.as_bytes() {
            return None;
        }
    }
    let partition = i32::from_be_bytes(take(4)?.try_into().ok()?);
    Some((partition, i64::from_be_bytes(value.get(2..10)?.try_into().ok()?)))
}

/// A commit that got no answer is neither done nor failed: what became of it is asked.
#[test]
fn a_commit_without_an_answer_has_an_unknown_result_that_is_read_again() {
    let turn = my_turn();
    let rig = Rig::on(turn.cluster, 1, Assignor::Cooperative, |_, _| {});
    let mut member = rig.member("m");
    let control = member.control();
    let mut given = None;
    let mut poll = |given: &mut Option<_>| {
        let answer = member.poll(Duration::from_millis(20), &mut |event| {
            if let GroupEvent::Assigned(assignment) = event {
                *given = Some(assignment);
            }
        });
        assert!(answer.is_ok() || answer.is_err_and(|error| error.is_transient()));
    };
    wait_for("it has the partition", || {
        poll(&mut given);
        given.as_ref().is_some_and(|assignment| !assignment.partitions.is_empty())
    });
    let assignment = given.take().unwrap();
    let commit = |offset| Commit {
        member: assignment.member.clone(),
        generation: assignment.generation,
        offsets: vec![(Partition(0), Offset(offset))],
    };
    control.commit(&commit(1), Duration::from_secs(5)).unwrap();
    let coordinator = turn.cluster.coordinator(rig.topic()).unwrap();
    let frozen = Frozen::new(turn.cluster, [coordinator]);
    let answer = control.commit(&commit(2), Duration::from_millis(500));
    assert!(matches!(answer, Err(CommitError::Unavailable(_))), "{answer:?}");
    drop(frozen);
    let mut read = None;
    wait_for("it can be read again", || {
        poll(&mut given);
        read = control.committed(&[Partition(0)]).ok().and_then(|committed| committed[&Partition(0)]);
        read.is_some()
    });
    println!("the commit without an answer: {read:?} is committed");
    assert!(read == Some(Offset(1)) || read == Some(Offset(2)));
    // As this member if the group kept it, else as what it is by then.
    wait_for("a later commit lands", || {
        poll(&mut given);
        let current = given.as_ref().unwrap_or(&assignment);
        let (member, generation) = (current.member.clone(), current.generation);
        let commit = Commit { member, generation, offsets: vec![(Partition(0), Offset(3))] };
        control.commit(&commit, Duration::from_secs(1)).is_ok()
    });
    assert_eq!(control.committed(&[Partition(0)]).unwrap()[&Partition(0)], Some(Offset(3)));
    control.leave();
}

/// R50: it waits for them. R35: one that is asked to end meanwhile ends, within its bound.
#[test]
fn with_all_brokers_away_a_worker_waits_and_goes_on_by_itself_and_one_that_is_asked_to_end_does() {
    let turn = my_turn();
    let on = |guards| {
        Rig::on(turn.cluster, 4, Assignor::Cooperative, move |settings, _| {
            settings.lanes.running = 2;
            settings.guards = guards;
        })
    };
    let (rig, other) = (on(Guards::default()), on(Guards::default()));
    // The twin: it neither looks at its clock nor listens to its client.
    let twin = on(Guards { deadline: false, let_go: false, ..Guards::default() });
    let each = Duration::from_millis(20);
    [&rig, &other].iter().for_each(|rig| rig.enqueue_evenly(300));
    // More than it can do in this test.
    twin.enqueue_evenly(2_000);
    let (stays, ends) =
        (rig.spawn("stays", slow_teller("stays", each)), other.spawn("ends", slow_teller("ends", each)));
    rig.wait_for("both work", || rig.told_count() > 20 && other.told_count() > 20);
    let unguarded = twin.spawn("unguarded", slow_teller("unguarded", each));
    twin.wait_for("it works", || unguarded.owned() == 4 && twin.told_count() > 20);
    let mut watch = KafkaGroupReader::open(&rig.settings, &rig.queue, &rig.group_name()).unwrap();
    assert_eq!(watch.overview().unwrap().members.len(), 1);
    let away = Frozen::new(turn.cluster, 0..3);
    let halted = |notice: &Notice| matches!(notice, Notice::Halted(_));
    rig.wait_for("both stop admitting", || stays.noticed(halted) > 0 && ends.noticed(halted) > 0);
    rig.wait_for("it says so", || stays.noticed(|notice| matches!(notice, Notice::Away { .. })) > 0);
    let (stood, went) = (rig.told_count(), twin.told_count());
    twin.wait_for("without its guards it goes on", || twin.told_count() > went + 20);
    assert_eq!(rig.told_count(), stood);
    unguarded.end();
    // R46: what cannot be asked is unknown, and not a group without members and lag.
    let unknown = watch.overview().unwrap_err();
    assert!(unknown.is_transient(), "{unknown:?}");

    let asked = Clock::boot().now();
    let summary = ends.end();
    let took = Clock::boot().now().since(asked);
    println!("asked to end without brokers: {took:?}, {summary:?}");
    // The drain, the last acts, the client's goodbye; and a busy machine.
    assert!(took < Duration::from_secs(4 + 5 + 5 + 10), "it took {took:?}");
    assert!(!stays.is_over());

    drop(away);
    let total = 4 * 300;
    rig.wait_for("all jobs", || rig.told_count() == total);
    rig.wait_for("all is committed", || rig.lag() == 0);
    assert!(stays.end().clean);
    rig.assert_once_in_order(total);
    // What the other one left is done by the next.
    let next = other.spawn("next", teller("next"));
    other.wait_for("all jobs", || other.told_count() == total);
    assert!(next.end().clean);
    other.assert_once_in_order(total);
}
