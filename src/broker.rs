//! From a URL to an open log, a membership, a look at a group.

use keylane_consumer::{
    WorkerSettings,
    clock::Clock,
    group::{
        Group, GroupWatch,
        kafka::{Assignor, KafkaGroup, KafkaGroupReader, KafkaGroupSettings},
        local::{GroupReader, LocalGroup, LocalGroupSettings},
    },
};
use keylane_producer::{
    Log, QueueIdentity, QueueName,
    log::{
        kafka::KafkaLog,
        local::{LocalLog, Open},
    },
    sqlite::Patience,
};

use crate::{
    cli::{BrokerUrl, DEFAULT_BROKER, Global, MoveBy, StoreUrl},
    exit::Failure,
};

/// Opens the log of a queue that is there.
pub(crate) fn open(global: &Global) -> Result<Box<dyn Log>, Failure> {
    open_as(global, Open::Existing)
}

/// Opens the log, and makes its file if it is missing.
pub(crate) fn open_or_make(global: &Global) -> Result<Box<dyn Log>, Failure> {
    open_as(global, Open::Create)
}

fn open_as(global: &Global, open: Open) -> Result<Box<dyn Log>, Failure> {
    Ok(match &global.broker {
        BrokerUrl::Sqlite(file) => Box::new(LocalLog::open(file, open, Patience::Patient)?),
        BrokerUrl::Kafka(servers) => Box::new(KafkaLog::open(global.kafka(servers)?)?),
    })
}

/// A member of the group, not joined yet.
pub(crate) fn join(
    global: &Global,
    queue: &QueueIdentity,
    settings: &WorkerSettings,
    moves: MoveBy,
    clock: &Clock,
) -> Result<Box<dyn Group>, Failure> {
    let (session_timeout, drain) = (settings.ownership.session, settings.ownership.drain);
    Ok(match &global.broker {
        BrokerUrl::Sqlite(file) => {
            let behaviour = LocalGroupSettings {
                worker: settings.name.clone(),
                session_timeout,
                rebalance_timeout: drain + session_timeout,
                ..LocalGroupSettings::default()
            };
            Box::new(LocalGroup::open(file, queue, &global.group, clock.clone(), behaviour)?)
        }
        BrokerUrl::Kafka(servers) => {
            let usual = KafkaGroupSettings::default();
            let behaviour = KafkaGroupSettings {
                worker: settings.name.to_string(),
                session_timeout,
                rebalance_timeout: drain + session_timeout,
                heartbeat_interval: usual.heartbeat_interval.min(session_timeout / 10),
                assignor: match moves {
                    MoveBy::Cooperative => Assignor::Cooperative,
                    MoveBy::Eager => Assignor::Eager,
                },
                ..usual
            };
            Box::new(KafkaGroup::open(&global.kafka(servers)?, queue, &global.group, &behaviour)?)
        }
    })
}

/// A look at the group from outside.
pub(crate) fn watch(global: &Global, queue: &QueueIdentity) -> Result<Box<dyn GroupWatch>, Failure> {
    Ok(match &global.broker {
        BrokerUrl::Sqlite(file) => Box::new(GroupReader::open(file, queue, &global.group, Clock::boot())?),
        BrokerUrl::Kafka(servers) => Box::new(KafkaGroupReader::open(&global.kafka(servers)?, queue, &global.group)?),
    })
}

/// The global flags that another command needs to mean the same queue, as they would be typed: each after a space.
pub(crate) fn flags(global: &Global) -> String {
    let quoted = |text: String| shlex::try_quote(&text).map_or(text.clone(), std::borrow::Cow::into_owned);
    let default_store = match &global.broker {
        BrokerUrl::Sqlite(file) => StoreUrl::Sqlite(file.clone()).to_string(),
        BrokerUrl::Kafka(_) => String::new(),
    };
    let store = global.store().map_or_else(|_| String::new(), |store| store.to_string());
    let given = [
        ("--broker", global.broker.to_string(), DEFAULT_BROKER.to_owned()),
        ("--store", store, default_store),
        ("--queue", global.queue.to_string(), "jobs".to_owned()),
        ("--group", global.group.to_string(), "workers".to_owned()),
    ];
    let told = given.into_iter().filter(|(_, value, default)| value != default);
    let told = told.map(|(flag, value, _)| format!(" {flag} {}", quoted(value)));
    // Of secrets these are references; a value that was written out is none.
    let kafka = global.kafka_args().into_iter().map(|word| format!(" {}", quoted(word.to_string_lossy().into_owned())));
    told.chain(kafka).collect()
}

/// The command that makes this queue, as it would be typed.
pub(crate) fn create_command(global: &Global, queue: &QueueName) -> String {
    let broker = global.broker.to_string();
    let flag = if broker == DEFAULT_BROKER { String::new() } else { format!(" --broker {broker}") };
    format!("keylane queue create {queue}{flag}")
}
