//! What is SQLite's own; the port's claims are in `store::conformance`.

use std::{sync::Arc, time::Duration};

use keylane_producer::Partition;
use rusqlite::{Connection, Savepoint};
use tempfile::TempDir;

use super::SqliteStore;
use crate::{
    clock::{BootTime, Clock},
    fence::Lease,
    store::{
        Effect, EffectError,
        conformance::{Place, Rig},
    },
};

mod guards;
mod processes;
mod reset;
mod shared_file;
mod twins;

/// Rules that a twin test takes away, and a place to stop a writer at.
#[derive(Clone, Default)]
pub(in crate::store) struct Twin {
    pub(in crate::store) equal_generation_wins: bool,
    pub(in crate::store) looks_outside: bool,
    pub(in crate::store) acts_unconditionally: bool,
    pub(in crate::store) before_begin: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// A file with the user's table `told` beside the store.
pub(super) struct File {
    folder: TempDir,
    store: SqliteStore,
}

impl File {
    pub(super) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("store.db")
    }

    pub(super) fn sql(&self) -> Connection {
        keylane_producer::sqlite::open(
            &self.path(),
            keylane_producer::sqlite::Purpose::Store,
            keylane_producer::sqlite::Patience::Worker,
        )
        .unwrap()
    }

    /// The same place with another store: other patience, or a rule taken away.
    pub(super) fn with(mut self, change: impl FnOnce(SqliteStore) -> SqliteStore) -> Self {
        self.store = change(self.store);
        self
    }
}

impl Place for File {
    type Store = SqliteStore;

    fn fresh() -> Self {
        let folder = TempDir::new().unwrap();
        let file = Self { store: SqliteStore::new(folder.path().join("store.db")), folder };
        file.sql()
            .execute_batch(
                "CREATE TABLE told (id INTEGER PRIMARY KEY, line TEXT NOT NULL);
                 CREATE TABLE owed (line INTEGER REFERENCES told (id) DEFERRABLE INITIALLY DEFERRED);",
            )
            .unwrap();
        file
    }

    fn store(&self) -> SqliteStore {
        self.store.clone()
    }

    fn tell(&self, line: &str) -> Effect<SqliteStore> {
        tell(line)
    }

    fn spoil_commit(&self) -> Effect<SqliteStore> {
        sql("INSERT INTO owed VALUES (999999)")
    }

    fn told(&self) -> Vec<String> {
        let connection = self.sql();
        let mut lines = connection.prepare("SELECT line FROM told ORDER BY id").unwrap();
        lines.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    fn results(&self) -> Vec<(u32, u64, Vec<u8>, String)> {
        let connection = self.sql();
        let plain = "SELECT part, offset, key, result FROM keylane_result WHERE queue = 'jobs' ORDER BY part, offset";
        let mut rows = connection.prepare(plain).unwrap();
        rows.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned(), row.get(2)?, row.get(3)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    }

    fn acts(&self) -> Vec<String> {
        let sql = self.sql();
        let mut acts = sql.prepare("SELECT act FROM keylane_audit ORDER BY n").unwrap();
        acts.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    fn marker_rows(&self, partition: Partition) -> usize {
        let count: i64 = self
            .sql()
            .query_row("SELECT count(*) FROM keylane_marker WHERE part = ?1", [partition.0], |row| row.get(0))
            .unwrap();
        usize::try_from(count).unwrap()
    }

    fn raise_epoch(&self) {
        self.sql()
            .execute_batch(
                "BEGIN; UPDATE keylane_scope SET epoch = epoch + 1;
                 UPDATE keylane_fence SET epoch = epoch + 1, gen = 0; COMMIT;",
            )
            .unwrap();
    }

    fn close(&self, partition: Partition) {
        self.sql().execute("UPDATE keylane_fence SET closed = 1 WHERE part = ?1", [partition.0]).unwrap();
    }

    fn fail_over(&self, lost: &mut dyn FnMut()) {
        let connection = self.sql();
        connection.execute_batch("CREATE TEMP TABLE copy AS SELECT * FROM keylane_fence").unwrap();
        lost();
        connection
            .execute_batch("BEGIN; DELETE FROM keylane_fence; INSERT INTO keylane_fence SELECT * FROM copy; COMMIT;")
            .unwrap();
    }
}

/// An effect that writes a line to the user's table.
pub(super) fn tell(line: &str) -> Effect<SqliteStore> {
    let line = line.to_owned();
    Effect::new(move |tx: &mut Savepoint<'_>| {
        tx.prepare_cached("INSERT INTO told (line) VALUES (?1)")?.execute([&line])?;
        Ok(())
    })
}

/// An effect of this SQL.
pub(super) fn sql(text: &str) -> Effect<SqliteStore> {
    let text = text.to_owned();
    Effect::new(move |tx: &mut Savepoint<'_>| -> Result<(), EffectError> { Ok(tx.execute_batch(&text)?) })
}

/// A lease that proves ownership for ever, by the machine's clock.
pub(super) fn endless() -> Arc<Lease> {
    let lease = Lease::new(Clock::boot(), Duration::from_secs(3_600));
    lease.proved(BootTime::NEVER);
    lease
}

type FileRig = Rig<File>;

mod port {
    crate::store_conformance!(super::File);
}
