//! The ledger: the fenced effect of an event.
//!
//! Each application adds a row to the journal, so one that should not have been is seen for ever; and adds to the
//! aircraft's totals, which would be wrong for ever. The journal's row notes who wrote it and whom the partition's fence
//! row named in that very transaction: where they differ, a stale write has landed.

use std::time::Duration;

use keylane_consumer::{
    Handler, JobContext, Outcome,
    store::{
        postgres::{PostgresStore, PostgresTx, SqlError, types::Type},
        sqlite::SqliteStore,
    },
};
use keylane_producer::{GroupName, Offset, Partition};
use rusqlite::{Connection, params};

use super::flight::Flight;

pub(super) const TABLES: &str = "
CREATE TABLE journal (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    part       INTEGER NOT NULL,
    offset     INTEGER NOT NULL,
    tail       TEXT    NOT NULL,
    origin     TEXT    NOT NULL,
    dest       TEXT    NOT NULL,
    miles      INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    owner_then TEXT
);
CREATE TABLE aircraft (
    tail         TEXT PRIMARY KEY,
    legs         INTEGER NOT NULL,
    miles        INTEGER NOT NULL,
    last_airport TEXT    NOT NULL
);
";

/// One queue and group use this store, so a partition has one fence row.
const JOURNAL: &str = "
INSERT INTO journal (part, offset, tail, origin, dest, miles, worker, owner_then)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, (SELECT worker FROM keylane_fence WHERE part = ?1))";

const TOTALS: &str = "
INSERT INTO aircraft (tail, legs, miles, last_airport) VALUES (?1, 1, ?2, ?3)
ON CONFLICT DO UPDATE SET legs = legs + 1, miles = miles + excluded.miles, last_airport = excluded.last_airport";

/// In a database that is not the demo's own its tables are in a schema that is, named for its group.
pub(super) fn schema(group: &GroupName) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    group.as_str().chars().map(plain).collect()
}

/// As [`TABLES`], a statement each.
pub(super) fn postgres_tables(schema: &str) -> [String; 3] {
    [
        format!("CREATE SCHEMA {schema}"),
        format!(
            "CREATE TABLE {schema}.journal (
                 n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, part integer NOT NULL, \"offset\" bigint NOT NULL,
                 tail text NOT NULL, origin text NOT NULL, dest text NOT NULL, miles bigint NOT NULL,
                 worker text NOT NULL, owner_then text)"
        ),
        format!(
            "CREATE TABLE {schema}.aircraft (
                 tail text PRIMARY KEY, legs bigint NOT NULL, miles bigint NOT NULL, last_airport text NOT NULL)"
        ),
    ]
}

/// Keeps the ledger.
pub(super) struct Bookkeeper {
    /// The demo's group.
    pub(super) group: GroupName,
    /// The worker's name, for the journal.
    pub(super) worker: String,
}

impl Handler<SqliteStore> for Bookkeeper {
    async fn run(&self, job: JobContext) -> Outcome<SqliteStore> {
        let flight = match Flight::parse(job.job.payload.as_deref().unwrap_or_default()) {
            Ok(flight) => flight,
            Err(reason) => return Outcome::reject(reason),
        };
        tokio::time::sleep(length_of(job.offset)).await;
        let (partition, offset, worker) = (job.partition, job.offset, self.worker.clone());
        Outcome::effect(move |tx: &mut rusqlite::Savepoint<'_>| Ok(apply(tx, partition, offset, &flight, &worker)?))
    }
}

/// How long the event's work takes: 10 to 30 ms, the same at each try.
fn length_of(offset: Offset) -> Duration {
    Duration::from_millis(10 + offset.0 * 7 % 21)
}

fn apply(tx: &Connection, partition: Partition, offset: Offset, flight: &Flight, worker: &str) -> rusqlite::Result<()> {
    let Flight { tail, origin, dest, miles } = flight;
    tx.prepare_cached(JOURNAL)?.execute(params![
        partition.0,
        i64::try_from(offset.0).unwrap_or(i64::MAX),
        tail,
        origin,
        dest,
        miles,
        worker
    ])?;
    tx.prepare_cached(TOTALS)?.execute(params![tail, miles, dest]).map(drop)
}

impl Handler<PostgresStore> for Bookkeeper {
    async fn run(&self, job: JobContext) -> Outcome<PostgresStore> {
        let flight = match Flight::parse(job.job.payload.as_deref().unwrap_or_default()) {
            Ok(flight) => flight,
            Err(reason) => return Outcome::reject(reason),
        };
        tokio::time::sleep(length_of(job.offset)).await;
        let (partition, offset) = (job.partition, job.offset);
        let (worker, group) = (self.worker.clone(), self.group.clone());
        Outcome::effect(move |tx: &mut PostgresTx<'_>| {
            Ok(apply_in_postgres(tx, &group, (partition, offset), &flight, &worker)?)
        })
    }
}

fn apply_in_postgres(
    tx: &mut PostgresTx<'_>,
    group: &GroupName,
    (partition, offset): (Partition, Offset),
    flight: &Flight,
    worker: &str,
) -> Result<(), SqlError> {
    let (schema, group) = (schema(group), group.as_str());
    let Flight { tail, origin, dest, miles } = flight;
    let (part, at) = (partition.0.cast_signed(), offset.0.cast_signed());
    let journal = format!(
        "INSERT INTO {schema}.journal (part, \"offset\", tail, origin, dest, miles, worker, owner_then)
         VALUES ($1, $2, $3, $4, $5, $6, $7, (SELECT f.worker FROM keylane.fence AS f JOIN keylane.scope USING (scope)
                                              WHERE group_name = $8 AND f.part = $1))"
    );
    tx.execute_typed(
        &journal,
        &[
            (&part, Type::INT4),
            (&at, Type::INT8),
            (tail, Type::TEXT),
            (origin, Type::TEXT),
            (dest, Type::TEXT),
            (miles, Type::INT8),
            (&worker, Type::TEXT),
            (&group, Type::TEXT),
        ],
    )?;
    let totals = format!(
        "INSERT INTO {schema}.aircraft AS a (tail, legs, miles, last_airport) VALUES ($1, 1, $2, $3)
         ON CONFLICT (tail) DO UPDATE
         SET legs = a.legs + 1, miles = a.miles + excluded.miles, last_airport = excluded.last_airport"
    );
    tx.execute_typed(&totals, &[(tail, Type::TEXT), (miles, Type::INT8), (dest, Type::TEXT)]).map(drop)
}
