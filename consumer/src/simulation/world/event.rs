//! What happens, and what is asked of the store and the group.

use keylane_producer::{Offset, Partition};

use crate::{
    clock::BootTime,
    fence::{FenceToken, Generation},
    lanes::{Tenure, Ticket},
    simulation::{
        group::Refused,
        store::{Claimed, Key, Tables, What, Written},
    },
    store::ClaimRefused,
};

#[derive(Clone, Debug)]
pub(in crate::simulation) enum Event {
    /// Something that happens in a worker's process, if that is still there.
    Inside(usize, u64, Inside),
    ClaimArrives {
        worker: usize,
        process: u64,
        claim: ClaimRequest,
        answered: bool,
    },
    WriteArrives {
        worker: usize,
        process: u64,
        write: WriteRequest,
        answered: bool,
    },
    CommitArrives {
        worker: usize,
        process: u64,
        commit: CommitRequest,
        answered: bool,
    },
    LookArrives {
        worker: usize,
        process: u64,
        claims: Vec<(Partition, Tenure, FenceToken)>,
    },
    /// The store goes on from what a standby had some time ago.
    FailOver(Box<Tables>),
    Born(usize),
    Enqueue,
    GroupTick,
    Fault,
    /// Somebody steers.
    Person,
    Operator,
}

#[derive(Clone, Debug)]
pub(in crate::simulation) enum Inside {
    Turn,
    Ended(Ticket),
    Due(Ticket),
    /// `None`: no answer.
    Claimed(ClaimRequest, Option<Result<Claimed, ClaimRefused>>),
    /// `None`: no answer; `Some(None)`: fenced.
    Written(WriteRequest, Option<Option<Vec<Written>>>),
    Committed(CommitRequest, Option<Refusable>),
    Read {
        partition: Partition,
        tenure: Tenure,
        key: Key,
        offsets: Vec<Offset>,
    },
    /// A line is read back.
    Line {
        partition: Partition,
        tenure: Tenure,
        key: Key,
    },
    /// What persons want is read.
    Steered,
    /// Claims that the store does not know.
    Looked(Vec<(Partition, Tenure)>),
    Rejoin,
}

/// What became of a commit; `Some` with the reason if it was refused.
pub(in crate::simulation) type Refusable = std::sync::Arc<Result<(), Refused>>;

#[derive(Clone, Debug)]
pub(in crate::simulation) struct ClaimRequest {
    pub(in crate::simulation) partition: Partition,
    pub(in crate::simulation) tenure: Tenure,
    pub(in crate::simulation) generation: Generation,
    pub(in crate::simulation) epoch: u64,
    pub(in crate::simulation) owner: u64,
}

#[derive(Clone, Debug)]
pub(in crate::simulation) struct WriteRequest {
    pub(in crate::simulation) partition: Partition,
    pub(in crate::simulation) tenure: Tenure,
    pub(in crate::simulation) token: FenceToken,
    pub(in crate::simulation) jobs: Vec<(Offset, Key, What)>,
    pub(in crate::simulation) resumed: Vec<(Key, u64)>,
}

#[derive(Clone, Debug)]
pub(in crate::simulation) struct CommitRequest {
    pub(in crate::simulation) name: u64,
    pub(in crate::simulation) generation: Generation,
    pub(in crate::simulation) offsets: Vec<(Partition, Offset)>,
    /// Of each of these partitions, in order.
    pub(in crate::simulation) tenures: Vec<Tenure>,
    pub(in crate::simulation) t0: BootTime,
}
