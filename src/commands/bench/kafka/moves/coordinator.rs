//! The broker dies that is the coordinator of the workers' group. Until another one is, nobody can prove that it owns what it
//! owns; the session that a worker has by default is longer than that takes.
//!
//! A partition whose leader died with it waits for another leader, whatever a worker does; so those are told apart from the others.
//!
//! Each partition has a producer of its own, since those whose leader died with the coordinator hold theirs up.

use std::{collections::BTreeMap, process::Command, time::Duration};

use keylane_producer::kafka::{
    KafkaContext,
    rdkafka::{
        consumer::{BaseConsumer, Consumer},
        metadata::MetadataTopic,
    },
};

use super::{Feed, PATIENCE, Scene, Topic};
use crate::{
    commands::bench::{
        kafka::Bench,
        measure::Spread,
        row::{Aim, Row},
    },
    exit::{Code, Failure},
};

const WHAT: &str = "the latest job of a partition that stays, the coordinator's broker dies, session of 15 s";
const ORPHANS: &str = "the same, of partitions whose leader died with it";
/// The default.
const SESSION: Duration = Duration::from_secs(15);
/// Between two jobs of a partition.
const PACE: Duration = Duration::from_millis(50);
/// Between rounds: the program starts it again.
const BACK: Duration = Duration::from_secs(40);
/// The dead one's partitions have other leaders, and the group another coordinator.
const OVER: Duration = Duration::from_secs(20);

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let Some(program) = &bench.args.end_coordinator else {
        return Ok(vec![Row::unmeasured("moves", WHAT, "s", "-", "no --end-coordinator")]);
    };
    let failed = |error: std::io::Error| {
        Failure::new(Code::Unavailable, format!("cannot run '{}'", program.display())).because(&error)
    };
    let (mut latest, mut latest_orphans) = (Vec::new(), Vec::new());
    for round in 0..bench.args.rounds {
        bench.progress.say(&format!("the coordinator dies: round {} of {}", round + 1, bench.args.rounds));
        let mut scene = Scene::begin(bench, SESSION, Feed::Apart(PACE))?;
        let (a, b) = (scene.start()?, scene.start()?);
        scene.settle(&[a, b])?;
        let before = leaders(&scene.topic)?;
        let from = scene.now();
        let status = Command::new(program).arg(scene.topic.global.group.as_str()).status().map_err(failed)?;
        if !status.success() {
            return Err(Failure::new(Code::Failed, format!("'{}' failed: {status}", program.display())));
        }
        let over = scene.now().plus(OVER);
        scene.wait("the brokers have settled", |_, now| now >= over)?;
        let after = leaders(&scene.topic)?;
        scene.settle(&[a, b])?;
        let lates = scene.latest_of_each_that_stayed(from);
        let orphaned = |partition: &u32| before.get(partition) != after.get(partition);
        let of = |orphans: bool| lates.iter().filter(move |(p, _)| orphaned(p) == orphans).map(|(_, &late)| late);
        latest.push(of(false).fold(0.0, f64::max));
        latest_orphans.push(of(true).fold(0.0, f64::max));
        bench.progress.say(&format!("stayed: {} of 12, leader lost: {}", lates.len(), of(true).count()));
        drop(scene);
        // The next round begins with all brokers.
        std::thread::park_timeout(BACK);
    }
    Ok(vec![
        Row::alone("moves", WHAT, "s", Spread::of(latest)).aiming(Aim::OursBelow(0.05)),
        Row::alone("moves", ORPHANS, "s", Spread::of(latest_orphans)),
    ])
}

/// The broker that leads each partition.
fn leaders(topic: &Topic) -> Result<BTreeMap<u32, i32>, Failure> {
    let context = || KafkaContext::new(topic.settings.clone());
    let failed = |error| Failure::from(context().explain("cannot ask who leads the partitions", &error));
    let client: BaseConsumer<KafkaContext> = topic.settings.config().create_with_context(context()).map_err(failed)?;
    let seen = client.fetch_metadata(Some(topic.global.queue.as_str()), PATIENCE).map_err(failed)?;
    let partitions = seen.topics().iter().flat_map(MetadataTopic::partitions);
    Ok(partitions.map(|partition| (partition.id().unsigned_abs(), partition.leader())).collect())
}
