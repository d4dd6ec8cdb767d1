//! The transactions that change who is a member and who owns what. Nobody leads: whoever changes the membership deals
//! the partitions in the same transaction.
//!
//! 1. Time is read when the write lock is held, so a transaction that waited for it judges nobody by an old time.
//! 2. A partition of a live member is only marked (`revoke_by`); it moves when its owner releases it, or at that time.
//! 3. A mark is not taken back: the owner may have begun to drain. If its heir is gone, it may get the partition back,
//!    in a new generation.

use keylane_producer::Partition;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::{
    assignment,
    schema::{Place, nanos},
    settings::LocalGroupSettings,
};
use crate::{
    clock::BootTime,
    error::Error,
    fence::{Generation, MemberId},
};

/// What the rows say about one member.
#[derive(Debug)]
pub(super) struct Standing {
    /// The group's number.
    pub(super) generation: Generation,
    /// What it owns, ascending.
    pub(super) owned: Vec<Owned>,
}

/// A row of one owned partition.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) partition: Partition,
    /// The group's number when it was assigned.
    pub(super) generation: Generation,
    /// The group wants it back.
    pub(super) revoking: bool,
}

/// Becomes a member, after leaving as `former` if that is given.
pub(super) fn join(
    connection: &mut Connection,
    place: &Place,
    member: &MemberId,
    former: Option<&MemberId>,
    settings: &LocalGroupSettings,
) -> Result<(), Error> {
    change(connection, place, "join", |tx, now| {
        if let Some(former) = former {
            remove(tx, place, former)?;
        }
        tx.prepare_cached("INSERT INTO keylane_member VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8)")?.execute(
            params![
                place.queue_id,
                place.group.as_str(),
                member.as_str(),
                settings.worker,
                place.boot,
                now,
                nanos(settings.session_timeout),
                nanos(settings.rebalance_timeout),
            ],
        )?;
        Ok(true)
    })
}

/// Restarts the member's session, and expels those whose own ran out. If that is the member itself, it is no longer
/// one: its rows are gone, as they are for a member that another one expelled.
pub(super) fn keep(connection: &mut Connection, place: &Place, member: &MemberId) -> Result<(), Error> {
    change(connection, place, "stay in", |tx, now| {
        tx.prepare_cached(
            "UPDATE keylane_member SET seen = max(seen, ?5)
              WHERE queue_id = ?1 AND grp = ?2 AND member = ?3 AND boot = ?4 AND seen + session_ns > ?5",
        )?
        .execute(params![place.queue_id, place.group.as_str(), member.as_str(), place.boot, now])?;
        Ok(false)
    })
}

/// Whether some member's session or drain has run out: then [`keep`] is due at once. Reads only.
pub(super) fn overdue(connection: &Connection, place: &Place) -> Result<bool, Error> {
    let now = nanos_of(place.clock.now());
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM keylane_member
                             WHERE queue_id = ?1 AND grp = ?2 AND (boot <> ?3 OR seen + session_ns <= ?4))
                 OR EXISTS (SELECT 1 FROM keylane_assignment
                             WHERE queue_id = ?1 AND grp = ?2 AND revoke_by <= ?4)",
        )
        .and_then(|mut ask| {
            ask.query_row(params![place.queue_id, place.group.as_str(), place.boot, now], |row| row.get(0))
        })
        .map_err(place.failed("look at"))
}

/// Gives everything up at once.
pub(super) fn leave(connection: &mut Connection, place: &Place, member: &MemberId) -> Result<(), Error> {
    change(connection, place, "leave", |tx, _| remove(tx, place, member))
}

/// Gives up partitions that are drained. What is another member's already stays so.
pub(super) fn release(
    connection: &mut Connection,
    place: &Place,
    member: &MemberId,
    partitions: &[Partition],
) -> Result<(), Error> {
    change(connection, place, "release partitions in", |tx, _| {
        let mut freed = 0;
        for partition in partitions {
            freed += tx
                .prepare_cached(
                    "DELETE FROM keylane_assignment WHERE queue_id = ?1 AND grp = ?2 AND part = ?3 AND member = ?4",
                )?
                .execute(params![place.queue_id, place.group.as_str(), partition.0, member.as_str()])?;
        }
        Ok(freed > 0)
    })
}

/// What changed for a member that knows the group's number `known`: `Ok(None)` nothing, `Ok(Some(None))` it is no
/// member any more.
pub(super) fn news(
    connection: &mut Connection,
    place: &Place,
    member: &MemberId,
    known: Option<Generation>,
) -> Result<Option<Option<Standing>>, Error> {
    let read = |tx: &Transaction<'_>| -> rusqlite::Result<Option<Option<Standing>>> {
        let Some(generation) = generation(tx, place)? else { return Ok(Some(None)) };
        if known == Some(generation) {
            return Ok(None);
        }
        let known_here = tx
            .prepare_cached("SELECT 1 FROM keylane_member WHERE queue_id = ?1 AND grp = ?2 AND member = ?3")?
            .exists(params![place.queue_id, place.group.as_str(), member.as_str()])?;
        if !known_here {
            return Ok(Some(None));
        }
        let mut ask = tx.prepare_cached(
            "SELECT part, generation, revoke_by IS NOT NULL FROM keylane_assignment
              WHERE queue_id = ?1 AND grp = ?2 AND member = ?3 ORDER BY part",
        )?;
        let rows = ask.query_map(params![place.queue_id, place.group.as_str(), member.as_str()], |row| {
            Ok(Owned {
                partition: Partition(row.get(0)?),
                generation: generation_of(row.get(1)?)?,
                revoking: row.get(2)?,
            })
        })?;
        Ok(Some(Some(Standing { generation, owned: rows.collect::<Result<_, _>>()? })))
    };
    let tx = connection.transaction().map_err(place.failed("look at"))?;
    read(&tx).map_err(place.failed("look at"))
}

/// One change of the group: `edit` says whether it touched membership or owners, the dead are expelled, and if anything
/// moved, the partitions are dealt in a new generation.
fn change(
    connection: &mut Connection,
    place: &Place,
    doing: &str,
    edit: impl FnOnce(&Transaction<'_>, i64) -> rusqlite::Result<bool>,
) -> Result<(), Error> {
    let failed = place.failed(doing);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&failed)?;
    let now = nanos_of(place.clock.now());
    let edited = edit(&tx, now).map_err(&failed)?;
    let expelled = expel(&tx, place, now).map_err(&failed)?;
    if edited || expelled {
        deal(&tx, place, now).map_err(&failed)?;
    }
    tx.commit().map_err(failed)
}

fn remove(tx: &Transaction<'_>, place: &Place, member: &MemberId) -> rusqlite::Result<bool> {
    let whose = params![place.queue_id, place.group.as_str(), member.as_str()];
    let members = tx
        .prepare_cached("DELETE FROM keylane_member WHERE queue_id = ?1 AND grp = ?2 AND member = ?3")?
        .execute(whose)?;
    tx.prepare_cached("DELETE FROM keylane_assignment WHERE queue_id = ?1 AND grp = ?2 AND member = ?3")?
        .execute(whose)?;
    Ok(members > 0)
}

/// Removes members of other boots and those whose session ran out, with what they owned, and takes partitions that were
/// to be released by now.
fn expel(tx: &Transaction<'_>, place: &Place, now: i64) -> rusqlite::Result<bool> {
    let members = tx
        .prepare_cached(
            "DELETE FROM keylane_member
              WHERE queue_id = ?1 AND grp = ?2 AND (boot <> ?3 OR seen + session_ns <= ?4)",
        )?
        .execute(params![place.queue_id, place.group.as_str(), place.boot, now])?;
    let partitions = tx
        .prepare_cached(
            "DELETE FROM keylane_assignment
              WHERE queue_id = ?1 AND grp = ?2 AND (revoke_by <= ?3 OR member NOT IN
                    (SELECT member FROM keylane_member WHERE queue_id = ?1 AND grp = ?2))",
        )?
        .execute(params![place.queue_id, place.group.as_str(), now])?;
    Ok(members + partitions > 0)
}

/// Raises the generation, gives every free partition to its planned owner, and marks those that are to move.
fn deal(tx: &Transaction<'_>, place: &Place, now: i64) -> rusqlite::Result<()> {
    let generation: i64 = tx
        .prepare_cached(
            "INSERT INTO keylane_group VALUES (?1, ?2, 1)
                 ON CONFLICT DO UPDATE SET generation = generation + 1 RETURNING generation",
        )?
        .query_row(params![place.queue_id, place.group.as_str()], |row| row.get(0))?;
    let members = members(tx, place)?;
    if members.is_empty() {
        return Ok(());
    }
    let rows = Rows::read(tx, place, &members)?;
    let planned = assignment::plan(members.len(), &rows.firm);
    for (((part, target), owner), firm) in (0..place.partitions).zip(planned).zip(rows.owner).zip(rows.firm) {
        match owner {
            Some(owner) if owner == target || firm.is_none() => {}
            Some(owner) if place.guards.release => {
                mark(tx, place, part, now.saturating_add(members[owner].rebalance))?;
            }
            _ => give(tx, place, part, &members[target].id, generation)?,
        }
    }
    Ok(())
}

/// A live member, as dealing needs it.
struct Seat {
    id: String,
    rebalance: i64,
}

fn members(tx: &Transaction<'_>, place: &Place) -> rusqlite::Result<Vec<Seat>> {
    tx.prepare_cached(
        "SELECT member, rebalance_ns FROM keylane_member WHERE queue_id = ?1 AND grp = ?2 ORDER BY member",
    )?
    .query_map(params![place.queue_id, place.group.as_str()], |row| {
        Ok(Seat { id: row.get(0)?, rebalance: row.get(1)? })
    })?
    .collect()
}

/// By partition: who owns it, and who may keep it (an owner that was asked to release it may not).
struct Rows {
    owner: Vec<Option<usize>>,
    firm: Vec<Option<usize>>,
}

impl Rows {
    fn read(tx: &Transaction<'_>, place: &Place, members: &[Seat]) -> rusqlite::Result<Self> {
        let count = usize::try_from(place.partitions).expect("a partition count fits a usize");
        let mut rows = Self { owner: vec![None; count], firm: vec![None; count] };
        let mut ask = tx.prepare_cached(
            "SELECT part, member, revoke_by IS NOT NULL FROM keylane_assignment WHERE queue_id = ?1 AND grp = ?2",
        )?;
        let mut found = ask.query(params![place.queue_id, place.group.as_str()])?;
        while let Some(row) = found.next()? {
            let (part, member, revoking): (i64, String, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let part = usize::try_from(part)
                .ok()
                .filter(|&part| part < count)
                .ok_or(rusqlite::Error::IntegralValueOutOfRange(0, part))?;
            let owner = members.binary_search_by(|seat| seat.id.cmp(&member)).ok();
            rows.owner[part] = owner;
            rows.firm[part] = owner.filter(|_| !revoking);
        }
        Ok(rows)
    }
}

fn mark(tx: &Transaction<'_>, place: &Place, part: u32, revoke_by: i64) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE keylane_assignment SET revoke_by = ?4 WHERE queue_id = ?1 AND grp = ?2 AND part = ?3")?
        .execute(params![place.queue_id, place.group.as_str(), part, revoke_by])
        .map(drop)
}

fn give(tx: &Transaction<'_>, place: &Place, part: u32, member: &str, generation: i64) -> rusqlite::Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO keylane_assignment VALUES (?1, ?2, ?3, ?4, ?5, NULL)")?
        .execute(params![place.queue_id, place.group.as_str(), part, member, generation])
        .map(drop)
}

/// The group's number; `None` before the first join ever.
pub(super) fn generation(tx: &Connection, place: &Place) -> rusqlite::Result<Option<Generation>> {
    tx.prepare_cached("SELECT generation FROM keylane_group WHERE queue_id = ?1 AND grp = ?2")?
        .query_row(params![place.queue_id, place.group.as_str()], |row| generation_of(row.get(0)?))
        .optional()
}

fn generation_of(number: i64) -> rusqlite::Result<Generation> {
    let read = u64::try_from(number).ok().and_then(Generation::new);
    read.ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number))
}

pub(super) fn nanos_of(time: BootTime) -> i64 {
    i64::try_from(time.nanos()).unwrap_or(i64::MAX)
}

/// A fresh id; later ones sort after earlier ones, so that ties in dealing go to the longest member.
pub(super) fn fresh_member() -> MemberId {
    MemberId::new(&ulid::Ulid::generate().to_string()).expect("the text of a ULID is not empty")
}
