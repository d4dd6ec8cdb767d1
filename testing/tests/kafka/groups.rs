//! Consumer groups.

use keylane_testing::kafka::{Claim, Committed, Outcome, shared};
use rdkafka::consumer::{BaseConsumer, Consumer};

use super::client::{config, wait_for};

/// A member that has joined, and is polled by `wait_for`'s condition only.
fn member(bootstrap: &str, group: &str, topic: &str) -> BaseConsumer {
    let mut config = config(bootstrap);
    config.set("group.id", group).set("client.id", "seen").set("enable.auto.commit", "false");
    let member: BaseConsumer = config.create().unwrap();
    member.subscribe(&[topic]).unwrap();
    wait_for("an assignment", || {
        let _ = member.poll(std::time::Duration::from_millis(50));
        member.assignment().unwrap().count() > 0
    });
    member
}

#[test]
fn a_group_is_described_and_its_generation_is_checked() {
    let cluster = shared(3);
    cluster.create_topic("grouped", 2, &[]).unwrap();
    assert_eq!(cluster.describe_group("workers").unwrap().state, "Dead");

    let consumer = member(cluster.bootstrap(), "workers", "grouped");
    let group = cluster.describe_group("workers").unwrap();
    assert_eq!((group.state.as_str(), group.generation, group.members.len()), ("Stable", Some(1), 1));
    let mut partitions = group.members[0].partitions.clone();
    partitions.sort();
    assert_eq!(partitions, [("grouped".to_owned(), 0), ("grouped".to_owned(), 1)]);
    assert_eq!(group.members[0].client_id, "seen");

    let owner = Claim { group: "workers", generation: 1, member: &group.members[0].id };
    let offset = |offset| [Committed { topic: "grouped".into(), partition: 1, offset }];
    let plain = |claim, at| cluster.commit_offsets(claim, &offset(at)).unwrap();
    let in_transaction = |claim, at| cluster.commit_offsets_in_transaction("tx", claim, &offset(at)).unwrap();
    assert_eq!(plain(owner, 5), Outcome::Accepted);
    assert_eq!(plain(Claim { generation: 0, ..owner }, 6), Outcome::Refused("ILLEGAL_GENERATION".into()));
    assert_eq!(plain(Claim { member: "nobody", ..owner }, 6), Outcome::Refused("UNKNOWN_MEMBER_ID".into()));
    assert_eq!(cluster.committed_offsets("workers").unwrap(), offset(5));

    assert_eq!(in_transaction(owner, 7), Outcome::Accepted);
    let refused = in_transaction(Claim { generation: 0, ..owner }, 8);
    assert!(matches!(&refused, Outcome::Refused(why) if why.contains("CommitFailedException")), "{refused:?}");
    assert_eq!(cluster.committed_offsets("workers").unwrap(), offset(7));

    assert!(cluster.delete_group("workers").unwrap_err().to_string().contains("GroupNotEmptyException"));
    drop(consumer);
    wait_for("an empty group", || cluster.describe_group("workers").unwrap().state == "Empty");
    let outside = Claim { generation: -1, member: "", ..owner };
    assert_eq!(plain(outside, 1), Outcome::Accepted);
    cluster.delete_group("workers").unwrap();
    assert_eq!(cluster.describe_group("workers").unwrap().state, "Dead");
}

#[test]
fn a_groups_coordinator_moves_and_the_group_stays() {
    let cluster = shared(3);
    cluster.create_topic("moving", 1, &[]).unwrap();
    let from = cluster.coordinator("movers").unwrap();
    let consumer = member(cluster.bootstrap(), "movers", "moving");
    let to = cluster.move_coordinator("movers").unwrap();
    assert_ne!(from, to);
    assert_eq!(cluster.coordinator("movers").unwrap(), to);
    let group = cluster.describe_group("movers").unwrap();
    assert_eq!((group.state.as_str(), group.generation), ("Stable", Some(1)));
    assert_ne!(cluster.move_coordinator("movers").unwrap(), to);
    drop(consumer);
}

/// The brokers take the hash's absolute value, not its lower bits: these two differ for this name.
#[test]
fn the_coordinator_of_a_group_whose_hash_is_negative_moves_too() {
    let cluster = shared(3);
    let from = cluster.coordinator("movers-0").unwrap();
    assert_ne!(cluster.move_coordinator("movers-0").unwrap(), from);
}

#[test]
fn one_broker_has_nowhere_to_move_a_coordinator() {
    let refusal = shared(1).move_coordinator("alone").unwrap_err().to_string();
    assert!(refusal.contains("no other replica"), "{refusal}");
}
