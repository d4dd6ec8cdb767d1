//! A whole worker whose handler does nothing, against what the client library does alone: a poll loop that reads the same
//! topic in a group and commits once a second.

use std::{sync::Arc, time::Duration};

use keylane_consumer::{
    FencedStore, Handler, Parts, Worker, WorkerSettings,
    clock::Clock,
    group::kafka::{KafkaGroup, KafkaGroupSettings},
    store::sqlite::SqliteStore,
};
use keylane_producer::{
    GroupName,
    kafka::{
        KafkaContext,
        rdkafka::consumer::{BaseConsumer, CommitMode, Consumer},
    },
    log::kafka::KafkaLog,
};

use super::{
    super::{
        desk::Answering,
        measure::{Pair, Spread, cpu_seconds, side_by_side},
        noop::nothing,
        observed::{Observed, Watch},
        queue::{Worked, worked},
        row::{Aim, Row},
    },
    Bench, Topic,
};
use crate::exit::{Code, Failure};

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let (count, rounds) = (bench.args.jobs, bench.args.rounds);
    let mut topic = bench.topic()?;
    bench.progress.say(&format!("putting {count} jobs on a topic"));
    topic.fill(&bench.jobs, count)?;
    let topic = std::cell::RefCell::new(topic);
    bench.progress.say("jobs that do nothing, against a bare poll loop");
    let unfenced = || {
        let store = Answering { claims: SqliteStore::new(topic.borrow().fresh_store()) };
        work(&mut topic.borrow_mut(), count, fresh_group()?, store, nothing)
    };
    let bare = || poll_loop(&topic.borrow(), count);
    let plain = side_by_side(rounds, unfenced, bare)?;
    bench.progress.say("the same with fence and markers, against the same without");
    let fenced = || {
        let store = SqliteStore::new(topic.borrow().fresh_store());
        work(&mut topic.borrow_mut(), count, fresh_group()?, store, nothing)
    };
    let with_fence = side_by_side(rounds, fenced, unfenced)?;

    let pair = |rounds: &[(Worked, Worked)], of: fn(&Worked) -> f64| {
        Pair::of(&rounds.iter().map(|(ours, theirs)| (of(ours), of(theirs))).collect::<Vec<_>>())
    };
    let rate = |worked: &Worked| worked.jobs_a_second;
    let cpu = |worked: &Worked| worked.cpu_seconds_a_million;
    let fence_cpu = Spread::of(with_fence.iter().map(|(fenced, _)| fenced.cpu_seconds_a_million));
    Ok(vec![
        Row::pair("noop", "jobs that do nothing, no store", "jobs/s", "bare poll loop", pair(&plain, rate))
            .aiming(Aim::RatioAtLeast(0.9)),
        Row::pair("noop", "processor time of a million of them", "s", "bare poll loop", pair(&plain, cpu)),
        Row::pair("noop", "the same, fenced in SQLite", "jobs/s", "no store", pair(&with_fence, rate)),
        Row::alone("noop", "processor time of a million of them", "s", fence_cpu),
    ])
}

/// A worker for the whole topic, in a group that nobody was ever in.
pub(in super::super) fn work<S: FencedStore, H: Handler<S>>(
    topic: &mut Topic,
    count: u64,
    group_name: GroupName,
    store: S,
    handler: H,
) -> Result<Worked, Failure> {
    let watch = Watch::until(topic.ends()?);
    let group = KafkaGroup::open(&topic.settings, topic.identity(), &group_name, &KafkaGroupSettings::default())?;
    let mut settings = WorkerSettings::named("bench");
    settings.until_empty = true;
    let parts = Parts {
        queue: topic.identity().clone(),
        group_name,
        group: Box::new(Observed { group, watch: Arc::clone(&watch) }),
        log: Box::new(KafkaLog::open(topic.settings.clone())?),
        store,
        handler,
        clock: Clock::boot(),
    };
    let summary = Worker::new(settings, parts)?.run(|_| {})?;
    if !summary.clean || summary.keys_left > 0 {
        return Err(Failure::new(Code::Failed, "the worker left jobs behind: its figure would say nothing"));
    }
    worked(&watch, count)
}

/// From the first record to the commit after the last.
fn poll_loop(topic: &Topic, count: u64) -> Result<Worked, Failure> {
    let mut config = topic.settings.config();
    for (name, value) in [
        ("group.id", fresh_group()?.as_str()),
        ("enable.auto.commit", "true"),
        ("auto.commit.interval.ms", "1000"),
        ("auto.offset.reset", "earliest"),
        // As our own member has it: with the default the loop stands still for a second whenever its queue is full.
        ("fetch.queue.backoff.ms", "5"),
        ("isolation.level", "read_committed"),
        ("check.crcs", "true"),
    ] {
        config.set(name, value);
    }
    let failed =
        |error| Failure::from(KafkaContext::new(topic.settings.clone()).explain("the poll loop failed", &error));
    let consumer: BaseConsumer<KafkaContext> =
        config.create_with_context(KafkaContext::new(topic.settings.clone())).map_err(failed)?;
    consumer.subscribe(&[topic.global.queue.as_str()]).map_err(failed)?;
    let clock = Clock::boot();
    let (mut seen, mut begun) = (0, None);
    let started = clock.now();
    while seen < count {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            message.map_err(failed)?;
            begun.get_or_insert_with(|| (clock.now(), cpu_seconds()));
            seen += 1;
        } else if clock.now().since(started) > Duration::from_secs(300) {
            return Err(Failure::new(Code::Unavailable, "the poll loop did not get on"));
        }
    }
    consumer.commit_consumer_state(CommitMode::Sync).map_err(failed)?;
    let (at, cpu) = begun.unwrap_or((started, 0.0));
    Ok(Worked {
        jobs_a_second: count as f64 / clock.now().since(at).as_secs_f64(),
        cpu_seconds_a_million: (cpu_seconds() - cpu) / count as f64 * 1e6,
    })
}

pub(super) fn fresh_group() -> Result<GroupName, Failure> {
    Ok(format!("keylane-bench-{}", ulid::Ulid::generate()).parse()?)
}
