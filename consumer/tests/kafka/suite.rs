//! The suite of the port, with both assignors; and with the adapter's guard taken away.

use std::time::Duration;

use keylane_consumer::{
    clock::Clock,
    group::{
        Group,
        conformance::{self, Bench},
        kafka::{Assignor, KafkaGroup, KafkaGroupSettings},
    },
};
use keylane_producer::{
    GroupName, Log, Offset, Partition, PartitionCount, QueueIdentity, QueueSpec, Record, Timestamp,
    kafka::KafkaSettings, log::kafka::KafkaLog,
};
use keylane_testing::kafka::shared;

/// A queue of its own on the brokers that all tests of this file share.
struct Topic {
    settings: KafkaSettings,
    queue: QueueIdentity,
    behaviour: KafkaGroupSettings,
    guarded: bool,
}

impl Topic {
    fn new(partitions: u32, assignor: Assignor) -> Self {
        let settings = KafkaSettings::new(shared(3).bootstrap().parse().unwrap());
        let name = format!("group-{}", ulid::Ulid::generate()).parse().unwrap();
        let partitions = partitions.to_string().parse::<PartitionCount>().unwrap();
        let mut log = KafkaLog::open(settings.clone()).unwrap();
        let queue = log.create(&QueueSpec::new(name, partitions)).unwrap();
        let behaviour = KafkaGroupSettings {
            session_timeout: Duration::from_secs(4),
            rebalance_timeout: Duration::from_secs(12),
            heartbeat_interval: Duration::from_millis(200),
            assignor,
            ..KafkaGroupSettings::default()
        };
        Self { settings, queue, behaviour, guarded: true }
    }
}

impl Bench for Topic {
    type Member = KafkaGroup;

    fn open(&self) -> KafkaGroup {
        // One group for each queue.
        let group: GroupName = self.queue.name.as_str().parse().unwrap();
        let member = KafkaGroup::open(&self.settings, &self.queue, &group, &self.behaviour).unwrap();
        if self.guarded { member } else { member.unguarded() }
    }

    fn append(&self, partition: Partition, count: usize) -> Vec<Offset> {
        let record =
            Record { key: Some("k".into()), value: Some("v".into()), headers: Vec::new(), timestamp: Timestamp::now() };
        let mut log = KafkaLog::open(self.settings.clone()).unwrap();
        let receipts = log.append(&self.queue, vec![(partition, record); count], None).unwrap();
        receipts.into_iter().map(|receipt| receipt.offset).collect()
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }

    fn session_timeout(&self) -> Duration {
        self.behaviour.session_timeout
    }
}

mod cooperative {
    use super::*;

    keylane_consumer::group_conformance!(|partitions| Topic::new(partitions, Assignor::Cooperative));
}

mod eager {
    use super::*;

    keylane_consumer::group_conformance!(|partitions| Topic::new(partitions, Assignor::Eager));
}

/// R42: nobody goes on polling a client that is dead.
#[test]
fn a_fatal_error_of_the_client_ends_its_member() {
    let mut member = Topic::new(1, Assignor::Cooperative).open();
    member.poll(Duration::ZERO, &mut |_| {}).unwrap();
    member.fail_for_good("as if an instance were fenced");
    let clock = Clock::boot();
    let until = clock.now().plus(Duration::from_secs(30));
    let error = loop {
        match member.poll(Duration::from_millis(50), &mut |_| {}) {
            Err(error) if !error.is_transient() => break error,
            _ => assert!(clock.now() < until, "it polls on"),
        }
    };
    let text = error.detail().chain();
    assert!(text.contains("cannot go on") && text.contains("as if an instance were fenced"), "{text}");
}

/// Librdkafka sends a commit with the number that it has, not with the one it was earned in.
mod without_the_comparison {
    use super::*;

    fn unguarded(partitions: u32) -> Topic {
        Topic { guarded: false, ..Topic::new(partitions, Assignor::Cooperative) }
    }

    #[test]
    #[should_panic(expected = "a stale commit landed")]
    fn a_stale_generation_commits() {
        conformance::a_stale_generation_cannot_commit(unguarded);
    }

    #[test]
    #[should_panic(expected = "a commit for another landed")]
    fn a_member_commits_for_another() {
        conformance::a_member_cannot_commit_for_a_partition_that_it_does_not_hold(unguarded);
    }

    #[test]
    #[should_panic(expected = "a stale commit landed")]
    fn a_former_self_commits() {
        conformance::a_former_self_cannot_commit(unguarded);
    }
}
