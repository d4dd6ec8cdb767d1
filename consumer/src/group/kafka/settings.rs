//! How a member behaves in its group.

use std::time::Duration;

use keylane_producer::{
    GroupName,
    kafka::{KafkaSettings, rdkafka::ClientConfig},
};

use crate::error::{Detail, Error};

/// How partitions move between members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assignor {
    /// In steps: partitions that stay are worked on all the while (`cooperative-sticky`). All members of a group must
    /// use the same.
    #[default]
    Cooperative,
    /// All at once: every member gives everything back first (`range`).
    Eager,
}

/// How a member behaves; [`Default`] suits most.
#[derive(Clone, Debug)]
pub struct KafkaGroupSettings {
    /// A name for people, in the broker's logs and tools.
    pub worker: String,
    /// Silence that long, and the group gives the partitions away. A coordinator that dies makes everybody wait some
    /// 9 s, so below 15 s each such death is a pause. Default 15 s.
    pub session_timeout: Duration,
    /// How long a member may take to give partitions back. Default 45 s.
    pub rebalance_timeout: Duration,
    /// What a hand-over waits for again and again, so it is short. Default 100 ms.
    pub heartbeat_interval: Duration,
    /// How partitions move.
    pub assignor: Assignor,
    /// A poll brings at most this many records.
    pub poll_records: usize,
    /// A poll ends after the record that reaches this many bytes.
    pub poll_bytes: usize,
}

impl Default for KafkaGroupSettings {
    fn default() -> Self {
        Self {
            worker: "keylane".into(),
            session_timeout: Duration::from_secs(15),
            rebalance_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_millis(100),
            assignor: Assignor::default(),
            poll_records: 1_000,
            poll_bytes: 1 << 20,
        }
    }
}

impl KafkaGroupSettings {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.session_timeout < self.heartbeat_interval * 3 {
            return Err(Error::Invalid(
                Detail::new(format!(
                    "a session of {:?} is too short: three heartbeats of {:?} must fit",
                    self.session_timeout, self.heartbeat_interval
                ))
                .remedy("choose a session of 6 s or more; 15 s is a good start"),
            ));
        }
        if self.rebalance_timeout < self.session_timeout {
            return Err(Error::Invalid(
                Detail::new(format!(
                    "a rebalance timeout of {:?} is below the session of {:?}",
                    self.rebalance_timeout, self.session_timeout
                ))
                .remedy("give it the drain's bound and the session together"),
            ));
        }
        Ok(())
    }

    /// The rules of ownership first; what a user may choose was taken from `settings` before.
    pub(super) fn config(&self, settings: &KafkaSettings, group: &GroupName) -> ClientConfig {
        let mut config = settings.config();
        let millis = |time: Duration| time.as_millis().to_string();
        let assignor = match self.assignor {
            Assignor::Cooperative => "cooperative-sticky",
            Assignor::Eager => "range",
        };
        for (name, value) in [
            ("group.id", group.as_str()),
            ("session.timeout.ms", &millis(self.session_timeout)),
            ("max.poll.interval.ms", &millis(self.rebalance_timeout)),
            ("heartbeat.interval.ms", &millis(self.heartbeat_interval)),
            ("partition.assignment.strategy", assignor),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "earliest"),
            ("isolation.level", "read_committed"),
            ("enable.partition.eof", "true"),
        ] {
            config.set(name, value);
        }
        for (name, value) in [
            ("client.id", self.worker.as_str()),
            ("check.crcs", "true"),
            // What one look at an idle partition waits; a record that comes meanwhile ends it.
            ("fetch.wait.max.ms", "100"),
            // Memory: what was fetched and not polled yet, for all partitions together, and again for each that is held.
            ("queued.max.messages.kbytes", "1024"),
            ("queued.min.messages", "4000"),
            ("fetch.max.bytes", "4194304"),
            // How long a partition rests when that much is waiting.
            ("fetch.queue.backoff.ms", "5"),
            ("fetch.error.backoff.ms", "100"),
            ("reconnect.backoff.max.ms", "2000"),
            // Partitions that were added show up within this time.
            ("topic.metadata.refresh.interval.ms", "30000"),
            ("socket.keepalive.enable", "true"),
        ] {
            if settings.get(name).is_none() {
                config.set(name, value);
            }
        }
        config
    }
}
