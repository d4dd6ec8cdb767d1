//! A topic of the bench's own.

use std::{collections::BTreeMap, path::PathBuf};

use keylane_producer::{
    Enqueuer, Error, Log, Offset, Partition, QueueIdentity, QueueSpec, kafka::KafkaSettings, log::kafka::KafkaLog,
    queue::Replication,
};

use super::super::{
    jobs::{Jobs, batches},
    place::{Corner, Place},
};
use crate::{
    cli::{BrokerUrl, Global, StoreUrl},
    exit::{Code, Failure},
};

const PARTITIONS: &str = "12";
const STORE: &str = "store.db";

/// It is deleted when this is dropped.
pub(in super::super) struct Topic {
    /// The flags that mean this topic.
    pub(in super::super) global: Global,
    pub(in super::super) settings: KafkaSettings,
    pub(in super::super) enqueuer: Enqueuer<KafkaLog>,
    corner: Corner,
}

impl Topic {
    pub(in super::super) fn make(global: &Global, place: &Place) -> Result<Self, Failure> {
        let BrokerUrl::Kafka(servers) = &global.broker else {
            return Err(Failure::new(Code::Bug, "a topic needs brokers"));
        };
        let settings = global.kafka(servers)?;
        let mut global = global.clone();
        let name = format!("keylane-bench-{}", ulid::Ulid::generate());
        (global.queue, global.group) = (name.parse()?, name.parse()?);
        let mut log = KafkaLog::open(settings.clone())?;
        let spec = QueueSpec::new(global.queue.clone(), PARTITIONS.parse()?);
        match log.create(&spec) {
            // Fewer brokers than copies that are safe.
            Err(Error::Invalid(_)) => {
                let one = Replication { factor: 1, min_in_sync: 1, unsafe_too: true };
                log.create(&QueueSpec { replication: Some(one), ..spec })?
            }
            made => made?,
        };
        let corner = place.corner()?;
        global.store = Some(StoreUrl::Sqlite(corner.file(STORE)));
        let enqueuer = Enqueuer::open(log, &global.queue)?;
        Ok(Self { global, settings, enqueuer, corner })
    }

    pub(in super::super) fn identity(&self) -> &QueueIdentity {
        self.enqueuer.queue()
    }

    /// The file of the store that `global` names.
    pub(in super::super) fn store_file(&self) -> PathBuf {
        self.corner.file(STORE)
    }

    /// A store's file that nobody has used.
    pub(in super::super) fn fresh_store(&self) -> PathBuf {
        self.corner.file(&format!("store-{}.db", ulid::Ulid::generate()))
    }

    pub(in super::super) fn fill(&mut self, jobs: &Jobs, count: u64) -> Result<(), Failure> {
        batches(count).try_for_each(|batch| {
            let batch = batch.map(|n| jobs.job(n)).collect::<Result<_, _>>()?;
            self.enqueuer.send(batch).map_err(|error| error.cause)?;
            Ok(())
        })
    }

    pub(in super::super) fn ends(&mut self) -> Result<BTreeMap<Partition, Offset>, Failure> {
        let queue = self.identity().clone();
        let log = self.enqueuer.log();
        queue.partitions.all().map(|p| Ok((p, log.bounds(&queue, p)?.end))).collect()
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        let (queue, group) = (self.global.queue.clone(), self.global.group.clone());
        if self.enqueuer.log().delete(&queue, &group).is_err() {
            tracing::warn!(topic = %queue, "the bench's topic stays on the brokers");
        }
    }
}
