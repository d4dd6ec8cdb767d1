//! The group's adapter on a real Kafka.

mod suite;
