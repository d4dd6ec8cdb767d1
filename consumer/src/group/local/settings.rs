//! The knobs of the embedded group.

use std::time::Duration;

use keylane_producer::Detail;

use crate::error::Error;

/// How a member of the embedded group behaves. All members of a group may differ in it: each brings its own bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalGroupSettings {
    /// What people see for this member, for instance `host/pid`. 1 to 200 bytes; default `worker`.
    pub worker: Box<str>,
    /// How long a member that shows no sign of life keeps its partitions. 100 ms to 1 h; default 15 s. Shorter finds a
    /// dead one sooner and expels a slow one sooner.
    pub session_timeout: Duration,
    /// How long the member may drain a partition that another one waits for, before it is taken away. 100 ms to 24 h;
    /// default 60 s. Longer than any job of yours, or that job runs again elsewhere.
    pub rebalance_timeout: Duration,
    /// Most records that one poll delivers. 1 to 1,000,000; default 4,096.
    pub poll_records: usize,
    /// About how many bytes of keys, values and headers one poll delivers (it stops after the record that reaches it).
    /// 1 to 1 GiB; default 16 MiB: what the poll holds in memory.
    pub poll_bytes: usize,
    /// Most records of one partition in one poll, so that a long partition does not make the others wait. 1 to
    /// 1,000,000; default 512.
    pub partition_records: usize,
    /// As `poll_bytes`, for one partition. Default 2 MiB.
    pub partition_bytes: usize,
}

impl Default for LocalGroupSettings {
    fn default() -> Self {
        Self {
            worker: "worker".into(),
            session_timeout: Duration::from_secs(15),
            rebalance_timeout: Duration::from_secs(60),
            poll_records: 4_096,
            poll_bytes: 16 << 20,
            partition_records: 512,
            partition_bytes: 2 << 20,
        }
    }
}

impl LocalGroupSettings {
    /// How often an idle member writes a sign of life: a third of the session, at most 1 s.
    pub fn heartbeat_interval(&self) -> Duration {
        (self.session_timeout / 3).min(Duration::from_secs(1))
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        const MOST_RECORDS: usize = 1_000_000;
        const MOST_BYTES: usize = 1 << 30;
        let tenth = Duration::from_millis(100);
        let hours = |n: u64| Duration::from_secs(n * 3_600);
        let rules = [
            ((1..=200).contains(&self.worker.len()), "worker", "1 to 200 bytes"),
            ((tenth..=hours(1)).contains(&self.session_timeout), "session timeout", "100 ms to 1 h"),
            ((tenth..=hours(24)).contains(&self.rebalance_timeout), "rebalance timeout", "100 ms to 24 h"),
            ((1..=MOST_RECORDS).contains(&self.poll_records), "records a poll", "1 to 1,000,000"),
            ((1..=MOST_RECORDS).contains(&self.partition_records), "records a partition", "1 to 1,000,000"),
            ((1..=MOST_BYTES).contains(&self.poll_bytes), "bytes a poll", "1 to 1 GiB"),
            ((1..=MOST_BYTES).contains(&self.partition_bytes), "bytes a partition", "1 to 1 GiB"),
        ];
        match rules.iter().find(|(fits, ..)| !fits) {
            None => Ok(()),
            Some((_, setting, range)) => Err(Error::Invalid(
                Detail::new(format!("group setting '{setting}' does not fit: {range}"))
                    .remedy("choose a value in the range, or leave the default"),
            )),
        }
    }
}
