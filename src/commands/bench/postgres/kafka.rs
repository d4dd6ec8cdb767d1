//! End to end: jobs on a topic of the brokers that `--broker` names, effects in the database.

use super::{
    super::{
        kafka::{noop::work, topic::Topic},
        measure::Spread,
        row::Row,
    },
    Bench,
    worker::upsert,
};
use crate::{cli::BrokerUrl, exit::Failure};

const WHAT: &str = "a whole worker, an upsert a job, Kafka in";

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    if !matches!(bench.global.broker, BrokerUrl::Kafka(_)) {
        return Ok(vec![Row::unmeasured("kafka", WHAT, "jobs/s", "-", "--broker is not kafka://")]);
    }
    let count = bench.args.jobs;
    let mut topic = Topic::make(bench.global, &bench.place)?;
    bench.progress.say(&format!("putting {count} jobs on a topic"));
    topic.fill(&bench.jobs, count)?;
    bench.progress.say("a whole worker, Kafka in and Postgres out");
    let (mut rates, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..bench.args.rounds {
        bench.site.empty("ledger")?;
        let group = bench.site.fresh_group()?;
        let worked = work(&mut topic, count, group, bench.site.store.clone(), upsert(bench))?;
        rates.push(worked.jobs_a_second);
        cpu.push(worked.cpu_seconds_a_million);
    }
    Ok(vec![
        Row::alone("kafka", WHAT, "jobs/s", Spread::of(rates)),
        Row::alone("kafka", "its processor time of a million", "s", Spread::of(cpu)),
    ])
}
