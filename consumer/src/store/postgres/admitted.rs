//! Jobs that a handler's own transaction did, by `keylane.admit`: a row each, until a write of the worker joins them to the
//! markers. They are no marker rows, since a write changes those only as it read them, and a handler's transaction commits
//! whenever it likes.

use std::collections::{BTreeMap, BTreeSet};

use keylane_producer::Partition;
use tokio_postgres::types::Type;

use super::{
    count,
    fault::SqlError,
    int,
    scope::Scope,
    wire::{Param, Transaction},
};
use crate::store::ranges::Ranges;

/// As a write found them, by partition.
#[derive(Default)]
pub(super) struct Admitted(BTreeMap<u32, BTreeSet<u64>>);

impl Admitted {
    pub(super) fn add(&mut self, part: u32, offset: u64) {
        self.0.entry(part).or_default().insert(offset);
    }

    pub(super) fn take(&mut self, partition: Partition) -> BTreeSet<u64> {
        self.0.remove(&partition.0).unwrap_or_default()
    }
}

/// Rows that the markers of a write cover.
#[derive(Default)]
pub(super) struct Joined {
    parts: Vec<i32>,
    offsets: Vec<i64>,
}

impl Joined {
    pub(super) fn add(&mut self, partition: Partition, admitted: &BTreeSet<u64>, markers: &Ranges) {
        for &offset in admitted.iter().filter(|&&offset| markers.contains(offset)) {
            self.parts.push(count(partition.0));
            self.offsets.push(int(offset));
        }
    }

    pub(super) fn delete(&self, tx: &mut Transaction<'_>, scope: &Scope) -> Result<(), SqlError> {
        if self.parts.is_empty() {
            return Ok(());
        }
        // The marker of one that waits in a line says that it waits there, so its row is all that says that it is done.
        let sql = "DELETE FROM keylane.admitted AS a USING unnest($2::int[], $3::bigint[]) AS j (part, place)
                   WHERE a.scope = $1 AND a.part = j.part AND a.\"offset\" = j.place
                     AND NOT EXISTS (SELECT FROM keylane.parked AS p
                                     WHERE p.scope = a.scope AND p.part = a.part AND p.\"offset\" = a.\"offset\")";
        let params: [Param<'_>; 3] =
            [(&scope.id, Type::INT8), (&self.parts, Type::INT4_ARRAY), (&self.offsets, Type::INT8_ARRAY)];
        tx.execute(sql, &params).map(drop)
    }
}
