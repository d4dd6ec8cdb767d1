//! From a URL to the store it names: one place that knows which there are.

use std::ops::ControlFlow;

use keylane_consumer::{
    Error,
    store::{
        Act, FenceRow, FencedStore, Line, LineOrder, ParkedJob, PartitionOverview, Reset, ResetOrder, ResultRow,
        ResultsOf, Steer, StoreSession, postgres::PostgresStore, sqlite::SqliteStore,
    },
};
use keylane_producer::{GroupName, JobKey, Offset, Partition, QueueIdentity, sqlite::Patience};

use crate::{
    cli::{Global, StoreUrl},
    exit::Failure,
};

/// A store, for commands that look and steer. A worker is built on the store's own type.
pub(crate) enum Store {
    /// A file.
    Sqlite(SqliteStore),
    /// A database.
    Postgres(PostgresStore),
}

/// The lines of parked keys, to look into and to act on.
pub(crate) trait Lines {
    /// Which jobs wait in a line.
    fn line(&mut self, partition: Partition, key: &JobKey) -> Result<Line, Error>;
    /// These of them.
    fn jobs(&mut self, partition: Partition, key: &JobKey, offsets: &[Offset]) -> Result<Vec<ParkedJob>, Error>;
    /// Replays or drops a line; `false` if it is not as it was read.
    fn act(&mut self, order: &LineOrder) -> Result<bool, Error>;
}

/// One session's.
struct LinesOf<S: FencedStore>(S::Session);

impl<S: FencedStore> Lines for LinesOf<S> {
    fn line(&mut self, partition: Partition, key: &JobKey) -> Result<Line, Error> {
        self.0.line(partition, key)
    }

    fn jobs(&mut self, partition: Partition, key: &JobKey, offsets: &[Offset]) -> Result<Vec<ParkedJob>, Error> {
        self.0.parked(partition, key, offsets)
    }

    fn act(&mut self, order: &LineOrder) -> Result<bool, Error> {
        self.0.act_on_line(order)
    }
}

impl Store {
    /// The one that the flags name.
    pub(crate) fn named(global: &Global) -> Result<Self, Failure> {
        Ok(match global.store()? {
            StoreUrl::Sqlite(file) => Self::Sqlite(SqliteStore::new(file)),
            StoreUrl::Postgres(url) => Self::Postgres(PostgresStore::new(url.address()?)),
        })
    }

    pub(crate) fn look(
        &self,
        queue: &QueueIdentity,
        group: &GroupName,
    ) -> Result<Option<Vec<PartitionOverview>>, Error> {
        match self {
            Self::Sqlite(store) => store.look(queue, group),
            Self::Postgres(store) => store.look(queue, group),
        }
    }

    pub(crate) fn results(
        &self,
        which: &ResultsOf,
        each: &mut dyn FnMut(ResultRow) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        match self {
            Self::Sqlite(store) => store.results(which, each),
            Self::Postgres(store) => store.results(which, each),
        }
    }

    pub(crate) fn fence_rows(&self) -> Result<Vec<FenceRow>, Error> {
        match self {
            Self::Sqlite(store) => store.fence_rows(),
            Self::Postgres(store) => store.fence_rows(),
        }
    }

    pub(crate) fn reset(&self, queue: &QueueIdentity, group: &GroupName, order: &ResetOrder) -> Result<Reset, Error> {
        match self {
            Self::Sqlite(store) => store.reset(queue, group, order),
            Self::Postgres(store) => store.reset(queue, group, order),
        }
    }

    pub(crate) fn acts(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Vec<Act>, Error> {
        match self {
            Self::Sqlite(store) => store.acts(queue, group),
            Self::Postgres(store) => store.acts(queue, group),
        }
    }

    /// Opens it for the lines of parked keys.
    pub(crate) fn lines(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Box<dyn Lines>, Error> {
        Ok(match self {
            Self::Sqlite(store) => {
                let store = store.clone().with_patience(Patience::Patient);
                Box::new(LinesOf::<SqliteStore>(store.open(queue, group)?))
            }
            Self::Postgres(store) => Box::new(LinesOf::<PostgresStore>(store.open(queue, group)?)),
        })
    }

    /// Opens it for what persons want of owners, and for dead letters.
    pub(crate) fn steer(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Box<dyn Steer>, Error> {
        Ok(match self {
            Self::Sqlite(store) => Box::new(store.clone().with_patience(Patience::Patient).open(queue, group)?),
            Self::Postgres(store) => Box::new(store.open(queue, group)?),
        })
    }

    /// How far its clock is ahead of this machine's, in milliseconds; none if it has no clock of its own.
    pub(crate) fn clock_skew(&self) -> Result<Option<i64>, Error> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(store) => store.clock_skew().map(|(skew, _)| Some(skew)),
        }
    }
}
