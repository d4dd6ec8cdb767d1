//! Queues: made, described, listed, and recognised again.

use std::{num::NonZeroU32, time::Duration};

use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};

use crate::{
    error::{Detail, Error},
    job::Timestamp,
    log::{
        QueueDescription,
        local::table::{Table, TableName},
    },
    partition::PartitionCount,
    queue::{Incarnation, KeyHash, QueueIdentity, QueueName, QueueSpec, Retention, already_there, not_there},
    sqlite::sorted,
};

pub(super) fn create(connection: &mut Connection, cluster: &str, spec: &QueueSpec) -> Result<QueueIdentity, Error> {
    spec.partitions.check()?;
    if spec.replication.is_some() {
        return Err(Error::Invalid(
            Detail::new("one file has no copies: copies are for queues on Kafka").remedy("leave --replication out"),
        ));
    }
    let failed = |e| sorted(&format!("cannot make queue '{}'", spec.name), e);
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    if let Some(there) = lookup(&tx, cluster, &spec.name)? {
        return Err(already_there(&spec.name, there.identity.partitions, spec.partitions));
    }
    let identity = QueueIdentity {
        cluster: cluster.into(),
        name: spec.name.clone(),
        incarnation: Incarnation(ulid::Ulid::generate().to_string().into()),
        partitions: spec.partitions,
        hash: KeyHash::Murmur2,
    };
    insert(&tx, &identity, spec.retention).map_err(failed)?;
    tx.commit().map_err(failed)?;
    Ok(identity)
}

fn insert(tx: &Connection, queue: &QueueIdentity, retention: Retention) -> rusqlite::Result<()> {
    let age = retention.age.map(|age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    let bytes = retention.bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
    tx.execute(
        "INSERT INTO keylane_queue (name, incarnation, partitions, hash, retention_ms, retention_bytes, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            queue.name.as_str(),
            queue.incarnation.0,
            queue.partitions.0.get(),
            queue.hash.as_str(),
            age,
            bytes,
            Timestamp::now().0
        ],
    )?;
    let id = tx.last_insert_rowid();
    queue.partitions.all().try_for_each(|partition| Table::create(tx, TableName { queue_id: id, partition }))
}

pub(super) fn describe(connection: &Connection, cluster: &str, name: &QueueName) -> Result<QueueDescription, Error> {
    match lookup(connection, cluster, name)? {
        Some(queue) => Ok(queue),
        None => Err(not_there(name, &names(connection)?)),
    }
}

fn lookup(connection: &Connection, cluster: &str, name: &QueueName) -> Result<Option<QueueDescription>, Error> {
    let row = connection
        .prepare_cached(
            "SELECT incarnation, partitions, hash, retention_ms, retention_bytes FROM keylane_queue WHERE name = ?1",
        )
        .and_then(|mut ask| ask.query_row([name.as_str()], described).optional())
        .map_err(|e| sorted(&format!("cannot look up queue '{name}'"), e))?;
    let Some((incarnation, partitions, hash, retention)) = row else { return Ok(None) };
    if *hash != *KeyHash::Murmur2.as_str() {
        return Err(Error::Invalid(
            Detail::new(format!("queue '{name}' spreads its keys by '{hash}', which this version does not know"))
                .remedy("use the version of Keylane that made the queue, or a later one"),
        ));
    }
    let identity = QueueIdentity {
        cluster: cluster.into(),
        name: name.clone(),
        incarnation: Incarnation(incarnation),
        partitions: PartitionCount(partitions),
        hash: KeyHash::Murmur2,
    };
    Ok(Some(QueueDescription { identity, retention, replication: None }))
}

type Described = (Box<str>, NonZeroU32, Box<str>, Retention);

fn described(row: &Row<'_>) -> rusqlite::Result<Described> {
    let partitions: u32 = row.get(1)?;
    let partitions = NonZeroU32::new(partitions).ok_or(rusqlite::Error::IntegralValueOutOfRange(1, 0))?;
    let retention = Retention { age: row.get::<_, Option<u64>>(3)?.map(Duration::from_millis), bytes: row.get(4)? };
    Ok((row.get(0)?, partitions, row.get(2)?, retention))
}

pub(super) fn names(connection: &Connection) -> Result<Vec<QueueName>, Error> {
    let failed = |e| sorted("cannot list the queues", e);
    let mut ask = connection.prepare_cached("SELECT name FROM keylane_queue ORDER BY name").map_err(failed)?;
    let names: rusqlite::Result<Vec<String>> = ask.query_map([], |row| row.get(0)).map_err(failed)?.collect();
    names.map_err(failed)?.iter().map(|name| name.parse()).collect()
}

/// The id of exactly this making of the queue.
pub(super) fn find(connection: &Connection, cluster: &str, queue: &QueueIdentity) -> Result<i64, Error> {
    let found: Option<(i64, Box<str>)> = connection
        .prepare_cached("SELECT id, incarnation FROM keylane_queue WHERE name = ?1")
        .and_then(|mut ask| ask.query_row([queue.name.as_str()], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .map_err(|e| sorted(&format!("cannot look up queue '{}'", queue.name), e))?;
    let Some((id, incarnation)) = found else { return Err(not_there(&queue.name, &names(connection)?)) };
    if incarnation != queue.incarnation.0 || *cluster != *queue.cluster {
        return Err(Error::NotFound(
            Detail::new(format!("queue '{}' is not the one that was opened: it was made anew since", queue.name))
                .remedy("start again to use the new one; what the old one held went with it"),
        ));
    }
    Ok(id)
}
