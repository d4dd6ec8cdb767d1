//! The broker dies that is the coordinator of the workers' group. Until another one is, nobody can prove that it owns what it
//! owns; the session that a worker has by default is longer than that takes.
//!
//! Each partition has a producer of its own, since those whose leader died with the coordinator hold theirs up.

use std::{process::Command, time::Duration};

use super::{Feed, Scene};
use crate::{
    commands::bench::{
        kafka::Bench,
        measure::Spread,
        row::{Aim, Row},
    },
    exit::{Code, Failure},
};

const WHAT: &str = "the latest job of a partition that stays, the coordinator's broker dies, session of 15 s";
/// The default.
const SESSION: Duration = Duration::from_secs(15);
/// The dead one's partitions have other leaders, and the group another coordinator.
const OVER: Duration = Duration::from_secs(20);

pub(super) fn measure(bench: &Bench<'_>) -> Result<Row, Failure> {
    let Some(program) = &bench.args.end_coordinator else {
        return Ok(Row::unmeasured("moves", WHAT, "s", "-", "no --end-coordinator"));
    };
    let failed = |error: std::io::Error| {
        Failure::new(Code::Unavailable, format!("cannot run '{}'", program.display())).because(&error)
    };
    let mut latest = Vec::new();
    for round in 0..bench.args.rounds {
        bench.progress.say(&format!("the coordinator dies: round {} of {}", round + 1, bench.args.rounds));
        let mut scene = Scene::begin(bench, SESSION, Feed::Apart)?;
        let (a, b) = (scene.start()?, scene.start()?);
        scene.settle(&[a, b])?;
        let from = scene.now();
        let status = Command::new(program).arg(scene.topic.global.group.as_str()).status().map_err(failed)?;
        if !status.success() {
            return Err(Failure::new(Code::Failed, format!("'{}' failed: {status}", program.display())));
        }
        let over = scene.now().plus(OVER);
        scene.wait("the brokers have settled", |_, now| now >= over)?;
        scene.settle(&[a, b])?;
        latest.push(scene.latest_of_those_that_stayed(from));
    }
    Ok(Row::alone("moves", WHAT, "s", Spread::of(latest)).aiming(Aim::OursBelow(0.05)))
}
