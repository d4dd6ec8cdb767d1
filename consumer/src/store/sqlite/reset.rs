//! An operator's reset of the fence: everything older than now is fenced, and the queue's identity is pinned anew.
//!
//! Always safe: the epoch rises for all partitions in one transaction, so no token from before it passes any more, and no
//! session that was opened before it can claim. What it costs is a restart of the workers.
//!
//! | what changed under the store | what a reset does besides |
//! |---|---|
//! | the group began anew (its numbers are lower) | nothing: markers and stopped keys stay |
//! | more partitions | makes rows for the new ones; jobs that were put where the old count says still run there |
//! | a queue made anew, another cluster | forgets markers, stopped keys and suspects: its offsets begin again |

use keylane_producer::{GroupName, QueueIdentity, Timestamp};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::{
    SqliteStore, cannot, schema,
    scope::{Facts, former_counts},
};
use crate::error::{Detail, Error};

/// Who resets, and why: it is written down.
#[derive(Clone, Debug)]
pub struct ResetOrder {
    /// The person or program.
    pub who: String,
    /// The reason.
    pub why: String,
    /// Only look what it would do.
    pub dry_run: bool,
}

/// What a reset does, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Partitions whose rows are fenced.
    pub partitions: u32,
    /// Partitions that get a row now.
    pub added: u32,
    /// Facts of the identity that are pinned anew: which, from, to.
    pub changed: Vec<(&'static str, String, String)>,
    /// Whether offsets begin again, so that what is known about them is forgotten.
    pub forgets_progress: bool,
    /// Stopped keys that are forgotten with it.
    pub stopped_forgotten: u64,
}

/// One act of an operator, as it was written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Act {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: Box<str>,
    /// What.
    pub act: Box<str>,
    /// Why.
    pub why: Box<str>,
    /// What came of it.
    pub detail: Box<str>,
}

impl SqliteStore {
    /// Resets the fence of a queue and group to what the broker says the queue is now.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the store knows nothing of this queue and group; [`Error::Invalid`] if the queue has fewer
    /// partitions than before; [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn reset(&self, queue: &QueueIdentity, group: &GroupName, order: &ResetOrder) -> Result<Reset, Error> {
        let doing = format!("cannot reset the fence of queue '{}'", queue.name);
        let nothing = || {
            Error::NotFound(
                Detail::new(format!("the store has no fence for queue '{}' and group '{group}'", queue.name))
                    .remedy("check --store, --queue and --group; the first worker makes the fence"),
            )
        };
        if self.connect_to_read()?.is_none() {
            return Err(nothing());
        }
        let mut connection = self.connect()?;
        schema::ensure(&mut connection)?;
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(cannot(&doing))?;
        let (scope, pinned) = pinned(&tx, queue, group).map_err(cannot(&doing))?.ok_or_else(nothing)?;
        let reset = plan(&tx, scope, &pinned, queue).map_err(cannot(&doing))??;
        if !order.dry_run {
            carry_out(&tx, scope, &pinned, queue, &reset, order).map_err(cannot(&doing))?;
            tx.commit().map_err(cannot(&doing))?;
        }
        Ok(reset)
    }

    /// What operators did to a queue and group, oldest first.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`], [`Error::Corrupt`].
    pub fn acts(&self, queue: &QueueIdentity, group: &GroupName) -> Result<Vec<Act>, Error> {
        let Some(connection) = self.connect_to_read()? else { return Ok(Vec::new()) };
        let read = || -> rusqlite::Result<Vec<Act>> {
            connection
                .prepare("SELECT at, who, act, why, detail FROM keylane_audit WHERE queue = ?1 AND group_name = ?2 ORDER BY n")?
                .query_map([queue.name.as_str(), group.as_str()], |row| {
                    let text = |column| row.get::<_, String>(column).map(Into::into);
                    Ok(Act {
                        at: Timestamp(row.get(0)?),
                        who: text(1)?,
                        act: text(2)?,
                        why: text(3)?,
                        detail: text(4)?,
                    })
                })?
                .collect()
        };
        read().map_err(cannot("cannot read what operators did"))
    }
}

fn pinned(tx: &Connection, queue: &QueueIdentity, group: &GroupName) -> rusqlite::Result<Option<(i64, Facts)>> {
    let sql = "SELECT scope, cluster, incarnation, partitions, hash, former
               FROM keylane_scope WHERE queue = ?1 AND group_name = ?2";
    tx.query_row(sql, [queue.name.as_str(), group.as_str()], |row| Ok((row.get(0)?, Facts::of(row)?))).optional()
}

fn plan(tx: &Connection, scope: i64, pinned: &Facts, queue: &QueueIdentity) -> rusqlite::Result<Result<Reset, Error>> {
    let now = queue.partitions.0.get();
    if now < pinned.partitions {
        return Ok(Err(Error::Invalid(
            Detail::new(format!(
                "queue '{}' has {now} partitions, fewer than the {} it had",
                queue.name, pinned.partitions
            ))
            .remedy("jobs of the partitions that are gone are gone too: use a store of its own, or another group"),
        )));
    }
    let facts = [
        ("cluster", pinned.cluster.clone(), queue.cluster.to_string()),
        ("incarnation", pinned.incarnation.clone(), queue.incarnation.0.to_string()),
        ("partition count", pinned.partitions.to_string(), now.to_string()),
        ("key hash", pinned.hash.clone(), queue.hash.as_str().to_owned()),
    ];
    let changed: Vec<_> = facts.into_iter().filter(|(_, was, is)| was != is).collect();
    let forgets_progress = changed.iter().any(|(fact, ..)| matches!(*fact, "cluster" | "incarnation"));
    let stopped: i64 =
        tx.query_row("SELECT count(*) FROM keylane_stopped WHERE scope = ?1", [scope], |row| row.get(0))?;
    Ok(Ok(Reset {
        partitions: pinned.partitions,
        added: now - pinned.partitions,
        changed,
        forgets_progress,
        stopped_forgotten: if forgets_progress { stopped.unsigned_abs() } else { 0 },
    }))
}

fn carry_out(
    tx: &Connection,
    scope: i64,
    pinned: &Facts,
    queue: &QueueIdentity,
    reset: &Reset,
    order: &ResetOrder,
) -> rusqlite::Result<()> {
    let mut former = former_counts(&pinned.former);
    if reset.forgets_progress {
        former.clear();
        for table in ["keylane_marker", "keylane_stopped", "keylane_suspect", "keylane_quarantine"] {
            tx.execute(&format!("DELETE FROM {table} WHERE scope = ?1"), [scope])?;
        }
    } else if reset.added > 0 {
        former.push(pinned.partitions);
    }
    let former: Vec<String> = former.iter().map(u32::to_string).collect();
    let now = Timestamp::now().0;
    tx.execute(
        "UPDATE keylane_scope SET epoch = epoch + 1, cluster = ?2, incarnation = ?3, partitions = ?4, hash = ?5,
                                  former = ?6, pinned_at = ?7, anew = anew OR ?8
         WHERE scope = ?1",
        params![
            scope,
            queue.cluster,
            queue.incarnation.0,
            queue.partitions.0.get(),
            queue.hash.as_str(),
            former.join(","),
            now,
            reset.forgets_progress
        ],
    )?;
    // The claim number goes on rising; whether the last owner handed over stays as it was.
    tx.execute("UPDATE keylane_fence SET epoch = epoch + 1, gen = 0, owner = '' WHERE scope = ?1", [scope])?;
    let mut row = tx.prepare(
        "INSERT INTO keylane_fence (scope, part, epoch, gen, owner, claim, closed, clean, handed_over)
         SELECT scope, ?2, epoch, 0, '', 0, 0, 1, 1 FROM keylane_scope WHERE scope = ?1",
    )?;
    for part in pinned.partitions..queue.partitions.0.get() {
        row.execute(params![scope, part])?;
    }
    let changed: Vec<String> = reset.changed.iter().map(|(fact, was, is)| format!("{fact}: {was} -> {is}")).collect();
    let detail = format!(
        "{} partitions fenced, {} added, {}; {}",
        reset.partitions,
        reset.added,
        if reset.forgets_progress { "progress forgotten" } else { "progress kept" },
        if changed.is_empty() { "same queue".to_owned() } else { changed.join(", ") }
    );
    tx.execute(
        "INSERT INTO keylane_audit (queue, group_name, at, who, act, why, detail)
         SELECT queue, group_name, ?2, ?3, 'fence reset', ?4, ?5 FROM keylane_scope WHERE scope = ?1",
        params![scope, now, order.who, order.why, detail],
    )?;
    Ok(())
}
