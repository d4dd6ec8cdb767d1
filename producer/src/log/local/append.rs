//! A batch onto the log: one transaction, all or nothing.

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, params};

use crate::{
    enqueue::Receipt,
    error::Error,
    log::{
        AppendError, Checkpoint,
        local::{checkpoint, headers, queues, table::Table},
    },
    partition::{Offset, Partition},
    queue::QueueIdentity,
    record::Record,
    sqlite::sorted,
};

pub(super) fn append(
    connection: &mut Connection,
    cluster: &str,
    queue: &QueueIdentity,
    records: &[(Partition, Record)],
    checkpoint: Option<&Checkpoint>,
) -> Result<Vec<Receipt>, AppendError> {
    let failed = |e| sorted(&format!("cannot append to queue '{}'", queue.name), e);
    let absent = |cause| AppendError { sent: vec![None; records.len()], rest_is_absent: true, cause };
    if records.is_empty() && checkpoint.is_none() {
        return Ok(Vec::new());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|e| absent(failed(e)))?;
    let queue_id = queues::find(&tx, cluster, queue).map_err(absent)?;
    let receipts = write(&tx, queue_id, queue, records).map_err(absent)?;
    if let Some(checkpoint) = checkpoint {
        checkpoint::write(&tx, queue_id, checkpoint).map_err(|e| absent(failed(e)))?;
    }
    match tx.commit() {
        Ok(()) => Ok(receipts),
        Err(error) => {
            let rest_is_absent = !may_have_landed(&error);
            Err(AppendError { sent: vec![None; records.len()], rest_is_absent, cause: failed(error) })
        }
    }
}

/// A commit that the disk answered with an error may still be on the disk, and be found there after a crash.
fn may_have_landed(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
}

/// Partition by partition, so that each table is written once.
fn write(
    tx: &Transaction<'_>,
    queue_id: i64,
    queue: &QueueIdentity,
    records: &[(Partition, Record)],
) -> Result<Vec<Receipt>, Error> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|&at| records[at].0);
    let mut receipts: Vec<Receipt> =
        records.iter().map(|&(partition, _)| Receipt { partition, offset: Offset(0) }).collect();
    for run in order.chunk_by(|&a, &b| records[a].0 == records[b].0) {
        let partition = records[run[0]].0;
        let table = Table::find(tx, queue_id, queue, partition)?;
        let run = run.iter().map(|&at| (at, &records[at].1));
        write_run(tx, table, run, &mut receipts)
            .map_err(|e| sorted(&format!("cannot append to partition {partition} of queue '{}'", queue.name), e))?;
    }
    Ok(receipts)
}

/// All of one partition's records, in the order given.
fn write_run<'r>(
    tx: &Transaction<'_>,
    mut table: Table,
    run: impl Iterator<Item = (usize, &'r Record)>,
    receipts: &mut [Receipt],
) -> rusqlite::Result<()> {
    let mut insert = tx.prepare_cached(&format!(
        "INSERT INTO {} (offset, at, key, value, headers) VALUES (?1, ?2, ?3, ?4, ?5)",
        table.name
    ))?;
    let mut blob = Vec::new();
    for (at, record) in run {
        blob.clear();
        headers::encode(&record.headers, &mut blob);
        insert.execute(params![
            table.next.0,
            record.timestamp.0,
            record.key.as_deref(),
            record.value.as_deref(),
            (!blob.is_empty()).then_some(&blob[..]),
        ])?;
        receipts[at].offset = table.next;
        table.next = table.next.next();
        table.bytes += record.key.as_ref().map_or(0, |k| k.len() as u64);
        table.bytes += record.value.as_ref().map_or(0, |v| v.len() as u64);
    }
    table.save(tx)
}
