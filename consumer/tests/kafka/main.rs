//! The group's adapter on a real Kafka.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod suite;
