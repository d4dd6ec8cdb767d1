//! The group's adapter and whole workers on a real Kafka.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod fence;
mod handover;
mod rig;
mod suite;
mod zombie;
