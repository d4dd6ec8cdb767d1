//! The other side: the same rows into one plain table of the same SQLite, with the same durability and batches.

use keylane_producer::sqlite::{Patience, Purpose, open, sorted};
use rusqlite::{Connection, params};

use super::{
    jobs::{Jobs, batches},
    measure::rate,
    place::Place,
};
use crate::exit::Failure;

/// As many bytes as the header with a job's id has on the log.
const HEADERS: [u8; 44] = [b'h'; 44];

/// Rows a second.
pub(super) fn insert(place: &Place, jobs: &Jobs, rows: u64) -> Result<f64, Failure> {
    let corner = place.corner()?;
    // Opened as the queue file is: write-ahead log, synchronous=FULL, the same sizes.
    let mut file = open(&corner.file("bare.db"), Purpose::Store, Patience::Patient)?;
    let table = "CREATE TABLE bare (at INTEGER NOT NULL, key BLOB, value BLOB, headers BLOB)";
    file.execute_batch(table).map_err(failed)?;
    rate(rows, || batches(rows).try_for_each(|batch| insert_batch(&mut file, jobs, batch).map_err(failed)))
}

fn insert_batch(file: &mut Connection, jobs: &Jobs, batch: std::ops::Range<u64>) -> rusqlite::Result<()> {
    let tx = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let mut row = tx.prepare_cached("INSERT INTO bare (at, key, value, headers) VALUES (?1, ?2, ?3, ?4)")?;
    for n in batch {
        let at = 1_700_000_000_000 + n.cast_signed();
        row.execute(params![at, jobs.key(n).as_bytes(), &jobs.payload()[..], &HEADERS[..]])?;
    }
    drop(row);
    tx.commit()
}

fn failed(error: rusqlite::Error) -> Failure {
    sorted("cannot insert bare rows", error).into()
}
