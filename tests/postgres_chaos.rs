//! Real workers and persons on a real Postgres: jobs that fail, workers that are killed, frozen and ended, keys that are paused,
//! jobs that are skipped, lines and dead letters that are replayed, all at random.
//!
//! `KEYLANE_SEED=n` plays one seed; `KEYLANE_SOAK=rounds` plays that many, from that seed on.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "processes/crew.rs"]
mod crew;
#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "processes/fleet.rs"]
mod fleet;
#[allow(dead_code, reason = "each test file uses a part of it")]
#[path = "processes/journal.rs"]
mod journal;
#[path = "processes/persons.rs"]
mod persons;
#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use fleet::Fleet;
use keylane_testing::postgres::shared;

#[test]
fn whatever_jobs_workers_and_persons_do_on_postgres_each_job_lands_once_and_keys_keep_their_order() {
    persons::play_all("2s", 2, |options| Fleet::on_postgres(shared(), 6, options));
}
