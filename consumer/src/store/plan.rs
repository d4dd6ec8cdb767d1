//! What a write still has to do, over the transactions that it takes: usually one.
//!
//! Jobs are numbered through the batch, partition after partition, so that a part of it is a range of numbers.

use std::{collections::BTreeMap, ops::Range};

use super::{EffectError, FencedStore, PartitionWrite, PartitionWritten, Written, refused::Refusal};
use crate::fence::{FenceToken, Fenced};

pub(super) struct Plan {
    /// For each partition of the batch, the numbers of its jobs.
    spans: Vec<Range<usize>>,
    /// For each partition, what its row must hold, by the last look at its fence; or why it is left out.
    standing: Vec<Result<FenceToken, Fenced>>,
    /// Jobs whose effects ended a transaction, or made it unfit to commit.
    struck: BTreeMap<usize, EffectError>,
    refusals: Vec<Refusal>,
    /// Answers of the transaction that is open.
    open: Vec<(usize, Written)>,
    /// For each job, the answer of the transaction that has committed it.
    committed: Vec<Option<Written>>,
}

impl Plan {
    pub(super) fn new<S: FencedStore>(batch: &[PartitionWrite<S>]) -> Self {
        let mut next = 0;
        let number = |part: &PartitionWrite<S>| {
            let first = next;
            next += part.jobs.len();
            first..next
        };
        let spans: Vec<_> = batch.iter().map(number).collect();
        Self {
            standing: batch.iter().map(look).collect(),
            spans,
            struck: BTreeMap::new(),
            refusals: Vec::new(),
            open: Vec::new(),
            committed: (0..next).map(|_| None).collect(),
        }
    }

    pub(super) fn jobs(&self) -> usize {
        self.spans.last().map_or(0, |span| span.end)
    }

    /// Looks at the local fences of what is left. Whether another one failed.
    pub(super) fn look<S: FencedStore>(&mut self, batch: &[PartitionWrite<S>]) -> bool {
        let mut failed = false;
        for (standing, part) in self.standing.iter_mut().zip(batch).filter(|(standing, _)| standing.is_ok()) {
            *standing = look(part);
            failed |= standing.is_err();
        }
        failed
    }

    /// A transaction begins: what an earlier one answered and did not commit is void.
    pub(super) fn begin<S: FencedStore>(&mut self, batch: &[PartitionWrite<S>]) {
        self.open.clear();
        self.look(batch);
    }

    /// What each partition's row must hold, for those that are not left out.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (usize, FenceToken)> {
        self.standing.iter().enumerate().filter_map(|(at, standing)| standing.ok().map(|token| (at, token)))
    }

    pub(super) fn refuse(&mut self, at: usize, refusal: Refusal) {
        self.standing[at] = Err(Fenced::NewerClaim);
        self.refusals.push(refusal);
    }

    pub(super) fn is_fenced(&self, at: usize) -> bool {
        self.standing[at].is_err()
    }

    pub(super) fn nothing_left(&self) -> bool {
        self.standing.iter().all(Result::is_err)
    }

    pub(super) fn refusals(&self) -> &[Refusal] {
        &self.refusals
    }

    /// The number of the first job of this partition in the span, and where its jobs lie in the partition's list.
    pub(super) fn within(&self, at: usize, span: &Range<usize>) -> (usize, Range<usize>) {
        let all = &self.spans[at];
        let first = span.start.clamp(all.start, all.end);
        let end = span.end.clamp(first, all.end);
        (first, first - all.start..end - all.start)
    }

    pub(super) fn strike(&mut self, job: usize, cause: EffectError) {
        self.struck.insert(job, cause);
    }

    pub(super) fn is_struck(&self, job: usize) -> bool {
        self.struck.contains_key(&job)
    }

    pub(super) fn answer(&mut self, job: usize, written: Written) {
        self.open.push((job, written));
    }

    /// The open transaction has committed; `counted`: with the refusals in it.
    pub(super) fn commit(&mut self, counted: bool) {
        for (job, written) in self.open.drain(..) {
            self.committed[job] = Some(written);
        }
        if counted {
            self.refusals.clear();
        }
    }

    pub(super) fn into_answers<S: FencedStore>(mut self, batch: &[PartitionWrite<S>]) -> Vec<PartitionWritten> {
        for (job, cause) in self.struck {
            self.committed[job].get_or_insert(Written::EffectFailed(cause));
        }
        let mut answers = Vec::with_capacity(batch.len());
        for ((part, span), standing) in batch.iter().zip(self.spans).zip(self.standing) {
            let answer = |job: usize| self.committed[job].take().expect("a job that is not fenced was answered");
            let jobs = standing.map(|_| span.map(answer).collect());
            answers.push(PartitionWritten { partition: part.fence.partition(), jobs });
        }
        answers
    }
}

fn look<S: FencedStore>(part: &PartitionWrite<S>) -> Result<FenceToken, Fenced> {
    part.fence.check().map(|permit| permit.token())
}
