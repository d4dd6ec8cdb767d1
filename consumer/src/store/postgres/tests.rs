//! What is Postgres's own, on a real one; the port's claims are in `store::conformance`.

use std::{sync::Arc, time::Duration};

use keylane_producer::Partition;
use keylane_testing::postgres::{Server, shared};

use super::{PostgresStore, PostgresTx};
use crate::{
    clock::{BootTime, Clock},
    fence::Lease,
    store::{
        Effect, EffectError,
        conformance::{Place, Rig},
    },
};

/// Rules that a twin test takes away, and a place to stop a writer at.
#[derive(Clone, Default)]
pub(in crate::store) struct Twin {
    pub(in crate::store) equal_generation_wins: bool,
    pub(in crate::store) looks_outside: bool,
    pub(in crate::store) does_not_lock: bool,
    pub(in crate::store) does_not_intend: bool,
    pub(in crate::store) does_not_settle: bool,
    pub(in crate::store) checked: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// A database of its own with the user's table `told` beside the store.
pub(super) struct Database {
    server: &'static Server,
    name: String,
    store: PostgresStore,
}

impl Database {
    pub(super) fn on(server: &'static Server, url: impl Fn(&str) -> String) -> Self {
        let name = server.database().unwrap();
        let store = PostgresStore::new(url(&name).parse().unwrap());
        let database = Self { server, name, store };
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
}

impl Place for Database {
    type Store = PostgresStore;

    fn fresh() -> Self {
        Self::on(shared(), |name| shared().url(name))
    }

    fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    fn tell(&self, line: &str) -> Effect<PostgresStore> {
        tell(line)
    }

    fn spoil_commit(&self) -> Effect<PostgresStore> {
        sql("INSERT INTO owed VALUES (999999)")
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

mod port {
    crate::store_conformance!(super::Database);
}
