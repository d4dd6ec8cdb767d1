//! The cluster that tests get is a real one, and each function does what it says.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use keylane_testing::kafka::{Cluster, Options, shared};
use std::time::Duration;

use rdkafka::{
    ClientConfig,
    consumer::{BaseConsumer, Consumer},
};

fn brokers_seen(bootstrap: &str) -> usize {
    let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap();
    client.fetch_metadata(None, Duration::from_secs(30)).unwrap().brokers().len()
}

#[test]
fn three_brokers_answer_each_by_itself() {
    let cluster = shared(3);
    for address in cluster.bootstrap().split(',') {
        assert_eq!(brokers_seen(address), 3);
    }
}

#[test]
fn a_topic_is_there_when_its_creation_returns() {
    let cluster = shared(3);
    cluster.create_topic("created", 6, &[("cleanup.policy", "compact")]).unwrap();
    for address in cluster.bootstrap().split(',') {
        let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", address).create().unwrap();
        let seen = client.fetch_metadata(Some("created"), Duration::from_secs(30)).unwrap();
        let partitions = seen.topics()[0].partitions();
        assert_eq!(partitions.len(), 6);
        assert!(partitions.iter().all(|p| p.error().is_none() && p.replicas().len() == 3));
    }
}

#[test]
fn a_broker_is_killed_paused_and_brought_back() {
    let cluster = Cluster::start(&Options::new(3)).unwrap();
    cluster.create_topic("jobs", 3, &[]).unwrap();
    let start = std::time::SystemTime::now();
    cluster.kill(1).unwrap();
    assert!(cluster.wait_ready().is_err());
    cluster.restart(1).unwrap();
    println!("restart {:?}", start.elapsed());
    cluster.pause(2).unwrap();
    assert!(cluster.wait_ready().is_err());
    cluster.resume(2).unwrap();
    cluster.wait_ready().unwrap();
    println!("all {:?}", start.elapsed());
}

#[test]
fn one_broker_is_a_cluster_too() {
    let start = std::time::SystemTime::now();
    let cluster = shared(1);
    println!("start {:?}", start.elapsed());
    assert_eq!(brokers_seen(cluster.bootstrap()), 1);
    cluster.create_topic("alone", 1, &[]).unwrap();
}
