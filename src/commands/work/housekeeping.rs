//! Old records leave the embedded log while workers run: no group needs them any more, and their age or size is over.

use std::time::Duration;

use crossbeam_channel::tick;
use keylane_producer::{
    Log, Timestamp,
    log::local::{LocalLog, Open},
    sqlite::Patience,
};

use crate::{
    cli::{BrokerUrl, Global},
    exit::{Code, Failure},
};

/// How often it is looked; each look removes what is due in small steps.
const EVERY: Duration = Duration::from_secs(60);

/// Starts the thread; it ends with the process.
pub(super) fn begin(global: &Global) -> Result<(), Failure> {
    // Kafka removes by itself.
    let BrokerUrl::Sqlite(file) = &global.broker else { return Ok(()) };
    let mut log = LocalLog::open(file, Open::Existing, Patience::Patient)?;
    let name = global.queue.clone();
    let keep_house = move || {
        let ticks = tick(EVERY);
        loop {
            if let Err(error) = expire(&mut log, &name) {
                tracing::warn!(error = %error.detail().chain(), "old records could not be removed; it is tried again");
            }
            if ticks.recv().is_err() {
                return;
            }
        }
    };
    let started = std::thread::Builder::new().name("keylane-housekeeping".into()).spawn(keep_house);
    started.map_err(|e| Failure::new(Code::Unavailable, "cannot start a thread").because(&e))?;
    Ok(())
}

fn expire(log: &mut LocalLog, name: &keylane_producer::QueueName) -> Result<(), keylane_producer::Error> {
    let queue = log.describe(name)?.identity;
    let gone = log.expire(&queue, Timestamp::now())?;
    tracing::debug!(?gone, "old records removed");
    Ok(())
}
