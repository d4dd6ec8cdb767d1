//! `keylane work` as real processes on the embedded engine: killed, frozen, starved of their files, and judged by what is
//! left in log and store.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

#[path = "processes/crew.rs"]
mod crew;
#[path = "processes/fleet.rs"]
mod fleet;
#[path = "processes/journal.rs"]
mod journal;

#[path = "processes/answers.rs"]
mod answers;
#[path = "processes/chaos.rs"]
mod chaos;
#[path = "processes/endings.rs"]
mod endings;
#[path = "processes/frozen.rs"]
mod frozen;
#[path = "processes/killer.rs"]
mod killer;
#[path = "processes/persons.rs"]
mod persons;
#[path = "processes/storage.rs"]
mod storage;
