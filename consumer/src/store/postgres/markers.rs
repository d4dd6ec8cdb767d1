//! Which offsets are done, as rows of ranges. Read in the transaction of every write, never from a cache: the outcome of an
//! earlier write may be unknown.

use std::collections::{BTreeMap, HashSet};

use keylane_producer::Partition;
use tokio_postgres::{Row, types::Type};

use super::{
    admitted::Admitted,
    count,
    fault::{Kind, SqlError, cannot},
    int,
    scope::Scope,
    uint,
    wire::{Param, Transaction},
};
use crate::{
    error::{Detail, Error},
    store::{Progress, ranges::Ranges},
};

/// Everything that is done in a partition.
pub(super) fn of(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<Ranges, SqlError> {
    let sql = "SELECT first, last FROM keylane.marker WHERE scope = $1 AND part = $2
               UNION ALL SELECT \"offset\", \"offset\" FROM keylane.admitted WHERE scope = $1 AND part = $2";
    let rows = tx.query(sql, &[(&scope.id, Type::INT8), (&count(partition.0), Type::INT4)])?;
    Ok(rows.iter().map(|row| range(row, 0)).collect())
}

/// The same, as a new owner goes by it.
pub(super) fn progress(tx: &mut Transaction<'_>, scope: &Scope, partition: Partition) -> Result<Progress, SqlError> {
    Ok(Progress { anew: scope.anew, ..of(tx, scope, partition)?.into() })
}

/// The same for every partition of the queue.
pub(super) fn all(tx: &mut Transaction<'_>, scope: &Scope) -> Result<BTreeMap<u32, Progress>, SqlError> {
    let sql = "SELECT part, first, last FROM keylane.marker WHERE scope = $1
               UNION ALL SELECT part, \"offset\", \"offset\" FROM keylane.admitted WHERE scope = $1";
    let rows = tx.query(sql, &[(&scope.id, Type::INT8)])?;
    let mut found = BTreeMap::<u32, Ranges>::new();
    for row in &rows {
        let (first, last) = range(row, 1);
        found.entry(row.get::<_, i32>(0).unsigned_abs()).or_default().add(first, last);
    }
    Ok(found.into_iter().map(|(part, ranges)| (part, ranges.into())).collect())
}

fn range(row: &Row, at: usize) -> (u64, u64) {
    (uint(row.get(at)), uint(row.get(at + 1)))
}

/// Marker rows as they lie there. Two that touch are one range, and two rows all the same: writers whom no fence keeps apart,
/// in a twin, leave such.
pub(super) type MarkerRows = BTreeMap<u64, u64>;

/// What a write finds.
#[derive(Default)]
pub(super) struct Found {
    pub(super) markers: BTreeMap<u32, MarkerRows>,
    pub(super) admitted: Admitted,
    /// Whether any job is suspected there.
    pub(super) suspected: bool,
    /// The places of claims that hold, where that was asked too.
    pub(super) holds: HashSet<i64>,
}

impl Found {
    /// Of rows of `keylane.reach` or `keylane.enter`.
    pub(super) fn of(rows: &[Row]) -> Self {
        const MARKER: i32 = 0;
        const ADMITTED: i32 = 1;
        const SUSPECTED: i32 = 2;
        const HOLDS: i32 = 3;
        let mut found = Self::default();
        for row in rows {
            let (part, (first, last)) = (row.get::<_, i32>(1).unsigned_abs(), range(row, 2));
            match row.get(0) {
                MARKER => drop(found.markers.entry(part).or_default().insert(first, last)),
                ADMITTED => found.admitted.add(part, first),
                SUSPECTED => found.suspected = true,
                HOLDS => found.holds.extend(i64::try_from(first)),
                kind => unreachable!("our own calls return no rows of kind {kind}"),
            }
        }
        found
    }
}

/// The partitions of a write: where each may touch markers.
#[derive(Default)]
pub(super) struct Reach {
    pub(super) parts: Vec<i32>,
    marks: Vec<i64>,
    lows: Vec<i64>,
    highs: Vec<i64>,
}

impl Reach {
    /// `span`: the lowest and highest offset that the write touches besides those below the watermark.
    pub(super) fn add(&mut self, partition: Partition, watermark: u64, span: Option<(u64, u64)>) {
        let (low, high) = span.unwrap_or((watermark, watermark));
        self.parts.push(count(partition.0));
        self.marks.push(int(watermark));
        self.lows.push(int(low));
        self.highs.push(int(high.saturating_add(1)));
    }

    pub(super) fn params<'p>(&'p self, scope: &'p Scope) -> [Param<'p>; 5] {
        [
            (&scope.id, Type::INT8),
            (&self.parts, Type::INT4_ARRAY),
            (&self.marks, Type::INT8_ARRAY),
            (&self.lows, Type::INT8_ARRAY),
            (&self.highs, Type::INT8_ARRAY),
        ]
    }

    /// The ranges that the write can change: those that begin below or at the watermark, which are joined to one, and those
    /// that hold or touch an offset of the span. And what handlers did by themselves up to there.
    pub(super) fn read(&self, tx: &mut Transaction<'_>, scope: &Scope) -> Result<Found, SqlError> {
        let sql = "SELECT kind, part, first, last FROM keylane.reach($1, $2, $3, $4, $5)";
        Ok(Found::of(&tx.query(sql, &self.params(scope))?))
    }
}

/// Rows that a write changes, of all its partitions.
#[derive(Default)]
pub(super) struct Change {
    gone: Rows,
    new: Rows,
    longer: Rows,
    /// What the last offsets of `longer` were.
    were: Vec<i64>,
}

#[derive(Default)]
struct Rows {
    parts: Vec<i32>,
    firsts: Vec<i64>,
    lasts: Vec<i64>,
}

impl Rows {
    fn add(&mut self, part: i32, (first, last): (u64, u64)) {
        self.parts.push(part);
        self.firsts.push(int(first));
        self.lasts.push(int(last));
    }
}

impl Change {
    /// Turns these rows into those of `after`.
    pub(super) fn add(&mut self, partition: Partition, was: &MarkerRows, after: &Ranges) {
        let part = count(partition.0);
        let is: MarkerRows = after.iter().collect();
        for (&first, &last) in was.iter().filter(|(first, _)| !is.contains_key(first)) {
            self.gone.add(part, (first, last));
        }
        for (&first, &last) in &is {
            match was.get(&first) {
                None => self.new.add(part, (first, last)),
                Some(&before) if before != last => {
                    self.longer.add(part, (first, last));
                    self.were.push(int(before));
                }
                Some(_) => {}
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        [&self.gone, &self.new, &self.longer].iter().all(|rows| rows.parts.is_empty())
    }

    /// Writes it, if every row is still as it was read. It is, unless another write of the same owner was still under way.
    pub(super) fn write(&self, tx: &mut Transaction<'_>, scope: &Scope) -> Result<(), Error> {
        let sql = "SELECT keylane.mark($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let expected = self.gone.parts.len() + self.longer.parts.len() + self.new.parts.len();
        match tx.query(sql, &self.params(scope)) {
            Ok(rows) if usize::try_from(rows[0].get::<_, i64>(0)) == Ok(expected) => Ok(()),
            Ok(_) => Err(moved()),
            Err(fault) => Err(unmarked(fault)),
        }
    }

    /// The same and COMMIT, in one round trip. The outer error is the markers', and nothing was committed; the inner one that of
    /// the COMMIT.
    pub(super) fn commit(&self, tx: Transaction<'_>, scope: &Scope) -> Result<Result<(), SqlError>, Error> {
        let sql = "SELECT keylane.finish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        tx.commit_behind(sql, &self.params(scope)).map_err(unmarked)
    }

    fn params<'p>(&'p self, scope: &'p Scope) -> [Param<'p>; 11] {
        [
            (&scope.id, Type::INT8),
            (&self.gone.parts, Type::INT4_ARRAY),
            (&self.gone.firsts, Type::INT8_ARRAY),
            (&self.gone.lasts, Type::INT8_ARRAY),
            (&self.longer.parts, Type::INT4_ARRAY),
            (&self.longer.firsts, Type::INT8_ARRAY),
            (&self.longer.lasts, Type::INT8_ARRAY),
            (&self.were, Type::INT8_ARRAY),
            (&self.new.parts, Type::INT4_ARRAY),
            (&self.new.firsts, Type::INT8_ARRAY),
            (&self.new.lasts, Type::INT8_ARRAY),
        ]
    }
}

fn unmarked(fault: SqlError) -> Error {
    // A row is there already: it came after the look.
    if fault.kind() == Kind::Data { moved() } else { cannot("cannot write to the store")(fault) }
}

fn moved() -> Error {
    let detail = Detail::new("the markers changed while they were written");
    Error::Unavailable(detail.remedy("another write of this owner was still under way; it is tried again"))
}

/// A job that is done is suspected no more; one in a line may run again.
pub(super) fn clear_suspects(tx: &mut Transaction<'_>, scope: &Scope, parts: &[i32]) -> Result<(), SqlError> {
    let sql = "DELETE FROM keylane.suspect AS s WHERE scope = $1 AND part = ANY ($2) AND s.\"offset\" <=
                   (SELECT last FROM keylane.marker AS m
                    WHERE m.scope = s.scope AND m.part = s.part AND m.first <= s.\"offset\"
                    ORDER BY m.first DESC LIMIT 1)
               AND NOT EXISTS (SELECT FROM keylane.parked AS p
                               WHERE p.scope = s.scope AND p.part = s.part AND p.\"offset\" = s.\"offset\")";
    tx.execute(sql, &[(&scope.id, Type::INT8), (&parts, Type::INT4_ARRAY)]).map(drop)
}
