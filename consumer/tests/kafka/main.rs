//! The group's adapter and whole workers on a real Kafka.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod anew;
mod brokers;
mod fence;
mod fetched;
mod frozen;
mod gaps;
mod growth;
mod handover;
mod hold;
mod memory;
mod panics;
mod rig;
mod running;
mod suite;
mod zombie;
