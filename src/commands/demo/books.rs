//! The ledger's tables where the store is: beside it in the file, or in a schema of their own in the database.

use std::collections::BTreeMap;

use keylane_consumer::store::postgres::{PostgresConnection, PostgresStore, Row, SqlError};
use keylane_producer::{
    GroupName, Offset,
    sqlite::{Patience, Purpose, open},
};
use rusqlite::Connection;

use super::{flight::Flight, ledger};
use crate::{
    cli::{Global, StoreUrl},
    exit::{Code, Failure},
};

/// A connection to the tables.
pub(super) enum Books {
    Sqlite(Connection),
    Postgres { connection: Box<PostgresConnection>, schema: String, group: GroupName },
}

/// A row of the journal.
pub(super) struct Entry {
    /// Partition and offset.
    pub(super) place: (u32, Offset),
    pub(super) flight: Flight,
    pub(super) worker: String,
    pub(super) owner_then: Option<String>,
}

/// What an aircraft has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) legs: i64,
    pub(super) miles: i64,
    pub(super) last_airport: String,
}

/// What a worker wrote of a partition: how many rows, and how many of them while another one was the owner.
pub(super) struct Share {
    pub(super) worker: String,
    pub(super) partition: u32,
    pub(super) jobs: u64,
    pub(super) late: u64,
}

const SHARES: &str = "SELECT worker, part, count(*), sum(CASE WHEN worker = owner_then THEN 0 ELSE 1 END)";

impl Books {
    pub(super) fn open(global: &Global) -> Result<Self, Failure> {
        Ok(match global.store()? {
            StoreUrl::Sqlite(file) => Self::Sqlite(open(&file, Purpose::Store, Patience::Patient)?),
            StoreUrl::Postgres(url) => Self::Postgres {
                connection: Box::new(PostgresStore::new(url.address()?).connection()),
                schema: ledger::schema(&global.group),
                group: global.group.clone(),
            },
        })
    }

    /// Makes the tables.
    pub(super) fn make(&mut self) -> Result<(), Failure> {
        match self {
            Self::Sqlite(file) => file.execute_batch(ledger::TABLES).map_err(|e| unreadable(&e)),
            Self::Postgres { connection, schema, .. } => Ok(connection.transaction(|tx| {
                ledger::postgres_tables(schema).iter().try_for_each(|table| tx.execute(table, &[]).map(drop))
            })?),
        }
    }

    /// Takes away what the demo made in a database that is not its own.
    pub(super) fn remove(&mut self) -> Result<(), Failure> {
        let Self::Postgres { connection, schema, group } = self else { return Ok(()) };
        let group = group.as_str();
        connection.transaction(|tx| {
            tx.execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE"), &[])?;
            for table in ["marker", "stopped", "suspect", "quarantine", "refused", "fence_intent", "fence", "scope"] {
                let of = "(SELECT scope FROM keylane.scope WHERE group_name = $1)";
                tx.execute(&format!("DELETE FROM keylane.{table} WHERE scope IN {of}"), &[&group])?;
            }
            Ok(())
        })?;
        Ok(())
    }

    pub(super) fn shares(&mut self) -> Result<Vec<Share>, Failure> {
        match self {
            Self::Sqlite(file) => shares_of(file).map_err(|e| unreadable(&e)),
            Self::Postgres { connection, schema, .. } => {
                let sql = format!("{SHARES} FROM {schema}.journal GROUP BY worker, part");
                let rows = connection.transaction(|tx| tx.query(&sql, &[]))?;
                let share = |row: &Row| Share {
                    worker: row.get(0),
                    partition: row.get::<_, i32>(1).unsigned_abs(),
                    jobs: row.get::<_, i64>(2).unsigned_abs(),
                    late: row.get::<_, i64>(3).unsigned_abs(),
                };
                Ok(rows.iter().map(share).collect())
            }
        }
    }

    /// In the order of writing.
    pub(super) fn journal(&mut self) -> Result<Vec<Entry>, Failure> {
        match self {
            Self::Sqlite(file) => journal_of(file).map_err(|e| unreadable(&e)),
            Self::Postgres { connection, schema, .. } => {
                let sql = format!(
                    "SELECT part, \"offset\", tail, origin, dest, miles, worker, owner_then FROM {schema}.journal ORDER BY n"
                );
                let rows = connection.transaction(|tx| tx.query(&sql, &[]))?;
                let entry = |row: &Row| Entry {
                    place: (row.get::<_, i32>(0).unsigned_abs(), Offset(row.get::<_, i64>(1).unsigned_abs())),
                    flight: Flight { tail: row.get(2), origin: row.get(3), dest: row.get(4), miles: row.get(5) },
                    worker: row.get(6),
                    owner_then: row.get(7),
                };
                Ok(rows.iter().map(entry).collect())
            }
        }
    }

    pub(super) fn totals(&mut self) -> Result<BTreeMap<String, Totals>, Failure> {
        match self {
            Self::Sqlite(file) => totals_of(file).map_err(|e| unreadable(&e)),
            Self::Postgres { connection, schema, .. } => {
                let sql = format!("SELECT tail, legs, miles, last_airport FROM {schema}.aircraft");
                let rows: Result<Vec<Row>, _> =
                    connection.transaction(|tx| -> Result<_, SqlError> { tx.query(&sql, &[]) });
                let of =
                    |row: &Row| (row.get(0), Totals { legs: row.get(1), miles: row.get(2), last_airport: row.get(3) });
                Ok(rows?.iter().map(of).collect())
            }
        }
    }
}

fn shares_of(file: &Connection) -> rusqlite::Result<Vec<Share>> {
    let mut statement = file.prepare_cached(&format!("{SHARES} FROM journal GROUP BY worker, part"))?;
    let share = |row: &rusqlite::Row<'_>| {
        Ok(Share { worker: row.get(0)?, partition: row.get(1)?, jobs: row.get(2)?, late: row.get(3)? })
    };
    statement.query_map([], share)?.collect()
}

fn journal_of(file: &Connection) -> rusqlite::Result<Vec<Entry>> {
    let sql = "SELECT part, offset, tail, origin, dest, miles, worker, owner_then FROM journal ORDER BY n";
    let mut journal = file.prepare(sql)?;
    let entry = |row: &rusqlite::Row<'_>| {
        let flight = Flight { tail: row.get(2)?, origin: row.get(3)?, dest: row.get(4)?, miles: row.get(5)? };
        let place = (row.get(0)?, Offset(row.get(1)?));
        Ok(Entry { place, flight, worker: row.get(6)?, owner_then: row.get(7)? })
    };
    journal.query_map([], entry)?.collect()
}

fn totals_of(file: &Connection) -> rusqlite::Result<BTreeMap<String, Totals>> {
    let mut totals = file.prepare("SELECT tail, legs, miles, last_airport FROM aircraft")?;
    let of = |row: &rusqlite::Row<'_>| {
        Ok((row.get(0)?, Totals { legs: row.get(1)?, miles: row.get(2)?, last_airport: row.get(3)? }))
    };
    totals.query_map([], of)?.collect()
}

fn unreadable(error: &rusqlite::Error) -> Failure {
    Failure::new(Code::Unavailable, "cannot use the demo's ledger").because(error)
}
