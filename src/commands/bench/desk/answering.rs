//! A store that claims as the SQLite store does and answers every write at once, writing nothing.

use keylane_consumer::{
    Error, Fence, Fenced, FencedStore,
    store::{
        Candidate, ClaimError, Claimed, Line, LineOrder, Note, ParkedJob, PartitionOverview, PartitionWrite,
        PartitionWritten, Steering, StoreSession, Written,
        sqlite::{SqliteSession, SqliteStore},
    },
};
use keylane_producer::{GroupName, JobKey, Offset, Partition, QueueIdentity};

#[derive(Clone)]
pub(in super::super) struct Answering {
    /// Only a store mints tokens.
    pub(in super::super) claims: SqliteStore,
}

pub(in super::super) struct AnsweringSession(SqliteSession);

impl FencedStore for Answering {
    type Tx<'t> = ();
    type Session = AnsweringSession;

    fn open(&self, queue: &QueueIdentity, group: &GroupName) -> Result<AnsweringSession, Error> {
        self.claims.open(queue, group).map(AnsweringSession)
    }
}

impl StoreSession<Answering> for AnsweringSession {
    fn claim(&mut self, candidate: &Candidate) -> Result<Claimed, ClaimError> {
        self.0.claim(candidate)
    }

    fn write(&mut self, batch: &mut [PartitionWrite<Answering>]) -> Result<Vec<PartitionWritten>, Error> {
        let answer = |part: &mut PartitionWrite<Answering>| PartitionWritten {
            partition: part.fence.partition(),
            jobs: part.fence.check().map(|_permit| part.jobs.iter().map(|_| Written::Applied).collect()),
        };
        Ok(batch.iter_mut().map(answer).collect())
    }

    fn hand_over(&mut self, fence: &Fence) -> Result<Result<(), Fenced>, Error> {
        self.0.hand_over(fence)
    }

    fn starting(&mut self, fence: &Fence, offsets: &[Offset]) -> Result<Result<(), Fenced>, Error> {
        self.0.starting(fence, offsets)
    }

    fn steering(&mut self, partitions: &[Partition]) -> Result<Steering, Error> {
        self.0.steering(partitions)
    }

    fn note(&mut self, fence: &Fence, note: Option<&Note>) -> Result<Result<(), Fenced>, Error> {
        self.0.note(fence, note)
    }

    fn changed(&mut self) -> Result<bool, Error> {
        self.0.changed()
    }

    fn overview(&mut self) -> Result<Vec<PartitionOverview>, Error> {
        self.0.overview()
    }

    fn line(&mut self, partition: Partition, key: &JobKey) -> Result<Line, Error> {
        self.0.line(partition, key)
    }

    fn parked(&mut self, partition: Partition, key: &JobKey, offsets: &[Offset]) -> Result<Vec<ParkedJob>, Error> {
        self.0.parked(partition, key, offsets)
    }

    fn act_on_line(&mut self, order: &LineOrder) -> Result<bool, Error> {
        self.0.act_on_line(order)
    }
}
