//! Our side: a worker in a process of its own, which prints what programs on the other side print.

use std::{
    io::Write as _,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keylane_consumer::{
    JobContext, Outcome, Parts, Worker, WorkerSettings,
    clock::{BootTime, Clock},
    group::kafka::{KafkaGroup, KafkaGroupSettings},
    store::sqlite::SqliteStore,
};
use keylane_producer::{Log as _, log::kafka::KafkaLog};

use super::{Line, timer::Timers};
use crate::{
    cli::{BrokerUrl, Global, KafkaWorkerArgs, StoreUrl},
    commands::bench::{measure::cpu_seconds, memory::read_memory},
    exit::{Code, Failure},
};

/// What is measured, from within the handler.
struct Measured {
    clock: Clock,
    timers: Timers,
    wait: Duration,
    warmup: u64,
    end: u64,
    done: AtomicU64,
    from: OnceLock<Moment>,
    to: OnceLock<Moment>,
    waited: Mutex<Duration>,
}

struct Moment {
    at: BootTime,
    cpu: f64,
}

impl Measured {
    fn now(&self) -> Moment {
        Moment { at: self.clock.now(), cpu: cpu_seconds() }
    }

    async fn job(&self) {
        if !self.wait.is_zero() {
            let begun = self.clock.now();
            if self.timers.wait(self.wait).await.is_err() {
                return;
            }
            let waited = self.clock.now().since(begun);
            *self.waited.lock().unwrap_or_else(PoisonError::into_inner) += waited;
        }
        let done = self.done.fetch_add(1, Ordering::AcqRel) + 1;
        if done == self.warmup {
            self.from.get_or_init(|| self.now());
        }
        if done == self.end {
            self.to.get_or_init(|| self.now());
        }
    }

    fn line(&self) -> Option<Line> {
        let (from, to) = (self.from.get()?, self.to.get()?);
        let jobs = (self.end - self.warmup) as f64;
        let waited = self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Line {
            jobs_per_s: jobs / to.at.since(from.at).as_secs_f64(),
            cpu_us_per_job: (to.cpu - from.cpu) / jobs * 1e6,
            max_rss_mib: read_memory(std::process::id())?.most,
            work_ms_real: Some(waited.as_secs_f64() * 1e3 / self.end as f64),
        })
    }
}

pub(in super::super::super) fn work(args: &KafkaWorkerArgs, global: &Global) -> Result<Code, Failure> {
    let (BrokerUrl::Kafka(servers), StoreUrl::Sqlite(store)) = (&global.broker, global.store()?) else {
        return Err(Failure::new(Code::Usage, "the bench's worker needs brokers, and a file as its store"));
    };
    let settings = global.kafka(servers)?;
    let mut log = KafkaLog::open(settings.clone())?;
    let queue = log.describe(&global.queue)?.identity;
    let measured = Arc::new(Measured {
        clock: Clock::boot(),
        timers: Timers::default(),
        wait: Duration::from_millis(args.wait),
        warmup: args.warmup,
        end: args.warmup + args.jobs,
        done: AtomicU64::new(0),
        from: OnceLock::new(),
        to: OnceLock::new(),
        waited: Mutex::default(),
    });
    let of_handler = Arc::clone(&measured);
    let handler = move |_: JobContext| {
        let measured = Arc::clone(&of_handler);
        async move {
            measured.job().await;
            Outcome::done()
        }
    };
    let group = KafkaGroup::open(&settings, &queue, &global.group, &KafkaGroupSettings::default())?;
    let mut behaviour = WorkerSettings::named("bench");
    behaviour.until_empty = true;
    behaviour.lanes.running = args.running;
    let parts = Parts {
        queue,
        group_name: global.group.clone(),
        group: Box::new(group),
        log: Box::new(log),
        store: SqliteStore::new(store),
        handler,
        clock: Clock::boot(),
    };
    let summary = Worker::new(behaviour, parts)?.run(|_| {})?;
    let line = measured.line().filter(|_| summary.clean && summary.keys_left == 0);
    let line =
        line.ok_or_else(|| Failure::new(Code::Failed, "the worker left jobs behind: its figure would say nothing"))?;
    let failed = |error: std::io::Error| Failure::new(Code::Failed, "cannot write").because(&error);
    let mut stdout = std::io::stdout();
    serde_json::to_writer(&mut stdout, &line).map_err(|error| failed(error.into()))?;
    stdout.write_all(b"\n").map_err(failed)?;
    Ok(Code::Done)
}
