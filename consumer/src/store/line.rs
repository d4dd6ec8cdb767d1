//! The line of a key that stands still: its jobs in the store, in order, until a person replays or drops them.

use bytes::Bytes;
use keylane_producer::{
    Attempt, Job, JobId, JobKey, Offset, Partition, PartitionCount, Record, StoredRecord, Timestamp,
    log::local::headers, partition_of,
};

use crate::error::{Detail, Error};

/// What waits in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Of the key's row; 0 if there is none.
    pub version: u64,
    /// Each job's offset and the bytes it holds when it runs; ascending.
    pub jobs: Vec<(Offset, usize)>,
}

/// One job of a line, with all that it was in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedJob {
    /// The record, byte for byte, and its place.
    pub stored: StoredRecord,
    /// The job's id.
    pub id: JobId,
    /// How often it was tried before it was parked; 0 for one that was parked behind another.
    pub attempts: Attempt,
    /// Since when.
    pub since: Timestamp,
}

/// What a person wants done with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineOrder {
    /// Whose.
    pub partition: Partition,
    /// Which.
    pub key: JobKey,
    /// Of the row, as it was read.
    pub version: u64,
    /// The last job of the line, as it was read; `None`: whatever came since belongs to it too.
    pub last: Option<Offset>,
    /// What to do.
    pub act: LineAct,
    /// The person or program.
    pub who: String,
    /// The reason.
    pub why: String,
}

/// The two ways out of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAct {
    /// Run its jobs in order, before anything newer of the key.
    Replay,
    /// The same, of a key that a person had stand still.
    Resume,
    /// Forget its jobs. The key goes on with what comes next.
    Drop,
}

impl LineAct {
    /// As it is written down.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "parked replay",
            Self::Resume => "resume",
            Self::Drop => "parked drop",
        }
    }
}

impl LineOrder {
    /// Replays whatever is in the line.
    pub fn replay(partition: Partition, key: JobKey, version: u64) -> Self {
        let (who, why) = (String::new(), String::new());
        Self { partition, key, version, last: None, act: LineAct::Replay, who, why }
    }

    pub(super) fn detail(&self, jobs: u64, last: Option<u64>) -> String {
        let up_to = last.map_or(String::new(), |last| format!(", the last at offset {last}"));
        format!("key {} of partition {}: {jobs} jobs{up_to}", self.key, self.partition)
    }
}

/// A job as the columns of a line keep it.
pub(super) struct Columns {
    pub(super) value: Option<Bytes>,
    pub(super) headers: Option<Vec<u8>>,
    pub(super) timestamp: i64,
    pub(super) size: usize,
}

impl Columns {
    pub(super) fn of(job: &Job) -> Self {
        let record = Record::from(job.clone());
        let size = record.size();
        let mut blob = Vec::new();
        headers::encode(&record.headers, &mut blob);
        let headers = (!blob.is_empty()).then_some(blob);
        Self { value: record.value, headers, timestamp: record.timestamp.0, size }
    }

    /// `None` if the headers are not of our form.
    pub(super) fn into_record(self, key: &JobKey) -> Option<Record> {
        let headers = self.headers.as_deref().map_or(Some(Vec::new()), headers::decode)?;
        let key = Some(Bytes::copy_from_slice(key.as_bytes()));
        Some(Record { key, value: self.value, headers, timestamp: Timestamp(self.timestamp) })
    }
}

/// How many jobs more the lines of a partition take in one transaction. Counted once, and only if somebody asks.
pub(super) struct Room {
    pub(super) limit: u64,
    pub(super) left: Option<u64>,
}

impl Room {
    /// Takes a place, if there is one. `held` counts what the lines hold.
    pub(super) fn take(&mut self, held: impl FnOnce() -> Result<u64, Error>) -> Result<bool, Error> {
        let left = match self.left {
            Some(left) => left,
            None => self.limit.saturating_sub(held()?),
        };
        self.left = Some(left.saturating_sub(1));
        Ok(left > 0)
    }
}

/// A job that is put behind a key that has no row would never be seen again.
pub(super) fn no_line(key: &JobKey) -> Error {
    Error::Corrupt(
        Detail::new(format!("key '{key}' has no row in the store, and a worker holds it for stopped"))
            .remedy("start the worker again: it reads the stopped keys anew"),
    )
}

/// Places that the key had before it had this one: what waits there comes first.
pub(super) fn earlier_places(key: &JobKey, former: &[u32], partition: Partition) -> Vec<Partition> {
    let counts = former.iter().filter_map(|count| count.to_string().parse::<PartitionCount>().ok());
    counts.map(|count| partition_of(key.as_bytes(), count)).take_while(|place| *place != partition).collect()
}
