//! What is Postgres's own, on a real one; the port's claims are in `store::conformance`.

use std::{
    marker::PhantomData,
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};

use keylane_producer::{Offset, Partition};
use keylane_testing::postgres::{Pooler, Server, shared};

use super::{Limits, PostgresStore, PostgresTx};
use crate::{
    clock::{BootTime, Clock},
    fence::{Fence, Lease},
    store::{
        Effect, EffectError, JobWrite, PartitionWrite,
        conformance::{Place, Rig},
    },
};

mod admit;
mod announced;
mod away;
mod clock;
mod cut;
mod failing;
mod failover;
mod frozen;
mod full;
mod guards;
mod idle;
mod isolation;
mod locks;
mod opening;
mod reset;
mod restarts;
mod roles;
mod scene;
mod secured;
mod statements;
mod steps;
mod storm;
mod twins;
mod ways;

/// Rules that a twin test takes away, and a place to stop a writer at.
#[derive(Clone, Default)]
pub(in crate::store) struct Twin {
    pub(in crate::store) equal_generation_wins: bool,
    pub(in crate::store) looks_outside: bool,
    pub(in crate::store) does_not_lock: bool,
    pub(in crate::store) does_not_intend: bool,
    pub(in crate::store) does_not_settle: bool,
    pub(in crate::store) ignores_timelines: bool,
    pub(in crate::store) leaves_isolation: bool,
    pub(in crate::store) acts_beside_owners: bool,
    pub(in crate::store) knows_no_standby: bool,
    pub(in crate::store) sends_late: bool,
    pub(in crate::store) checked: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// How a server is reached.
pub(super) trait Way {
    /// Said once in each new database; `DATABASE_NAME` stands for its name.
    const SETTINGS: &str = "";

    fn url(database: &str) -> String;

    /// An effect that writes a line to the user's table.
    fn tell(line: &str) -> Effect<PostgresStore> {
        tell(line)
    }

    /// An effect of this SQL.
    fn sql(text: &str) -> Effect<PostgresStore> {
        sql(text)
    }
}

/// Itself.
pub(super) struct Direct;

/// By way of a transaction pooler that has fewer sessions than there are connections.
pub(super) struct Pooled;

impl Way for Direct {
    fn url(database: &str) -> String {
        shared().url(database)
    }
}

impl Way for Pooled {
    fn url(database: &str) -> String {
        static POOLER: OnceLock<Pooler> = OnceLock::new();
        POOLER.get_or_init(|| Pooler::start(shared()).unwrap()).url(database)
    }
}

/// A database of its own with the user's table `told` beside the store.
pub(super) struct Database<W = Direct> {
    server: &'static Server,
    name: String,
    store: PostgresStore,
    way: PhantomData<W>,
}

impl<W> Database<W> {
    pub(super) fn on(server: &'static Server, url: impl Fn(&str) -> String) -> Self {
        let name = server.database().unwrap();
        let store = PostgresStore::new(url(&name).parse().unwrap());
        let database = Self { server, name, store, way: PhantomData };
        database.sql(
            "CREATE TABLE told (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, line text NOT NULL);
             CREATE TABLE owed (line bigint REFERENCES told (id) DEFERRABLE INITIALLY DEFERRED)",
        );
        database
    }

    /// The same place with another store: other limits, or a rule taken away.
    pub(super) fn with(mut self, change: impl FnOnce(PostgresStore) -> PostgresStore) -> Self {
        self.store = change(self.store);
        self
    }

    pub(super) fn sql(&self, text: &str) -> String {
        self.server.sql(&self.name, text).unwrap()
    }

    /// Whether a session of this database waits for a lock.
    pub(super) fn one_waits(&self) -> bool {
        let waiting =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.sql(waiting) != "0"
    }

    pub(super) fn until_one_waits(&self) {
        until(|| self.one_waits());
    }
}

/// A server of this test's own, for whoever kills or freezes it.
pub(super) fn server_of_its_own() -> &'static Server {
    Box::leak(Box::new(Server::start(&keylane_testing::postgres::Options::default()).unwrap()))
}

/// Waits for a condition, up to a minute.
pub(super) fn until(mut condition: impl FnMut() -> bool) {
    let (_never, wait) = mpsc::channel::<()>();
    for _ in 0..6_000 {
        if condition() {
            return;
        }
        let _ = wait.recv_timeout(Duration::from_millis(10));
    }
    panic!("the condition did not come true in 60 s");
}

impl<W: Way> Place for Database<W> {
    type Store = PostgresStore;

    fn fresh() -> Self {
        let place = Self::on(shared(), W::url);
        if !W::SETTINGS.is_empty() {
            place.sql(&W::SETTINGS.replace("DATABASE_NAME", &place.name));
        }
        place
    }

    fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    fn tell(&self, line: &str) -> Effect<PostgresStore> {
        W::tell(line)
    }

    fn spoil_commit(&self) -> Effect<PostgresStore> {
        W::sql("INSERT INTO owed VALUES (999999)")
    }

    fn told(&self) -> Vec<String> {
        self.sql("SELECT line FROM told ORDER BY id").lines().map(str::to_owned).collect()
    }

    fn results(&self) -> Vec<(u32, u64, Vec<u8>, String)> {
        let rows = self.sql(
            "SELECT part, \"offset\", encode(key, 'hex'), result FROM keylane.result WHERE queue = 'jobs' ORDER BY part, \"offset\"",
        );
        let row = |line: &str| {
            let fields: Vec<&str> = line.splitn(4, '|').collect();
            let key = data_encoding::HEXLOWER.decode(fields[2].as_bytes()).unwrap();
            (fields[0].parse().unwrap(), fields[1].parse().unwrap(), key, fields[3].to_owned())
        };
        rows.lines().map(row).collect()
    }

    fn acts(&self) -> Vec<String> {
        self.sql("SELECT act FROM keylane.audit ORDER BY n").lines().map(str::to_owned).collect()
    }

    fn marker_rows(&self, partition: Partition) -> usize {
        self.sql(&format!("SELECT count(*) FROM keylane.marker WHERE part = {partition}")).parse().unwrap()
    }

    fn raise_epoch(&self) {
        self.sql(
            "UPDATE keylane.scope SET epoch = epoch + 1; UPDATE keylane.fence SET epoch = epoch + 1, gen = 0;
             UPDATE keylane.fence_intent SET epoch = epoch + 1, gen = 0",
        );
    }

    fn close(&self, partition: Partition) {
        self.sql(&format!("UPDATE keylane.fence SET closed = true WHERE part = {partition}"));
    }

    fn fail_over(&self, lost: &mut dyn FnMut()) {
        self.sql("CREATE TABLE copy AS TABLE keylane.fence; CREATE TABLE intents AS TABLE keylane.fence_intent");
        lost();
        self.sql(
            "DELETE FROM keylane.fence; INSERT INTO keylane.fence TABLE copy;
             DELETE FROM keylane.fence_intent; INSERT INTO keylane.fence_intent TABLE intents",
        );
    }
}

/// An effect that writes a line to the user's table.
pub(super) fn tell(line: &str) -> Effect<PostgresStore> {
    let line = line.to_owned();
    Effect::new(move |tx: &mut PostgresTx<'_>| {
        tx.execute("INSERT INTO told (line) VALUES ($1)", &[&line])?;
        Ok(())
    })
}

/// An effect of this SQL.
pub(super) fn sql(text: &str) -> Effect<PostgresStore> {
    let text = text.to_owned();
    Effect::new(move |tx: &mut PostgresTx<'_>| -> Result<(), EffectError> {
        tx.execute(&text, &[])?;
        Ok(())
    })
}

/// A lease that proves ownership for ever, by the machine's clock.
pub(super) fn endless() -> Arc<Lease> {
    let lease = Lease::new(Clock::boot(), Duration::from_secs(3_600));
    lease.proved(BootTime::NEVER);
    lease
}

pub(super) type BaseRig = Rig<Database>;

/// A part of one job, to be written by any session.
pub(super) fn part(fence: &Arc<Fence>, jobs: Vec<JobWrite<PostgresStore>>) -> PartitionWrite<PostgresStore> {
    PartitionWrite {
        fence: fence.clone(),
        jobs,
        quarantined: vec![],
        watermark: Offset(0),
        resumed: vec![],
        line_room: 100,
    }
}

mod port {
    crate::store_conformance!(super::Database);
}

mod pooled {
    crate::store_conformance!(super::Database<super::Pooled>);
}

mod stated {
    crate::store_conformance!(super::Database<super::statements::Stated>);
}

mod stated_and_pooled {
    crate::store_conformance!(super::Database<super::statements::StatedAndPooled>);
}

mod strict {
    crate::store_conformance!(super::Database<super::isolation::Strict>);
}
