//! The tables, as numbered steps. Each is done once, in the order of their numbers, by whichever worker comes first; all
//! others wait for it or find it done.

use super::{
    fault::cannot,
    wire::{Param, Transaction, Wire},
};
use crate::error::{Detail, Error};
use tokio_postgres::types::Type;

/// A step is never changed once a release had it: what follows is a step of its own.
pub(super) const STEPS: [&str; 6] = [
    include_str!("schema/1.sql"),
    include_str!("schema/parked.sql"),
    include_str!("schema/admit.sql"),
    include_str!("schema/calls.sql"),
    include_str!("schema/dead.sql"),
    include_str!("schema/round.sql"),
];

/// Held to the end of the transaction that makes the tables; the number is ours by nothing but custom.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7309459612047966053)";

/// Makes the tables, or what is missing of them. Writes nothing if all is there.
pub(super) fn ensure(wire: &mut Wire) -> Result<(), Error> {
    let doing = "cannot make the store's tables";
    let found = version(&mut wire.begin(doing)?)?;
    if found == Some(STEPS.len()) {
        return Ok(());
    }
    let mut tx = wire.begin(doing)?;
    tx.say(LOCK).map_err(cannot(doing))?;
    if found.is_none() && is_made(&mut tx)? {
        // By the one that held the lock before. A transaction from before then does not find the new names.
        drop(tx);
        return ensure(wire);
    }
    let found = found.map_or(Ok(None), |_| version(&mut tx))?.unwrap_or(0);
    understood(found)?;
    for (number, step) in (1_i32..).zip(STEPS).skip(found) {
        tx.say(step).map_err(cannot(doing))?;
        let row: &[Param<'_>] = &[(&number, Type::INT4)];
        tx.execute("INSERT INTO keylane.migration (version) VALUES ($1)", row).map_err(cannot(doing))?;
    }
    tx.commit().map_err(cannot(doing))
}

/// Whether there is a store at all: for readers, who make nothing.
pub(super) fn is_there(tx: &mut Transaction<'_>) -> Result<bool, Error> {
    match version(tx)? {
        None => Ok(false),
        Some(found) if found < STEPS.len() => Err(Error::Invalid(
            Detail::new(format!("the store's tables have version {found}: this program knows version {}", STEPS.len()))
                .remedy(
                    "start a worker of this version, or its 'keylane fence reset', as a role that may change tables",
                ),
        )),
        Some(found) => understood(found).map(|()| true),
    }
}

fn version(tx: &mut Transaction<'_>) -> Result<Option<usize>, Error> {
    if !is_made(tx)? {
        return Ok(None);
    }
    let rows = tx.query("SELECT count(*) FROM keylane.migration", &[]).map_err(cannot(READING))?;
    Ok(usize::try_from(rows[0].get::<_, i64>(0)).ok())
}

/// As the catalog's rows tell, which any transaction sees at once: a name may still be unknown to a session that asked for
/// it before it was there.
fn is_made(tx: &mut Transaction<'_>) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT FROM pg_class JOIN pg_namespace AS n ON n.oid = relnamespace
                              WHERE nspname = 'keylane' AND relname = 'migration')";
    Ok(tx.query(sql, &[]).map_err(cannot(READING))?[0].get(0))
}

const READING: &str = "cannot read the store's tables";

fn understood(found: usize) -> Result<(), Error> {
    if found <= STEPS.len() {
        return Ok(());
    }
    Err(Error::Invalid(
        Detail::new(format!("the store's tables have version {found}: this program knows version {}", STEPS.len()))
            .remedy("use the version of keylane that made them, or a newer one"),
    ))
}
