//! What one would take instead of Keylane: programs that do the same work their way and print a line of JSON with
//! `jobs_per_s`. They are not ours, so they are named by a folder; without it the figures are not measured.

use std::{path::Path, process::Command};

use keylane_consumer::{FencedStore, store::postgres::PostgresStore};
use serde::Deserialize;

use super::{
    super::{
        measure::{Pair, side_by_side},
        queue::Worked,
        row::{Aim, Row},
    },
    Bench,
    worker::{Effects, markers, upserts},
};
use crate::exit::{Code, Failure};

/// One of them.
struct Peer {
    program: &'static str,
    args: &'static [&'static str],
    /// How many jobs take it some seconds.
    jobs: u64,
    place: Where,
    what: &'static str,
    aim: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// The same database: a table of its own there, the same upsert for each job.
    Postgres,
    /// Redis: a lease for each job and no effect, so ours has none either.
    Redis,
}

const PEERS: [Peer; 4] = [
    Peer {
        program: "pg_skip_locked",
        args: &["workers=16", "keys=10000", "order=key"],
        jobs: 6_000,
        place: Where::Postgres,
        what: "SKIP LOCKED, order of a key, 16 connections",
        aim: 20.0,
    },
    Peer {
        program: "pg_lease",
        args: &["workers=16", "keys=10000"],
        jobs: 4_000,
        place: Where::Postgres,
        what: "a lease row a job, no queue, 16 connections",
        aim: 20.0,
    },
    Peer {
        program: "redis_lease",
        args: &["workers=16", "keys=10000", "connection=own"],
        jobs: 60_000,
        place: Where::Redis,
        what: "a Redis lease a job, no queue, 16 connections",
        aim: 5.0,
    },
    Peer {
        program: "redis_lease",
        args: &["workers=100", "keys=10000", "connection=shared"],
        jobs: 100_000,
        place: Where::Redis,
        what: "a Redis lease a job, no queue, 100 workers on one connection",
        aim: 5.0,
    },
];

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    PEERS.iter().map(|peer| against(bench, peer)).collect()
}

fn against(bench: &Bench<'_>, peer: &Peer) -> Result<Row, Failure> {
    let ours = match peer.place {
        Where::Postgres => "a whole worker, an upsert a job as a statement, SQLite in",
        Where::Redis => "a whole worker, markers only, SQLite in",
    };
    let unmeasured = |why| Ok(Row::unmeasured("peers", ours, "jobs/s", peer.what, why));
    let Some(folder) = &bench.args.peers else { return unmeasured("no --peers") };
    let place = match (peer.place, &bench.args.redis) {
        (Where::Postgres, _) => format!("pg={}", bench.site.address_for_peers()),
        (Where::Redis, Some(url)) => format!("redis={url}"),
        (Where::Redis, None) => return unmeasured("no --redis"),
    };
    bench.progress.say(&format!("a whole worker, against {}", peer.what));
    let count = bench.args.jobs;
    let rate = |worked: Worked| worked.jobs_a_second;
    let work = || match peer.place {
        Where::Postgres => upserts(bench, count, PostgresStore::CONNECTIONS, Effects::Statements).map(rate),
        Where::Redis => markers(bench, count).map(rate),
    };
    let theirs = || run(folder, peer, &place, peer.jobs.min(count));
    let seen = side_by_side(bench.args.rounds, work, theirs)?;
    Ok(Row::pair("peers", ours, "jobs/s", peer.what, Pair::of(&seen)).aiming(Aim::RatioAtLeast(peer.aim)))
}

/// What all of them print, as far as it counts here.
#[derive(Deserialize)]
struct Line {
    jobs_per_s: f64,
}

fn run(folder: &Path, peer: &Peer, place: &str, jobs: u64) -> Result<f64, Failure> {
    let program = folder.join(peer.program);
    let failed = |why: &(dyn std::error::Error + 'static)| {
        Failure::new(Code::Unavailable, format!("cannot run '{}'", program.display())).because(why)
    };
    let mut command = Command::new(&program);
    command.arg(place).arg(format!("jobs={jobs}")).arg("work_ms=0").args(peer.args);
    let output = command.output().map_err(|error| failed(&error).remedy("name the folder of the peers' programs"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::new(Code::Failed, format!("'{}' failed: {said}", program.display())));
    }
    let line: Line = serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))?;
    Ok(line.jobs_per_s)
}
