//! Records back from the log.

use std::ops::ControlFlow;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, types::Type};

use crate::{
    error::Error,
    job::Timestamp,
    log::{
        Bounds, Page, ReadLimit,
        local::{
            headers,
            table::{Table, column},
        },
    },
    partition::{Offset, Partition},
    queue::QueueIdentity,
    record::{Record, StoredRecord},
    sqlite::sorted,
};

/// `table.next` was read before the records are: what was appended in between is either in the page or above `next`.
pub(super) fn page(connection: &Connection, table: Table, from: Offset, limit: ReadLimit) -> rusqlite::Result<Page> {
    let mut ask = connection.prepare_cached(&format!(
        "SELECT offset, at, key, value, headers FROM {} WHERE offset >= ?1 ORDER BY offset",
        table.name
    ))?;
    let mut rows = ask.query([column(from)])?;
    let mut records = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let stored = record(row)?;
        let after = stored.offset.next();
        bytes += stored.record.size();
        records.push(stored);
        if records.len() >= limit.records || bytes >= limit.bytes {
            return Ok(Page { records, next: after });
        }
    }
    let read = records.last().map_or(from, |last: &StoredRecord| last.offset.next());
    Ok(Page { records, next: read.max(table.next) })
}

pub(super) fn exactly(
    connection: &Connection,
    table: Table,
    offsets: &[Offset],
) -> rusqlite::Result<Vec<StoredRecord>> {
    let mut ask = connection
        .prepare_cached(&format!("SELECT offset, at, key, value, headers FROM {} WHERE offset = ?1", table.name))?;
    let mut found = Vec::with_capacity(offsets.len());
    for &offset in offsets {
        found.extend(ask.query_row([column(offset)], record).optional()?);
    }
    Ok(found)
}

/// The keys alone: a payload is not read.
pub(super) fn keys(
    connection: &Connection,
    table: Table,
    from: Offset,
    mut each: impl FnMut(Offset, Option<&[u8]>) -> ControlFlow<()>,
) -> rusqlite::Result<()> {
    let text = format!("SELECT offset, key FROM {} WHERE offset >= ?1 ORDER BY offset", table.name);
    let mut ask = connection.prepare_cached(&text)?;
    let mut rows = ask.query([column(from)])?;
    while let Some(row) = rows.next()? {
        let key = row.get_ref(1)?.as_blob_or_null()?;
        if each(Offset(row.get(0)?), key).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) fn bounds(connection: &Connection, table: Table) -> rusqlite::Result<Bounds> {
    let first: Option<u64> = connection
        .prepare_cached(&format!("SELECT min(offset) FROM {} WHERE offset < ?1", table.name))?
        .query_row([column(table.next)], |row| row.get(0))?;
    Ok(Bounds { start: first.map_or(table.next, Offset), end: table.next })
}

fn record(row: &Row<'_>) -> rusqlite::Result<StoredRecord> {
    let blob = |column| -> rusqlite::Result<Option<Bytes>> {
        Ok(row.get_ref(column)?.as_blob_or_null()?.map(Bytes::copy_from_slice))
    };
    let headers = match row.get_ref(4)?.as_blob_or_null()? {
        None => Vec::new(),
        Some(blob) => headers::decode(blob).ok_or_else(|| {
            rusqlite::Error::FromSqlConversionFailure(4, Type::Blob, "the headers are not of the known form".into())
        })?,
    };
    let record = Record { key: blob(2)?, value: blob(3)?, headers, timestamp: Timestamp(row.get(1)?) };
    Ok(StoredRecord { offset: Offset(row.get(0)?), record })
}

pub(super) fn failed(queue: &QueueIdentity, partition: Partition, error: rusqlite::Error) -> Error {
    sorted(&format!("cannot read partition {partition} of queue '{}'", queue.name), error)
}
