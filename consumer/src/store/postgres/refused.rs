//! Writes of stale workers that the row refused, counted for people: one row for each worker and partition.

use tokio_postgres::types::Type;

use super::{
    count as number, int,
    scope::Scope,
    wire::{Param, Transaction},
};
use crate::store::refused::Refusal;

/// Counts them in a savepoint: whether it worked. If it did not, nothing else is lost.
pub(super) fn count(refusals: &[Refusal], tx: &mut Transaction<'_>, scope: &Scope) -> bool {
    let sql = "INSERT INTO keylane.refused AS r (scope, part, worker, writes, jobs)
               SELECT $1, part, worker, count(*), sum(jobs)
               FROM unnest($2::int[], $3::text[], $4::bigint[]) AS new (part, worker, jobs) GROUP BY part, worker ORDER BY part, worker
               ON CONFLICT (scope, part, worker) DO UPDATE
               SET writes = r.writes + excluded.writes, jobs = r.jobs + excluded.jobs, last = now()";
    let parts: Vec<i32> = refusals.iter().map(|refusal| number(refusal.partition.0)).collect();
    let workers: Vec<&str> = refusals.iter().map(|refusal| &*refusal.worker).collect();
    let jobs: Vec<i64> = refusals.iter().map(|refusal| int(refusal.jobs as u64)).collect();
    let params: [Param<'_>; 4] =
        [(&scope.id, Type::INT8), (&parts, Type::INT4_ARRAY), (&workers, Type::TEXT_ARRAY), (&jobs, Type::INT8_ARRAY)];
    tx.wire().ahead("SAVEPOINT keylane_refused");
    let counted = tx.execute(sql, &params).is_ok();
    if !counted {
        tx.wire().ahead("ROLLBACK TO SAVEPOINT keylane_refused");
    }
    counted
}
