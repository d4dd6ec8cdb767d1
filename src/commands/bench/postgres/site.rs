//! A schema of the bench's own in the database, and a queue that nobody else has.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use keylane_consumer::{
    Effect, Fence, FencedStore, Generation,
    clock::{BootTime, Clock},
    fence::{Lease, MemberId, Owner},
    store::{
        Candidate, ClaimError, EffectError, StoreSession,
        postgres::{
            PostgresAddress, PostgresConnection, PostgresSession, PostgresStore, PostgresTx, SqlError, types::Type,
        },
    },
};
use keylane_producer::{
    GroupName, Offset, Partition, QueueIdentity,
    queue::{Incarnation, KeyHash},
};

use crate::exit::{Code, Failure};

/// Each session of a figure writes to one of its own.
const PARTITIONS: &str = "64";

/// It is deleted when this is dropped.
pub(super) struct Site {
    pub(super) store: PostgresStore,
    address: PostgresAddress,
    schema: String,
    queue: QueueIdentity,
    group: GroupName,
    generation: AtomicU64,
    offset: AtomicU64,
    /// Groups of whole workers, whose rows go too.
    groups: Mutex<Vec<GroupName>>,
}

impl Site {
    pub(super) fn make(address: PostgresAddress) -> Result<Self, Failure> {
        let id = ulid::Ulid::generate().to_string().to_lowercase();
        let queue = QueueIdentity {
            cluster: "bench".into(),
            name: "keylane-bench".parse()?,
            incarnation: Incarnation(id.as_str().into()),
            partitions: PARTITIONS.parse()?,
            hash: KeyHash::Murmur2,
        };
        let (store, group) = (PostgresStore::new(address.clone()), format!("keylane-bench-{id}").parse()?);
        drop(store.open(&queue, &group)?);
        let site = Self {
            store,
            address,
            schema: format!("keylane_bench_{id}"),
            queue,
            group,
            generation: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            groups: Mutex::default(),
        };
        let schema = &site.schema;
        site.say(&format!("CREATE SCHEMA {schema}"))?;
        site.say(&format!("CREATE TABLE {schema}.effect (key bytea, value bytea)"))?;
        // As the peers have it.
        site.say(&format!(
            "CREATE TABLE {schema}.ledger (key text PRIMARY KEY, n bigint NOT NULL, last bigint NOT NULL)"
        ))?;
        Ok(site)
    }

    pub(super) fn session(&self) -> Result<PostgresSession, Failure> {
        Ok(self.store.open(&self.queue, &self.group)?)
    }

    pub(super) fn connection(&self) -> PostgresConnection {
        self.store.connection()
    }

    /// A group that no worker was ever in.
    pub(super) fn fresh_group(&self) -> Result<GroupName, Failure> {
        let group: GroupName = format!("keylane-bench-{}", ulid::Ulid::generate()).parse()?;
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).push(group.clone());
        Ok(group)
    }

    /// Claims the partition for a newer owner than any before.
    pub(super) fn claim(&self, session: &mut PostgresSession, partition: Partition) -> Result<Arc<Fence>, Failure> {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let member = MemberId::new("bench").expect("it is not empty");
        let candidate = Candidate {
            partition,
            generation: Generation::new(generation).expect("it is not 0"),
            owner: Owner::fresh(&member),
            worker: "bench".into(),
            begin: None,
        };
        let claimed = session.claim(&candidate).map_err(|error| match error {
            ClaimError::Failed(error) => error.into(),
            refused @ ClaimError::Refused(_) => Failure::new(Code::Failed, "a claim was refused").because(&refused),
        })?;
        // Ownership that nobody takes away: the row alone is asked.
        let lease = Lease::new(Clock::boot(), Duration::from_secs(3_600));
        lease.proved(BootTime::NEVER);
        Ok(Fence::raise(partition, claimed.token, lease))
    }

    /// The first of so many offsets that nobody else writes to.
    pub(super) fn next_offsets(&self, count: u64) -> u64 {
        self.offset.fetch_add(count, Ordering::Relaxed)
    }

    /// The statement of every effect.
    pub(super) fn insert(&self) -> String {
        format!("INSERT INTO {}.effect (key, value) VALUES ($1, $2)", self.schema)
    }

    /// The statement of every job that counts its key up.
    pub(super) fn upsert(&self) -> String {
        format!(
            "INSERT INTO {}.ledger (key, n, last) VALUES ($1, 1, $2)
             ON CONFLICT (key) DO UPDATE SET n = ledger.n + 1, last = excluded.last",
            self.schema
        )
    }

    /// Empties one of the two tables.
    pub(super) fn empty(&self, table: &str) -> Result<(), Failure> {
        self.say(&format!("TRUNCATE {}.{table}", self.schema))
    }

    /// Where programs that are not ours make their tables: they go with the schema.
    pub(super) fn address_for_peers(&self) -> String {
        let url = self.address.to_string();
        let with = if url.contains('?') { '&' } else { '?' };
        format!("{url}{with}options=-csearch_path%3D{}", self.schema)
    }

    /// An insert as an effect.
    pub(super) fn effect(&self, key: Vec<u8>, value: bytes::Bytes) -> Effect<PostgresStore> {
        let sql: Arc<str> = self.insert().into();
        Effect::new(move |tx: &mut PostgresTx<'_>| -> Result<(), EffectError> {
            insert(tx, &sql, &key, &value)?;
            Ok(())
        })
    }

    /// The same as a statement, which goes together with those of other jobs.
    pub(super) fn statement(sql: &Arc<str>, key: &[u8], value: &[u8]) -> Effect<PostgresStore> {
        Effect::statement(Arc::clone(sql), &[(&key, Type::BYTEA), (&value, Type::BYTEA)])
    }

    /// One statement in a transaction of its own.
    pub(super) fn say(&self, sql: &str) -> Result<(), Failure> {
        self.connection().transaction(|tx| tx.execute(sql, &[]))?;
        Ok(())
    }

    /// What a COMMIT waits for here.
    pub(super) fn durability(&self) -> Result<String, Failure> {
        let sql = "SELECT 'PostgreSQL ' || current_setting('server_version') || ', fsync ' || current_setting('fsync')
                       || ', synchronous_commit ' || current_setting('synchronous_commit')";
        Ok(self.connection().transaction(|tx| Ok(tx.query_one(sql, &[])?.get(0)))?)
    }

    fn delete(&self) -> Result<(), Failure> {
        self.say(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.schema))?;
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner).clone();
        groups.push(self.group.clone());
        let names: Vec<&str> = groups.iter().map(GroupName::as_str).collect();
        Ok(self.connection().transaction(|tx| {
            tx.execute("DELETE FROM keylane.result WHERE group_name = ANY ($1)", &[&names])?;
            for table in [
                "marker",
                "admitted",
                "parked",
                "stopped",
                "suspect",
                "quarantine",
                "refused",
                "fence_intent",
                "fence",
                "scope",
            ] {
                let of = "(SELECT scope FROM keylane.scope WHERE group_name = ANY ($1))";
                tx.execute(&format!("DELETE FROM keylane.{table} WHERE scope IN {of}"), &[&names])?;
            }
            Ok(())
        })?)
    }
}

/// Counts a key up in the ledger.
pub(super) fn count_up(tx: &mut PostgresTx<'_>, sql: &str, key: &str, last: Offset) -> Result<u64, SqlError> {
    let last = i64::try_from(last.0).unwrap_or(i64::MAX);
    tx.execute_typed(sql, &[(&key, Type::TEXT), (&last, Type::INT8)])
}

/// One effect of a plain transaction.
pub(super) fn insert(tx: &mut PostgresTx<'_>, sql: &str, key: &[u8], value: &[u8]) -> Result<u64, SqlError> {
    tx.execute_typed(sql, &[(&key, Type::BYTEA), (&value, Type::BYTEA)])
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(failure) = self.delete() {
            tracing::warn!("the bench left schema '{}' behind: {failure:?}", self.schema);
        }
    }
}
