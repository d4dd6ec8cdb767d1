//! From a URL to an open log.

use keylane_producer::{
    QueueName,
    log::local::{LocalLog, Open},
    sqlite::Patience,
};

use crate::{
    cli::{BrokerUrl, DEFAULT_BROKER, Global},
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

/// The command that makes this queue, as it would be typed.
pub(crate) fn create_command(global: &Global, queue: &QueueName) -> String {
    let broker = global.broker.to_string();
    let flag = if broker == DEFAULT_BROKER { String::new() } else { format!(" --broker {broker}") };
    format!("keylane queue create {queue}{flag}")
}
