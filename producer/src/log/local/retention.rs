//! Old records leave, a bounded bite at a time.

use rusqlite::{Connection, TransactionBehavior};

use crate::{
    error::Error,
    job::Timestamp,
    log::local::{
        LocalLog, queues,
        table::{Table, column},
    },
    partition::{Offset, Partition},
    queue::{QueueIdentity, Retention},
    sqlite::sorted,
};

/// Most records that go in one transaction, so that writers wait for some milliseconds only.
const BITE_RECORDS: usize = 1_000;
/// Most bytes of keys and payloads that go in one transaction (and at least one record).
const BITE_BYTES: u64 = 8 << 20;

/// What went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Records.
    pub records: u64,
    /// Bytes of their keys and payloads. The file keeps its size; its free pages are used again.
    pub bytes: u64,
}

impl LocalLog {
    /// Removes what the queue's retention no longer keeps, from the head of each partition on: records older than its
    /// age at `now`, and the oldest ones while the partition holds more than its bytes. A record that is too young keeps
    /// those behind it, whatever their timestamps say, unless size removes it.
    ///
    /// Never removes what a group that has started on the partition has not finished, and nothing at all before the
    /// first group has.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the queue is gone; [`Error::Unavailable`], [`Error::Corrupt`]. What went before stays gone.
    pub fn expire(&mut self, queue: &QueueIdentity, now: Timestamp) -> Result<Expired, Error> {
        let retention = queues::describe(&self.connection, &self.cluster, &queue.name)?.retention;
        let mut gone = Expired::default();
        for partition in queue.partitions.all() {
            loop {
                let bite = self.bite(queue, partition, retention, now)?;
                gone.records += bite.records;
                gone.bytes += bite.bytes;
                if bite.records == 0 {
                    break;
                }
            }
        }
        Ok(gone)
    }

    /// One transaction of one partition.
    fn bite(
        &mut self,
        queue: &QueueIdentity,
        partition: Partition,
        retention: Retention,
        now: Timestamp,
    ) -> Result<Expired, Error> {
        let failed = |e| sorted(&format!("cannot expire records of partition {partition} of '{}'", queue.name), e);
        // Looked at without the write lock first: most of the time nothing is to go.
        let table = self.table(queue, partition)?;
        if head(&self.connection, table, retention, now).map_err(failed)?.is_none() {
            return Ok(Expired::default());
        }
        let tx = self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let queue_id = queues::find(&tx, &self.cluster, queue)?;
        let table = Table::find(&tx, queue_id, queue, partition)?;
        let Some((last, gone)) = head(&tx, table, retention, now).map_err(failed)? else {
            return Ok(Expired::default());
        };
        remove(&tx, table, last, gone).map_err(failed)?;
        tx.commit().map_err(failed)?;
        Ok(gone)
    }
}

/// The last offset of the next bite and what is in it; `None` if nothing is to go.
fn head(
    connection: &Connection,
    table: Table,
    retention: Retention,
    now: Timestamp,
) -> rusqlite::Result<Option<(Offset, Expired)>> {
    let finished: Option<u64> = connection
        .prepare_cached("SELECT min(next_offset) FROM keylane_finished WHERE queue_id = ?1 AND part = ?2")?
        .query_row((table.name.queue_id, table.name.partition.0), |row| row.get(0))?;
    let Some(finished) = finished.map(Offset) else { return Ok(None) };
    let oldest = retention.age.map(|age| now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)));

    let mut ask = connection.prepare_cached(&format!(
        "SELECT offset, at, coalesce(length(key), 0) + coalesce(length(value), 0) FROM {}
          WHERE offset < ?1 ORDER BY offset LIMIT ?2",
        table.name
    ))?;
    let mut rows = ask.query((column(finished), BITE_RECORDS))?;
    let mut bite = None;
    let mut gone = Expired::default();
    while let Some(row) = rows.next()? {
        let (offset, at, bytes): (u64, i64, u64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let too_old = oldest.is_some_and(|oldest| at < oldest);
        let too_much = retention.bytes.is_some_and(|limit| table.bytes.saturating_sub(gone.bytes) > limit);
        if !(too_old || too_much) || (bite.is_some() && gone.bytes + bytes > BITE_BYTES) {
            break;
        }
        gone.records += 1;
        gone.bytes += bytes;
        bite = Some((Offset(offset), gone));
    }
    Ok(bite)
}

fn remove(tx: &Connection, mut table: Table, last: Offset, gone: Expired) -> rusqlite::Result<()> {
    tx.prepare_cached(&format!("DELETE FROM {} WHERE offset <= ?1", table.name))?.execute([column(last)])?;
    table.bytes = table.bytes.saturating_sub(gone.bytes);
    table.save(tx)
}
