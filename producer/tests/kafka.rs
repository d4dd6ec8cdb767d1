//! The log's adapter on a real Kafka: the suite of the port, and what only Kafka can do.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use keylane_producer::{
    Log,
    kafka::KafkaSettings,
    log::{conformance::Broker, kafka::KafkaLog},
};
use keylane_testing::kafka::shared;

/// Three brokers, for all tests of this file.
struct Kafka;

impl Broker for Kafka {
    fn open(&self) -> Box<dyn Log> {
        Box::new(KafkaLog::open(settings()).unwrap())
    }
}

fn settings() -> KafkaSettings {
    KafkaSettings::new(shared(3).bootstrap().parse().unwrap())
}

mod suite {
    keylane_producer::log_conformance!(super::Kafka);
}
