//! Looking at a group without touching it: no row changes, nobody is expelled, no session is restarted.

use std::{collections::BTreeMap, path::Path, time::Duration};

use keylane_producer::{GroupName, Offset, Partition, QueueIdentity};
use rusqlite::{Connection, Transaction, params};

use super::{
    commit,
    membership::nanos_of,
    schema::{self, Place},
};
use crate::{
    clock::Clock,
    error::Error,
    group::{GroupWatch, MemberOverview, Overview},
};

/// What the group looks like now.
///
/// # Errors
/// [`Error::NotFound`] if file or queue are gone; [`Error::Unavailable`], [`Error::Corrupt`].
pub fn overview(path: &Path, queue: &QueueIdentity, group: &GroupName) -> Result<Overview, Error> {
    GroupReader::open(path, queue, group, Clock::boot())?.overview()
}

/// A connection that only looks.
pub struct GroupReader {
    connection: Connection,
    queue: QueueIdentity,
    place: Place,
}

impl GroupReader {
    /// For a queue that exists; the group need not.
    ///
    /// # Errors
    /// As [`overview`].
    pub fn open(path: &Path, queue: &QueueIdentity, group: &GroupName, clock: Clock) -> Result<Self, Error> {
        let log = schema::open_log(path)?;
        let place = Place::find(&log, queue, group, clock)?;
        Ok(Self { connection: schema::open_to_look(path)?, queue: queue.clone(), place })
    }

    fn committed(&self) -> Result<BTreeMap<Partition, Option<Offset>>, Error> {
        let all: Vec<Partition> = self.queue.partitions.all().collect();
        commit::committed(&self.connection, &self.place, &all)
    }
}

impl GroupWatch for GroupReader {
    fn overview(&mut self) -> Result<Overview, Error> {
        let members = members(&self.connection, &self.place).map_err(self.place.failed("look at"))?;
        Ok(Overview { members, committed: self.committed()? })
    }
}

fn members(connection: &Connection, place: &Place) -> rusqlite::Result<Vec<MemberOverview>> {
    let tx = connection.unchecked_transaction()?;
    if !tx.table_exists(None, "keylane_member")? {
        return Ok(Vec::new());
    }
    let now = nanos_of(place.clock.now());
    let mut ask = tx.prepare_cached(
        "SELECT member, worker, boot = ?3, joined, seen, session_ns FROM keylane_member
          WHERE queue_id = ?1 AND grp = ?2 ORDER BY member",
    )?;
    let mut rows = ask.query(params![place.queue_id, place.group.as_str(), place.boot])?;
    let mut members = Vec::new();
    while let Some(row) = rows.next()? {
        let member: String = row.get(0)?;
        let (this_boot, joined): (bool, i64) = (row.get(2)?, row.get(3)?);
        let (seen, session): (i64, i64) = (row.get(4)?, row.get(5)?);
        let expires = seen.saturating_add(session);
        let (partitions, revoking) = owned(&tx, place, &member)?;
        members.push(MemberOverview {
            worker: row.get::<_, String>(1)?.into(),
            member_for: between(joined, now).filter(|_| this_boot),
            expired: between(now, expires).filter(|left| this_boot && !left.is_zero()).is_none(),
            session_left: between(now, expires).filter(|left| this_boot && !left.is_zero()),
            session: between(0, session),
            silent_for: between(if this_boot { seen } else { 0 }, now).unwrap_or_default(),
            partitions,
            revoking,
        });
    }
    Ok(members)
}

fn owned(tx: &Transaction<'_>, place: &Place, member: &str) -> rusqlite::Result<(Vec<Partition>, Vec<Partition>)> {
    let mut ask = tx.prepare_cached(
        "SELECT part, revoke_by IS NOT NULL FROM keylane_assignment
          WHERE queue_id = ?1 AND grp = ?2 AND member = ?3 ORDER BY part",
    )?;
    let rows = ask.query_map(params![place.queue_id, place.group.as_str(), member], |row| {
        Ok((Partition(row.get(0)?), row.get::<_, bool>(1)?))
    })?;
    let rows: Vec<(Partition, bool)> = rows.collect::<Result<_, _>>()?;
    let revoking = rows.iter().filter(|(_, revoking)| *revoking).map(|(p, _)| *p).collect();
    Ok((rows.into_iter().map(|(p, _)| p).collect(), revoking))
}

fn between(earlier: i64, later: i64) -> Option<Duration> {
    later.checked_sub(earlier).and_then(|nanos| u64::try_from(nanos).ok()).map(Duration::from_nanos)
}
