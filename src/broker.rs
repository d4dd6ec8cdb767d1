//! From a URL to an open log.

use keylane_producer::{
    QueueName,
    log::local::{LocalLog, Open},
    sqlite::Patience,
};

use crate::{
    cli::{BrokerUrl, DEFAULT_BROKER, Global, StoreUrl},
    exit::Failure,
};

/// Opens the log of a queue that is there.
pub(crate) fn open(global: &Global) -> Result<LocalLog, Failure> {
    let BrokerUrl::Sqlite(file) = &global.broker;
    Ok(LocalLog::open(file, Open::Existing, Patience::Patient)?)
}

/// Opens the log, and makes its file if it is missing.
pub(crate) fn open_or_make(global: &Global) -> Result<LocalLog, Failure> {
    let BrokerUrl::Sqlite(file) = &global.broker;
    Ok(LocalLog::open(file, Open::Create, Patience::Patient)?)
}

/// The global flags that another command needs to mean the same queue, as they would be typed: each after a space.
pub(crate) fn flags(global: &Global) -> String {
    let quoted = |text: String| shlex::try_quote(&text).map_or(text.clone(), std::borrow::Cow::into_owned);
    let BrokerUrl::Sqlite(file) = &global.broker;
    let given = [
        ("--broker", global.broker.to_string(), DEFAULT_BROKER.to_owned()),
        ("--store", global.store().to_string(), StoreUrl::Sqlite(file.clone()).to_string()),
        ("--queue", global.queue.to_string(), "jobs".to_owned()),
        ("--group", global.group.to_string(), "workers".to_owned()),
    ];
    let told = given.into_iter().filter(|(_, value, default)| value != default);
    told.map(|(flag, value, _)| format!(" {flag} {}", quoted(value))).collect()
}

/// The command that makes this queue, as it would be typed.
pub(crate) fn create_command(global: &Global, queue: &QueueName) -> String {
    let broker = global.broker.to_string();
    let flag = if broker == DEFAULT_BROKER { String::new() } else { format!(" --broker {broker}") };
    format!("keylane queue create {queue}{flag}")
}
